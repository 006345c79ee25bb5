"""NCA: its supervision, the classes that pairs imply, bad input."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import three_clusters
from metricforest import pair_auc
from metricforest.rivals import NCA, Euclidean
from metricforest.rivals.nca import implied_classes


@parametrize_with_checks([NCA(max_iter=5, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_the_map_is_scikit_learn_s():
    X, y, *_ = three_clusters()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    metric = NCA(2, init="pca").fit(X, y)
    want = NeighborhoodComponentsAnalysis(2, init="pca").fit(Z, y)
    np.testing.assert_allclose(metric.components_, want.components_, rtol=1e-6)
    np.testing.assert_allclose(metric.transform(X), Z @ want.components_.T, rtol=1e-6, atol=1e-9)


def test_pairs_are_the_classes_that_they_imply():
    pairs = np.array([[0, 1], [1, 2], [4, 5], [2, 4], [6, 7], [8, 9]])
    labels = np.array([1, 1, 1, -1, -1, 1])
    codes = implied_classes(10, pairs, labels)
    assert codes.tolist() == [0, 0, 0, -1, 1, 1, -1, -1, 2, 2]
    X, y, *_ = three_clusters()
    chain = np.stack([np.arange(57), np.arange(3, 60)], axis=1)  # row i is of class i % 3
    assert (y[chain[:, 0]] == y[chain[:, 1]]).all()
    by_pairs = NCA(2).fit(X, pairs=chain, pair_labels=np.ones(len(chain)))
    np.testing.assert_array_equal(by_pairs.components_, NCA(2).fit(X, y).components_)


def test_learning_beats_the_plain_distance():
    X, _, pairs, labels = three_clusters(0, 120, 400)
    Q, _, asked, answers = three_clusters(1, 120, 400)
    X[:, 3:] *= 4
    Q[:, 3:] *= 4
    plain = Euclidean(standardize=False).fit(X)
    metric = NCA(standardize=False).fit(X, pairs=pairs, pair_labels=labels)
    assert pair_auc(metric, Q, asked, answers) > pair_auc(plain, Q, asked, answers) + 0.1


def test_what_it_cannot_learn_from_is_refused():
    X, y, pairs, labels = three_clusters()
    with pytest.raises(TypeError, match=r"cannot learn from triplets: it learns from labels y"):
        NCA().fit(X, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="give one of them"):
        NCA().fit(X, y, pairs=pairs, pair_labels=labels)
    with pytest.raises(ValueError, match="requires y to be passed"):
        NCA().fit(X)
    with pytest.raises(ValueError, match="join rows to 0 classes, 2 are needed"):
        NCA().fit(X, pairs=[[0, 1]], pair_labels=[-1])
    with pytest.raises(ValueError, match="join rows to 1 class, 2 are needed"):
        NCA().fit(X, pairs=[[0, 3]], pair_labels=[1])
    with pytest.raises(ValueError, match="n_components=6 is more than the 5 features"):
        NCA(6).fit(X, y)
    with pytest.raises(ValueError, match="init"):
        NCA(init="best").fit(X, y)
