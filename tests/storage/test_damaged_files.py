"""Damaged files: whatever is wrong with one is a ValueError that says what, and nothing worse."""

import itertools
import json
import math
import os
import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricforest import HierarchyForest, load
from stored_files import PREAMBLE, put_together, python, resummed, taken_apart

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about its memory")


def damaged_files(raw: bytes):
    """(kind, bytes) of 2,000 files that are not whole."""
    rng = np.random.default_rng(0)
    header, arrays = taken_apart(raw)
    length = int.from_bytes(raw[12:16], "little")
    start = len(raw) - len(arrays)
    edges = {0, 8, 12, 16, 24, 28, 32, PREAMBLE + length, start, len(raw)}
    for row in header["arrays"]:
        n = math.prod(row["shape"]) * np.dtype(row["dtype"]).itemsize
        edges |= {start + row["offset"], start + row["offset"] + n}
    near = {edge + shift for edge in edges for shift in (-1, 0, 1)}
    cuts = [cut for cut in sorted(near) if 0 <= cut < len(raw)]
    cuts += rng.integers(0, len(raw), 400 - len(cuts)).tolist()
    for cut in cuts:
        yield "truncated", raw[:cut]
    for more in (b"\0", b"\0" * 64, raw):
        yield "longer", raw + more

    places = [*range(64), *rng.integers(64, len(raw), 436).tolist()]
    gaps = [i for i in range(PREAMBLE + length, start)]
    for place in places + gaps:
        flipped = bytearray(raw)
        flipped[place] ^= 1 << int(rng.integers(8))
        yield "flipped", bytes(flipped)
    for _ in range(100):
        low, high = np.sort(rng.integers(0, len(raw), 2))
        yield "zeroed", raw[:low] + b"\xaa" * (high - low + 1) + raw[high + 1 :]

    for version in (0, 2, 3, 255, 2**16, 2**31, 2**32 - 1):
        yield "version", put_together(header, arrays, version=version)
        yield "version", put_together({**header, "version": version}, arrays)
    for foreign in (b"", b"PK\x03\x04" * 99, pickle.dumps([1] * 99), b"\x93NUMPY" * 99, bytes(999)):
        yield "foreign", foreign

    for claimed in (0, 1, length - 1, length + 1, len(raw), 2**20, 2**20 + 1, 2**31, 2**32 - 1):
        yield "length", put_together(header, arrays, length=claimed)
    yield from (("text", put_together(text, arrays)) for text in hostile_texts(header))
    hostile = list(hostile_headers(header))
    yield from (("header", put_together(wrong, arrays)) for wrong in hostile)
    yield from (("array", put_together(*wrong)) for wrong in hostile_arrays(header, arrays, rng))


def hostile_texts(header: dict):
    text = json.dumps(header)
    yield from (b"", b"null", b"[]", b"1", b'"x"', b"{}", b"{", b"\xff\xfe", text.encode("utf-16"))
    for deep in (40, 900, 5_000, 16_000):
        yield b"[" * deep + b"]" * deep
        yield b"[" * deep
        yield b'{"a":' * deep + b"1" + b"}" * deep
        brackets = text.replace('"library": ', f'"deep": {"[" * deep}{"]" * deep}, "library": ', 1)
        yield brackets.encode()
        yield text.replace('"C": 1.0', f'"C": {"[" * deep}{"]" * deep}', 1).encode()
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 30, "9" * 10_000, "-" + "9" * 20):
        yield text.replace('"C": 1.0', f'"C": {number}', 1).encode()
    yield text.replace('"C": 1.0', '"C": 1.0, "C": 1.0', 1).encode()
    yield text.replace('"library": ', '"class": "HierarchyForest", "library": ', 1).encode()
    yield (text[:-1] + "," * 40_000 + "}").encode()
    yield ("[" + "[]," * 300_000 + "[]]").encode()
    yield ("[" + "1," * 30_000 + "1]").encode()
    yield b" " * (1 << 21)


UNCHECKED = (
    "random_state",
    "verbose",
    "warm_start",
    "standardize",
    "keep_certainties",
)
WRONG = [None, True, -1, 1.5, "", "x", [], [1], {}, {"a": 1}, {"array": 0}, 2**63, -(2**63)]


