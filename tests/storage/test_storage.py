"""Files: what goes in comes out, and whatever is wrong with one is a ValueError and nothing worse."""

import errno
import inspect
import json
import pickle
import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

import metricforest
from metricforest import HierarchyForest, load
from metricforest.base import Metric
from metricforest.rivals.mapped import LinearMetric
from metricforest.storage import format as storage
from metricforest.storage import outputs, registry
from metricforest.storage.format import ALIGN, MAGIC, Content, write
from metricforest.storage.registry import METRICS
from stored_files import python

DATA = Path(__file__).parents[1] / "data"
OLD = MAGIC + b"a model, as far as its first bytes tell"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about its memory")


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
