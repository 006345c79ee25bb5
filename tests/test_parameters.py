"""What `fit` refuses is refused before every use and before a file is written, wherever it was set."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import metricforest
from metricforest import (
    Blend,
    Deduplication,
    HierarchyForest,
    MetricKNeighborsClassifier,
    MetricNeighborsTransformer,
    MetricSpectralClustering,
    PairModel,
    TableMetric,
    VectorForest,
    rivals,
)
from metricforest.storage.registry import METRICS

RNG = np.random.default_rng(0)
Y = np.arange(30) % 3
X = RNG.normal(size=(30, 3)) + 3 * np.eye(3)[Y]
TABLE = {"name": [f"{'Echo' if i % 2 else 'Dorn'} {i // 2}" for i in range(30)]}
PAIRS = [[i, i + 1, i % 3 == 0] for i in range(0, 28, 2)]
ODD = [None, "?", -1, 0, float("nan"), 7.5, [], object()]
SMALL = {"n_estimators": 2, "max_iter": 3, "n_constraints": 40, "random_state": 0, "n_init": 1}
SMALL |= {"max_sweeps": 5}


def metrics():
    own = {
        "Blend": Blend([HierarchyForest(2)], random_state=0, n_constraints=40, n_folds=2),
        "HierarchyForest": HierarchyForest(2, n_constraints=40, random_state=0),
        "PairModel": PairModel(n_estimators=2, random_state=0),
        "TableMetric": TableMetric(rivals.Euclidean(), cv=0),
        "VectorForest": VectorForest(3, n_components=2, n_constraints=40, random_state=0),
    }
    for name in rivals.__all__:
        metric = getattr(rivals, name)()
        own[name] = metric.set_params(
            **{key: value for key, value in SMALL.items() if key in metric.get_params()}
        )
    return own


ALL = metrics()


def fitted(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(metric, PairModel):
            return metric.fit(TABLE, pairs=PAIRS)
        return metric.fit(X, Y)


def test_every_class_that_a_file_can_name_is_here():
    assert set(ALL) == set(METRICS)


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_fit_refuses_is_refused_ever_after(name, tmp_path):
    learned, fresh = fitted(clone(ALL[name])), ALL[name]
    n_refused = 0
    for param, good in fresh.get_params(deep=False).items():
        for odd in ODD:
            if (param, odd) == ("id", "?"):  # whether a table has the column, the table says
                continue
            try:
                fitted(clone(fresh).set_params(**{param: odd}))
                continue
            except (TypeError, ValueError) as error:
                said = str(error)
            n_refused += 1
            learned.set_params(**{param: odd})
            if isinstance(learned, PairModel):
                uses = [lambda: learned.probability([[0, 1]]), learned.match]
            else:
                uses = [
                    lambda: learned.pair_distance(X, X),
                    lambda: learned.pairwise_distances(X),
                    lambda: learned.kneighbors(X[:2], 2),
                    lambda: learned.radius_neighbors(X[:2], 0.5),
                    learned.get_metric,
                ]
            for use in [*uses, lambda: learned.save(tmp_path / "m.mf")]:
                with pytest.raises((TypeError, ValueError)) as raised:
                    use()
                assert str(raised.value) == said, (param, odd)
            learned.set_params(**{param: good})
    assert n_refused > 3
    learned.save(tmp_path / "m.mf")
    assert type(metricforest.load(tmp_path / "m.mf")) is type(learned)


@pytest.mark.parametrize(
    ("estimator", "use"),
    [
        (MetricNeighborsTransformer(rivals.Euclidean(), 3), "transform"),
        (MetricKNeighborsClassifier(rivals.Euclidean(), 3), "predict"),
        (MetricSpectralClustering(3, rivals.Euclidean(), 4, n_init=1), "predict"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_an_estimator_that_uses_a_metric_checks_as_well(estimator, use):
    learned = fitted(clone(estimator))
    want = getattr(learned, use)(X)
    for param, good in estimator.get_params(deep=False).items():
        for odd in ODD:
            try:
                fitted(clone(estimator).set_params(**{param: odd}))
                continue
            except (TypeError, ValueError):
                pass
            learned.set_params(**{param: odd})
            with pytest.raises((TypeError, ValueError)):
                getattr(learned, use)(X)
            learned.set_params(**{param: good})
    learned.metric_.set_params(n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be None or an int other than 0"):
        getattr(learned, use)(X)
    learned.metric_.set_params(n_jobs=None)
    assert getattr(learned, use)(X).shape == want.shape


def test_another_number_of_clusters_does_not_change_what_was_found():
    learned = fitted(MetricSpectralClustering(3, rivals.Euclidean(), 4, n_init=1, random_state=0))
    want = learned.predict_membership(X)
    np.testing.assert_array_equal(learned.set_params(n_clusters=2).predict_membership(X), want)


def test_deduplication_refuses_before_any_work():
    for change in ({"threshold": 2}, {"candidates": 0}, {"model": 3}):
        with pytest.raises((TypeError, ValueError)):
            Deduplication(**change).fit(TABLE, pairs=PAIRS)
    model = PairModel(n_estimators=2, random_state=0)
    found = Deduplication(model).fit(TABLE, pairs=PAIRS)
    found.model_.set_params(n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be None or an int"):
        found.model_.match()
