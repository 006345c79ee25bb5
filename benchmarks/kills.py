"""Kill -9 at random moments of fit, save, add, commands and reproduce: what was finished is there, whole.

    python benchmarks/kills.py [--kills 200] [--seed 0]

Each kill starts a process that does one of them again and again, and says so after every time. It is
killed at a random moment, with no warning, and what it has left is read:

- the model file is whole, and is that of the last time it said, or of the next one;
- rows that it said were added are there, each once;
- questions, vectors and groups that `suggest`, `vectors` and `dedupe` said they wrote are there, all rows;
- units of the experiments that it said were finished have their line and their raw answers, and the next
  run does not do them again.

Ends with exit code 1 if anything was lost or cannot be read.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import metricforest
from metricforest.experiments.report.results import read_raw
from metricforest.experiments.stored import read_lines

LEARN = """
import sys
import numpy as np
from metricforest import HierarchyForest, load
X = np.random.default_rng(0).normal(size=(120, 4))
pairs = np.arange(40).reshape(-1, 2)
def learn(k):
    return HierarchyForest(4 + k % 3, random_state=k).fit(X, pairs=pairs, pair_labels=pairs[:, 0] % 4 - 1)
def said(k):
    print(k, flush=True)
path = sys.argv[1]
"""
COMMAND = """
import sys
from pathlib import Path
import numpy as np
from metricforest import HierarchyForest, TableMetric
from metricforest.cli import main
place = Path(sys.argv[1])
table, pairs, model = (place.with_suffix(end) for end in ('.rows.csv', '.pairs.csv', '.mf'))
if not model.exists():
    names = [f'{word} {i // 2}' for i, word in enumerate(['Echo', 'Dorn', 'Sol', 'Rio'] * 10)]
    table.write_text('id,name,x\\n' + ''.join(f'k{i},{n},{i % 7}\\n' for i, n in enumerate(names)))
    told = [(f'k{i}', f'k{i + 1}', i % 3 % 2) for i in range(0, 38, 2)]
    pairs.write_text('a,b,same\\n' + ''.join(f'{a},{b},{c}\\n' for a, b, c in told))
    frame = {'id': [f'k{i}' for i in range(40)], 'x': np.arange(40) % 7}
    TableMetric(HierarchyForest(5, random_state=0), id='id', cv=0).fit(frame, pairs=told).save(model)
def run(k, *arguments):
    try:
        main([str(a) for a in arguments])
    except SystemExit as end:
        assert not end.code, end.code
    print(k, flush=True)
"""
DOING = {
    "fit": LEARN + "for k in range(1, 10**6):\n    learn(k).save(path)\n    said(k)\n",
    "save": LEARN
    + "metric = learn(1)\nfor k in range(1, 10**6):\n"
    + "    metric.set_params(random_state=k).save(path)\n    said(k)\n",
    "add": LEARN
    + "learn(1).save(path)\nfor k in range(1, 10**6):\n    metric = load(path)\n"
    + "    metric.add(X[:1] + k, ids=[10**6 + k])\n    metric.save(path)\n    said(k)\n",
    "suggest": COMMAND
    + "for k in range(1, 10**6):\n    run(k, 'suggest', model, '-n', 9, '--seed', k, '-o', place)\n",
    "vectors": COMMAND
    + "for k in range(1, 10**6):\n    run(k, 'vectors', model, table, '-o', place)\n",
    "dedupe": COMMAND
    + "for k in range(1, 10**6):\n    run(k, 'dedupe', table, '--id', 'id', '--pairs', pairs, '--seed', k,\n"
    + "        '--jobs', 1, '-o', place, '--ask', place.with_suffix('.ask.csv'))\n",
    "reproduce": """
import sys
from pathlib import Path
from metricforest.experiments import ablations, runner
from metricforest.experiments.protocol import Setting
own = {'datasets': ('balance',), 'trees': 2, 'constraints_per_class': 10, 'folds': 2,
       'parameters': {'alpha': tuple(range(1, 400))}, 'repeats': 1, 'judged_pairs': 30}
ablations.SETTINGS = {k: Setting(own.get(k, s.value), s.why) for k, s in ablations.SETTINGS.items()}
if __name__ == '__main__':
    runner.run(Path(sys.argv[1]), ['ablations'], jobs=1, quick=True, out=sys.stdout)
