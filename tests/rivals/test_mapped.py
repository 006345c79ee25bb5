"""What all metrics with a map share: searching by scikit-learn's index, measuring far from 0."""

import numpy as np
import pytest
from sklearn.base import clone

import metricforest
from metricforest.rivals import (
    DCA,
    GBLMNN,
    ITML,
    LMNN,
    BoostMetric,
    Euclidean,
    RandomForestDistance,
    mapped,
)
from metricforest.rivals.mapped import PRECISION

MAPPED = [
    Euclidean(),
    DCA(random_state=0),
    ITML(random_state=0),
    LMNN(),
    GBLMNN(5, random_state=0),
    BoostMetric(),
]
by_name = pytest.mark.parametrize("metric", MAPPED, ids=lambda m: type(m).__name__)


def whole_numbers(d, n=60, seed=0):
    """Rows whose entries stay exact wherever they are moved to, each of them twice; and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n // 2) % 3
    X = rng.integers(-8, 9, size=(n // 2, d)).astype(float)
    X[:, 0] += 6 * y
    return np.repeat(X, 2, axis=0), np.repeat(y, 2)


@by_name
@pytest.mark.parametrize("d", [4, 20])
def test_where_the_origin_is_does_not_matter(metric, d):
    X, y = whole_numbers(d)
    metric = clone(metric).set_params(standardize=False)
    want = metric.fit(X, y).pairwise_distances(X)
    found = metric.fit(X + 1e8, y).pairwise_distances(X + 1e8)
    # LMNN ends within a hundredth of its minimum, where on the way rounding decides.
    tolerance = 0.2 if isinstance(metric, (LMNN, GBLMNN)) else 1e-4
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)
    distance = metric.kneighbors(X + 1e8, 3)[0]
    assert (distance[:, :2] == 0.0).all()  # every row is there twice
    np.testing.assert_allclose(distance, np.sort(found, axis=1)[:, :3], rtol=PRECISION)


@by_name
@pytest.mark.parametrize("d", [4, 20])
def test_search_measures_as_pair_distance_does(metric, d):
    X, y = whole_numbers(d)
    metric = clone(metric).fit(X, y)
    distance, index = metric.kneighbors(X, 7)
    assert (distance[:, 1] == 0.0).all()  # every row is there twice
    assert (np.diff(distance, axis=1) >= 0).all()
    for k in range(7):
        np.testing.assert_array_equal(distance[:, k], metric.pair_distance(X, X[index[:, k]]))
    equal = np.diff(distance, axis=1) == 0
    assert (np.diff(index, axis=1)[equal] > 0).all()


@by_name
@pytest.mark.parametrize("d", [4, 20])
def test_radius_neighbors_are_all_that_near(metric, d):
    X, y = whole_numbers(d)
    metric = clone(metric).fit(X, y)
    every = np.array(
        [metric.pair_distance(X, np.repeat(X[i : i + 1], 60, axis=0)) for i in range(60)]
    )
    for radius in (0.0, float(np.median(every)), float(every.max())):
        distance, index = metric.radius_neighbors(X, radius)
        among = metric.radius_neighbors(None, radius, return_distance=False)
        for i in range(60):
            want = np.flatnonzero(every[i] <= radius)
            np.testing.assert_array_equal(np.sort(index[i]), want)
            np.testing.assert_array_equal(distance[i], np.sort(every[i, want]))
            assert sorted([*among[i], i]) == want.tolist()


@pytest.mark.parametrize(
    "metric", [*MAPPED, RandomForestDistance(3)], ids=lambda m: type(m).__name__
)
def test_no_threads_are_refused(metric):
    metric = type(metric)(n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be None or an int other than 0, got 0"):
        metric.fit(*whole_numbers(4))


@pytest.mark.parametrize(
    "metric", [*MAPPED, RandomForestDistance(3)], ids=lambda m: type(m).__name__
)
def test_a_word_is_no_flag(metric):
    metric = type(metric)(standardize="no")
    with pytest.raises(TypeError, match="standardize must be True or False, got 'no'"):
        metric.fit(*whole_numbers(4))


@by_name
def test_numbers_too_large_to_square_are_refused(metric):
    X, y = whole_numbers(4)
    metric = clone(metric).set_params(standardize=False)
    with pytest.raises(ValueError, match=r"X holds .*e\+161; its variance overflows"):
        metric.fit(1e160 * X, y)


def test_a_forest_is_loaded_as_what_it_is(tmp_path):
    X, y = whole_numbers(4)
    metric = RandomForestDistance(5, random_state=0).fit(X, y).set_params(trees="extra-trees")
    metric.save(tmp_path / "metric.mf")
    again = metricforest.load(tmp_path / "metric.mf")
    np.testing.assert_array_equal(again.pairwise_distances(X), metric.pairwise_distances(X))


@pytest.mark.parametrize("d", [4, 20])
def test_many_queries_are_searched_piece_by_piece(d, monkeypatch):
    """So that an interrupt does not wait for all of them; the answer is the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, d)).round(1)  # with rows that are equally far
    metric = Euclidean().fit(X)
    queries = np.concatenate([X[:100], rng.normal(size=(900, d)).round(1)])
    whole = metric.kneighbors(queries, 4)
    asked = []
    at_once = mapped.MappedMetric._nearest_at_once

    def counted(self, some, k):
        asked.append(len(some))
        return at_once(self, some, k)

    monkeypatch.setattr(mapped, "AT_ONCE", 1)
    monkeypatch.setattr(mapped.MappedMetric, "_nearest_at_once", counted)
    for got, want in zip(metric.kneighbors(queries, 4), whole, strict=True):
        np.testing.assert_array_equal(got, want)
    assert asked == [256, 256, 256, 232]
