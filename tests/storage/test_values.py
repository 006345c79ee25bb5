"""Values in files: numbers, text, lists, dicts, arrays and records come back as they were."""

import math
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from metricforest.storage import format as storage
from metricforest.storage import values
from metricforest.storage.format import Content, read, write
from metricforest.storage.sklearn_trees import Trees, pack, unpack
from metricforest.supervision.constraints import Constraints
from stored_files import taken_apart


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
        (Unknown(1), r"test_values\.Unknown"),
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
