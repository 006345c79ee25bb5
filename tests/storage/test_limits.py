"""What a well-formed file with correct checksums may say, and what it may not."""

import numpy as np
import pytest
from joblib import cpu_count

from metricforest import HierarchyForest, TableMetric, load, rivals
from metricforest.inspection.calibration import calibrate
from metricforest.storage.format import read, write


def changed(path, change):
    """The same file with another state or other parameters, all checksums right."""
    content = read(path, mmap=False)
    change(content.params, content.state)
    write(path, content)
    return path


@pytest.fixture
def plain(small, tmp_path):
    X, _, pairs, labels = small
    metric = HierarchyForest(3, random_state=0).fit(X, pairs=pairs, pair_labels=labels)
    metric.calibrate_threshold(pairs, labels)
    metric.save(tmp_path / "plain.mf")
    return tmp_path / "plain.mf"


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("threshold_", "near", "threshold_ is near"),
        ("threshold_", np.float32(0.5), "threshold_ is 0.5"),
        ("threshold_", float("nan"), "threshold_ is nan"),
        ("threshold_", [0.5], r"threshold_ is \[0.5\]"),
        ("calibration_", None, "calibration_ is None"),
        ("calibration_", {"method": "guess"}, "calibration_ is {'method': 'guess'}"),
        ("calibration_", {"method": "logistic"}, "slope None"),
        ("calibration_", {"method": "logistic", "slope": 1.0, "intercept": 0.0}, "slope 1.0"),
        ("calibration_", {"method": "logistic", "slope": -1, "intercept": 0.0}, "slope -1,"),
        ("calibration_", {"method": "isotonic"}, "two lists"),
        (
            "calibration_",
            {"method": "isotonic", "distance": np.arange(3.0), "probability": np.ones(2)},
            "two lists of one length",
        ),
        (
            "calibration_",
            {"method": "isotonic", "distance": np.arange(2.0), "probability": np.arange(2.0)},
            "does not fall",
        ),
    ],
)
def test_a_threshold_and_a_calibration_are_what_they_must_be(plain, name, value, match):
    with pytest.raises(ValueError, match=rf"cannot load .*plain\.mf: .*{match}"):
        load(changed(plain, lambda params, state: state.update({name: value})))


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_every_calibration_comes_back(small, tmp_path, method):
    X, _, pairs, labels = small
    metric = HierarchyForest(3, random_state=0).fit(X)
    metric.calibrate_threshold(pairs, labels, method=method)
    metric.save(tmp_path / "metric.mf")
    again = load(tmp_path / "metric.mf")
    np.testing.assert_array_equal(
        again.predict_pairs_proba(X[:9], X[9:18]), metric.predict_pairs_proba(X[:9], X[9:18])
    )


def test_no_kind_of_calibration_is_refused():
    """Whatever `calibrate` gives for pairs that can hardly be told apart, `load` accepts."""
    from metricforest.inspection.calibration import check_calibration

    for seed in range(20):
        rng = np.random.default_rng(seed)
        distance, same = np.round(rng.random(30), seed % 4), rng.random(30) < 0.5
        for method in ("logistic", "isotonic"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("metricforest.inspection.calibration.warn", lambda *a: None)
                check_calibration(calibrate(distance, same, method))


@pytest.mark.parametrize("name", ["Euclidean", "DCA", "ITML", "RandomForestDistance"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_rivals_do_not_divide_by_nothing(small, tmp_path, name, value):
    X, classes, _, _ = small
    path = tmp_path / "rival.mf"
    getattr(rivals, name)().fit(X, classes).save(path)

    def change(params, state):
        state["scale_"] = state["scale_"].copy()
        state["scale_"][1] = value

    with pytest.raises(ValueError, match="scale_ holds a number that is not positive"):
        load(changed(path, change))


def test_kinds_of_constraints_are_a_flat_list(plain):
    def change(params, state):
        table = state["constraints_"]
        state["constraints_"] = table._replace(kind=table.kind[:, None])

    with pytest.raises(ValueError, match="constraints are int32"):
        load(changed(plain, change))


def test_the_next_id_is_one_that_can_be_given(small, tmp_path):
    path = tmp_path / "changed.mf"
    metric = HierarchyForest(3, random_state=0).fit(small[0])
    metric.add(small[0][:1])
    metric.save(path)

    def change(params, state):
        state["_index"]["next_id"] = np.array([2**63 - 1])

    with pytest.raises(ValueError, match="next id, 9223372036854775807"):
        load(changed(path, change))


def test_a_file_does_not_say_how_many_threads_to_start(plain, small, tmp_path):
    asked = load(changed(plain, lambda params, state: params.update(n_jobs=100_000)))
    assert asked.n_jobs == cpu_count()
    assert load(changed(plain, lambda params, state: params.update(n_jobs=-1))).n_jobs == -1
    frame = {f"x{j}": small[0][:, j] for j in range(5)}
    table = TableMetric(HierarchyForest(3, random_state=0, n_jobs=1), cv=0)
    table.fit(frame | {"kind": small[1]}, "kind").save(tmp_path / "table.mf")

    def change(params, state):
        params["metric"]["params"]["n_jobs"] = 100_000
        state["metric_"]["params"]["n_jobs"] = 100_000

    table = load(changed(tmp_path / "table.mf", change))
    assert (table.metric.n_jobs, table.metric_.n_jobs) == (cpu_count(), cpu_count())


def test_a_tree_of_a_random_forest_says_a_share(small, tmp_path):
    X, classes, _, _ = small
    path = tmp_path / "rfd.mf"
    rivals.RandomForestDistance(3, random_state=0).fit(X, classes).save(path)

    def change(params, state):
        packed = state["forest_"]
        state["forest_"] = packed._replace(value=packed.value * 2)

    with pytest.raises(ValueError, match="something beside a share of pairs"):
        load(changed(path, change))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        # nothing in the file, and 4 GB per split once it is made ready
        (
            lambda v: v.update(
                directions=v["directions"][:, :0].copy(),
                correction=np.zeros((10**9, 0), np.float32),
            ),
            "too many random numbers",
        ),
        (lambda v: v.update(n_components=2), "4 directions, 2 is the most"),
        (lambda v: v["size"].__setitem__(0, -1.0), "a size is negative"),
    ],
)
def test_vectors_take_no_more_room_than_learned_ones(small, tmp_path, change, match):
    X, *_ = small
    metric = HierarchyForest(9, n_components=4, random_state=0).fit(X)
    metric.transform(X)
    metric.save(tmp_path / "m.mf")
    with pytest.raises(ValueError, match=match):
        load(changed(tmp_path / "m.mf", lambda params, state: change(state["_vectors"])))