""",
}
ROWS = {  # of the tables that commands write: the first column, and how many rows
    "suggest": ("left", 9),
    "vectors": ("id", 40),
    "dedupe": ("id", 40),
}
LONGEST = {"fit": 0.6, "save": 0.4, "add": 0.4, "reproduce": 2.0}  # seconds until the kill, at most
LONGEST |= {"suggest": 0.4, "vectors": 0.4, "dedupe": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    done, wrong, finished = Counter(), [], Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.kills):
            kind = list(DOING)[number % len(DOING)]
            end = ".csv" * (kind in ROWS)
            place = Path(folder) / f"{kind}-{number // len(DOING) // 5}{end}"  # five on one state
            try:
                finished[kind] += kill_one(kind, place, draw.uniform(0.0, LONGEST[kind]))
            except Exception as error:  # whatever it is, something cannot be read
                wrong.append(f"kill {number} of {kind}: {type(error).__name__}: {error}")
            done[kind] += 1
    for kind, count in done.items():
        print(f"{kind}: {count} kills, {finished[kind]} times finished before them")
    print(f"{sum(done.values())} kills: {len(wrong)} losses or files that cannot be read")
    print("\n".join(wrong))
    sys.exit(bool(wrong))


def kill_one(kind: str, place: Path, seconds: float) -> int:
    """Start, kill after the first word and so many seconds, and check. How often it had finished."""
    before = units_done(place) if kind == "reproduce" else set()
    script = place.parent / f"{kind}.py"
    script.write_text(DOING[kind])
    process = subprocess.Popen(
        [sys.executable, str(script), str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if kind in ROWS else None,  # notes of the commands
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline()]
    while kind == "reproduce" and said[-1] and not said[-1].startswith("["):
        said.append(process.stdout.readline())  # the time is not spent on the start
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    code = process.wait()
    if code != -signal.SIGKILL:
        raise AssertionError(f"it had ended with {code}: {''.join(said)[-300:]}")
    if kind == "reproduce":
        return check_units(place, said, before)
    whole = [int(line) for line in said if line.endswith("\n")]
    if kind in ROWS:
        check_rows(kind, place)
    else:
        check_model(kind, place, whole[-1])
    return len(whole)


def check_rows(kind: str, path: Path) -> None:
    """The table that a command wrote has all its rows, and each of them all its values."""
    first, n = ROWS[kind]
    written = [(path, n)]
    if kind == "dedupe":
        written.append((path.with_suffix(".ask.csv"), None))
    for file, wanted in written:
        text = file.read_text()
        head, *rows = text.splitlines()
        assert text.endswith("\n"), f"{file.name} ends in a line"
        assert head.startswith(f"{first if file == path else 'left'},"), (
            f"{file.name} begins: {head}"
        )
        assert wanted in (None, len(rows)), f"{file.name} has {len(rows)} rows of {wanted}"
        assert {row.count(",") for row in rows} <= {head.count(",")}, f"{file.name}: {rows[-1]}"


def check_model(kind: str, path: Path, last: int) -> None:
    metric = metricforest.load(path)
    X = np.random.default_rng(0).normal(size=(120, 4))
    assert np.isfinite(metric.kneighbors(X[:5], 3)[0]).all()
    if kind == "add":
        added = metric.ids_[metric.ids_ >= 10**6].tolist()
        wanted = list(range(10**6 + 1, 10**6 + last + 1))
        assert added in (wanted, [*wanted, 10**6 + last + 1]), f"{last} were added: {added[-3:]}"
    else:
        assert metric.random_state in (last, last + 1), f"{last} was saved: {metric.random_state}"


def units_done(folder: Path) -> set[str]:
    return {line["unit"] for line in read_lines(folder)} if folder.is_dir() else set()


def check_units(folder: Path, said: list[str], before: set[str]) -> int:
    """Units it said were finished are stored, those stored before still are, and were not redone."""
    named = [re.match(r"\[\d+/\d+\] (\S+) .*\n", line) for line in said]
    finished = {match.group(1) for match in named if match}
    stored = units_done(folder)
    assert finished <= stored, f"lost: {sorted(finished - stored)}"
    assert before <= stored, f"lost from earlier runs: {sorted(before - stored)}"
    assert not finished & before, f"done twice: {sorted(finished & before)}"
    assert len(stored - before - finished) <= 1, "more lines than work"
    for unit in stored - before:
        read_raw(folder / "raw" / f"{unit}.npz")
    return len(finished)


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    main()
