"""Random forest distance (Xiong, Johnson, Xu and Corso, KDD 2012).

A forest learns to distinguish cannot-links from must-links by the features ``[|a - b|, (a + b) / 2]`` of a
pair: how far apart its ends are, and where. The distance of two rows is the share of the vote for
"cannot-link". scikit-learn grows the trees, `pair_trees` measures by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

from ..checks import check_choice, check_max_features, check_whole
from ..storage.sklearn_trees import pack, unpack
from .pair_trees import PairTrees, Votes, as_float32, both_kinds, features_of, votes_of

TREES = ("random-forest", "extra-trees")
AUTO_SAMPLES = 30_000  # most pairs per tree with max_samples="auto"


class RandomForestDistance(PairTrees):
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
        As in `HierarchyForest`: pairs to draw from `y`.
    standardize : bool, default=True
        As in `Euclidean`. To trees it makes no difference but the digits that float32 keeps.
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
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

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
        super().__init__(n_constraints, standardize, n_jobs, random_state)
        self.n_estimators = n_estimators
        self.trees = trees
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
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
        pairs, is_cannot = both_kinds(self, must, cannot)
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
        self.forest_ = grower(**settings).fit(features_of(as_float32(rows), pairs), is_cannot)
        self._votes = self._flat()

    def _flat(self) -> Votes:
        return votes_of(pack(self.forest_))

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
        self._votes = self._flat()
        if forest.n_features_in_ != 2 * self.n_features_in_:
            raise ValueError(
                f"the forest has {forest.n_features_in_} features, not {2 * self.n_features_in_}"
            )
