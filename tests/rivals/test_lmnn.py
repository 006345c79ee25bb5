"""LMNN: its optimum, its supervision, odd input."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive_margins as naive
from conftest import load
from metricforest.rivals import LMNN
from metricforest.rivals import lmnn as solver


@parametrize_with_checks([LMNN()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def noisy_classes(seed=0, n=45, d=5):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d))
    X[:, :2] += 1.2 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return X, y


def test_case_worked_by_hand():
    # On a line: f(m) = 2 m + (1 - 3 m)+ + 2 (1 - 8 m)+ + (1 - 15 m)+, least at m = 1/3.
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    lmnn = LMNN(n_neighbors=1, standardize=False).fit(X, [0, 0, 1, 1])
    assert lmnn.objective_ == pytest.approx(2 / 3, rel=1e-2)
    assert float(lmnn.components_[0, 0]) ** 2 == pytest.approx(1 / 3, rel=2e-2)


@pytest.mark.parametrize(("mu", "seed"), [(0.5, 0), (0.8, 1)])
def test_objective_is_within_one_per_cent_of_a_long_plain_run(mu, seed):
    X, y = noisy_classes(seed, n=36)
    targets = naive.nearest_of_class(X, y, 3, same=True)
    reference = naive.lmnn_reference(X, y, targets, mu)
    lmnn = LMNN(mu=mu, standardize=False).fit(X, y)
    Z = X @ lmnn.components_.T
    assert lmnn.objective_ == pytest.approx(naive.margin_loss(Z, y, targets, 1 - mu, mu), rel=1e-9)
    assert lmnn.objective_ <= 1.01 * reference
    assert 0.5 * reference < lmnn.objective_bound_ <= reference


@pytest.mark.parametrize("name", ["sonar", "ionosphere"])
def test_bound_proves_the_objective_on_real_data(name):
    X, y = load(name)
    lmnn = LMNN(tol=0.001, max_iter=5_000).fit(X, y)
    assert lmnn.objective_bound_ <= lmnn.objective_ <= 1.06 * lmnn.objective_bound_
    coarse = LMNN().fit(X, y)
    assert coarse.objective_ <= 1.005 * lmnn.objective_


@pytest.mark.parametrize("mu", [0.5, 0.98])
def test_small_objectives_are_minimised_too(mu):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 40)), np.arange(50) % 2  # as good as separable
    X[:, 0] += 2 * y
    loose = LMNN(1, mu).fit(X, y)
    tight = LMNN(1, mu, tol=1e-4, max_iter=20_000).fit(X, y)
    assert tight.objective_ <= loose.objective_ <= 1.02 * tight.objective_


def test_what_is_hidden_in_a_small_spread_is_found():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    signal, noise = rng.normal(size=60) + 3 * y, rng.normal(size=(60, 2))
    plain = LMNN(standardize=False).fit(np.column_stack([noise, signal]), y)
    # Targets would be others in other features, so they are given.
    targets = naive.nearest_of_class(np.column_stack([noise, signal]), y, 3, same=True)
    hidden = np.column_stack([noise[:, 0], noise[:, 0] + 1e-7 * signal, noise[:, 1]])
    found = solver.solve(hidden, y, np.array(targets, np.int32))
    assert found.objective == pytest.approx(plain.objective_, rel=0.01)
    assert found.bound <= plain.objective_
    loud = solver.solve(np.column_stack([1e8 * noise, signal]), y, np.array(targets, np.int32))
    assert loud.objective == pytest.approx(plain.objective_, rel=0.01)


def test_single_precision_reaches_the_same(monkeypatch):
    X, y = noisy_classes(3, n=400)
    double = LMNN().fit(X, y)
    monkeypatch.setattr(solver, "LARGE", 100)
    single = LMNN().fit(X, y)
    assert single.objective_ == pytest.approx(double.objective_, rel=2e-3)
    assert single.components_.dtype == np.float64


def test_noise_is_ignored_and_rows_come_by_weight():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 6))
    X[:, 3] += 4 * y
    lmnn = LMNN().fit(X, y)
    lengths = np.linalg.norm(lmnn.components_, axis=1)
    assert (np.diff(lengths) <= 0).all()
    assert np.abs(lmnn.components_[0]).argmax() == 3
    gram = lmnn.components_ @ lmnn.components_.T
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-9 * gram.max()


def test_fewer_components():
    X, y = noisy_classes()
    lmnn = LMNN(n_components=2).fit(X, y)
    assert lmnn.transform(X).shape == (45, 2)
    assert lmnn.objective_ >= lmnn.objective_bound_
    with pytest.raises(ValueError, match="n_components=6 is more than the 5 features"):
        LMNN(n_components=6).fit(X, y)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    lmnn = LMNN().fit(X, y)
    assert lmnn.components_.shape == (19, 50)
    D = lmnn.pairwise_distances(X)
    np.testing.assert_allclose(
        D, np.linalg.norm(lmnn.transform(X)[:, None] - lmnn.transform(X), axis=2), atol=1e-6
    )


def test_same_bits_for_any_n_jobs(monkeypatch):
    from metricforest.rivals import impostors

    monkeypatch.setattr(impostors, "CHUNK", 11)
    X, y = noisy_classes()
    one, two = (LMNN(n_jobs=n).fit(X, y).components_ for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_unlabelled_rows_take_no_part_but_are_found():
    X, y = noisy_classes()
    more = np.concatenate([X, X[:5] + 0.01])
    with_unlabelled = LMNN(standardize=False).fit(more, np.append(y, [-1] * 5))
    np.testing.assert_allclose(
        with_unlabelled.components_, LMNN(standardize=False).fit(X, y).components_
    )
    assert 45 in with_unlabelled.kneighbors(X[:1], 2, return_distance=False)


def test_it_says_what_it_cannot_use():
    X, y = noisy_classes()
    for extra in ({"pairs": [[0, 1]], "pair_labels": [1]}, {"triplets": [[0, 1, 2]]}):
        with pytest.raises(TypeError, match=r"cannot learn from .*: it learns from labels y"):
            LMNN().fit(X, y, **extra)
    with pytest.raises(ValueError, match="requires y"):
        LMNN().fit(X)


def test_odd_labels():
    X, y = noisy_classes()
    with pytest.raises(ValueError, match="y has 1 class among 45 labelled rows"):
        LMNN().fit(X, np.zeros(45, int))
    with pytest.raises(ValueError, match="y has 0 classes among 0 labelled rows"):
        LMNN().fit(X, np.full(45, -1))
    with pytest.raises(ValueError, match="each of the 9 classes of y has a single row"):
        LMNN().fit(X[:9], np.arange(9))
    y[0] = 7  # a class of one row, and classes of fewer rows than target neighbours
    assert LMNN(n_neighbors=30).fit(X, y).objective_ > 0


def test_identical_rows():
    X, y = noisy_classes()
    assert np.isfinite(LMNN().fit(np.repeat(X, 3, axis=0), np.repeat(y, 3)).objective_)
    same = LMNN(n_neighbors=1).fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert same.objective_ == pytest.approx(0.5 * 6 * 3)
    assert not same.pairwise_distances(np.ones((2, 2))).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be at least 1, got 0"),
        ({"mu": 1.0}, r"mu must be in \(0.0, 1.0\), got 1.0"),
        ({"tol": 0}, r"tol must be in \(0.0, 1.0\), got 0"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
    ],
)
def test_parameters_out_of_bounds(parameters, message):
    with pytest.raises(ValueError, match=message):
        LMNN(**parameters).fit(*noisy_classes())


def test_not_converged_warns():
    with pytest.warns(ConvergenceWarning, match="LMNN has not converged in 2 steps"):
        LMNN(max_iter=2).fit(*noisy_classes())


def test_failed_fit_leaves_no_trace(monkeypatch):
    X, y = noisy_classes()
    lmnn = LMNN()
    with pytest.raises(ValueError, match="y has 44 labels"):
        lmnn.fit(X, y[:-1])
    assert vars(lmnn) == vars(LMNN())
    before = dict(vars(lmnn.fit(X, y)))

    def interrupted(*_args, **_keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "find_impostors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lmnn.fit(X[:, :3], y)
    assert vars(lmnn) == before


def test_progress_on_standard_error(capsys):
    LMNN(verbose=1).fit(*noisy_classes())
    captured = capsys.readouterr()
    assert "LMNN step" in captured.err
    assert not captured.out


@pytest.mark.parametrize("name", ["segmentation", "ionosphere"])
def test_better_than_euclidean(name):
    X, y = load(name)
    learned, plain = [], []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        lmnn = LMNN().fit(X[train], y[train])
        for scores, Z in (
            (learned, lmnn.transform(X)),
            (plain, (X - lmnn.mean_) / lmnn.scale_),
        ):
            scores.append(KNeighborsClassifier(5).fit(Z[train], y[train]).score(Z[test], y[test]))
    assert np.mean(learned) > np.mean(plain) + 0.01
