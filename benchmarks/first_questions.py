"""How many of the first questions about tables of which nothing is known are true matches.

    python benchmarks/first_questions.py [FOLDER] [--sets febrl3 Beer ...] [--n 50] [--draws 3]

The tables are those of `metricforest.records`, and those below FOLDER as `benchmarks/matching.py` reads
them. Of the latter only labelled pairs are known, and every other pair counts as no match. Share of true
matches in per cent for each draw, the questions that are none, and seconds for one draw.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from metricforest import records
from metricforest.tables.first_questions import first_questions
from record_truth import Truth

KNOWN = [name for name in records.NAMES if name != "dblp-acm"]  # all matches of these are known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    published = sorted(p.name for p in given.folder.iterdir() if p.is_dir()) if given.folder else []
    print(f"{'tables':17}{'matches':>8}  share of matches, by draw   others  seconds")
    for name in given.sets or [*KNOWN, *published]:
        truth = Truth.published(given.folder / name) if name in published else Truth.load(name)
        shares, others, began = [], [], time.perf_counter()
        for draw in range(given.draws):
            asked = first_questions(*truth.tables, n=given.n, random_state=draw)
            same = truth.same(asked["a"], asked["b"])
            shares.append(100 * same.mean())
            others.append(int((~same).sum()))
        seconds = (time.perf_counter() - began) / given.draws
        shown = ", ".join(f"{share:.0f}" for share in shares)
        print(
            f"{name:17}{truth.n_matches:8,}  {shown:27} {min(others):4}    {seconds:5.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
