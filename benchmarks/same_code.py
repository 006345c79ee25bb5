"""Show that two states of the code give the same results, and note it beside the results.

    python benchmarks/same_code.py 873dc33              # that commit and the one checked out now
    python benchmarks/same_code.py 873dc33 --results my/results

Runs `benchmarks/same_bits.py` of this checkout with the library of either commit. Where all checksums are
equal, one line in RESULTS/same_code.jsonl maps the old state's names of the code to the new one's, and
`metricforest report` counts the old results as those of the present code. Otherwise nothing is
written, and what differs is listed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

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
        found = [checksums(folder / commit, folder, commit) for commit in (before, after)]
    other = [key for key in found[0] | found[1] if found[0].get(key) != found[1].get(key)]
    if other:
        print(f"{len(other)} of {len(found[0])} checksums differ; nothing is written:")
        print("\n".join(f"  {key}" for key in other))
        return 1
    comparison = {
        "before": before,
        "after": after,
        "checksums": len(found[0]),
        "together": hashlib.sha256(json.dumps(found[0]).encode()).hexdigest()[:16],
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "codes": {key: [names[0][key], names[1][key]] for key in names[0] if key in names[1]},
    }
    append_line(given.results / SAME, json.dumps(comparison))
    print(
        f"{len(found[0])} of {len(found[0])} checksums are equal; noted in {given.results / SAME}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
