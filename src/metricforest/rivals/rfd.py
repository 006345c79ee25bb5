"""Random forest distance (Xiong, Johnson, Xu and Corso, KDD 2012).

A forest learns to distinguish cannot-links from must-links by the features ``[|a - b|, (a + b) / 2]`` of a
pair: how far apart its ends are, and where. The distance of two rows is the share of the vote for
"cannot-link". scikit-learn grows the trees. To measure, the pairs of a block go down a tree together:
every node sends its list of pairs on in two lists, which in a search is two to three times as fast as
pair by pair. Blocks are small enough for the cache, and memory does not grow with the answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

from ..checks import check_choice, check_max_features, check_whole
from ..core import kernel
from ..storage.sklearn_trees import LEAF, pack, unpack
from ..storage.values import check_array
from .paired import PairMetric

TREES = ("random-forest", "extra-trees")
AUTO_SAMPLES = 30_000  # most pairs per tree with max_samples="auto"
LARGEST = 1e15  # far outliers are cut there before they become float32
BLOCK = 16_384  # pairs measured at once, at most
BLOCK_HEIGHT = 32  # first rows of a block of a matrix, at most
BLOCK_NUMBERS = 1_250_000  # numbers in the second rows of a block, at most


class Votes(NamedTuple):
    """What measuring needs of T trees, M nodes in all."""

    root: np.ndarray  # int64 [T]
    left: np.ndarray  # int32 [M]      LEAF at a leaf
    right: np.ndarray  # int32 [M]
    feature: np.ndarray  # int32 [M]
    cut: np.ndarray  # float32 [M]     a pair goes left if its feature is at most this
    share: np.ndarray  # float64 [M]   of cannot-links
    depth: int  # of the deepest tree


class RandomForestDistance(PairMetric):
    """Random forest distance: the vote of a forest on whether two rows are a cannot-link.

    Distances are symmetric and lie in [0, 1]. A row need not be at distance 0 from itself or from an
    equal row, and the triangle inequality does not hold. There is no map, so neighbours are found by
    measuring every row.

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees.
    trees : {"random-forest", "extra-trees"}, default="random-forest"
        A random-forest classifier, or extremely randomised regression trees (with
        ``max_features="log2"`` the choice of the authors' own program): quicker, often less exact.
    max_features : int, float, "sqrt", "log2" or None, default="sqrt"
        Features of a pair, of which there are two for every column, that a split may use.
    min_samples_leaf : int, default=1
        Fewest pairs in a leaf.
    max_samples : "auto", int or None, default="auto"
        Pairs drawn (with replacement) for each tree. "auto" draws as many as there are, at most
        30,000: beyond that time and size of the model grow with the pairs. None sets no limit; with
        extra-trees it uses every pair once.
    n_constraints : "auto" or int, default="auto"
        How many pairs to draw from `y`. "auto": 1,000 per class, from 5,000 labelled rows on at
        least 30,000 in all, from 40,000 on 600,000; a third of them must-links.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first. To trees it makes no difference but
        the digits that float32 keeps.
    n_jobs : int, default=None
        Trees grown, and blocks of pairs measured, at once. None is 1 unless in a
        `joblib.parallel_config`; -1 uses all cores. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs and the trees.
    verbose : int, default=0
        1 shows how many trees are grown.

    Attributes
    ----------
    forest_ : RandomForestClassifier or ExtraTreesRegressor
        The forest over pair features.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had names.
    mean_, scale_ : ndarray of shape (`n_features_in_`,)
        What is subtracted from rows, and what `standardize` divides them by; ones without it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import RandomForestDistance
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = RandomForestDistance(20, n_constraints=300, random_state=0).fit(X, y)
    >>> near, far = metric.pair_distance(X[[0, 0]], X[[1, 100]])
    >>> bool(near < far)
    True
    """

    bounded = True
    forest_: Any

    def __init__(
        self,
        n_estimators: int = 500,
        trees: str = "random-forest",
        max_features: int | float | str | None = "sqrt",
        min_samples_leaf: int = 1,
        max_samples: int | str | None = "auto",
        n_constraints: int | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.trees = trees
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.n_constraints = n_constraints
        self.standardize = standardize
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_estimators", 1)
        check_choice(self, "trees", TREES)
        check_max_features(self)
        check_whole(self, "min_samples_leaf", 1)
        if isinstance(self.max_samples, str):
            check_choice(self, "max_samples", ("auto",))
        elif self.max_samples is not None:
            check_whole(self, "max_samples", 1)

    def _learn(self, rows, must, cannot, rng) -> None:
        if not (len(must) and len(cannot)):
            raise ValueError(
                "RandomForestDistance learns to distinguish must-links from cannot-links and "
                "needs both kinds: got "
                f"{len(must)} must-links and {len(cannot)} cannot-links"
            )
        pairs = np.concatenate([must, cannot])
        is_cannot = np.repeat([0, 1], [len(must), len(cannot)])
        limit: Any = AUTO_SAMPLES if self.max_samples == "auto" else self.max_samples
        most = len(pairs) if limit is None else int(limit)
        capped = most < len(pairs)
        settings: dict[str, Any] = {
            "n_estimators": int(self.n_estimators),
            "max_features": self.max_features,
            "min_samples_leaf": int(self.min_samples_leaf),
            "max_samples": most if capped else None,
            "bootstrap": capped or self.trees == "random-forest",
            "n_jobs": self.n_jobs,
            "random_state": int(rng.integers(np.iinfo(np.int32).max)),
            "verbose": self.verbose,
        }
        grower = RandomForestClassifier if self.trees == "random-forest" else ExtraTreesRegressor
        data = as_float32(rows)
        features = np.empty((len(pairs), 2 * data.shape[1]), np.float32)
        for low in range(0, len(pairs), BLOCK):
            i, j = pairs[low : low + BLOCK].T
            features[low : low + BLOCK] = pair_features(data[i], data[j])
        self.forest_ = grower(**settings).fit(features, is_cannot)
        self._votes = votes_of(self.forest_)

    def _index(self, rows: np.ndarray) -> None:
        self._keep(as_float32(rows))

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "forest_": pack(self.forest_)}

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        packed = state.pop("forest_")  # by what it is: the parameter may have been set since `fit`
        like = ExtraTreesRegressor if packed.classes is None else RandomForestClassifier
        forest = unpack(packed, like(n_jobs=self.n_jobs))
        if packed.value.min() < 0.0 or packed.value.max() > 1.0:
            raise ValueError("a tree says something beside a share of pairs, from 0 to 1")
        super()._restore(state)
        self.forest_ = forest
        self._votes = votes_of(forest)
        d = self.n_features_in_
        check_array(self._rows, "_rows", np.float32, (None, d))
        if forest.n_features_in_ != 2 * d:
            raise ValueError(f"the forest has {forest.n_features_in_} features, not {2 * d}")

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_votes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "forest_"):
            self._votes = votes_of(self.forest_)

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        return as_float32((X - self.mean_) / self.scale_)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        distance = np.empty(len(A))
        length = most_rows(A)

        def measure(low: int) -> None:
            part = slice(low, low + length)
            ends = np.arange(len(distance[part]), dtype=np.uint16)
            distance[part] = vote(self._votes, columns(A[part]), columns(B[part]), ends, ends)

        self._in_parallel(measure, [(low,) for low in range(0, len(A), length)])
        return distance

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        distance = np.empty((len(A), len(B)))
        height = max(1, min(len(A), BLOCK_HEIGHT))
        width = max(1, min(BLOCK // height, most_rows(B)))

        def measure(top: int, low: int) -> None:
            block = distance[top : top + height, low : low + width]
            first, second = np.indices(block.shape, np.uint16).reshape(2, -1)
            a, b = columns(A[top : top + height]), columns(B[low : low + width])
            block[:] = vote(self._votes, a, b, first, second).reshape(block.shape)

        corners = [
            (top, low) for low in range(0, len(B), width) for top in range(0, len(A), height)
        ]
        self._in_parallel(measure, corners)
        return distance

    def _in_parallel(self, measure: Any, blocks: list[tuple[int, ...]]) -> None:
        Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(measure)(*block) for block in blocks
        )


def votes_of(forest: Any) -> Votes:
    """The nodes of a fitted forest, one tree after the other."""
    trees = [estimator.tree_ for estimator in forest.estimators_]
    root = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    start = np.repeat(root, [tree.node_count for tree in trees])
    left, right = joined("children_left"), joined("children_right")
    # Features are float32: the largest float32 that is not above a threshold cuts them as it does.
    threshold = joined("threshold")
    with np.errstate(over="ignore"):
        cut = threshold.astype(np.float32)
    cut = np.where(cut > threshold, np.nextafter(cut, np.float32(-np.inf)), cut)
    return Votes(
        root,
        np.where(left == LEAF, LEAF, start + left).astype(np.int32),
        np.where(left == LEAF, LEAF, start + right).astype(np.int32),
        joined("feature").astype(np.int32),
        cut,
        # a classifier's last class, a regressor's mean
        np.concatenate([tree.value[:, 0, -1] for tree in trees]),
        max(tree.max_depth for tree in trees),
    )


@kernel
def vote(trees, A, B, first, second):
    """Mean share of cannot-links in the leaves of pairs p: columns first[p] of A, second[p] of B."""
    n, d = first.size, len(A)
    distance = np.zeros(n)
    here, there = np.empty(n, np.uint32), np.empty(n, np.uint32)
    stack = np.empty((trees.depth + 2, 4), np.int64)
    for root in trees.root:
        for p in range(n):
            here[p] = p
        # A node, where the list of its pairs begins and ends, and whether it is `there`. The two
        # lists that a node makes share its place, in the other array: one from the front, one from
        # the back.
        stack[0] = root, 0, n, 0
        top = 0
        while top >= 0:
            node, low, high, side = stack[top]
            top -= 1
            given, made = (there, here) if side else (here, there)
            if trees.left[node] == LEAF:
                for k in range(low, high):
                    distance[given[k]] += trees.share[node]
                continue
            front, back = low, high - 1
            j, cut = trees.feature[node], trees.cut[node]
            if j < d:
                a, b = A[j], B[j]
                for k in range(low, high):
                    p = given[k]
                    left = np.int64(abs(a[first[p]] - b[second[p]]) <= cut)
                    made[front] = made[back] = p
                    front += left
                    back -= 1 - left
            else:
                a, b = A[j - d], B[j - d]
                for k in range(low, high):
                    p = given[k]
                    left = np.int64((a[first[p]] + b[second[p]]) * np.float32(0.5) <= cut)
                    made[front] = made[back] = p
                    front += left
                    back -= 1 - left
            if front < high:
                top += 1
                stack[top] = np.int64(trees.right[node]), front, high, 1 - side
            if front > low:
                top += 1
                stack[top] = np.int64(trees.left[node]), low, front, 1 - side
    for p in range(n):
        distance[p] /= trees.root.size
    return distance


def most_rows(rows: np.ndarray) -> int:
    """How many of such rows a block may have."""
    return max(1, min(BLOCK, BLOCK_NUMBERS // rows.shape[1]))


def columns(rows: np.ndarray) -> np.ndarray:
    """The rows' features one after the other, as `vote` reads them."""
    return np.ascontiguousarray(rows.T)


def as_float32(rows: np.ndarray) -> np.ndarray:
    return np.clip(rows, -LARGEST, LARGEST).astype(np.float32)


def pair_features(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """[|a - b|, (a + b) / 2] row by row, float32 [m, 2d]."""
    return np.concatenate([np.abs(A - B), (A + B) * np.float32(0.5)], axis=1)
