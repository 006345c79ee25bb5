"""The estimator: what it learns, what it refuses, how it behaves among scikit-learn's tools."""

import io
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import FEW, assert_same_bits, learn, load, numbers, three_clusters
from metricforest import HierarchyForest, core, pair_auc
from metricforest.core import check_forest
from metricforest.forest_fit import settings_of


def nearest_neighbour_accuracy(metric, X, y):
    """Leave-one-out accuracy of the nearest neighbour."""
    D = metric.pairwise_distances(X)
    np.fill_diagonal(D, np.inf)
    return float((y[D.argmin(axis=1)] == y).mean())


# ------------------------------------------------------------------------------------- scikit-learn


@parametrize_with_checks(
    [
        HierarchyForest(n_estimators=3, n_components=1, random_state=0),
        HierarchyForest(
            n_estimators=2,
            min_node_size=1,
            max_features=None,
            standardize=False,
            n_components="auto",
        ),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_clone_copies_parameters_and_nothing_else(small):
    metric = HierarchyForest(n_estimators=3, alpha=0.7, random_state=0).fit(small[0])
    copy = clone(metric)
    assert copy.get_params() == metric.get_params()
    assert not hasattr(copy, "forest_")


def test_defaults_are_the_contract():
    expected = {
        "n_estimators": 500,
        "max_features": "auto",
        "min_node_size": "auto",
        "reg_lambda": 0.01,
        "C": 1.0,
        "cannot_link_fraction": 0.25,
        "alpha": 4.0,
        "heights": "auto",
        "solver": "newton",
        "tol": 0.2,
        "n_constraints": "auto",
        "n_components": 64,
        "n_jobs": None,
        "random_state": None,
        "verbose": 0,
    }
    parameters = HierarchyForest().get_params()
    assert {name: parameters[name] for name in expected} == expected
    paper = {**expected, "min_node_size": 5, "alpha": 0.5, "tol": 0.01}
    paper |= {"max_features": 1 / 3, "heights": "size"}
    parameters = HierarchyForest.paper().get_params()
    assert {name: parameters[name] for name in paper} == paper
    changed = HierarchyForest.paper(7, alpha=2.0, random_state=3)
    assert (changed.n_estimators, changed.alpha, changed.random_state) == (7, 2.0, 3)


def test_smallest_node_follows_the_rows():
    for n_rows, smallest in ((10, 5), (1_000, 5), (1_049, 5), (1_050, 6), (10_750, 200)):
        assert settings_of(HierarchyForest(), 1 / 3, n_rows, 3).min_size == smallest
    assert settings_of(HierarchyForest(min_node_size=7), None, 10_000, 3).min_size == 7


def test_in_a_pipeline(small):
    X, _, pairs, labels = small
    metric = HierarchyForest(n_estimators=FEW, random_state=0, standardize=False)
    pipeline = Pipeline([("scale", StandardScaler()), ("metric", metric)])
    pipeline.fit(X, metric__pairs=pairs, metric__pair_labels=labels)
    scaled = pipeline["scale"].transform(X)
    np.testing.assert_allclose(
        pipeline["metric"].pairwise_distances(scaled),
        learn(X, pairs=pairs, pair_labels=labels).pairwise_distances(X),
        atol=1e-3,
    )


def test_in_a_grid_search_over_labels():
    X, y = load("wine")
    search = GridSearchCV(
        HierarchyForest(n_estimators=5, random_state=0),
        {"min_node_size": [3, 60]},
        scoring=nearest_neighbour_accuracy,
        cv=2,
    ).fit(X, y)
    assert search.best_params_ == {"min_node_size": 3}
    assert search.best_score_ > 0.85
    assert search.best_estimator_.forest_.n_trees == 5


def test_pickle_measures_the_same(small, small_forest):
    again = pickle.loads(pickle.dumps(small_forest))
    np.testing.assert_array_equal(
        again.pairwise_distances(small[0]), small_forest.pairwise_distances(small[0])
    )


def test_data_frames_keep_their_names(small):
    X, _, pairs, labels = small
    frame = pd.DataFrame(X, columns=list("abcde"))
    metric = learn(frame, pairs=pairs, pair_labels=labels)
    assert metric.feature_names_in_.tolist() == list("abcde")
    assert_same_bits(metric, learn(X, pairs=pairs, pair_labels=labels))
    assert metric.pair_distance(frame[:3], frame[3:6]).shape == (3,)
    with pytest.raises(ValueError, match="feature names"):
        metric.pairwise_distances(frame[list("edcba")])


def test_data_frames_of_pairs_and_series_of_labels(small):
    X, classes, pairs, labels = small
    expected = learn(X, pairs=pairs, pair_labels=labels)
    frame = pd.DataFrame(pairs, columns=["a", "b"])
    assert_same_bits(expected, learn(X, pairs=frame, pair_labels=pd.Series(labels)))
    named = pd.Series(np.array(["red", "green", "blue"])[classes])
    assert learn(X, named).constraints_.kind.size > 0


# ----------------------------------------------------------------------------------- what it learns


def test_pairs_beat_no_pairs():
    rng = np.random.default_rng(0)
    classes = np.arange(200) % 2
    X = rng.normal(size=(200, 8))
    X[:, 0] += 2.5 * classes
    pairs = rng.integers(0, 200, (800, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    labels = np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1)
    learn_from, held_out = np.arange(len(pairs)) < 400, np.arange(len(pairs)) >= 400
    metric = HierarchyForest(n_estimators=30, random_state=0)
    plain = pair_auc(metric.fit(X), X, pairs[held_out], labels[held_out])
    metric.fit(X, pairs=pairs[learn_from], pair_labels=labels[learn_from])
    learned = pair_auc(metric, X, pairs[held_out], labels[held_out])
    assert learned > plain + 0.1
    assert learned > 0.8


@pytest.mark.parametrize("n_triplets", [100, 400])
def test_triplets_beat_no_triplets(n_triplets):
    """Two of ten features matter. Held-out triplets: how often D(i, j) < D(i, k)."""
    rng = np.random.default_rng(0)
    n = 150
    classes = np.arange(n) % 3
    X = rng.normal(size=(n, 10))
    X[:, :2] += 3 * np.array([[0, 0], [1, 0], [0, 1]])[classes]

    def triplets(count):
        found = []
        while len(found) < count:
            i, j, k = rng.choice(n, 3, replace=False)
            if classes[i] == classes[j] != classes[k]:
                found.append((i, j, k))
        return np.array(found)

    train, test = triplets(n_triplets), triplets(400)

    def accuracy(metric):
        near = metric.pair_distance(X[test[:, 0]], X[test[:, 1]])
        far = metric.pair_distance(X[test[:, 0]], X[test[:, 2]])
        return np.mean((near < far) + 0.5 * (near == far))

    metric = HierarchyForest(n_estimators=30, random_state=0)
    plain = accuracy(metric.fit(X))
    learned = accuracy(metric.fit(X, triplets=train))
    assert learned > plain + 0.15


@pytest.mark.parametrize("name", ["wine", "iris", "breast_cancer", "balance"])
def test_labels_of_real_data(name):
    X, y = load(name)
    chosen = np.random.default_rng(0).permutation(len(X))[:300]
    X, y = X[chosen], y[chosen]
    half = np.arange(len(X)) < len(X) // 2
    features = None if name == "balance" else 1 / 3
    metric = HierarchyForest(
        n_estimators=25, random_state=0, n_constraints=1_000, max_features=features
    )
    metric.fit(X, np.where(half, y, -1))
    D = metric.pairwise_distances(X[~half], X[half])
    accuracy = (y[half][D.argmin(axis=1)] == y[~half]).mean()
    assert accuracy > (0.8 if name == "balance" else 0.88)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sonar", "ionosphere", "segmentation"])
def test_labels_of_the_papers_data(name):
    X, y = load(name)
    chosen = np.random.default_rng(0).permutation(len(X))[:350]
    X, y = X[chosen], y[chosen]
    half = np.arange(len(X)) < len(X) // 2
    metric = HierarchyForest(n_estimators=40, random_state=0).fit(X[half], y[half])
    D = metric.pairwise_distances(X[~half], X[half])
    accuracy = (y[half][D.argmin(axis=1)] == y[~half]).mean()
    assert accuracy > (0.7 if name == "sonar" else 0.85)


def test_solver_names_and_the_reference(small):
    X, classes, pairs, labels = small
    scores = {}
    for solver in ("lbfgs", "newton", "subgradient"):
        metric = HierarchyForest(n_estimators=10, solver=solver, random_state=0)
        metric.fit(X, pairs=pairs, pair_labels=labels)
        check_forest(metric.forest_, X.shape[1])
        scores[solver] = nearest_neighbour_accuracy(metric, X, classes)
    assert scores["lbfgs"] == scores["newton"]
    assert min(scores.values()) > 0.8


def test_scale_of_a_feature_does_not_matter_by_default(small):
    X, _, pairs, labels = small
    scaled = X * [1, 32, 1, 1 / 32, 1] + [0, 0, 64, 0, 0]
    a = learn(X, pairs=pairs, pair_labels=labels).pairwise_distances(X)
    b = learn(scaled, pairs=pairs, pair_labels=labels).pairwise_distances(scaled)
    np.testing.assert_allclose(a, b, atol=0.02)
    plain = HierarchyForest(n_estimators=FEW, random_state=0, standardize=False)
    c = plain.fit(scaled, pairs=pairs, pair_labels=labels).pairwise_distances(scaled)
    assert abs(a - c).max() > 0.1


def test_pairs_and_labels_together(small):
    X, classes, pairs, labels = small
    metric = HierarchyForest(n_estimators=2, n_constraints=30, random_state=0)
    only = metric.fit(X, classes).constraints_
    both = metric.fit(X, classes, pairs=pairs[:20], pair_labels=labels[:20]).constraints_
    found = {tuple(m) for m in both.members.tolist()}
    assert {tuple(m) for m in only.members.tolist()} <= found
    assert {(a, b, -1) for a, b in pairs[:20].tolist()} <= found


def test_no_constraints_from_labels_is_unsupervised(small):
    X, classes, _, _ = small
    metric = HierarchyForest(n_estimators=FEW, n_constraints=0, random_state=0)
    assert_same_bits(metric.fit(X, classes), learn(X))


def test_automatic_number_of_constraints():
    X, y = load("iris")
    table = HierarchyForest(n_estimators=1, random_state=0).fit(X, y).constraints_
    pairs, labels = table.pairs()
    assert (labels == 1).sum() == 3 * 333
    assert 1_500 < (labels == -1).sum() <= 3 * 667  # both classes of a pair may draw it: merged
    np.testing.assert_array_equal(y[pairs[:, 0]] == y[pairs[:, 1]], labels == 1)


def test_unlabelled_rows_are_in_no_pair():
    X, y = load("iris")
    partly = np.where(np.arange(150) % 3 == 0, y, -1)
    pairs, _ = HierarchyForest(n_estimators=1, random_state=0).fit(X, partly).constraints_.pairs()
    assert (partly[pairs] != -1).all()


@pytest.mark.parametrize(
    ("max_features", "expected"),
    [(1 / 3, 3), (1.0, 10), (None, 10), (4, 4), ("sqrt", 3), ("log2", 3), (0.01, 1), (1, 1)],
)
def test_number_of_features_per_split(max_features, expected):
    X = np.random.default_rng(0).normal(size=(30, 10))
    metric = HierarchyForest(n_estimators=1, max_features=max_features, random_state=0).fit(X)
    assert metric.forest_.features.shape[1] == expected


# ---------------------------------------------------------------------------- seeds, jobs, clusters


@pytest.mark.parametrize("n_jobs", [2, 4, -1])
def test_same_bits_for_any_number_of_jobs(small, n_jobs):
    X, _, pairs, labels = small
    one = HierarchyForest(n_estimators=9, random_state=0, n_jobs=1)
    more = HierarchyForest(n_estimators=9, random_state=0, n_jobs=n_jobs)
    for metric in (one, more):
        metric.fit(X, pairs=pairs, pair_labels=labels)
    assert_same_bits(one, more)
    np.testing.assert_array_equal(one.pairwise_distances(X), more.pairwise_distances(X))
    np.testing.assert_array_equal(one.pair_distance(X, X[::-1]), more.pair_distance(X, X[::-1]))


def test_same_bits_in_other_processes(small):
    X, _, pairs, labels = small
    here = learn(X, pairs=pairs, pair_labels=labels)
    with joblib.parallel_config("loky", n_jobs=2):
        there = learn(X, pairs=pairs, pair_labels=labels)
    assert_same_bits(here, there)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:distributed")
@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
def test_same_bits_on_a_dask_cluster(small):
    distributed = pytest.importorskip("distributed")
    X, _, pairs, labels = small
    here = learn(X, pairs=pairs, pair_labels=labels)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        with joblib.parallel_config("dask"):
            there = learn(X, pairs=pairs, pair_labels=labels)
        took_part = client.run(lambda: "metricforest.core.grow" in sys.modules)
    assert len(took_part) == 2
    assert any(took_part.values())
    assert_same_bits(here, there)


def test_seeds(small):
    X, classes, _, _ = small
    assert_same_bits(learn(X, classes), learn(X, classes))
    other = HierarchyForest(n_estimators=FEW, random_state=1).fit(X, classes)
    assert not np.array_equal(other.forest_.weights, learn(X, classes).forest_.weights)
    state = np.random.RandomState(0)
    first = HierarchyForest(n_estimators=2, random_state=state).fit(X)
    second = HierarchyForest(n_estimators=2, random_state=state).fit(X)
    assert not np.array_equal(first.forest_.weights, second.forest_.weights)


def test_trees_differ(small_forest):
    assert len(np.unique(small_forest.forest_.order, axis=0)) > 6


# ------------------------------------------------------------------------- warm start, interruption


def test_ten_trees_and_ten_more_are_twenty(small):
    X, _, pairs, labels = small
    labelled = {"pairs": pairs, "pair_labels": labels}
    at_once = HierarchyForest(n_estimators=20, random_state=0).fit(X, **labelled)
    grown = HierarchyForest(n_estimators=10, random_state=0, warm_start=True).fit(X, **labelled)
    grown.set_params(n_estimators=20).fit(X, **labelled)
    assert_same_bits(at_once, grown)
    grown.fit(X, **labelled)
    assert_same_bits(at_once, grown)


@pytest.mark.parametrize("random_state", [None, 0])
def test_warm_start_with_labels(small, random_state):
    """Pairs drawn from labels are drawn once: with more trees they stay the same."""
    X, classes, _, _ = small
    metric = HierarchyForest(
        n_estimators=2, random_state=random_state, warm_start=True, n_constraints=50
    ).fit(X, classes)
    weights = metric.forest_.weights
    metric.set_params(n_estimators=4).fit(X, classes)
    assert metric.forest_.n_trees == 4
    np.testing.assert_array_equal(metric.forest_.weights[: len(weights)], weights)


def test_warm_start_refuses_other_data(small):
    X, _, pairs, labels = small
    metric = HierarchyForest(n_estimators=2, random_state=0, warm_start=True)
    metric.fit(X, pairs=pairs, pair_labels=labels)
    before = metric.forest_
    with pytest.raises(ValueError, match=r"X of shape \(59, 5\), fitted before with \(60, 5\)"):
        metric.fit(X[:-1])
    with pytest.raises(ValueError, match="but these are others"):
        metric.fit(X * X, pairs=pairs, pair_labels=labels)
    with pytest.raises(ValueError, match="but these are others"):
        metric.fit(X, pairs=pairs[1:], pair_labels=labels[1:])
    assert metric.forest_ is before


def test_warm_start_refuses_other_labels_of_the_same_pairs(small):
    X, _, pairs, _ = small
    metric = HierarchyForest(n_estimators=2, random_state=0, warm_start=True)
    metric.fit(X, pairs=pairs, pair_labels=np.ones(len(pairs)))
    with pytest.raises(ValueError, match="but these are others"):
        metric.fit(X, pairs=pairs, pair_labels=-np.ones(len(pairs)))


def test_warm_start_refuses_fewer_trees_and_other_widths(small):
    metric = HierarchyForest(n_estimators=4, random_state=0, warm_start=True).fit(small[0])
    with pytest.raises(ValueError, match="n_estimators=3 is less than the 4"):
        metric.set_params(n_estimators=3).fit(small[0])
    with pytest.raises(ValueError, match="same parameters"):
        metric.set_params(n_estimators=6, max_features=None).fit(small[0])


def interrupt_after(monkeypatch, n_trees):
    real, calls = core.grow_tree, []

    def tree(*args):
        calls.append(None)
        if len(calls) > n_trees:
            raise KeyboardInterrupt("stop")
        return real(*args)

    monkeypatch.setattr(core, "grow_tree", tree)


@pytest.mark.parametrize("verbose", [0, 1])
def test_interrupted_first_fit_leaves_nothing(small, monkeypatch, verbose):
    interrupt_after(monkeypatch, 3)
    metric = HierarchyForest(n_estimators=FEW, verbose=verbose, n_jobs=1)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        metric.fit(small[0])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        metric.pairwise_distances(small[0])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        metric.get_metric()


def test_interrupted_second_fit_leaves_the_first(small, monkeypatch):
    X, _, pairs, labels = small
    metric = learn(X, pairs=pairs, pair_labels=labels)
    before = metric.pairwise_distances(X)
    interrupt_after(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        metric.fit(X[:, :3])
    np.testing.assert_array_equal(metric.pairwise_distances(X), before)


def test_refused_fit_leaves_the_first(small):
    X, _, pairs, labels = small
    metric = learn(X, pairs=pairs, pair_labels=labels)
    before = metric.pairwise_distances(X)
    with pytest.raises(ValueError, match="out of range"):
        metric.fit(X[:10, :3], pairs=[[0, 11]], pair_labels=[1])
    np.testing.assert_array_equal(metric.pairwise_distances(X), before)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_bar(small, capsys, monkeypatch):
    HierarchyForest(n_estimators=4, random_state=0).fit(small[0])
    assert capsys.readouterr() == ("", "")
    quiet = learn(small[0])
    loud = HierarchyForest(n_estimators=FEW, random_state=0, verbose=1).fit(small[0])
    assert capsys.readouterr() == ("", "")  # nobody looks on
    assert_same_bits(quiet, loud)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Terminal())
        seen = HierarchyForest(n_estimators=FEW, random_state=0, verbose=1).fit(small[0])
        shown = sys.stderr.getvalue()
    assert f"| {FEW}/{FEW}" in shown
    assert "trees: 100%" in shown
    assert_same_bits(quiet, seen)
    assert capsys.readouterr() == ("", "")


# --------------------------------------------------------------------------------------- the rest


def test_not_fitted():
    for measure in ("pair_distance", "pair_score"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(HierarchyForest(), measure)(numbers(), numbers())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HierarchyForest().pairwise_distances(numbers())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HierarchyForest().get_metric()


def test_split_statistics(small):
    X, _, pairs, labels = small
    metric = learn(X, pairs=pairs, pair_labels=labels)
    assert set(metric.split_statistics_) == set(core.STATISTICS)
    assert metric.split_statistics_["n_constrained"] > 0


@pytest.mark.slow
def test_same_bits_in_a_second_process():
    """The same seed gives the same bits in another process."""
    X, _, pairs, labels = three_clusters()
    script = (
        "import sys, zlib; sys.path.insert(0, sys.argv[1])\n"
        "from conftest import FEW, assert_same_bits, learn, numbers, three_clusters\n"
        "import metricforest\n"
        "X, _, pairs, labels = three_clusters()\n"
        "metric = metricforest.HierarchyForest(n_estimators=6, random_state=0)\n"
        "metric.fit(X, pairs=pairs, pair_labels=labels)\n"
        "print(zlib.crc32(metric.pairwise_distances(X).tobytes()))\n"
    )
    here = zlib.crc32(learn(X, pairs=pairs, pair_labels=labels).pairwise_distances(X).tobytes())
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == here


def test_where_the_origin_is_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.integers(-50, 50, size=(64, 3)).astype(float)  # means of 64 whole numbers are exact
    y = (X[:, 0] > 0).astype(int)
    for standardize in (True, False):
        near, far = (
            HierarchyForest(10, standardize=standardize, random_state=0)
            .fit(X + origin, y)
            .pairwise_distances(X + origin)
            for origin in (0.0, 2.0**33)
        )
        np.testing.assert_array_equal(near, far)
