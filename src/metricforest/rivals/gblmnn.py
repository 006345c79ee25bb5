"""GB-LMNN: gradient boosting on top of LMNN's map (Kedem et al., NIPS 2012).

The map is phi(x) = L x + sum_t a_t h_t(x), h_t a regression tree with one output per dimension, grown
on x to fit minus the gradient of

    1/2 [ sum_ij d_ij + sum_ijl max(0, 1 + d_ij - d_il) ]

by the mapped rows. Targets j are the nearest of a row's class in the given features, for good;
impostors l are sought among the nearest rows of other classes in the map as it is, every few trees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from ..checks import check_max_features, check_real, check_whole
from ..storage.sklearn_trees import pack, unpack
from ..storage.values import check_array
from ..supervision import constraints as cn
from ..warn import warn
from . import rowwise
from .fitting import NeedsLabels, check_n_components, labelled_classes, refuse, say
from .impostors import Neighbors, join, margin_loss
from .lmnn import solve, warn_unfinished
from .mapped import MappedMetric

REFRESH = 10  # trees between two searches for impostors, and between two looks at held-out rows
N_CANDIDATES = 50  # nearest rows of other classes that may be impostors
PULL = PUSH = 0.5
SMALLEST = 1e-12  # a step below it changes nothing


class Grown(NamedTuple):
    """The map L x + sum_t weights[t] * trees[t](x)."""

    L: np.ndarray  # [r, d]
    trees: list[DecisionTreeRegressor]
    weights: list[float]
    errors: list[float]  # of the nearest neighbour on held-out rows, after 0, 10, 20, ... trees
    best: int  # number of trees with the smallest error


class GBLMNN(NeedsLabels, MappedMetric):
    """Gradient-boosted large margin nearest neighbours: LMNN's map, bent by regression trees.

    Learns from labels only; unlabelled rows are not used, but can be found. Where held-out rows
    say that no tree helps, it is LMNN.

    Parameters
    ----------
    n_estimators : int, default=200
        Trees at most. Every tenth tree the held-out rows are asked, and the best number is kept.
    learning_rate : float, default=0.01
        The first step along a tree. It grows by a hundredth with every tree; a step that would raise
        the loss is taken back and halved until it does not.
    max_depth : int, default=6
        Of every tree.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Features that each split of a tree looks at, as in scikit-learn's trees: None is all. Fewer
        are quicker: a tree costs rows x features looked at x dimensions of the map.
    validation_fraction : float, default=0.2
        Share of every class's rows held out to choose the number of trees; then all rows learn
        with that many. 0 grows `n_estimators` trees.
    n_iter_no_change : int, default=50
        Ends when so many trees have not made the held-out rows better.
    n_neighbors : int, default=3
        Target neighbours of every row; fewer for rows of a class that has no more.
    n_components : int, default=None
        Most dimensions of the mapped rows. None: as many as there are features.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Threads. None is 1 unless in a `joblib.parallel_config`; -1 uses all cores.
    random_state : int, RandomState instance or None, default=None
        Seeds the choice of the held-out rows and the trees.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, `n_features_in_`)
        LMNN's map of standardised rows.
    trees_ : list of DecisionTreeRegressor
        The trees; they read standardised rows as float32.
    tree_weights_ : ndarray of shape (n_trees,)
        The step along each tree.
    validation_errors_ : ndarray
        Share of held-out rows whose nearest neighbour is of another class, after 0, 10, 20, ... trees
        and after the last.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    References
    ----------
    D. Kedem, S. Tyree, F. Sha, G. Lanckriet and K. Q. Weinberger, "Non-linear Metric Learning",
    NIPS 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import GBLMNN
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = GBLMNN(n_estimators=20, random_state=0).fit(X, y)
    >>> metric.transform(X).shape
    (150, 4)
    """

    def __init__(
        self,
        n_estimators: int = 200,
        learning_rate: float = 0.01,
        max_depth: int = 6,
        max_features: int | float | str | None = None,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 50,
        n_neighbors: int = 3,
        n_components: int | None = None,
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        super().__init__(standardize, n_jobs)
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_features = max_features
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def _check_ready(self) -> None:
        super()._check_ready()
        check_n_components(self, self.n_features_in_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_estimators", "max_depth", "n_iter_no_change", "n_neighbors"):
            check_whole(self, name, 1)
        check_max_features(self)
        check_real(self, "learning_rate", 0.0, np.inf, open_low=True)
        check_real(self, "validation_fraction", 0.0, 1.0, open_low=False, open_high=True)

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        refuse(self, "labels y", pairs=pairs, pair_labels=pair_labels, triplets=triplets)
        rows = self._standardised(X)
        check_n_components(self, rows.shape[1])
        codes = labelled_classes(self, y, len(rows))
        rng = check_random_state(self.random_state)
        held = hold_out(codes, float(self.validation_fraction), rng)
        n_trees, errors = self.n_estimators, []
        if self.validation_fraction and not held.any():
            warn(
                f"no class of y has the 3 rows from which on one can be held out: all "
                f"n_estimators={self.n_estimators} trees are grown"
            )
        if held.any():
            learn = (codes != cn.UNLABELLED) & ~held
            parts = rows[learn], codes[learn], rows[held], codes[held]
            tried = self._grow(*parts, n_trees, rng)
            n_trees, errors = tried.best, tried.errors
        learn = codes != cn.UNLABELLED
        parts = rows[learn], codes[learn], rows[:0], codes[:0]
        grown = self._grow(*parts, n_trees, rng)
        self.components_ = grown.L
        self.trees_, self.tree_weights_ = grown.trees, np.array(grown.weights)
        self.validation_errors_ = np.array(errors)
        self._index(rows)

    def _grow(
        self,
        rows: np.ndarray,
        codes: np.ndarray,
        held_rows: np.ndarray,
        held_codes: np.ndarray,
        n_trees: int,
        rng: np.random.RandomState,
    ) -> Grown:
        """LMNN's map and at most n_trees on it, fewer where the held-out rows (if any) say so."""
        targets = cn.class_neighbors(rows, codes, self.n_neighbors, True, self.n_jobs)
        base = solve(
            rows,
            codes,
            targets,
            n_components=self.n_components,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        warn_unfinished(base)
        Z, held_Z = rows @ base.L.T, held_rows @ base.L.T
        rows, held_rows = rows.astype(np.float32), held_rows.astype(np.float32)
        rate = float(self.learning_rate)
        trees, weights, errors, best = [], [], [], 0
        for t in range(n_trees + 1):
            if t % REFRESH == 0 or t == n_trees:
                if len(held_Z):
                    nearest = KNeighborsClassifier(1, n_jobs=self.n_jobs).fit(Z, codes)
                    errors.append(1.0 - nearest.score(held_Z, held_codes))
                    if errors[-1] < min(errors[:-1], default=np.inf):
                        best = t
                    say(self.verbose, f"GBLMNN {t} trees: held-out error {errors[-1]:.4f}")
                if t == n_trees or (len(held_Z) and t - best >= self.n_iter_no_change):
                    break
                near = nearest_impostors(Z, codes, targets, self.n_jobs)
                now = margin_loss(Z, near, PULL, PUSH, n_jobs=self.n_jobs)
            tree = DecisionTreeRegressor(
                max_depth=self.max_depth,
                max_features=self.max_features,
                random_state=rng.randint(np.iinfo(np.int32).max),
            )
            tree.fit(rows, -now.gradient, check_input=False)
            move = outputs(tree, rows)
            then = margin_loss(Z + rate * move, near, PULL, PUSH, n_jobs=self.n_jobs)
            while then.value > now.value and rate > SMALLEST:
                rate /= 2.0
                then = margin_loss(Z + rate * move, near, PULL, PUSH, n_jobs=self.n_jobs)
            Z += rate * move
            held_Z += rate * outputs(tree, held_rows)
            trees.append(tree)
            weights.append(rate)
            now, rate = then, rate * 1.01
        return Grown(base.L, trees, weights, errors, best)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "trees_": pack(self.trees_) if self.trees_ else None}

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        packed = state.pop("trees_")
        trees = unpack(packed, DecisionTreeRegressor()) if packed is not None else []
        super()._restore(state)
        self.trees_ = trees
        r, d = self._n_features_out, self.n_features_in_
        check_array(self.components_, "components_", np.float64, (r, d))
        check_array(self.tree_weights_, "tree_weights_", np.float64, (len(trees),))
        for tree in trees:
            if (tree.n_features_in_, tree.n_outputs_) != (d, r):
                raise ValueError(f"a tree maps {tree.n_features_in_} to {tree.n_outputs_} features")

    def _map(self, rows: np.ndarray) -> np.ndarray:
        Z = rowwise.products(rows, self.components_, self._threads())
        single = rows.astype(np.float32)
        for tree, weight in zip(self.trees_, self.tree_weights_, strict=True):
            Z += weight * outputs(tree, single)
        return Z


def hold_out(codes: np.ndarray, fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Which rows to hold out: the share of every class, at least one, at least two left over."""
    held = np.zeros(len(codes), bool)
    if fraction == 0.0:
        return held
    for c in np.unique(codes[codes != cn.UNLABELLED]):
        inside = np.flatnonzero(codes == c)
        n = min(max(1, int(fraction * len(inside))), len(inside) - 2)
        if n > 0:
            held[rng.choice(inside, n, replace=False)] = True
    return held


def outputs(tree: DecisionTreeRegressor, rows: np.ndarray) -> np.ndarray:
    """What a tree says of float32 rows, always two-dimensional."""
    said = tree.predict(rows, check_input=False)
    return said[:, None] if said.ndim == 1 else said


def nearest_impostors(
    Z: np.ndarray, codes: np.ndarray, targets: np.ndarray, n_jobs: int | None
) -> Neighbors:
    """The targets, and the nearest mapped rows of other classes."""
    candidates = cn.class_neighbors(Z, codes, N_CANDIDATES, False, n_jobs)
    there = candidates >= 0
    return join(targets, there.sum(axis=1), candidates[there], complete=True)
