"""What `HierarchyForest.fit` does: parameters checked, rows prepared, trees grown.

`metric` is the estimator. It is read here and never changed: it stores what these functions return.

Where labelled pairs suffice they are cut into parts (`supervision.left_out`), and tree t is grown without
part t % GROUPS. What a tree has not seen teaches it heights (`supervision.heights`), and chooses whether all
trees split by a third of the features or every other GROUPS of them by all::

    t       0 1 2 3 4 5 6 7 8 ...
    group   0 1 2 0 1 2 0 1 2         what it has not seen
    MIXED   1 1 1 d d d 1 1 1         1: a third of the features, d: all of them
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from . import core
from .base import location_and_scale
from .checks import check_choice, check_flag, check_max_features, check_real, check_whole
from .supervision import constraints as cn
from .supervision import heights
from .supervision.constraints import Constraints
from .supervision.left_out import LeftOut, fewest, leave_out, unseen_rows
from .warn import warn

logger = logging.getLogger("metricforest")

SOLVERS = ("newton", "lbfgs", "subgradient")
PAPER = {  # what the paper's experiments were run with
    **{"max_features": 1 / 3, "min_node_size": 5, "reg_lambda": 0.01, "C": 1.0, "alpha": 0.5},
    **{"cannot_link_fraction": 0.25, "tol": 0.01, "heights": "size"},
}
AUTO, MIXED = "auto", "mixed"
THIRD = 1 / 3
GROUPS = 3  # parts of the labelled pairs, each of which a third of the trees do not see
LEAST = 10  # labelled pairs of each kind in a part, at least
PILOT = 24  # trees by which numbers of features are compared
FEW_FEATURES, MANY_FEATURES = 10, 50  # a third is too few; splits by all are slow and seldom better
SMALLEST, SHARE, SMALL = 5, 50, 750  # of min_node_size="auto": a fiftieth of the rows beyond 750
LARGEST = 1e15  # values beyond overflow float32 when squared and summed

FittedWith = tuple[tuple[int, ...], int]  # shape of the rows, checksum of all that trees depend on


class Grown(NamedTuple):
    """A forest: new trees after those that `warm_start` keeps."""

    forest: core.Forest
    statistics: dict[str, float]  # of the splits of the new trees
    fitted_with: FittedWith
    chosen: dict[str, Any]
    choice: heights.Choice | None  # how sure that is; None where nothing was chosen


class Supervision(NamedTuple):
    """What each group of trees sees, and what it does not."""

    seen: list[Constraints]  # one where all trees see everything
    parts: list[LeftOut]
    pairs: np.ndarray  # int32 [m, 2]
    differ: np.ndarray  # bool [m]


def check_parameters(metric: Any) -> None:
    """Raise unless every parameter of a forest has a value that can be used."""
    check_whole(metric, "n_estimators", 1)
    if isinstance(metric.min_node_size, str):
        check_choice(metric, "min_node_size", ("auto",))
    else:
        check_whole(metric, "min_node_size", 1)
    check_real(metric, "reg_lambda", 0.0, 1e6, open_low=True)
    check_real(metric, "C", 0.0, 1e6, open_low=False)
    check_real(metric, "cannot_link_fraction", 0.0, 1.0, open_low=True)
    check_real(metric, "alpha", 0.0, 1e6, open_low=True)
    check_real(metric, "tol", 0.0, 1.0, open_low=True)
    if metric.reg_lambda < 1e-8:
        raise ValueError(f"reg_lambda must be at least 1e-8, got {metric.reg_lambda}")
    check_choice(metric, "solver", SOLVERS)
    check_choice(metric, "heights", (AUTO, "size"))
    metric._check_n_components()
    for name in ("implied_pairs", "standardize", "keep_certainties", "warm_start"):
        check_flag(metric, name)
    if metric.n_constraints != "auto":
        check_whole(metric, "n_constraints", 0)
    if metric.max_features not in (AUTO, MIXED):
        check_max_features(metric)


def settings_of(metric: Any, max_features: Any, n_rows: int, n_features: int) -> core.Settings:
    """The parameters as growing reads them, for a table of this size."""
    size = metric.min_node_size
    return core.Settings(
        d_k=n_split_features(max_features, n_features),
        min_size=max(SMALLEST, (n_rows - SMALL) // SHARE) if size == "auto" else int(size),
        lam=float(metric.reg_lambda),
        C=float(metric.C),
        fraction=float(metric.cannot_link_fraction),
        tol=float(metric.tol),
        max_rounds=20,
        max_iter=300 if metric.solver != "subgradient" else 2_000,
        max_rounds_unsupervised=5,
    )


def n_split_features(max_features: Any, d: int) -> int:
    """How many of d features a split may use."""
    if max_features is None:
        return d
    if isinstance(max_features, str):
        return max(1, int(np.sqrt(d) if max_features == "sqrt" else np.log2(d)))
    if isinstance(max_features, (int, np.integer)):
        if max_features > d:
            raise ValueError(f"max_features={max_features} is more than the {d} features of X")
        return int(max_features)
    return max(1, round(float(max_features) * d))


def mean_and_scale(X: np.ndarray, standardize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows are centred in any case: far from 0 single precision would lose their digits."""
    if not standardize:
        worst = np.abs(X).max()
        if worst > LARGEST:
            raise ValueError(
                f"X holds {worst:g}; without standardize=True values must not exceed {LARGEST:g}"
            )
    mean, scale = location_and_scale(X)
    return mean, scale if standardize else np.ones(X.shape[1])


