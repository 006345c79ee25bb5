"""Boosted trees on the features of pairs: what people use today for labelled pairs.

scikit-learn's HistGradientBoostingClassifier learns to distinguish cannot-links from must-links by
``[|a - b|, (a + b) / 2]``; its probability of "cannot-link" is the distance. Its trees are kept as flat
arrays, which `pair_trees` measures by and files hold.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from ..checks import check_auto, check_real, check_whole
from ..storage.sklearn_trees import DTYPES, LEAF, Trees, check
from .pair_trees import PairTrees, Votes, as_float32, both_kinds, features_of, votes_of

LEAF_PAIRS = 20, 5  # fewest in a leaf with "auto": from MANY pairs on, with fewer
MANY = 1_000
LARGEST = 1e100  # log-odds in a file: sums stay finite


class BoostedTreesDistance(PairTrees):
    """Boosted trees on pair features: the probability that two rows are a cannot-link.

    Distances are symmetric and lie in [0, 1]. A row need not be at distance 0 from itself or from an
    equal row, and the triangle inequality does not hold. There is no map, so neighbours are found by
    measuring every row.

    Parameters
    ----------
    n_estimators : int, default=200
        Number of trees.
    learning_rate : float, default=0.1
        Share of each tree's answer that is taken.
    max_leaf_nodes : int, default=31
        Most leaves of a tree.
    min_samples_leaf : "auto" or int, default="auto"
        Fewest pairs in a leaf. "auto": 20, or 5 where there are fewer than 1,000 pairs.
    n_constraints : "auto" or int, default="auto"
        As in `HierarchyForest`: pairs to draw from `y`.
    standardize : bool, default=True
        As in `Euclidean`. To trees it makes no difference but the digits that float32 keeps.
    n_jobs : int, default=None
        Blocks of pairs measured at once. None is 1 unless in a `joblib.parallel_config`; -1 uses all
        cores. The result does not depend on it. Learning uses one core.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs, and the choice of those that say where columns are cut, if they are
        more than 200,000.

    Attributes
    ----------
    trees_ : Trees
        The trees over pair features, as flat arrays.
    baseline_ : float
        Log-odds that the trees' answers are added to.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import BoostedTreesDistance
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = BoostedTreesDistance(20, n_constraints=300, random_state=0).fit(X, y)
    >>> near, far = metric.pair_distance(X[[0, 0]], X[[1, 100]])
    >>> bool(near < far)
    True
    """

    trees_: Trees
    baseline_: float

    def __init__(
        self,
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int | str = "auto",
        n_constraints: int | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(n_constraints, standardize, n_jobs, random_state)
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_estimators", 1)
        check_whole(self, "max_leaf_nodes", 2)
        check_real(self, "learning_rate", 0.0, 1.0, open_low=True)
        check_auto(self, "min_samples_leaf", 1)

    def _learn(self, rows, must, cannot, rng) -> None:
        pairs, is_cannot = both_kinds(self, must, cannot)
        least: Any = self.min_samples_leaf
        if least == "auto":
            least = LEAF_PAIRS[len(pairs) < MANY]
        model = HistGradientBoostingClassifier(
            learning_rate=float(self.learning_rate),
            max_iter=int(self.n_estimators),
            max_leaf_nodes=int(self.max_leaf_nodes),
            min_samples_leaf=int(least),
            early_stopping=cast(Any, False),  # as the stubs have it, a text
            random_state=int(rng.integers(np.iinfo(np.int32).max)),
        )
        features = features_of(as_float32(rows), pairs)
        with threadpool_limits(1, "openmp"):  # sums of several threads differ in the last digits
            model.fit(features, is_cannot)
        self.trees_ = flat_trees(model)
        self.baseline_ = float(np.ravel(model._baseline_prediction)[0])
        self._votes = self._flat()

    def _flat(self) -> Votes:
        return votes_of(self.trees_)

    def _measure(self, A: Any, B: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        mean = super()._measure(A, B, first, second)
        return expit(self.baseline_ + self._votes.root.size * mean)

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        if not isinstance(self.trees_, Trees):
            raise ValueError(f"trees_ is {type(self.trees_).__name__}")
        check(self.trees_)
        if self.trees_.n_features != 2 * self.n_features_in_:
            raise ValueError(
                f"the trees have {self.trees_.n_features} features, not {2 * self.n_features_in_}"
            )
        if type(self.baseline_) is not float or not abs(self.baseline_) <= LARGEST:
            raise ValueError(f"baseline_ is {str(self.baseline_)[:80]}")
        if self.trees_.value.shape[1:] != (1, 1) or np.abs(self.trees_.value).max() > LARGEST:
            raise ValueError(f"a tree says more than one number, or one beyond {LARGEST:g}")
        self._votes = self._flat()


def flat_trees(model: HistGradientBoostingClassifier) -> Trees:
    """The trees of a fitted model for two classes; there is no public way to read them."""
    nodes = [iteration[0].nodes for iteration in model._predictors]
    if any(tree["is_categorical"].any() for tree in nodes):
        raise TypeError("trees that ask for categories cannot be kept")
    joined: Any = np.concatenate(nodes)
    leaf = joined["is_leaf"].astype(bool)
    arrays = {
        "root": np.cumsum([0, *map(len, nodes)]),
        "left": np.where(leaf, LEAF, joined["left"].astype(np.int64)),
        "right": np.where(leaf, LEAF, joined["right"].astype(np.int64)),
        "feature": np.where(leaf, 0, joined["feature_idx"]),
        "threshold": np.where(leaf, 0.0, joined["num_threshold"]),
        "impurity": np.zeros(len(joined)),
        "n_samples": joined["count"],
        "weight": joined["count"],
        "missing_left": joined["missing_go_to_left"],
        "value": joined["value"][:, None, None],
    }
    kept = {name: array.astype(DTYPES[name]) for name, array in arrays.items()}
    return Trees(int(model.n_features_in_), None, **kept)