def hostile_headers(header: dict):
    """Headers that are JSON with correct checksums and still lie."""

    def changed(*path, to):
        copy = json.loads(json.dumps(header))
        place = copy
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        return copy

    for key in header:
        yield {k: v for k, v in header.items() if k != key}
        fine = {"library": ("", "x"), "params": ({},)}.get(key, ())
        yield from (changed(key, to=wrong) for wrong in WRONG if wrong not in fine)
    yield {**header, "more": 1}
    for name in (
        "os.system",
        "builtins.eval",
        "Metric",
        "__class__",
        "HierarchyForest ",
        "x" * 9_999,
    ):
        yield changed("class", to=name)
    for key in header["arrays"][0]:
        for i in (0, 3, len(header["arrays"]) - 1):
            wrongs = [
                *WRONG,
                [2**40],
                [-1],
                [2**62, 2**62],
                [0, 2**63],
                [1] * 70,
                "|O",
                "<c16",
                "<U9",
            ]
            wrongs += [
                "<U999999999",
                "<i4,<i4",
                "<M8[s]",
                [True],
                [1.0],
                header["arrays"][i - 1][key],
            ]
            for wrong in wrongs:
                fine = (
                    isinstance(wrong, str) if key == "name" else wrong == header["arrays"][i][key]
                )
                if not fine:
                    yield changed("arrays", i, key, to=wrong)
    yield changed("arrays", to=header["arrays"][:-1])
    yield changed("arrays", to=header["arrays"][::-1])
    yield changed("arrays", to=header["arrays"] * 2)
    yield changed("arrays", 0, to=[])
    yield changed("arrays", 0, "more", to=1)

    for name in header["params"]:
        if name not in UNCHECKED:
            for wrong in ({"float": "nan"}, {"tuple": []}, [[]], "no such word", {"dict": {}}, -3):
                if (name, wrong) != ("n_jobs", -3):
                    yield changed("params", name, to=wrong)
    for name in ("gamma", "__init__", "self", "n_estimators__x"):
        yield changed("params", name, to=1)

    for name in header["state"]:
        if name not in ("split_statistics_", "_index"):
            yield changed("state", to={k: v for k, v in header["state"].items() if k != name})
            for wrong in [
                *WRONG,
                {"float": "inf"},
                {"record": ["Forest", {}]},
                {"tuple": [[], {}]},
            ]:
                yield changed("state", name, to=wrong)
    fields = header["state"]["forest_"]["record"][1]
    for wrong in (
        ["os", fields],
        ["Constraints", fields],
        [fields],
        ["Forest"],
        ["Forest", []],
        "Forest",
    ):
        yield changed("state", "forest_", to={"record": wrong})
    for field in fields:
        for wrong in (*WRONG, {"array": 9}, {"array": 99}, {"array": -1}, {"array": "1"}):
            if wrong != fields[field]:
                yield changed("state", "forest_", "record", 1, field, to=wrong)
    for name in (
        "fit",
        "_prepare",
        "__class__",
        "__dict__",
        "x",
        "_x",
        "é_",
        "_private_state",
        "pair_score",
    ):
        yield changed("state", name, to=1)
    for tag, body in itertools.product(
        ("tuple", "dict", "record", "float", "scalar", "text", "array", "eval", ""),
        (None, 1, "x", [], {}, [[]], ["<i1", 300], ["|O", 1], ["<f8", {}], [0, 0], [1, 2, 3]),
    ):
        valid = isinstance(body, list) if tag == "tuple" else (tag, body) == ("dict", {})
        if not valid:
            yield changed("state", "extra_", to={tag: body})
    yield changed("state", "extra_", to={"tuple": [], "dict": {}})


def hostile_arrays(header: dict, arrays: bytes, rng: np.random.Generator):
    """Files that are right in every byte but for one number that compiled code would follow."""
    structure = ("root", "left", "right", "parent", "start", "stop", "split", "order")
    for row in header["arrays"]:
        whole = np.frombuffer(arrays, np.uint8).copy()
        n = math.prod(row["shape"])
        if n == 0:
            continue  # it holds no number
        item = np.dtype(row["dtype"]).itemsize
        values = whole[row["offset"] :][: n * item].view(row["dtype"])
        old = values.copy()
        short = row["name"].split(".")[-1]
        if short in structure:
            wrong = [*(1 << np.arange(0, 31, 2)), -1]
            changes = [(int(rng.integers(n)), lambda v, w=w: v ^ w) for w in wrong]
        elif values.dtype.kind == "f":
            changes = [(i, lambda v, w=w: w) for i in (0, n - 1) for w in (np.nan, np.inf, -np.inf)]
        elif short == "gaps":
            changes = [(i, lambda v, w=w: w) for i in (0, n - 1) for w in (5, 255)]
        else:
            changes = [(i, lambda v, w=w: w) for i in (0, n - 1) for w in (60, -2, 127)]
        for at, change in changes:
            values[:] = old
            values[at] = change(values[at])
            yield resummed(header, whole.tobytes()), whole.tobytes()


