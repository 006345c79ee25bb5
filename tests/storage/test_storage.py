"""Files: what goes in comes out, and whatever is wrong with one is a ValueError and nothing worse."""

import errno
import inspect
import itertools
import json
import math
import os
import pickle
import pkgutil
import struct
import subprocess
import sys
import tracemalloc
import zlib
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import metricforest
from metricforest import HierarchyForest, load
from metricforest.base import Metric
from metricforest.rivals.mapped import LinearMetric
from metricforest.storage import format as storage
from metricforest.storage import outputs, registry, values
from metricforest.storage.format import ALIGN, MAGIC, Content, read, write
from metricforest.storage.registry import METRICS
from metricforest.storage.sklearn_trees import Trees, pack, unpack
from metricforest.supervision.constraints import Constraints

DATA = Path(__file__).parents[1] / "data"
PREAMBLE = 32
OLD = MAGIC + b"a model, as far as its first bytes tell"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about its memory")


@pytest.fixture(scope="module")
def small_file(small_forest, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "small.mf"
    small_forest.save(path)
    return path


def taken_apart(raw: bytes) -> tuple[dict, bytes]:
    """(header, bytes behind it) of a file, by the words of docs/file_format.md."""
    length = int.from_bytes(raw[12:16], "little")
    start = -(-(PREAMBLE + length) // 64) * 64
    return json.loads(raw[PREAMBLE : PREAMBLE + length]), raw[start:]


def put_together(header: dict | bytes, arrays: bytes, version: int = 1, length: int | None = None):
    """A file with correct checksums around whatever is given, by the words of docs/file_format.md."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = -(-(PREAMBLE + len(text)) // 64) * 64
    front = struct.pack(
        "<8sIIQI",
        b"\x89MFD\r\n\x1a\n",
        version,
        len(text) if length is None else length,
        start + len(arrays),
        zlib.crc32(text),
    )
    front += struct.pack("<I", zlib.crc32(front))
    return front + text + bytes(start - PREAMBLE - len(text)) + arrays


def resummed(header: dict, arrays: bytes) -> dict:
    """The header with checksums that fit the arrays."""
    header = json.loads(json.dumps(header))
    for row in header["arrays"]:
        n = math.prod(row["shape"]) * np.dtype(row["dtype"]).itemsize
        piece = arrays[row["offset"] : row["offset"] + n]
        row["crc32"] = [zlib.crc32(piece[i : i + (1 << 24)]) for i in range(0, n, 1 << 24)]
    return header


# --------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_a_loaded_forest_measures_and_searches_the_same(
    small, small_forest, small_file, mmap, verify
):
    X = small[0]
    again = load(small_file, mmap=mmap, verify=verify)
    assert type(again) is HierarchyForest
    assert again.get_params() == small_forest.get_params()
    assert vars(again).keys() == vars(small_forest).keys()
    np.testing.assert_array_equal(again.pairwise_distances(X), small_forest.pairwise_distances(X))
    for mine, theirs in zip(again.kneighbors(X), small_forest.kneighbors(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(
        (*again.forest_, *again.constraints_),
        (*small_forest.forest_, *small_forest.constraints_),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
        assert mine.flags.writeable == theirs.flags.writeable  # else kernels compile once more
        assert mine.ctypes.data % ALIGN == 0


def test_a_loaded_forest_grows_on(small, tmp_path):
    X, _, pairs, labels = small
    given = {"pairs": pairs, "pair_labels": labels}
    HierarchyForest(3, random_state=1).fit(X, **given).save(tmp_path / "three.mf")
    grown = load(tmp_path / "three.mf").set_params(warm_start=True, n_estimators=5).fit(X, **given)
    at_once = HierarchyForest(5, random_state=1).fit(X, **given)
    np.testing.assert_array_equal(grown.pairwise_distances(X), at_once.pairwise_distances(X))
    grown.save(tmp_path / "three.mf")  # onto the file it is mapped from
    assert load(tmp_path / "three.mf").forest_.n_trees == 5


def test_saving_twice_gives_the_same_bytes(small_file, tmp_path):
    load(small_file).save(tmp_path / "again.mf")
    assert (tmp_path / "again.mf").read_bytes() == small_file.read_bytes()


def test_a_mapped_forest_cannot_be_written_to(small_file):
    before = small_file.read_bytes()
    metric = load(small_file)
    for array in (*metric.forest_, metric._rows):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    metric.mean_[:] = 0  # a copy of one's own
    assert small_file.read_bytes() == before


def test_a_loaded_forest_still_pickles(small, small_file, tmp_path):
    metric = load(small_file)
    want = metric.pairwise_distances(small[0])
    joblib.dump(metric, tmp_path / "forest.joblib")
    for again in (pickle.loads(pickle.dumps(metric)), joblib.load(tmp_path / "forest.joblib")):
        np.testing.assert_array_equal(again.pairwise_distances(small[0]), want)


def test_names_of_features_are_kept(small, tmp_path):
    frame = pd.DataFrame(small[0], columns=["width", "Höhe", "深さ", "", "a\0b"])
    HierarchyForest(2, random_state=0).fit(frame).save(tmp_path / "named.mf")
    again = load(tmp_path / "named.mf")
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    assert again.feature_names_in_.dtype == object
    assert again.pairwise_distances(frame).shape == (60, 60)
    with pytest.raises(ValueError, match="feature names"):
        again.pairwise_distances(frame[frame.columns[::-1]])


def test_a_generator_is_not_kept_and_that_is_said(small, tmp_path):
    metric = HierarchyForest(2, random_state=np.random.RandomState(0)).fit(small[0])
    with pytest.warns(UserWarning, match="random_state is a generator"):
        metric.save(tmp_path / "drawn.mf")
    again = load(tmp_path / "drawn.mf")
    assert again.random_state is None
    np.testing.assert_array_equal(
        again.pairwise_distances(small[0]), metric.pairwise_distances(small[0])
    )


def test_an_unfitted_metric_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        HierarchyForest().save(tmp_path / "nothing.mf")
    assert not list(tmp_path.iterdir())


class Tilted(LinearMetric):
    """The smallest metric with a map."""

    def __init__(self, standardize=True, n_jobs=None):
        self.standardize = standardize
        self.n_jobs = n_jobs

    def _fit(self, X, y, pairs, pair_labels, triplets):
        rows = self._standardised(X)
        self.components_ = np.tri(rows.shape[1])[1:]
        self._index(rows)


@pytest.fixture
def tilted(small, monkeypatch):
    monkeypatch.setitem(METRICS, "Tilted", "")
    ours = registry.metric_class
    monkeypatch.setattr(registry, "metric_class", lambda n: Tilted if n == "Tilted" else ours(n))
    return Tilted().fit(small[0])


def test_a_mapped_metric_comes_back(tilted, small, tmp_path):
    tilted.save(tmp_path / "tilted.mf")
    again = load(tmp_path / "tilted.mf")
    np.testing.assert_array_equal(again.transform(small[0]), tilted.transform(small[0]))
    for mine, theirs in zip(again.kneighbors(), tilted.kneighbors(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        (
            "components_",
            np.zeros((4, 4)),
            r"components_ is float64 \[4, 4\], expected float64 \[4, 5\]",
        ),
        ("components_", np.full((4, 5), np.nan), "components_ holds NaN or infinity"),
        ("mean_", np.zeros(5, np.float32), r"mean_ is float32 \[5\], expected float64 \[5\]"),
        ("scale_", [1.0], "scale_ must be an array, got list"),
        ("_rows", np.zeros((0, 4)), "0 sample"),
        ("n_features_in_", 0, "n_features_in_ is 0"),
        ("fit", None, "'fit' is not a fitted attribute of Tilted"),
        ("_map", None, "'_map' is not a fitted attribute of Tilted"),
        ("__dict__", None, "'__dict__' is not a fitted attribute of Tilted"),
    ],
)
def test_a_mapped_metric_is_checked(tilted, tmp_path, name, value, match):
    state = {**tilted._state(), name: value}
    write(tmp_path / "tilted.mf", Content("Tilted", "1", tilted.get_params(), state))
    with pytest.raises(ValueError, match=match):
        load(tmp_path / "tilted.mf")


def test_every_metric_of_the_library_can_be_named():
    classes = set()
    for info in pkgutil.walk_packages(metricforest.__path__, "metricforest."):
        module = import_module(info.name)
        for name, found in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(found, Metric)
                and hasattr(found, "fit")
                and not inspect.isabstract(found)
            ):
                classes.add((name, found.__module__.removeprefix("metricforest.")))
    classes.add(("PairModel", "tables.pair_model"))  # the one that is not a metric
    assert classes == set(METRICS.items())


def test_a_class_from_elsewhere_is_not_saved(small, tmp_path):
    class HierarchyForest(metricforest.HierarchyForest):
        pass

    metric = HierarchyForest(2, random_state=0).fit(small[0])
    with pytest.raises(TypeError, match=r"test_storage\.HierarchyForest cannot be saved"):
        metric.save(tmp_path / "mine.mf")


def test_what_a_file_cannot_hold_is_named_before_anything_is_written(small, tmp_path):
    metric = HierarchyForest(2, random_state=0).fit(small[0])
    metric.callback_ = {"when": [print]}
    (tmp_path / "old.mf").write_bytes(OLD)
    with pytest.raises(TypeError, match=r"callback_\['when'\]\[0\] cannot be stored: builtins"):
        metric.save(tmp_path / "old.mf")
    assert [p.name for p in tmp_path.iterdir()] == ["old.mf"]
    assert (tmp_path / "old.mf").read_bytes() == OLD


# ----------------------------------------------------------------------------------------- values


def there_and_back(path, value):
    write(path, Content("C", "1", {}, {"value": value}))
    return read(path).state["value"]


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for mine, theirs in zip(a, b, strict=True):
            assert_same(mine, theirs)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    else:
        assert a == b or (math.isnan(a) and math.isnan(b))


NUMPY = st.sampled_from("?bhilBHILefd").flatmap(
    lambda code: st.integers(0, 255).map(lambda n: np.array(n).astype(np.dtype(code))[()])
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(width=64)
    | st.text(max_size=5)
    | NUMPY
    | st.lists(NUMPY, max_size=4).map(lambda parts: np.array(parts, np.float32))
    | st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=3).map(
        lambda parts: np.array(parts, object)
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda part: (
        st.lists(part, max_size=3)
        | st.lists(part, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), part, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_values_come_back_as_they_were(tmp_path, value):
    assert_same(there_and_back(tmp_path / "value.mf", value), value)


@pytest.mark.parametrize(
    "value",
    [
        np.array(3.5),
        np.zeros((0, 7), np.int16),
        np.arange(24, dtype=np.int64).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(9.0)[::2],
        np.array([True, False]),
        np.array([["a", "long word"], ["深さ", ""]]),
        np.array(["x", "yz"], object),
        Constraints(np.zeros((2, 3), np.int32), np.zeros(2, np.int8)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_arrays_and_records_come_back_as_they_were(tmp_path, value):
    assert_same(there_and_back(tmp_path / "value.mf", value), value)


def test_other_byte_orders_are_turned_round(tmp_path):
    again = there_and_back(tmp_path / "value.mf", np.arange(5, dtype=">f8"))
    assert again.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(again, np.arange(5))


def test_a_random_forest_comes_back_from_a_file(small, tmp_path):
    X, y = small[:2]
    forest = RandomForestClassifier(5, random_state=0).fit(X, y.astype(str))
    packed = there_and_back(tmp_path / "forest.mf", pack(forest))
    assert type(packed) is Trees
    again = unpack(packed, RandomForestClassifier())
    np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


class Unknown(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (object(), r"value cannot be stored: builtins\.object"),
        ({1: 2}, r"value cannot be stored: builtins\.dict"),
        ({1, 2}, r"value cannot be stored: builtins\.set"),
        (1 << 64, "takes more than 64 bits"),
        (1j, r"value cannot be stored: builtins\.complex"),
        (np.zeros(2, complex), "an array of complex128"),
        (np.array([1, "a"], object), "an array of object"),
        (np.array(["a\ud800"], object), "surrogates not allowed"),
        (np.array(["2020-01-01"], "M8[D]"), "an array of datetime64"),
        (np.zeros(2, "i4,f8"), "an array of"),
        (np.longdouble(1), r"value cannot be stored: numpy"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        (Unknown(1), r"test_storage\.Unknown"),
        ([[[Unknown(1)]]], r"value\[0\]\[0\]\[0\] cannot be stored"),
        (list(range(40_000)), r"C cannot be stored: beside its arrays it has 4\d{4} values"),
        ("x" * (1 << 20), "1048576 bytes is the most"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_be_stored_is_a_type_error(tmp_path, value, match):
    with pytest.raises(TypeError, match=match):
        write(tmp_path / "value.mf", Content("C", "1", {}, {"value": value}))
    assert not list(tmp_path.iterdir())


def test_a_list_inside_itself_is_refused(tmp_path):
    value: list = []
    value.append(value)
    with pytest.raises(TypeError, match="nested deeper than 32"):
        there_and_back(tmp_path / "value.mf", value)


def test_large_arrays_are_summed_in_blocks(tmp_path, monkeypatch):
    for module in (storage, values):
        monkeypatch.setattr(module, "BLOCK", 1000)
    array = np.arange(700.0)
    path = tmp_path / "value.mf"
    np.testing.assert_array_equal(there_and_back(path, array), array)
    header, arrays = taken_apart(path.read_bytes())
    want = [zlib.crc32(arrays[i : min(i + 1000, 5600)]) for i in range(0, 5600, 1000)]
    assert header["arrays"][0]["crc32"] == want


# --------------------------------------------------------------------------------- broken writing


def test_the_file_is_as_readable_as_any_other(small_forest, tmp_path):
    (tmp_path / "plain").write_text("")
    small_forest.save(tmp_path / "new.mf")
    assert (tmp_path / "new.mf").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new.mf").chmod(0o640)
    small_forest.save(str(tmp_path / "new.mf"))
    assert (tmp_path / "new.mf").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(small_forest, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.mf").symlink_to(tmp_path / "real" / "file.mf")
    small_forest.save(tmp_path / "link.mf")
    assert (tmp_path / "link.mf").is_symlink()
    assert load(tmp_path / "real" / "file.mf").forest_.n_trees == 12


FILL = """
import resource, sys
import metricforest
metric = metricforest.load(sys.argv[1], mmap=False)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    metric.save(sys.argv[2])
except OSError as error:
    print(type(error).__name__, error.errno, error)
"""


def python(code: str, *arguments: object) -> str:
    """What the code prints in a process of its own."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@on_linux
def test_where_there_is_no_room_the_old_file_stays(small_file, tmp_path):
    """A real write that the system refuses half-way, as a full disk does."""
    path = tmp_path / "old.mf"
    path.write_bytes(OLD)
    said = python(FILL, small_file, path, 5_000)
    assert f"OSError {errno.EFBIG} " in said
    assert f"cannot write to {path}: File too large; what was there before is unchanged" in said
    assert path.read_bytes() == OLD
    assert [p.name for p in tmp_path.iterdir()] == ["old.mf"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_any_step_leaves_everything_as_it_was(
    small_forest, tmp_path, monkeypatch, error, step
):
    path = tmp_path / "old.mf"
    path.write_bytes(OLD)

    def fail(*_):
        raise error

    monkeypatch.setattr(outputs.os, step, fail)
    match = "No space left on device" if isinstance(error, OSError) else "^$"
    with pytest.raises(type(error), match=match):
        small_forest.save(path)
    assert path.read_bytes() == OLD
    assert [p.name for p in tmp_path.iterdir()] == ["old.mf"]


@pytest.mark.parametrize(
    ("folder", "kind"), [("file", OSError), ("missing", FileNotFoundError), ("/proc", OSError)]
)
def test_a_folder_that_takes_no_files_is_an_os_error(small_forest, tmp_path, folder, kind):
    (tmp_path / "file").write_text("not a folder")
    if not Path("/proc/self").exists() and folder == "/proc":
        pytest.skip("needs /proc, where even root cannot write")
    path = tmp_path / folder / "new.mf"
    with pytest.raises(kind, match=r"cannot write to .*new\.mf: (there is no folder|.*unchanged)"):
        small_forest.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_not_overwritten(small_forest, tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        small_forest.save(tmp_path)


# ---------------------------------------------------------------------------------- damaged files


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


# ---------------------------------------------------------------------------------------- sharing

ASK = """
import sys
import numpy as np
import metricforest
path = sys.argv[1]
metric = metricforest.load(path)
print(repr(metric.pairwise_distances(np.eye(metric.n_features_in_)).tolist()))
kept = {}
ours = False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]:
        ours = path in line
    elif ours and line.split()[-1] == "kB":
        name, amount = line.split()[:2]
        kept[name[:-1]] = kept.get(name[:-1], 0) + int(amount)
print(repr(kept))
"""


@on_linux
def test_two_processes_share_the_pages_of_a_mapped_file(small, tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 30))
    path = tmp_path / "large.mf"
    HierarchyForest(2, max_features=2, min_node_size=5_000, random_state=0).fit(X).save(path)
    first = load(path)
    want = first.pairwise_distances(np.eye(30))
    answer, kept = python(ASK, path).splitlines()
    np.testing.assert_array_equal(json.loads(answer), want)
    kept = json.loads(kept.replace("'", '"'))
    size = path.stat().st_size / 1024
    assert size > 2_000
    assert kept["Rss"] >= 0.9 * size
    assert kept["Private_Dirty"] == 0
    assert kept["Shared_Clean"] + kept.get("Shared_Dirty", 0) >= 0.9 * kept["Rss"]
    np.testing.assert_array_equal(first.pairwise_distances(np.eye(30)), want)


# ----------------------------------------------------------------------------------- golden files


@pytest.mark.parametrize("path", sorted(DATA.glob("hierarchy_forest_v*.mf")), ids=lambda p: p.name)
@pytest.mark.parametrize("mmap", [True, False])
def test_golden_files_load_for_ever(path, mmap):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    metric = load(path, mmap=mmap)
    params = metric.get_params()
    assert {name: params[name] for name in expected["params"]} == expected["params"]
    assert metric.feature_names_in_.tolist() == expected["feature_names"]
    frame = {
        name: pd.DataFrame(expected[name], columns=expected["feature_names"])
        for name in ("queries", "rows")
    }
    D = metric.pairwise_distances(frame["queries"], frame["rows"])
    np.testing.assert_allclose(D, expected["distances"], rtol=1e-9, atol=1e-12)


def test_every_version_has_a_golden_file():
    versions = {int(path.stem.rpartition("_v")[2]) for path in DATA.glob("hierarchy_forest_v*.mf")}
    assert versions == set(range(1, storage.VERSION + 1))
    assert all(path.read_bytes()[:8] == MAGIC for path in DATA.glob("*.mf"))
