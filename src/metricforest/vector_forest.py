"""`VectorForest`: the vectors of forests, and linear maps of them that labelled pairs teach.

The sizes of a forest's clusters know nothing of the labelled pairs but the splits that these chose: from some
hundred pairs on a forest of sizes hardly learns more. What it gives is good vectors, and there a linear map
goes on learning (`supervision.linear_map`), if it is learned from pairs that the trees did not see: their own
pairs lie nearer or farther in their vectors than other pairs do.

So the labelled pairs are cut into parts, and a group of trees is grown without each. Its vectors are mapped
by what the left-out pairs teach, and a row's vector is that of all groups, one after the other: the squared
distance is the sum over the groups. How free the maps are, and by how many features the trees split, is
chosen on the left-out pairs, each part of which is measured by maps that have not seen it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .checks import check_choice, check_max_features, check_real, check_whole
from .core import Forest, check_forest, read_only, with_heights
from .forest_fit import prepare
from .hierarchy import HierarchyForest
from .rivals import rowwise
from .rivals.mapped import MappedMetric
from .rivals.paired import PairMetric
from .search.vectors import Projection, place, placer
from .storage.values import check_array
from .supervision import linear_map
from .supervision.left_out import leave_out
from .supervision.linear_map import Pairs
from .transform import unpack
from .warn import warn

THIRD = 1 / 3  # of the features, or all of them: what "auto" chooses between
MANY_FEATURES = 50  # with more, splits by all of them are slow and seldom better
LEAST = 10  # left-out pairs of each kind per group that a map is learned from
LEFT_OUT = 1e-3  # of a mapped vector's variance: the numbers that say least


class Group(NamedTuple):
    """Trees of one or two kinds, grown without one part of the pairs, and the map of their vectors."""

    forests: list[Forest]
    projections: list[Projection]
    factors: np.ndarray  # float64 [kinds]  with them the vectors of each are at squared distance 1
    map: np.ndarray  # float64 [numbers of all vectors, numbers kept]

    def widths(self) -> list[int]:
        return [found.n_numbers for found in self.projections]

    def only(self, kinds: Sequence[int]) -> Group:
        forests, projections = ([each[k] for k in kinds] for each in self[:2])
        return self._replace(
            forests=forests, projections=projections, factors=self.factors[list(kinds)]
        )


class VectorForest(MappedMetric, PairMetric):
    """Vectors of forests under linear maps that labelled pairs teach: for many labelled pairs.

    It starts from the vectors of a `HierarchyForest` whose clusters are as high as they are large, and stays
    one dense vector per row: `transform` gives it, and the metric is its Euclidean distance. It knows nothing
    of single splits, so it explains nothing.

    Parameters
    ----------
    n_estimators : int, default=500
        Trees in all groups together.
    max_features : int, float, "sqrt", "log2", None or "auto", default="auto"
        Features that each split may use, as in `HierarchyForest`. "auto": half of the trees split by a
        third, half by all of them, and the left-out pairs choose which of the two to use, or both.
        With more than 50 features all trees split by a third.
    min_node_size : int or "auto", default="auto"
        As in `HierarchyForest`.
    alpha : float, default=4.0
        As in `HierarchyForest`.
    n_components : int, default=64
        Numbers of a vector per group and kind of trees.
    n_groups : int, default=3
        Groups of trees. Each is grown without one of as many parts of the labelled pairs.
    n_constraints : "auto" or int, default="auto"
        How many pairs to draw from `y`. "auto": 1,000 per class, from 5,000 labelled rows on at
        least 30,000 in all, from 40,000 on 600,000; a third of them must-links.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Trees grown, and blocks of rows placed, at once. None is 1 unless in a
        `joblib.parallel_config`; -1 uses all cores. The result does not depend on it, to the bit.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs, the parts and the trees.

    Attributes
    ----------
    chosen_ : dict
        What the left-out pairs chose: "max_features", a list; "whiten", whether the scatter of "same"
        pairs is made even first; "penalty" of the map that is learned on top, None for none.
    oob_auc_ : float
        Pair AUC of what was chosen on left-out pairs, measured by maps that had not seen them; nan
        without. The mean over all parts.
    oob_auc_se_ : float
        Its standard error over the parts.
    oob_gain_ : float
        How far that is ahead of the vectors of all trees as they are.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `HierarchyForest`.

    Examples
    --------
    >>> from metricforest import VectorForest
    >>> from metricforest.demo import labelled_pairs
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs, same = labelled_pairs(y, 300, seed=0)
    >>> metric = VectorForest(30, n_components=8, random_state=0).fit(X, pairs=pairs, pair_labels=same)
    >>> near, far = metric.pair_distance(X[[0, 0]], X[[1, 100]])
    >>> bool(near < far)
    True
    """

    _private_state = ("_rows",)
    _groups: list[Group]
    chosen_: dict[str, Any]
    oob_auc_: float
    oob_auc_se_: float
    oob_gain_: float

    def __init__(
        self,
        n_estimators: int = 500,
        max_features: int | float | str | None = "auto",
        min_node_size: int | str = "auto",
        alpha: float = 4.0,
        n_components: int = 64,
        n_groups: int = 3,
        n_constraints: int | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(n_constraints, standardize, n_jobs, random_state)
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_node_size = min_node_size
        self.alpha = alpha
        self.n_components = n_components
        self.n_groups = n_groups

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_estimators", 1)
        check_whole(self, "n_components", 1)
        check_whole(self, "n_groups", 2)
        if self.max_features != "auto":
            check_max_features(self)
        if isinstance(self.min_node_size, str):
            check_choice(self, "min_node_size", ("auto",))
        else:
            check_whole(self, "min_node_size", 1)
        check_real(self, "alpha", 0.0, 1e6, open_low=True)

    # ------------------------------------------------------------------------------------ learning

    def _learn(self, rows, must, cannot, rng) -> None:
        with threadpool_limits(
            1, user_api="blas"
        ):  # sums of several threads differ in the last digits
            self._learn_groups(rows, must, cannot, rng)

    def _learn_groups(
        self, rows: np.ndarray, must: np.ndarray, cannot: np.ndarray, rng: np.random.Generator
    ) -> None:
        pairs = np.concatenate([must, cannot])
        differ = np.repeat([False, True], [len(must), len(cannot)])
        seed = int(rng.integers(np.iinfo(np.int32).max))
        kinds, n_groups = self._kinds(rows.shape[1]), int(self.n_groups)
        if min(len(must), len(cannot)) < LEAST * n_groups:
            self._stay_plain(rows, pairs, differ, kinds, seed)
            return
        sizes = shares(int(self.n_estimators), n_groups * len(kinds))
        parts = leave_out(pairs, differ, n_groups, linear_map.MOST, seed)
        spaces, left_out = [], []
        for g, part in enumerate(parts):
            grown = self._space(
                rows, pairs[part.seen], differ[part.seen], kinds, sizes[g::n_groups], (seed, g)
            )
            vectors = self._placed(grown, rows)
            a, b = pairs[part.own].T
            spaces.append(grown)
            left_out.append(Pairs(vectors[a] - vectors[b], differ[part.own]))
        widths = [space.widths() for space in spaces]
        found = linear_map.choose_map(left_out, [part.folds for part in parts], widths)
        self._groups = []
        for space, known, width in zip(spaces, left_out, widths, strict=True):
            used = linear_map.columns_of(width, found.kinds)
            A = linear_map.learn_map(Pairs(known.difference[:, used], known.differ), found.freedom)
            self._groups.append(space.only(found.kinds)._replace(map=A))
        self._shorten(rows)
        self.chosen_ = {
            "max_features": [kinds[k] for k in found.kinds],
            "whiten": found.freedom.whiten,
            "penalty": found.freedom.penalty,
        }
        self.oob_auc_, self.oob_auc_se_, self.oob_gain_ = found.auc, found.error, found.gain

    def _kinds(self, n_features: int) -> list[Any]:
        """The values of `max_features` among which to choose."""
        if self.max_features != "auto":
            return [self.max_features]
        if n_features == 1:
            return [None]
        return [THIRD, None] if n_features <= MANY_FEATURES else [THIRD]

    def _space(
        self,
        rows: np.ndarray,
        pairs: np.ndarray,
        differ: np.ndarray,
        kinds: list[Any],
        sizes: list[int],
        seed: tuple[int, int],
    ) -> Group:
        """Trees of every kind, and what makes vectors of them; no map yet."""
        forests, projections, factors = [], [], []
        for k, (kind, n_trees) in enumerate(zip(kinds, sizes, strict=True)):
            forest = HierarchyForest(
                n_trees,
                max_features=kind,
                min_node_size=self.min_node_size,
                alpha=self.alpha,
                heights="size",
                n_components=int(self.n_components),
                standardize=False,
                n_jobs=self.n_jobs,
                random_state=int(np.random.SeedSequence((*seed, k)).generate_state(1)[0] >> 1),
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "n_components=", UserWarning)
                forest.fit(rows, pairs=pairs, pair_labels=np.where(differ, -1, 1))
                vectors = forest.transform(rows).astype(np.float64)
            forests.append(forest.forest_)
            projections.append(forest._made().projection)
            factors.append(np.sqrt(0.5) * linear_map.scale_of(vectors - vectors.mean(axis=0)))
        width = sum(found.n_numbers for found in projections)
        return Group(forests, projections, np.array(factors), np.eye(width))

    def _stay_plain(
        self, rows: np.ndarray, pairs: np.ndarray, differ: np.ndarray, kinds: list[Any], seed: int
    ) -> None:
        """One group, grown with all pairs, its vectors as they are."""
        fewest = min(differ.sum(), (~differ).sum())
        warn(
            f"{len(pairs)} labelled pairs, {fewest} of the rarer kind, are too few to learn a map from "
            f"({LEAST * int(self.n_groups)} of each kind are needed): vectors stay as trees give them",
            UserWarning,
        )
        sizes = shares(int(self.n_estimators), len(kinds))
        self._groups = [self._space(rows, pairs, differ, kinds, sizes, (seed, 0))]
        self.chosen_ = {"max_features": kinds, "whiten": False, "penalty": None}
        self.oob_auc_ = self.oob_auc_se_ = self.oob_gain_ = float("nan")

    def _shorten(self, rows: np.ndarray) -> None:
        """Turn every map so that its first numbers say most, and leave out those that say hardly any."""
        for g, group in enumerate(self._groups):
            mapped = self._placed(group, rows) @ group.map
            variance, turn = np.linalg.eigh(np.atleast_2d(np.cov(mapped.T, bias=True)))
            kept = np.cumsum(variance) > LEFT_OUT * variance.sum()
            kept[-1] = True
            A = group.map @ turn[:, kept][:, ::-1]
            self._groups[g] = group._replace(map=A)

    def what_was_chosen(self) -> str:
        """What left-out pairs chose and how sure that is, in a line."""
        check_is_fitted(self)
        names = {THIRD: "a third of the features", None: "all features"}
        splits = " and ".join(
            names.get(k, f"max_features={k}") for k in self.chosen_["max_features"]
        )
        if np.isnan(self.oob_auc_):
            return f"vectors as they are, trees split by {splits}: too few labelled pairs to learn more"
        penalty = self.chosen_["penalty"]
        learned = "no map" if penalty is None else f"a map with penalty {penalty:g}"
        first = "whitened, " if self.chosen_["whiten"] else ""
        return (
            f"{first}{learned}, trees split by {splits}: pair AUC {self.oob_auc_:.3f} +- "
            f"{self.oob_auc_se_:.3f} on left-out pairs, {self.oob_gain_:+.3f} beside vectors as they are"
        )

    # ----------------------------------------------------------------------------------- measuring

    def _placed(self, group: Group, rows: np.ndarray) -> np.ndarray:
        """Vectors float64 of standardised rows in the trees of a group, not mapped."""
        single = prepare(rows, np.zeros(rows.shape[1]), np.ones(rows.shape[1]))
        threads = self._threads()
        parts = [
            place(forest, placer(forest, found), single, threads) * factor
            for forest, found, factor in zip(*group[:3], strict=True)
        ]
        return np.hstack(parts)

    def _map(self, rows: np.ndarray) -> np.ndarray:
        return np.hstack(
            [
                rowwise.products(self._placed(group, rows), group.map.T, self._threads())
                for group in self._groups
            ]
        )

    # --------------------------------------------------------------------------------------- files

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "_groups": [packed(group) for group in self._groups]}

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        groups = state.pop("_groups", None)
        super()._restore(state)
        if not isinstance(groups, list) or not groups:
            raise ValueError(f"_groups is {str(groups)[:80]}")
        self._groups = [unpacked(group, self.n_features_in_) for group in groups]
        width = sum(group.map.shape[1] for group in self._groups)
        if self._rows.shape[1] != width:
            raise ValueError(f"vectors have {width} numbers, the rows kept {self._rows.shape[1]}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_groups"):  # arrays of a pickle can be written to
            self._groups = [ready(group) for group in self._groups]


def shares(total: int, parts: int) -> list[int]:
    """So many trees for each part, at least one."""
    return [max(1, (total + i) // parts) for i in range(parts)]


def ready(group: Group) -> Group:
    """With arrays that nobody can write to, as compiled code wants them."""
    return group._replace(
        forests=[read_only(with_heights(forest)) for forest in group.forests],
        projections=[read_only(found) for found in group.projections],
    )


def packed(group: Group) -> dict[str, Any]:
    """What a file keeps of a group."""
    return {**group._asdict(), "projections": [found._asdict() for found in group.projections]}


def unpacked(group: Any, n_features: int) -> Group:
    """The group that a file holds; ValueError unless it can be one."""
    if not isinstance(group, dict) or set(group) != set(Group._fields):
        raise ValueError(f"a group is {str(group)[:80]}")
    forests, projections = group["forests"], group["projections"]
    if not isinstance(forests, list) or not isinstance(projections, list):
        raise ValueError("the forests or vectors of a group are not lists")
    if not 1 <= len(forests) == len(projections) <= 2:
        raise ValueError(f"a group has {len(forests)} forests, {len(projections)} projections")
    for forest in forests:
        if not isinstance(forest, Forest):
            raise ValueError(f"a forest is a {type(forest).__name__}")
        check_forest(with_heights(forest), n_features)
    for found in projections:
        if not isinstance(found, dict):
            raise ValueError(f"the vectors are a {type(found).__name__}")
    found = [unpack(forest, one) for forest, one in zip(forests, projections, strict=True)]
    check_array(group["factors"], "factors", np.float64, (len(forests),))
    check_array(group["map"], "map", np.float64, (sum(one.n_numbers for one in found), None))
    return ready(Group(forests, found, group["factors"], group["map"]))