def test_two_thousand_damaged_files_are_value_errors(small_file, tmp_path):
    path = tmp_path / "damaged.mf"
    for n, (kind, damaged) in enumerate(damaged_files(small_file.read_bytes()), 1):
        path.write_bytes(damaged)
        measured = kind in ("text", "length") or n % 10 == 0  # measuring takes most of the time
        if measured:
            tracemalloc.start()
        with pytest.raises(ValueError, match=f"^cannot load {path}: .") as caught:
            load(path, mmap=n % 4 > 0)
        assert type(caught.value) is ValueError
        assert len(str(caught.value)) < 1_000
        if measured:
            taken = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            # The constant is what a header may grow to when it is parsed, and a traceback.
            assert taken < 2 * len(damaged) + (1 << 21), kind
    assert n >= 2_000


def test_a_damaged_index_is_refused_or_harmless(small, tmp_path):
    X, y = small[:2]
    path = tmp_path / "index.mf"
    metric = HierarchyForest(3, random_state=0).fit(X, y)
    metric.add(X[:200] + 0.1)
    metric.remove(metric.ids_[::5])
    metric.kneighbors(X)
    metric.save(path)
    again = load(path)
    for got, want in zip(again.kneighbors(X), metric.kneighbors(X), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(again.ids_, metric.ids_)
    assert again.n_since_fit_ == metric.n_since_fit_
    refused = 0
    for wrong in hostile_arrays(*taken_apart(path.read_bytes()), np.random.default_rng(0)):
        path.write_bytes(put_together(*wrong))
        try:
            harmless = load(path)
        except ValueError as error:
            refused += str(error).startswith(f"cannot load {path}: ")
        else:
            harmless.kneighbors(X[:5])
            harmless.kneighbors(X[:5], n_candidates=None)
            harmless.add(X[:2])
    assert refused > 100


@given(st.data())
def test_a_changed_header_loads_whole_or_not_at_all(small_file, small, tmp_path, data):
    """Any value of the header replaced by another of its values: no crash, no other error."""
    header, arrays = taken_apart(small_file.read_bytes())
    places = []

    def walk(value, owner, key):
        if owner is not None:
            places.append((owner, key))
        for k, part in (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        ):
            walk(part, value, k)

    walk(header, None, None)
    values = [owner[key] for owner, key in places]
    for _ in range(20):
        owner, key = data.draw(st.sampled_from(places))
        old = owner[key]
        owner[key] = data.draw(st.sampled_from(values) | st.sampled_from(WRONG))
        try:
            text = json.dumps(header)
        except ValueError:  # it now holds itself
            owner[key] = old
            continue
        (tmp_path / "changed.mf").write_bytes(put_together(text.encode(), arrays))
        owner[key] = old
        try:
            metric = load(tmp_path / "changed.mf")
        except ValueError:
            continue
        D = metric.pairwise_distances(small[0])
        assert ((D >= 0) & (D <= 1)).all()


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda raw: raw[:20], "truncated: 20 bytes are less than a preamble"),
        (lambda raw: raw[:-1], r"truncated: \d+ bytes of \d+"),
        (lambda raw: raw + b"x", r"damaged: \d+ bytes, \d+ were written"),
        (
            lambda raw: b"PK\x03\x04" + raw,
            r"not a metricforest file: it starts with b'PK.*expected",
        ),
        (
            lambda raw: raw[:8] + b"\x07" + raw[9:],
            "version 7, this metricforest reads version 1; a newer",
        ),
        (lambda raw: raw[:20] + b"x" + raw[21:], "the checksum of the preamble is wrong"),
        (lambda raw: raw[:99] + b"x" + raw[100:], "the checksum of the header is wrong"),
        (lambda raw: raw[:-5] + b"x" + raw[-4:], r"damaged: (the checksum|something stands)"),
        (lambda raw: b"", "not a metricforest file"),
    ],
)
def test_the_error_says_what_was_found(small_file, tmp_path, damage, match):
    path = tmp_path / "damaged.mf"
    path.write_bytes(damage(small_file.read_bytes()))
    with pytest.raises(ValueError, match=match):
        load(path)


