"""What `HierarchyForest.fit` does: parameters checked, rows prepared, trees grown.

`metric` is the estimator. It is read here and never changed: it stores what these functions return.
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
from .supervision.constraints import Constraints
from .warn import warn

logger = logging.getLogger("metricforest")

SOLVERS = ("newton", "lbfgs", "subgradient")
PAPER = {  # what the paper's experiments were run with
    **{"max_features": 1 / 3, "min_node_size": 5, "reg_lambda": 0.01, "C": 1.0, "alpha": 0.5},
    **{"cannot_link_fraction": 0.25, "tol": 0.01},
}
SMALLEST, SHARE, SMALL = 5, 50, 750  # of min_node_size="auto": a fiftieth of the rows beyond 750
LARGEST = 1e15  # values beyond overflow float32 when squared and summed

FittedWith = tuple[tuple[int, ...], int]  # shape of the rows, checksum of all that trees depend on


class Grown(NamedTuple):
    """A forest: new trees after those that `warm_start` keeps."""

    forest: core.Forest
    statistics: dict[str, float]  # of the splits of the new trees
    fitted_with: FittedWith


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
    metric._check_n_components()
    for name in ("implied_pairs", "standardize", "keep_certainties", "warm_start"):
        check_flag(metric, name)
    if metric.n_constraints != "auto":
        check_whole(metric, "n_constraints", 0)
    check_max_features(metric)


def settings_of(metric: Any, n_rows: int, n_features: int) -> core.Settings:
    """The parameters as growing reads them, for a table of this size."""
    size = metric.min_node_size
    return core.Settings(
        d_k=n_split_features(metric.max_features, n_features),
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


def grow(
    metric: Any,
    rows: np.ndarray,
    learned: Constraints,
    entropy: int,
    kept: core.Forest | None,
) -> Grown:
    """The trees that `metric` wants, of prepared rows; the first ones are those kept, if any."""
    settings = settings_of(metric, *rows.shape)
    digest = 0
    for part in (rows.data, learned.members.data, learned.kind.data, repr(settings).encode()):
        digest = zlib.crc32(part, digest)
    fitted_with = (rows.shape, digest)
    n_kept = 0
    if kept is not None:
        _check_continues(metric, kept, fitted_with)
        n_kept = kept.n_trees
    subgradient = True if metric.solver == "subgradient" else None
    jobs = (
        delayed(core.grow_tree)(
            rows, learned.members, learned.kind, _seed_of(entropy, tree), settings, subgradient
        )
        for tree in range(n_kept, metric.n_estimators)
    )
    forests = [] if kept is None else [kept]
    stats = np.zeros(len(core.STATISTICS))
    for forest, tree_stats in _run(jobs, metric.n_estimators - n_kept, metric):
        forests.append(forest)
        stats += tree_stats
    forest = core.read_only(core.join_forests(forests))
    return Grown(forest, dict(zip(core.STATISTICS, stats.tolist(), strict=True)), fitted_with)


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
