"""Damaged model files, and damaged tables for the command line: errors in one line, nothing worse.

    python benchmarks/damage.py [--files 10000] [--tables 500] [--seed 0] [--jobs 2]

Model files of every class that can be saved are damaged at random. In one file of five the bytes alone
are changed: the checksums must tell, always. In the others the header or an array is changed and the
checksums are made right again, so that the damage reaches the inner checks. Each is loaded, asked for
distances and neighbours, added to and saved, in a process whose memory is limited to what it had before,
twice the file and 64 MiB. Counted are

- crashes, hangs, files that take more than 5 seconds of a processor, and errors other than ValueError;
- answers of files that load: they must be finite, sorted, symmetric, of ids that are there; and where
  nothing was changed that answers depend on, equal to the undamaged file's to the bit.

A number of the model that was changed to another possible one, with its checksum made right, makes
another file: nothing can tell it from a real one. Such files are counted as "other models".

Tables, pairs, questions, labels and arrays are damaged byte by byte and given to the command line, which
must answer with exit code 0 or 2, and with one line if it is 2. Ends with exit code 1 if anything of this
does not hold.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import selectors
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1 << 24
SLACK = 64 << 20  # bytes of memory beyond twice the file
LONGEST = 5.0  # seconds that one file may take
START = 300.0  # seconds that a process may take to compile
MEANINGLESS = {  # what no distance and no neighbour depends on
    *(
        "verbose",
        "n_estimators",
        "min_node_size",
        "reg_lambda",
        "C",
        "cannot_link_fraction",
        "solver",
    ),
    *("n_constraints", "implied_pairs", "warm_start", "random_state", "n_jobs", "max_features"),
    *("constraints_", "split_statistics_", "_fitted_with", "library", "name", "keep_certainties"),
    *("threshold_", "calibration_"),
}
ODD: list[Any] = [
    *(None, True, -1, 0, 1, 7, 2**31, 2**62, 2**63 - 1, 2**64 - 1, -(2**63), 1e308, -0.0, 0.5),
    *("", "nan", "HierarchyForest", "\x1b[31m", [], {}, [[]], {"float": "nan"}, {"float": "inf"}),
    *({"array": 0}, {"array": 10**6}, {"tuple": []}, {"dict": {}}, {"record": ["Forest", {}]}),
]


# ------------------------------------------------------------------------------------------- files


def models(folder: Path) -> list[Path]:
    """Small files of every kind of model."""
    from sklearn.base import clone

    from metricforest import Blend, HierarchyForest, PairModel, TableMetric, VectorForest, rivals

    rng = np.random.default_rng(0)
    y = np.arange(48) % 3
    X = rng.normal(size=(48, 4)) + 2 * np.eye(4)[y]
    pairs = np.arange(48).reshape(-1, 2)
    same = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    same[::2] = 1
    forest = HierarchyForest(6, min_node_size=2, random_state=0).fit(X, y)
    changed = HierarchyForest(6, min_node_size=2, random_state=0)
    changed.fit(X, pairs=pairs, pair_labels=same).calibrate_threshold(pairs, same)
    changed.add(X[:7] + 0.1)
    changed.remove([3, 5])
    changed.kneighbors(n_neighbors=3)
    table = TableMetric(HierarchyForest(4, random_state=0), cv=0)
    frame = {f"x{j}": X[:, j] for j in range(4)} | {"kind": np.array(["a", "b", "ü"])[y], "y": y}
    vectors = HierarchyForest(6, min_node_size=2, n_components="auto", random_state=0).fit(X, y)
    vectors.transform(X)
    members = [HierarchyForest(3), HierarchyForest(3, max_features=None)]
    grown = Blend(members, random_state=0).fit(X, y)
    grown.add(X[:5] + 0.1)
    grown.remove([2, 50])
    mixed = Blend([HierarchyForest(3), rivals.NCA(max_iter=3)], random_state=0).fit(X, y)
    texts = {"name": [f"{('Echo', 'Dorn', 'Sol', 'Rio')[i % 4]} {i // 2}" for i in range(48)]}
    told = np.column_stack([pairs, (pairs[:, 0] % 3 > 0) + 0])
    text = PairModel(n_estimators=3, random_state=0)
    metrics = {
        "forest": forest,
        "changed": changed,
        "vectors": vectors,
        "table": table.fit(frame, "y"),
        "rfd": rivals.RandomForestDistance(4, random_state=0).fit(X, y),
        "gblmnn": rivals.GBLMNN(n_estimators=3, random_state=0).fit(X, y),
        "itml": rivals.ITML(random_state=0).fit(X, y),
        "lmnn": rivals.LMNN(max_iter=3).fit(X, y),
        "dca": rivals.DCA(random_state=0).fit(X, y),
        "nca": rivals.NCA(max_iter=3, random_state=0).fit(X, y),
        "boost": rivals.BoostMetric(n_estimators=3).fit(X, y),
        "boosted": rivals.BoostedTreesDistance(4, random_state=0).fit(X, y),
        "euclidean": rivals.Euclidean().fit(X),
        "linear": VectorForest(6, n_components=3, random_state=0).fit(X, y),
        "blend": grown,
        "mixed": mixed,
        "text": text.fit(texts, pairs=told),
        "linked": clone(text).fit(texts, {"name": texts["name"][::-1]}, pairs=told),
    }
    for name, metric in metrics.items():
        metric.save(folder / f"{name}.mf", overwrite=True)
    return [folder / f"{name}.mf" for name in metrics]


def taken_apart(raw: bytes) -> tuple[dict[str, Any], list[bytes]]:
    length = int.from_bytes(raw[12:16], "little")
    start = -(-(32 + length) // 64) * 64
    header = json.loads(raw[32 : 32 + length])
    arrays = []
    for row in header["arrays"]:
        low = start + row["offset"]
        arrays.append(raw[low : low + math.prod(row["shape"]) * np.dtype(row["dtype"]).itemsize])
    return header, arrays


def put_together(header: dict[str, Any], arrays: list[bytes]) -> bytes:
    """A file with all checksums, offsets and sizes right."""
    body, position = b"", 0
    rows = header.get("arrays")
    rows = rows if isinstance(rows, list) else []
    for row, raw in zip_longest(rows[: len(arrays)], arrays):
        if isinstance(row, dict) and "offset" in row:
            row["offset"] = position
            row["crc32"] = [zlib.crc32(raw[i : i + BLOCK]) for i in range(0, len(raw), BLOCK)]
        body += raw + bytes(-len(raw) % 64)
        position = len(body)
    text = json.dumps(header).encode()
    start = -(-(32 + len(text)) // 64) * 64
    front = b"\x89MFD\r\n\x1a\n" + struct.pack(
        "<IIQI", 1, len(text), start + len(body), zlib.crc32(text)
    )
    front += struct.pack("<I", zlib.crc32(front))
    return front + text + bytes(start - 32 - len(text)) + body


def damaged(raw: bytes, draw: random.Random) -> tuple[bytes, str, bool]:
    """(the file, what was done to it, whether anything that answers depend on was touched)."""
    if draw.random() < 0.2:
        return *bytes_changed(raw, draw), True
    header, arrays = taken_apart(raw)
    what, matters = [], False
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if arrays and draw.random() < 0.6:
            said, counts = array_changed(header, arrays, draw)
        else:
            said, counts = header_changed(header, draw)
        what.append(said)
        matters |= counts
    return put_together(header, arrays), "; ".join(what), matters


def bytes_changed(raw: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Bytes flipped or cut off, and no checksum made right."""
    if draw.random() < 0.3:
        size = draw.randrange(len(raw))
        return raw[:size], f"raw: cut to {size}"
    new = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 8))):
        new[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return bytes(new), "raw: bits flipped" if bytes(new) != raw else "raw: nothing"


def array_changed(
    header: dict[str, Any], arrays: list[bytes], draw: random.Random
) -> tuple[str, bool]:
    """Numbers of one array changed, or its shape with it."""
    i = draw.randrange(len(arrays))
    rows = header.get("arrays")
    row = rows[i] if isinstance(rows, list) and i < len(rows) else None
    name = str(row.get("name")) if isinstance(row, dict) else "?"
    matters = not any(part in name for part in MEANINGLESS if part.endswith("_") or part[0] == "_")
    new = bytearray(arrays[i])
    try:
        item = np.dtype(row["dtype"]).itemsize
    except (TypeError, KeyError, ValueError):
        item = 1
    item = max(1, item)
    way = draw.randrange(5)
    at = draw.randrange(max(1, len(new) // item)) * item
    if way == 0 and new:
        new[draw.randrange(len(new))] ^= 1 << draw.randrange(8)
    elif way == 1 and new:
        new[at : at + item] = draw.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\x01")) * item
    elif way == 2 and new:  # another number of the same array
        other = draw.randrange(len(new) // item) * item
        new[at : at + item], new[other : other + item] = (
            new[other : other + item],
            new[at : at + item],
        )
    elif way == 3 and isinstance(row, dict) and row.get("shape"):
        shape = row["shape"]
        if all(type(n) is int and 0 <= n < 1 << 20 for n in shape):
            axis = draw.randrange(len(shape))
            shape[axis] = max(0, shape[axis] + draw.choice((-1, 1, 1, 100)))
            size = math.prod(shape) * item
            new = (new * 2 + bytes(max(0, size - 2 * len(new))))[:size]
            matters = True
    elif isinstance(row, dict):
        kinds = ("<i4", "<i8", "<f4", "<f8", "|u1", "|b1", "<u4", "<U1", "<f2")
        same = [k for k in kinds if np.dtype(k).itemsize == item]
        row["dtype"] = draw.choice(same or ["|O"])
        matters = True
    arrays[i] = bytes(new)
    return f"array {name}, way {way}", matters


def header_changed(header: dict[str, Any], draw: random.Random) -> tuple[str, bool]:
    """One value of the header replaced, removed or added."""
    place: Any = header
    path = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return f"header {path}: nothing", False
        key = draw.choice(keys)
        path.append(key)
        if isinstance(place[key], (dict, list)) and place[key] and draw.random() < 0.85:
            place = place[key]
            continue
        break
    way = draw.random()
    if way < 0.15:
        del place[key]
    elif way < 0.25 and isinstance(place, dict):
        place[draw.choice(("forest_", "x_", "__class__", "alpha", "n_jobs"))] = place[key]
    elif type(place[key]) is int and way < 0.6:
        place[key] += draw.choice((-1, 1, 2, 1000))
    else:
        place[key] = draw.choice(ODD)
    matters = not any(part in MEANINGLESS for part in path)
    return f"header {'/'.join(map(str, path))}"[:200], matters or len(path) == 1


# --------------------------------------------------------------------------------------- the worker


def answers(metric: Any) -> list[np.ndarray]:
    """What is asked of every file that loads; a RuntimeError says what cannot be."""

    def must(holds: object, what: str) -> None:
        if not holds:
            raise RuntimeError(what)

    if hasattr(metric, "scorer_"):
        return text_answers(metric, must)
    rng = np.random.default_rng(1)
    inner = getattr(metric, "metric_", metric)
    X = rng.normal(size=(12, inner.n_features_in_))
    D = inner.pairwise_distances(X)
    row = inner.pair_distance(X[:-1], X[1:])
    k = min(4, inner._n_indexed())
    far, ids = inner.kneighbors(X, k)
    must(np.isfinite(D).all() and (D >= 0).all(), "a distance is not finite, or negative")
    must(not inner.bounded or D.max() <= 1, f"a distance is {D.max()}")
    must(np.array_equal(D, D.T), "distances are not symmetric")
    must(np.isfinite(row).all() and np.isfinite(far).all(), "a distance is not finite")
    must((np.diff(far, axis=1) >= 0).all(), "neighbours are not sorted")
    known = inner.ids_ if hasattr(inner, "ids_") else np.arange(inner._n_indexed())
    must(np.isin(ids, known).all(), "a neighbour is not in the index")
    found = [D, row, far, ids]
    able = all(hasattr(member, "add") for member in (inner, *getattr(inner, "members_", ())))
    if able and inner is metric:  # the rows of a table are not added to
        exactly = {} if hasattr(inner, "members_") else {"n_candidates": None}
        found += inner.kneighbors(X, k, **exactly)
        found += [inner.add(X[:2])]
        inner.remove(found[-1][:1])
        must(len(np.unique(inner.ids_)) == len(inner.ids_), "an id stands twice")
    return found


def text_answers(model: Any, must: Any) -> list[np.ndarray]:
    """What is asked of a pair model."""
    left, right = model.ids_[0], model.ids_[-1]
    n = min(len(left), len(right), 6)
    known = model.probability(
        list(zip(left[:n].tolist(), right[n - 1 :: -1].tolist(), strict=False))
    )
    new = {name: ["Echo 1", "", "Dorn 12"] for name in model.comparison_.names}
    asked = model.probability([[0, 1], [2, 0]], new, new)
    found = model.match(threshold=0.0, candidates=2)
    for probability in (known, asked, found["probability"]):
        must(np.isfinite(probability).all(), "a probability is not finite")
        must(((probability >= 0) & (probability <= 1)).all(), "a probability is not in [0, 1]")
    must((np.diff(found["probability"]) <= 0).all(), "matches are not sorted")
    must(np.isin(found["a"], left).all() and np.isin(found["b"], right).all(), "an id is not there")
    must(str(model.explain([left[0], right[0]])), "nothing speaks for or against")
    return [known, asked, found["probability"], found["a"], found["b"]]


def work(folder: Path) -> None:
    """Take file numbers from standard input, answer with one line of JSON each."""
    import faulthandler

    from metricforest import load

    faulthandler.enable()
    warnings.simplefilter("ignore")
    paths = sorted(folder.glob("*.mf"))
    wanted = {path: answers(load(path)) for path in paths}  # compiles everything as well
    load(paths[0]).save(folder / f"{os.getpid()}.out")
    scratch = folder / f"{os.getpid()}.bad"
    print("ready", flush=True)
    for text in sys.stdin:
        number, seed = map(int, text.split())
        draw = random.Random(seed * 1_000_003 + number)
        path = paths[number % len(paths)]
        raw, what, matters = damaged(path.read_bytes(), draw)
        scratch.write_bytes(raw)
        outcome = "refused"
        started = time.process_time()  # the machine may be busy with other work
        limit_memory(2 * len(raw) + SLACK)
        try:
            metric = load(scratch, mmap=bool(number % 2))
            try:
                found = answers(metric)
                metric.save(folder / f"{os.getpid()}.out", overwrite=True)
                equal = all(np.array_equal(a, b) for a, b in zip(found, wanted[path], strict=True))
                outcome = "same answers" if equal else "another model"
                if raw == path.read_bytes():
                    outcome = "undamaged"
                elif what.startswith("raw"):
                    outcome = "WRONG: bytes were changed and the checksums did not tell"
                elif not equal and not matters:
                    outcome = "WRONG: other answers, though nothing they depend on was changed"
            except ValueError as error:
                outcome = f"refused later: {error}"
            except Exception as error:
                outcome = f"WRONG: {type(error).__name__} later: {error}"
        except ValueError:
            pass
        except Exception as error:
            outcome = f"WRONG: {type(error).__name__}: {error}"
        finally:
            limit_memory(None)
        metric = found = None
        seconds = round(time.process_time() - started, 3)
        print(json.dumps([number, outcome[:300], f"{path.name}: {what}", seconds]), flush=True)


def limit_memory(more: int | None) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = hard
    if more is not None:
        with open("/proc/self/statm") as file:
            soft = int(file.read().split()[0]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ------------------------------------------------------------------------------------------- tables


def tables(n: int, seed: int, folder: Path) -> list[str]:
    """What went wrong with damaged tables, pairs and arrays on the command line."""
    import pandas
    from click.testing import CliRunner

    from metricforest.cli import main as program

    shop = Path(__file__).parents[1] / "examples" / "shop"
    model = folder / "shop.model"
    products = shop / "products.csv"
    few = products.read_text().splitlines()[:60]
    shown = [line.split(",")[0] for line in few[1:]]
    about = [f"{a},{b},{k % 3 % 2}" for k, (a, b) in enumerate(pairwise(shown))]
    files = {
        "t.csv": "\n".join(few).encode(),
        "p.csv": (shop / "labelled.csv").read_bytes(),
        "d.csv": "\n".join(["a,b,same", *about]).encode(),
        "q.csv": "\n".join(["left,right,answer", *(f"{a},{a}," for a in shown)]).encode(),
        "l.csv": "\n".join(["id,label", *(f"{a},{a[-1]}" for a in shown)]).encode(),
    }
    (folder / "few.csv").write_bytes(files["t.csv"])
    np.save(folder / "a.npy", np.random.default_rng(0).normal(size=(30, 4)))
    np.savez(folder / "a.npz", X=np.random.default_rng(0).normal(size=(30, 4)))
    frame = {"sku": shown, "price": np.arange(len(shown)) % 7}
    pandas.DataFrame(frame).to_parquet(folder / "t.parquet", index=False)
    for name in ("a.npy", "a.npz", "t.parquet"):
        files[name] = (folder / name).read_bytes()
    told = ["--trees", "2", "--folds", "0", "--jobs", "1", "-o", str(model)]

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(program, [str(a) for a in arguments])

    first = run("fit", products, "--id", "sku", "--pairs", shop / "labelled.csv", *told)
    assert first.exit_code == 0, first.output
    wrong = []
    for number in range(n):
        draw = random.Random(seed * 7919 + number)
        name = draw.choice([*files, "t.csv", "t.csv", "p.csv", "p.csv"])
        path = folder / name
        path.write_bytes(text_damaged(files[name], draw))
        command: list[Any] = {
            "t.csv": draw.choice((["neighbors", model, path, "-k", 2], ["match", model, path],
                                  ["match", model, folder / "few.csv", path], ["cluster", model, path],
                                  ["vectors", model, path, "-o", folder / "v.npy", "--force"],
                                  ["fit", path, "--labels", "type", *told])),
            "p.csv": ["fit", products, "--id", "sku", "--pairs", path, *told],
            "d.csv": ["dedupe", folder / "few.csv", "--id", "sku", "--pairs", path, "--jobs", "1"],
            "q.csv": draw.choice((["suggest", model, "-n", 3, "-o", path],
                                  ["fit", products, "--id", "sku", "--pairs", path, *told])),
            "l.csv": ["map", model, "--labels", path, "-o", folder / "map.png", "--force"],
            "a.npy": ["fit", path, "--labels", "x0", *told],
            "a.npz": ["fit", path, "--labels", "x0", *told],
            "t.parquet": ["fit", path, "--labels", "price", *told],
        }[name]  # fmt: skip
        if command[0] == "fit":
            command += ["--force"]
            command[command.index("-o") + 1] = folder / "new.model"
        started = time.process_time()
        result = run(*command)
        seconds = time.process_time() - started
        lines = [line for line in result.stderr.splitlines() if "note:" not in line]
        fine = result.exit_code == 0 or (result.exit_code == 2 and len(lines) == 1)
        if not fine or seconds > LONGEST:
            kept = folder.parent / f"wrong-{number}-{name}"
            kept.write_bytes(path.read_bytes())
            wrong.append(
                f"table {number}, {' '.join(map(str, command[:2]))}, {seconds:.1f} s, exit code "
                f"{result.exit_code}, kept as {kept}: {result.stderr[-300:]!r}"
            )
    return wrong


def text_damaged(raw: bytes, draw: random.Random) -> bytes:
    new = bytearray(raw)
    for _ in range(draw.choice((1, 2, 5, 20))):
        at = draw.randrange(len(new))
        size = draw.choice((0, 1, 1, 3, 40))
        bits = (b'"', b",", b"\n", b"\r", b"\0", b"\xff", b";", b"''", b"nan", b"1e999", b"-0",
                b"=1+0", b"\x1b[31m", b"9" * 400, b"\xef\xbb\xbf", b"x" * 5000, b"")  # fmt: skip
        new[at : at + size] = draw.choice(bits)
        if not new:
            break
    return bytes(new)


# ------------------------------------------------------------------------------------------ the rest


class Worker:
    """A process that loads damaged files, watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        env = {**os.environ, "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        self.number = -1
        self.since = time.monotonic()

    def give(self, number: int, seed: int) -> None:
        assert self.process.stdin is not None
        self.number, self.since = number, time.monotonic()
        self.process.stdin.write(f"{number} {seed}\n")
        self.process.stdin.flush()


def run_models(n: int, seed: int, jobs: int, folder: Path) -> tuple[Counter, list[str], float]:
    """Outcomes, what went wrong, and the longest time of a file."""
    todo = iter(range(n))
    outcomes, wrong, longest = Counter(), [], 0.0
    selector = selectors.DefaultSelector()

    def start() -> None:
        worker = Worker(folder)
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore

    def end(worker: Worker) -> None:
        selector.unregister(worker.process.stdout)  # type: ignore
        worker.process.kill()
        worker.process.wait()

    for _ in range(jobs):
        start()
    while selector.get_map():
        for key, _events in selector.select(timeout=0.5):
            worker: Worker = key.data
            line = worker.process.stdout.readline()  # type: ignore
            if not line:  # it died
                said = worker.process.stderr.read()[-400:]  # type: ignore
                outcomes["crash"] += 1
                wrong.append(f"file {worker.number}: the process died: {said!r}")
                end(worker)
                if worker.number < 0:
                    return outcomes, wrong, longest
                start()
                continue
            if line != "ready\n":
                number, outcome, what, seconds = json.loads(line)
                longest = max(longest, seconds)
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith(("WRONG", "refused later")) and os.environ.get("SHOW"):
                    print(number, what, outcome)
                if outcome.startswith("WRONG"):
                    wrong.append(f"file {number}, {what}: {outcome}")
            number = next(todo, None)
            if number is None:
                end(worker)
            else:
                worker.give(number, seed)
        for key in list(selector.get_map().values()):
            worker = key.data
            # the machine may be busy with other work: what is measured is in the worker
            if time.monotonic() - worker.since > (START if worker.number < 0 else 12 * LONGEST):
                outcomes["hang"] += 1
                wrong.append(f"file {worker.number}: no answer for {12 * LONGEST:.0f} seconds")
                end(worker)
                start()
    return outcomes, wrong, longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that are short, so that files are small
            models(folder)
        if options.files:
            outcomes, wrong, longest = run_models(options.files, options.seed, options.jobs, folder)
            for outcome, count in outcomes.most_common():
                print(f"{count:>7,} {outcome}")
            wrong += [f"one file took {longest:.1f} seconds"] * (longest > LONGEST)
            print(
                f"{options.files:,} damaged files: {len(wrong)} wrong; the longest {longest:.2f} s"
            )
        if options.tables:
            bad = tables(options.tables, options.seed, folder)
            print(f"{options.tables:,} damaged tables: {len(bad)} wrong")
            wrong += bad
    print("\n".join(wrong[:50]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