@pytest.mark.parametrize(
    ("part", "name", "match"),
    [
        ("params", "colour", r"written by metricforest 9\.7; this is .* does not know .* colour"),
        (
            "class",
            "Warp",
            r"holds a 'Warp' written by metricforest 9\.7; .* knows .*HierarchyForest",
        ),
    ],
)
def test_a_file_of_a_newer_library_says_so(small_file, tmp_path, part, name, match):
    header, arrays = taken_apart(small_file.read_bytes())
    header["library"] = "9.7"
    if part == "params":
        header["params"][name] = 1
    else:
        header[part] = name
    (tmp_path / "newer.mf").write_bytes(put_together(header, arrays))
    with pytest.raises(ValueError, match=match):
        load(tmp_path / "newer.mf")


def test_parameters_that_an_old_file_lacks_take_their_defaults(small_file, small, tmp_path):
    header, arrays = taken_apart(small_file.read_bytes())
    del header["params"]["alpha"], header["params"]["verbose"]
    (tmp_path / "older.mf").write_bytes(put_together(header, arrays))
    assert load(tmp_path / "older.mf").alpha == 0.5


def test_unverified_loading_still_finds_what_would_lead_astray(small_file, tmp_path):
    raw = bytearray(small_file.read_bytes())
    header, arrays = taken_apart(bytes(raw))
    row = next(row for row in header["arrays"] if row["name"] == "forest_.right")
    raw[len(raw) - len(arrays) + row["offset"] + 3] ^= 0x40
    (tmp_path / "damaged.mf").write_bytes(raw)
    with pytest.raises(ValueError, match="not a valid forest"):
        load(tmp_path / "damaged.mf", verify=False)


def test_only_files_are_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file"):
        load(tmp_path / "missing.mf")
    with pytest.raises(ValueError, match="not a regular file"):
        load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="not a regular file"):
            load(tmp_path / "pipe")


GREEDY = """
import resource, sys
import metricforest
from metricforest import HierarchyForest, load  # imported when first named: before memory is measured

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(key))

resource.setrlimit(resource.RLIMIT_AS, (status("VmSize:") + (1 << 30),) * 2)
before = status("VmHWM:")
for path in sys.argv[1:]:
    for mmap in (True, False):
        try:
            metricforest.load(path, mmap=mmap)
        except ValueError as error:
            print(error)
print(status("VmHWM:") - before)
"""


@on_linux
def test_a_greedy_file_takes_no_more_than_twice_its_size(tmp_path):
    """Files of 40 MB that promise more, in a process that cannot get more than a gigabyte."""
    size = 40_000_000
    letters, room = size // 10 * 2, size // 10 * 8 // 64 * 64
    names = [
        {"name": "ends", "dtype": "<i8", "shape": [room // 8], "offset": 0, "crc32": [0] * 2},
        {"name": "utf8", "dtype": "|u1", "shape": [letters], "offset": room, "crc32": [0]},
    ]
    ends = np.linspace(0, letters, room // 8).astype(np.int64)
    text = ends.tobytes() + b"a" * letters + bytes(-letters % 64)
    rows = np.zeros(size // 64 * 16, np.float32).tobytes()
    one = {"name": "rows", "dtype": "<f4", "shape": [len(rows) // 4], "offset": 0, "crc32": []}
    top = {
        "format": "metricforest",
        "version": 1,
        "library": "",
        "class": "HierarchyForest",
        "params": {},
    }
    files = {
        "text": ({"x_": {"text": [0, 1]}}, names, text),
        "large": ({"x_": {"array": 0}}, [{**one, "shape": [2**40]}], rows),
        "many": ({f"x{i}_": {"array": i} for i in range(99)}, [one] * 99, rows),
        "whole": ({"x_": {"array": 0}}, [one], rows),
    }
    for name, (state, table, arrays) in files.items():
        header = {**top, "state": state, "arrays": table}
        header = header if name in ("large", "many") else resummed(header, arrays)
        (tmp_path / name).write_bytes(put_together(header, arrays))
    *said, taken = python(GREEDY, *(tmp_path / name for name in files)).splitlines()
    assert int(taken) < 2 * size + (16 << 20)
    for line, match in zip(
        said,
        ["too many for a file"] * 2
        + ["does not fit into the file"] * 2
        + ["one checksum for every"] * 2
        + ["n_features_in_"] * 2,
        strict=True,
    ):
        assert match in line
