"""Show that two states of the code give the same results, and note it beside the results.

    python benchmarks/same_code.py 873dc33              # that commit and the one checked out now
    python benchmarks/same_code.py 873dc33 --results my/results
    python benchmarks/same_code.py 873dc33 --before before.json    # in half the time, on the same machine

Runs `benchmarks/same_bits.py` of this checkout with the library of either commit. One line in
RESULTS/same_code.jsonl then maps the old state's names of the code to the new one's, for every metric of
which all checksums are equal, and `metricforest report` counts their old results as those of the present
code. What differs is listed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from metricforest.experiments.protocol import CLASSES, HFD
from metricforest.experiments.same_code import SAME
from metricforest.storage.outputs import append_line

ROOT = Path(__file__).resolve().parents[1]
NAMES = """
import json, metricforest
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.protocol import METRICS
from metricforest.experiments.sources import code
codes = {f"{metric}/{name}": code(metric, name) for metric in METRICS for name in EXPERIMENTS}
print(json.dumps({"file": metricforest.__file__, "codes": codes}))
"""


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def python(library: Path, *words: str) -> str:
    """What a Python prints that imports the library from a folder."""
    settings = {**os.environ, "PYTHONPATH": str(library / "src")}
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=library)
    if done.returncode:
        sys.exit(f"{' '.join(words[:1])} failed with the library in {library}:\n{done.stderr}")
    return done.stdout


def names_of(library: Path) -> dict[str, str]:
    """How a state of the library names the code of every metric and experiment."""
    found = json.loads(python(library, "-c", NAMES))
    if not Path(found["file"]).is_relative_to(library):
        sys.exit(f"{found['file']} was imported instead of the library in {library}")
    return found["codes"]


def checksums(library: Path, folder: Path, name: str) -> dict[str, str]:
    path = folder / f"{name}.json"
    python(library, str(ROOT / "benchmarks" / "same_bits.py"), "-o", str(path))
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the state that the results were made by")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--before", type=Path, help="its checksums, if same_bits.py -o wrote them")
    given = parser.parse_args()
    if git("status", "--porcelain", "--", "src"):
        sys.exit("files below src are not committed; commit them first")
    before, after = (
        git("rev-parse", f"{commit}^{{commit}}").decode().strip()
        for commit in (given.commit, "HEAD")
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for commit in (before, after):
            with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as archive:
                archive.extractall(folder / commit, filter="data")
        names = [names_of(folder / commit) for commit in (before, after)]
        found = [
            json.loads(given.before.read_text(encoding="utf-8"))
            if commit == before and given.before
            else checksums(folder / commit, folder, commit)
            for commit in (before, after)
        ]
    keys = [*(found[0] | found[1])]
    other = [key for key in keys if found[0].get(key) != found[1].get(key)]
    # Bytes of files may differ: no result comes from a file, and what a loaded metric answers is compared.
    # So may clusters of the estimator: the experiment cuts its graphs itself, and has checksums of its own.
    # So may the wording of explanations.
    apart = ("file", "clusters", "clusters from pairs", "explanation")
    differing = {metric_of(key) for key in other if key.split(", ")[-1] not in apart}
    print(f"{len(keys) - len(other)} of {len(keys)} checksums are equal")
    print("".join(f"  differs: {key}\n" for key in other), end="")
    if differing >= set(CLASSES):
        print("nothing is noted")
        return 1
    same = [key for key in names[0] if key in names[1] and key.split("/")[0] not in differing]
    comparison = {
        **{
            "before": before,
            "after": after,
            "checksums": len(keys),
            "equal": len(keys) - len(other),
        },
        **{"differing": sorted(differing), "together": of_text(json.dumps(found[1]))},
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "codes": {key: [names[0][key], names[1][key]] for key in same},
    }
    append_line(given.results / SAME, json.dumps(comparison))
    print(f"noted in {given.results / SAME}, but for {', '.join(sorted(differing)) or 'none'}")
    return int(bool(differing))


def metric_of(key: str) -> str:
    """The metric that a checksum is about; the forest where none is named."""
    words = {*re.split("[,/] ?", key)}
    return next((m for m, kind in CLASSES.items() if {m, kind.__name__} & words), HFD)


def of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