def prepare(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Standardised rows as the forest reads them, float32; far outliers are cut at LARGEST."""
    rows = np.empty(X.shape, np.float32)
    for low in range(0, len(X), 4096):
        block = (X[low : low + 4096] - mean) / scale
        rows[low : low + 4096] = np.clip(block, -LARGEST, LARGEST, out=block)
    rows.flags.writeable = False
    return rows


def supervision_of(metric: Any, table: Constraints, n_rows: int, entropy: int) -> Supervision:
    """The labelled pairs by groups of trees; one group where they are too few to leave any out."""

    def seen(members: np.ndarray, kind: np.ndarray) -> Constraints:
        known = Constraints(members, kind)
        return cn.with_implied(known, n_rows, entropy) if metric.implied_pairs else known

    pairs, labels = table.pairs()
    differ = labels == -1
    if metric.heights != AUTO or fewest(differ) < GROUPS * LEAST:
        return Supervision([seen(*table)], [], pairs, differ)
    parts = leave_out(pairs, differ, GROUPS, heights.MOST, entropy, by_rows=False)
    n_triplets = len(table.kind) - len(pairs)  # they come last, and every tree sees them
    kept = [np.append(part.seen, np.ones(n_triplets, bool)) for part in parts]
    groups = [seen(table.members[each], table.kind[each]) for each in kept]
    return Supervision(groups, parts, pairs, differ)


def grow(
    metric: Any, rows: np.ndarray, table: Constraints, entropy: int, kept: core.Forest | None
) -> Grown:
    """The trees that `metric` wants, of prepared rows; the first ones are those kept, if any."""
    known = supervision_of(metric, table, len(rows), entropy)
    nursery = Nursery(metric, rows, known.seen, entropy)
    fitted_with = rows.shape, nursery.digest()
    if kept is not None:
        _check_continues(metric, kept, fitted_with)
    kind = metric.max_features
    kind = kind.item() if isinstance(kind, np.generic) else kind
    if kind == AUTO:
        kind = (
            chosen_kind(metric, rows, table, entropy)
            if kept is None
            else metric.chosen_["max_features"]
        )
    n_kept = 0 if kept is None else kept.n_trees
    forest = nursery.forest(range(n_kept, metric.n_estimators), kind, kept)
    chosen, choice = {"max_features": kind, "heights": "size", "penalty": None}, None
    if known.parts:
        own = [known.pairs[part.own] for part in known.parts]
        differ = [known.differ[part.own] for part in known.parts]
        groups = unseen(metric, rows, forest, own, differ)
        choice = heights.choose(groups, known.parts)
        forest = heights.with_learned(forest, groups, choice.penalty)
        if choice.penalty is not None:
            chosen |= {"heights": "learned", "penalty": choice.penalty}
    return Grown(core.read_only(forest), nursery.statistics(), fitted_with, chosen, choice)


def chosen_kind(metric: Any, rows: np.ndarray, table: Constraints, entropy: int) -> Any:
    """THIRD or MIXED, by a few trees of each that measure pairs of rows they know nothing of.

    Unless one is clearly better: MIXED where a third of the features is only a few.
    """
    d = rows.shape[1]
    first, other = (MIXED, THIRD) if d <= FEW_FEATURES else (THIRD, MIXED)
    pairs, labels = table.pairs()
    differ = labels == -1
    if not 1 < d <= MANY_FEATURES or not differ.any():
        return THIRD
    parts = unseen_rows(pairs, differ, GROUPS, entropy)
    if parts is None or metric.n_estimators < PILOT:
        return first
    seen = [
        Constraints(table.members[: len(pairs)][s], table.kind[: len(pairs)][s]) for s, _ in parts
    ]
    nursery = Nursery(metric, rows, seen, entropy)
    judged = [pairs[own] for _, own in parts], [differ[own] for _, own in parts]
    found = [
        unseen(metric, rows, nursery.forest(range(PILOT), kind), *judged) for kind in (other, first)
    ]
    return other if heights.clearly_better(*found) else first


def unseen(
    metric: Any,
    rows: np.ndarray,
    forest: core.Forest,
    pairs: list[np.ndarray],
    differ: list[np.ndarray],
) -> list[heights.Measured]:
    """What the trees of each group make of the pairs that they have not seen."""
    alpha, threads = float(metric.alpha), metric._threads()
    return [
        heights.measured(
            forest, np.arange(g, forest.n_trees, GROUPS), rows, pairs[g], differ[g], alpha, threads
        )
        for g in range(GROUPS)
    ]


class Nursery:
    """Trees by their number and whether they split by all features, each grown when first wanted."""

    def __init__(self, metric: Any, rows: np.ndarray, seen: list[Constraints], entropy: int):
        self.metric, self.rows, self.seen, self.entropy = metric, rows, seen, entropy
        fixed = metric.max_features not in (AUTO, MIXED)
        self.narrow = settings_of(metric, metric.max_features if fixed else THIRD, *rows.shape)
        self.wide = self.narrow._replace(d_k=rows.shape[1])
        self.subgradient = True if metric.solver == "subgradient" else None
        self.made: dict[tuple[int, bool], tuple[core.Forest, np.ndarray]] = {}
        self.used: list[tuple[int, bool]] = []

    def digest(self) -> int:
        """Checksum of all that trees depend on."""
        found = zlib.crc32(self.rows.data)
        for table in self.seen:
            found = zlib.crc32(table.kind.data, zlib.crc32(table.members.data, found))
        return zlib.crc32(repr(self.narrow).encode(), found)

    def forest(self, numbers: range, kind: Any, kept: core.Forest | None = None) -> core.Forest:
        """Trees with these numbers, after those kept."""
        self.used = [(t, kind == MIXED and t // GROUPS % 2 == 1) for t in numbers]
        missing = [key for key in self.used if key not in self.made]
        jobs = (delayed(self.tree)(*key) for key in missing)
        for key, found in zip(missing, _run(jobs, len(missing), self.metric), strict=True):
            self.made[key] = found
        trees = [self.made[key][0] for key in self.used]
        d_k = (self.wide if kind == MIXED else self.narrow).d_k
        trees = [core.widened(tree, d_k, self.rows.shape[1]) for tree in trees]
        return core.join_forests(([] if kept is None else [kept]) + trees)

    def tree(self, t: int, wide: bool) -> tuple[core.Forest, np.ndarray]:
        table = self.seen[t % len(self.seen)]
        settings = self.wide if wide else self.narrow
        seed = _seed_of(self.entropy, t)
        return core.grow_tree(
            self.rows, table.members, table.kind, seed, settings, self.subgradient
        )

    def statistics(self) -> dict[str, float]:
        """Of the splits of the trees wanted last."""
        stats = np.zeros(len(core.STATISTICS))
        for key in self.used:
            stats += self.made[key][1]
        return dict(zip(core.STATISTICS, stats.tolist(), strict=True))


def _check_continues(metric: Any, kept: core.Forest, fitted_with: FittedWith) -> None:
    """Raise unless more trees can follow those kept by `warm_start`."""
    if fitted_with != metric._fitted_with:
        raise ValueError(
            "warm_start=True adds trees to those grown on the same rows and labelled pairs with "
            f"the same parameters, but these are others (X of shape {fitted_with[0]}, fitted "
            f"before with {metric._fitted_with[0]})"
        )
    if metric.n_estimators < kept.n_trees:
        raise ValueError(
            f"n_estimators={metric.n_estimators} is less than the {kept.n_trees} "
            "trees already grown with warm_start=True"
        )


def _seed_of(entropy: int, tree: int) -> int:
    return int(np.random.SeedSequence((entropy, tree)).generate_state(1, np.uint64)[0])


def _run(jobs: Iterable, total: int, metric: Any) -> Iterator:
    """Results of the jobs in order, with a progress bar if asked for."""
    if not metric.verbose:
        yield from Parallel(n_jobs=metric.n_jobs, prefer="threads")(jobs)
        return
    from tqdm.auto import tqdm  # only here: it takes a while to import

    parallel = Parallel(n_jobs=metric.n_jobs, prefer="threads", return_as="generator")
    # disable=None: only where somebody looks on, in a terminal or a notebook
    yield from tqdm(parallel(jobs), "trees", total, disable=None)


def warn_unfinished(metric: Any) -> None:
    """Warn of splits whose solver did not reach its tolerance."""
    found = metric.split_statistics_
    unfinished, splits = int(found["constrained_unfinished"]), int(found["n_constrained"])
    logger.info("grew %d trees, %d constrained splits", metric.forest_.n_trees, splits)
    if unfinished and metric.solver != "subgradient":
        warn(
            f"the solver did not reach its tolerance in {unfinished} of {splits} constrained "
            "splits; their planes are the best it found",
            ConvergenceWarning,
        )


def what_was_chosen(metric: Any) -> str:
    """What left-out pairs chose and how sure that is, in a line."""
    auc = metric.oob_auc_
    if np.isnan(auc):
        return (
            "clusters as high as they are large: nothing was left out to learn more from"
            if metric.heights != AUTO or not len(metric.constraints_.kind)
            else "clusters as high as they are large: too few labelled pairs to learn more "
            f"({GROUPS * LEAST} of each kind are needed)"
        )
    penalty = metric.chosen_["penalty"]
    learned = (
        "heights are sizes" if penalty is None else f"heights learned with penalty {penalty:g}"
    )
    wide = ", half of the trees split by all features" * (metric.chosen_["max_features"] == MIXED)
    return (
        f"{learned}{wide}: pair AUC {auc:.3f} +- {metric.oob_auc_se_:.3f} on left-out pairs, "
        f"{metric.oob_gain_:+.3f} beside sizes"
    )
