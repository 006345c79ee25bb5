"""The estimator: rows, labels and parameters that it takes or refuses, and what holds for any of them."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import FEW, assert_same_bits, learn, numbers
from metricforest import HierarchyForest
from metricforest.core import check_forest

# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (np.where(np.eye(6) > 0, np.nan, 1.0), ValueError, "contains NaN"),
        (np.where(np.eye(6) > 0, np.inf, 1.0), ValueError, "contains infinity"),
        (np.empty((0, 3)), ValueError, r"0 sample\(s\) .*minimum of 1"),
        (np.empty((5, 0)), ValueError, r"0 feature\(s\)"),
        (np.arange(5.0), ValueError, "Expected 2D array, got 1D"),
        (np.zeros((2, 2, 2)), ValueError, "dim 3|expected <= 2|3 dim"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, "convert"),
        (np.array([[1, "b"], [2, "d"]], object), ValueError, "convert"),
        (numbers() + 1j, ValueError, "Complex data not supported"),
        (scipy.sparse.csr_matrix(numbers()), TypeError, "[Ss]parse"),
        (
            np.array([[1e200], [-1e200], [0]]),
            ValueError,
            "X holds 1e[+]200; its variance overflows",
        ),
    ],
)
def test_bad_rows_raise(X, error, match):
    with pytest.raises(error, match=match):
        HierarchyForest(n_estimators=1).fit(X)


def test_huge_values_need_standardising():
    X = numbers() * 1e30
    metric = learn(X)
    check_forest(metric.forest_, 3)
    assert_same_bits(metric, learn(X))
    assert metric.pairwise_distances(X).max() > 0.05
    with pytest.raises(ValueError, match=r"X holds .*e\+30; .*must not exceed 1e\+15"):
        HierarchyForest(n_estimators=1, standardize=False).fit(X)


def test_far_queries_are_measured(small, small_forest):
    X = small[0]
    far = np.full((2, 5), 1e300)
    far[1] = -1e300
    D = small_forest.pairwise_distances(far, X)
    assert np.isfinite(D).all()
    assert ((D >= 0) & (D <= 1)).all()


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.zeros((2, 4)), "X has 4 features, but HierarchyForest is expecting 5"),
        (np.full((2, 5), np.nan), "contains NaN"),
        (np.full((2, 5), -np.inf), "contains infinity"),
    ],
)
def test_bad_queries_raise(small_forest, rows, match):
    for measure in (small_forest.pairwise_distances, lambda A: small_forest.pair_distance(A, A)):
        with pytest.raises(ValueError, match=match):
            measure(rows)


def test_metric_function_refuses_nan(small_forest):
    with pytest.raises(ValueError, match="NaN"):
        small_forest.get_metric()(np.full(5, np.nan), np.zeros(5))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"pairs": [[0, 20]], "pair_labels": [1]}, r"\[0, 20\] is out of range: X has 20 rows"),
        ({"pairs": [[0, -1]], "pair_labels": [1]}, r"\[0, -1\] is out of range"),
        ({"pairs": [[0, 1.5]], "pair_labels": [1]}, "not integral"),
        ({"pairs": [[0, 1]], "pair_labels": [3]}, "got 3"),
        ({"pairs": [[0, 1]], "pair_labels": [1, 1]}, "1 pairs, pair_labels of shape"),
        ({"pairs": [[2, 2]], "pair_labels": [1]}, r"\[2, 2\] pairs a row with itself"),
        ({"pairs": [[0, 1]]}, "without pair_labels"),
        ({"pair_labels": [1]}, "pair_labels were given without pairs"),
        ({"triplets": [[0, 1, 20]]}, r"triplets\[0\] = \[0, 1, 20\] is out of range"),
        ({"triplets": [[0, 1, 1]]}, "names a row twice"),
        ({"y": np.zeros(19)}, "y has 19 labels, X has 20 rows"),
        ({"y": np.linspace(0, 1, 20)}, "continuous"),
    ],
)
def test_bad_labelled_pairs_raise(given, match):
    with pytest.raises(ValueError, match=match):
        HierarchyForest(n_estimators=1).fit(numbers(), **given)


def test_pairs_of_the_whole_do_not_fit_a_part(small):
    """What goes wrong when rows are cut and pairs are not: caught, never other rows in silence."""
    X, _, pairs, labels = small
    with pytest.raises(ValueError, match="see PairKFold"):
        HierarchyForest(n_estimators=1).fit(X[:30], pairs=pairs, pair_labels=labels)


@pytest.mark.parametrize(
    ("name", "value", "error", "match"),
    [
        ("n_estimators", 0, ValueError, "n_estimators must be at least 1, got 0"),
        ("n_estimators", 2.5, TypeError, "n_estimators must be an int, got 2.5"),
        ("n_estimators", True, TypeError, "n_estimators must be an int, got True"),
        ("n_estimators", None, TypeError, "n_estimators must be an int, got None"),
        ("min_node_size", 0, ValueError, "min_node_size must be at least 1, got 0"),
        ("min_node_size", "5", ValueError, "min_node_size must be one of auto.*got '5'"),
        ("min_node_size", 5.0, TypeError, "min_node_size must be an int, got 5.0"),
        ("tol", 0.0, ValueError, r"tol must be in \(0.0, .*got 0.0"),
        ("tol", 2, ValueError, "tol must be in .*got 2"),
        ("tol", "low", TypeError, "tol must be a number, got 'low'"),
        ("reg_lambda", 0.0, ValueError, r"reg_lambda must be in \(0.0, .*got 0.0"),
        ("reg_lambda", 1e-9, ValueError, "reg_lambda must be at least 1e-8, got 1e-09"),
        ("reg_lambda", np.nan, ValueError, "reg_lambda must be in .*got nan"),
        ("reg_lambda", np.inf, ValueError, "reg_lambda must be in .*got inf"),
        ("reg_lambda", "small", TypeError, "reg_lambda must be a number, got 'small'"),
        ("C", -0.1, ValueError, r"C must be in \[0.0, .*got -0.1"),
        ("C", None, TypeError, "C must be a number, got None"),
        ("cannot_link_fraction", 0.0, ValueError, r"in \(0.0, 1.0\], got 0.0"),
        ("cannot_link_fraction", 1.01, ValueError, r"in \(0.0, 1.0\], got 1.01"),
        ("alpha", 0.0, ValueError, r"alpha must be in \(0.0, .*got 0.0"),
        ("alpha", -1, ValueError, "alpha must be in .*got -1"),
        ("solver", "adam", ValueError, "solver must be one of newton, lbfgs.*got 'adam'"),
        ("solver", None, ValueError, "solver must be one of .*got None"),
        ("n_constraints", -1, ValueError, "n_constraints must be at least 0, got -1"),
        ("n_constraints", "many", TypeError, "n_constraints must be .*got 'many'"),
        ("n_constraints", 1.5, TypeError, "n_constraints must be .*got 1.5"),
        ("standardize", "no", TypeError, "standardize must be True or False, got 'no'"),
        ("warm_start", 1, TypeError, "warm_start must be True or False, got 1"),
        ("keep_certainties", None, TypeError, "keep_certainties must be True or False, got None"),
        ("max_features", 0, ValueError, "max_features must be at least 1, got 0"),
        ("max_features", 0.0, ValueError, r"max_features must be in \(0.0, 1.0\], got 0.0"),
        ("max_features", 1.5, ValueError, "max_features must be in .*got 1.5"),
        ("max_features", 4, ValueError, "max_features=4 is more than the 3 features"),
        ("max_features", "third", ValueError, "max_features must be .*got 'third'"),
        ("max_features", True, TypeError, "max_features must be a number, got True"),
        ("n_jobs", 0, ValueError, "n_jobs must be None or an int other than 0"),
        ("random_state", "seed", ValueError, "seed"),
    ],
)
def test_bad_parameters_raise(name, value, error, match):
    with pytest.raises(error, match=match):
        HierarchyForest(**{"n_estimators": 1, name: value}).fit(numbers())


def test_numpy_numbers_are_parameters_too():
    X = numbers()
    given = {"n_estimators": np.int64(2), "C": np.float32(0.5), "max_features": np.int32(2)}
    plain = {name: value.item() for name, value in given.items()}
    found, expected = (HierarchyForest(**one, random_state=0).fit(X) for one in (given, plain))
    np.testing.assert_array_equal(found.pairwise_distances(X), expected.pairwise_distances(X))
    assert found.forest_.n_trees == 2


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_are_one_leaf(n):
    metric = learn(numbers(n))
    check_forest(metric.forest_, 3)
    assert metric.forest_.n_splits == 0
    np.testing.assert_array_equal(metric.pairwise_distances(numbers(n)), np.zeros((n, n)))


def test_few_rows_with_pairs():
    metric = learn(numbers(2), pairs=[[0, 1]], pair_labels=[-1])
    np.testing.assert_array_equal(metric.pairwise_distances(numbers(2)), np.zeros((2, 2)))


@pytest.mark.parametrize("labelled", [True, False])
def test_identical_rows_are_at_no_distance(labelled):
    X = np.full((30, 4), 2.5)
    given = {"pairs": [[0, 1], [2, 3]], "pair_labels": [1, -1]} if labelled else {}
    metric = learn(X, **given)
    check_forest(metric.forest_, 4)
    np.testing.assert_array_equal(metric.pairwise_distances(X), np.zeros((30, 30)))


def test_one_feature():
    X = np.linspace(0, 1, 40)[:, None]
    metric = learn(X, np.arange(40) // 20)
    check_forest(metric.forest_, 1)
    assert metric.pair_distance(X[:1], X[-1:])[0] > metric.pair_distance(X[:1], X[1:2])[0]


def test_constant_features_are_never_used():
    X = numbers(40, 4)
    X[:, 2] = 7.0
    metric = HierarchyForest(n_estimators=FEW, max_features=None, random_state=0).fit(X)
    used = metric.forest_.features[(metric.forest_.weights[:, :-1] != 0)]
    assert set(used.tolist()) == {0, 1, 3}
    moved = X.copy()
    moved[:, 2] = -1e6
    np.testing.assert_array_equal(metric.pair_distance(X, moved), 0)


def test_duplicate_pairs_are_merged(small):
    X, _, pairs, labels = small
    twice = learn(X, pairs=np.concatenate([pairs, pairs[:, ::-1]]), pair_labels=np.tile(labels, 2))
    assert_same_bits(twice, learn(X, pairs=pairs, pair_labels=labels))


def test_contradictory_pairs_warn_and_stay(small):
    X, _, pairs, labels = small
    with pytest.warns(UserWarning, match="3 pairs are labelled both must-link and cannot-link"):
        metric = learn(
            X,
            pairs=np.concatenate([pairs, pairs[:3, ::-1]]),
            pair_labels=np.concatenate([labels, -labels[:3]]),
        )
    assert len(metric.constraints_.kind) == len(pairs) + 3


def test_labels_minus_one_and_one_warn(small):
    with pytest.warns(UserWarning, match="-1 means unlabelled"):
        learn(small[0], np.where(small[1] == 0, 1, -1))


def test_string_labels(small):
    X, classes, _, _ = small
    words = np.array(["apple", "bicycle", "orange"])[classes]
    assert_same_bits(learn(X, words), learn(X, classes))
    assert_same_bits(learn(X, words.astype(object)), learn(X, classes))


@pytest.mark.parametrize("y", [[-1] * 20, [0] * 20, [0] + [-1] * 19])
def test_labels_that_part_nothing(y):
    metric = learn(numbers(), y)
    check_forest(metric.forest_, 3)
    assert (metric.constraints_.kind == 0).all()


# --------------------------------------------------------------------------------- kinds of arrays


def variants(X, path):
    mapped = np.lib.format.open_memmap(path, "w+", X.dtype, X.shape)
    mapped[:] = X
    mapped.flush()
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    return {
        "fortran": np.asfortranarray(X),
        "read-only": frozen,
        "memory-mapped": np.load(path, mmap_mode="r"),
        "strided": wide[:, ::2],
        "reversed": X[::-1].copy()[::-1],
        "object": X.astype(object),
        "list": X.tolist(),
    }


@pytest.mark.parametrize(
    "kind", ["fortran", "read-only", "memory-mapped", "strided", "reversed", "object", "list"]
)
def test_kinds_of_arrays(small, tmp_path, kind):
    X, _, pairs, labels = small
    given = variants(X.copy(), tmp_path / "X.npy")[kind]
    metric = learn(given, pairs=pairs, pair_labels=labels)
    expected = learn(X, pairs=pairs, pair_labels=labels)
    assert_same_bits(metric, expected)
    np.testing.assert_array_equal(metric.pairwise_distances(given), expected.pairwise_distances(X))
    np.testing.assert_array_equal(np.asarray(given, float), X)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8])
def test_dtypes(dtype):
    X = np.round(numbers(40, 3) * 20 + 60).astype(dtype)
    before = X.copy()
    metric = learn(X, np.arange(40) % 2)
    D = metric.pairwise_distances(X)
    expected = learn(X.astype(float), np.arange(40) % 2)
    assert_same_bits(metric, expected)
    np.testing.assert_array_equal(D, expected.pairwise_distances(X.astype(float)))
    np.testing.assert_array_equal(X, before)
    assert X.dtype == dtype


def test_read_only_labelled_pairs(small):
    X, classes, pairs, labels = small
    assert not pairs.flags.writeable
    before = pairs.copy(), labels.copy(), classes.copy()
    learn(X, classes, pairs=pairs, pair_labels=labels)
    for now, then in zip((pairs, labels, classes), before, strict=True):
        np.testing.assert_array_equal(now, then)


# ------------------------------------------------------------------------------------ properties


@st.composite
def problems(draw):
    """(X, pairs, labels): small, with ties, duplicates and constant columns among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 40)), draw(st.integers(1, 5))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = np.round(X)
    if draw(st.booleans()):
        X[rng.integers(0, n, n // 2)] = X[0]
    if draw(st.booleans()):
        X[:, rng.integers(d)] = draw(st.sampled_from([0.0, -3.0, 1e6]))
    pairs = rng.integers(0, n, (draw(st.integers(0, 60)), 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    return X, pairs, rng.choice([-1, 1], len(pairs))


def learned_from(X, pairs, labels, min_node_size=2):
    metric = HierarchyForest(n_estimators=4, min_node_size=min_node_size, random_state=0)
    return metric.fit(X, pairs=pairs, pair_labels=labels)


@given(problems(), st.sampled_from([1, 2, 5]))
@settings(max_examples=20)
def test_distance_is_a_symmetric_dissimilarity(problem, min_node_size):
    X, pairs, labels = problem
    metric = learned_from(X, pairs, labels, min_node_size)
    check_forest(metric.forest_, X.shape[1])
    queries = np.concatenate([X, X[:3] + 0.5])
    D = metric.pairwise_distances(queries)
    np.testing.assert_allclose(D, D.T, atol=1e-15)
    np.testing.assert_array_equal(np.diag(D), 0)
    assert ((D >= 0) & (D < 1)).all()


@given(problems())
def test_distance_is_zero_inside_a_leaf_and_between_equal_rows(problem):
    X, pairs, labels = problem
    metric = learned_from(X, pairs, labels)
    forest = metric.forest_
    together = np.zeros((len(X), len(X)), int)
    for t in range(forest.n_trees):
        for node in range(forest.root[t], forest.root[t + 1]):
            if forest.left[node] < 0:
                inside = forest.order[t, forest.start[node] : forest.stop[node]]
                together[np.ix_(inside, inside)] += 1
    D = metric.pairwise_distances(X)
    assert (D[together == forest.n_trees] == 0).all()
    equal = (X[:, None] == X[None]).all(axis=2)
    assert (together[equal] == forest.n_trees).all()
    assert (D[equal] == 0).all()


@given(problems(), st.randoms(use_true_random=False))
def test_order_and_ends_of_pairs_do_not_matter(problem, random):
    X, pairs, labels = problem
    order = list(range(len(pairs)))
    random.shuffle(order)
    flipped = np.array([pairs[k][:: random.choice([1, -1])] for k in order], int).reshape(-1, 2)
    a = learned_from(X, pairs, labels)
    b = learned_from(X, flipped, labels[order])
    assert_same_bits(a, b)


@given(problems())
def test_constant_column_changes_nothing_but_the_draw(problem):
    """With all features allowed, a column that never varies is as good as none."""
    X, pairs, labels = problem
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    given = {"pairs": pairs, "pair_labels": labels}
    metric = HierarchyForest(n_estimators=3, max_features=None, random_state=0).fit(wide, **given)
    check_forest(metric.forest_, wide.shape[1])
    assert (metric.forest_.weights[:, :-1][metric.forest_.features == X.shape[1]] == 0).all()
    other = wide.copy()
    other[:, -1] = 8.0
    np.testing.assert_array_equal(metric.pair_distance(wide, other), 0)


def test_order_of_triplets_does_not_matter(small):
    X, _classes, _, _ = small
    triplets = np.array([(i, i + 3, i + 1) for i in range(56)])
    rng = np.random.default_rng(0)
    assert_same_bits(
        learn(X, triplets=triplets), learn(X, triplets=rng.permutation(triplets, axis=0))
    )
