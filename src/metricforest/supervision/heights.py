"""Heights of a forest's clusters that labelled pairs teach, instead of their sizes.

A cluster's size says how far apart the rows are that its split separates. From some hundred labelled pairs on
these can say it better, if the tree did not see them. So the pairs are cut into parts, and each tree is grown
without one. A pair p that the trees of a group did not see is at the distance (`core.distance`)

    q_p = mean over the trees of the group of  c_tp w_l,      l the split of tree t that separates p,

c its certainty. All w of the group are learned together: w_l = a h_l + h_l^POWER v_l, at least 0, h the
sizes, such that q - b are the log-odds that two rows differ: the minimum of the logistic loss, half of the
weight on pairs of each kind, plus penalty * |v|^2. With an infinite penalty sizes remain. How strong it is,
and whether any height is learned, is chosen on pairs held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from ..core import (
    LEAF,
    Forest,
    in_parallel,
    kernel,
    read_only_view,
    row_ranges,
    separating_node,
    sigmoid,
    sizes,
)
from .left_out import LeftOut
from .linear_map import best_multiple, evenly, weights_of

PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5)
POWER = 0.25  # a cluster with the share h of all rows may change by h^POWER as easily as the whole
SURE = 2.0  # standard errors that other trees must be ahead, to be grown
MOST = (
    4_000  # pairs per group that heights are learned from: more take longer and hardly change them
)
MOST_CHOOSING = 1_000  # in order to choose
ITERATIONS, ITERATIONS_CHOOSING = 60, 30
PAIRS_PER_TASK = 256


class Measured(NamedTuple):
    """Pairs in the trees of one group that did not see them."""

    parts: sp.csr_matrix  # float64 [m, U]  c / trees, one column per split that separates a pair
    splits: np.ndarray  # int64 [U]      numbers of these splits in the forest
    size: np.ndarray  # float64 [U]      their shares of all rows
    trees: np.ndarray  # int64 [T]     numbers of the trees
    differ: np.ndarray  # bool [m]

    @property
    def plain(self) -> np.ndarray:
        """Distances with sizes as heights."""
        return self.parts @ self.size


class Choice(NamedTuple):
    """What held-out pairs chose, and how sure that is."""

    penalty: float | None  # None: sizes remain
    auc: float  # on held-out pairs, the mean over the parts
    error: float  # its standard error
    gain: float  # over sizes


# --------------------------------------------------------------------------------------- measuring


def measured(
    forest: Forest,
    trees: np.ndarray,
    rows: np.ndarray,
    pairs: np.ndarray,
    differ: np.ndarray,
    alpha: float,
    n_threads: int,
) -> Measured:
    """Pairs of prepared rows in some of the trees."""
    m, T = len(pairs), len(trees)
    node, certain = np.empty((m, T), np.int32), np.empty((m, T), np.float32)
    rows, pairs = read_only_view(rows), read_only_view(pairs)
    ranges = row_ranges(m, n_threads, PAIRS_PER_TASK)
    calls = ((separate, forest, trees, rows, pairs, alpha, *ends, node, certain) for ends in ranges)
    in_parallel(n_threads, calls)
    here = node != LEAF
    splits, column = np.unique(node[here], return_inverse=True)
    first = np.concatenate([[0], np.cumsum(here.sum(axis=1))])
    parts = sp.csr_matrix(
        (certain[here].astype(np.float64) / T, column, first), shape=(m, len(splits))
    )
    return Measured(parts, splits, sizes(forest)[splits], trees, differ)


@kernel
def separate(forest, trees, rows, pairs, alpha, low, high, node, certain):
    """The split that separates each pair in each tree, and how certain it is of that."""
    for i in range(low, high):
        for k in range(trees.size):
            at, pa, pb = separating_node(forest, trees[k], rows[pairs[i, 0]], rows[pairs[i, 1]])
            node[i, k] = at
            certain[i, k] = 0.0
            if at != LEAF:
                certain[i, k] = abs(sigmoid(pa, alpha) - sigmoid(pb, alpha))


# ---------------------------------------------------------------------------------------- learning


def learned(
    known: Measured, chosen: np.ndarray, penalty: float, iterations: int
) -> tuple[np.ndarray, float]:
    """(w float64 [U], the unit a), learned from some of the pairs; the distances are log-odds."""
    plain, differ = known.plain[chosen], known.differ[chosen]
    mean = plain.mean()
    if not mean > 0.0:
        return known.size, 1.0
    a, b = best_multiple(plain / mean, differ)
    parts = known.parts[chosen]
    met = np.unique(parts.indices)  # splits that separate none of them keep their size
    size = known.size[met]
    factor = size**POWER * np.sqrt(len(known.trees)) / mean
    parts = parts[:, met] @ sp.diags_array(factor)
    back = parts.T.tocsr()
    sign, weight = np.where(differ, 1.0, -1.0), weights_of(differ)
    base = a * plain / mean

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        v = at[:-1]
        margin = sign * (base + parts @ v - at[-1])
        slope = -weight * sign * expit(-margin)
        value = weight @ np.logaddexp(0.0, -margin) + penalty * v @ v
        return float(value), np.append(back @ slope + 2.0 * penalty * v, -slope.sum())

    lowest = -a * size / mean / factor
    bounds = [*((low, None) for low in lowest), (None, None)]
    start = np.append(np.zeros(len(factor)), b)
    options: Any = {"maxiter": iterations}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    w = a * known.size / mean
    w[met] = np.maximum(w[met] + factor * found[:-1], 0.0)
    return w, a / mean


def scores(
    groups: Sequence[Measured], parts: Sequence[LeftOut], penalties: Sequence[float | None]
) -> np.ndarray:
    """float64 [folds of all groups, penalties]: pair AUC on the pairs that judge."""
    found = []
    for known, part in zip(groups, parts, strict=True):
        for train, test in part.folds:
            line = []
            for penalty in penalties:
                w = known.size
                if penalty is not None:
                    some = evenly(train, MOST_CHOOSING)
                    w, _ = learned(known, some, penalty, ITERATIONS_CHOOSING)
                line.append(roc_auc_score(known.differ[test], known.parts[test] @ w))
            found.append(line)
    return np.array(found)


def ahead(scores: np.ndarray, j: int, k: int) -> bool:
    """Whether column j is ahead of column k by more than a standard error."""
    gain = scores[:, j] - scores[:, k]
    return bool(gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)))


def auc_gain(differ: np.ndarray, new: np.ndarray, old: np.ndarray) -> tuple[float, float]:
    """(how far the pair AUC of `new` distances is ahead of that of `old` ones, its variance).

    Of each pair counts the share of pairs of the other kind that it is on the right side of (DeLong).
    """
    places = []
    for distance in (new, old):
        near, far = distance[~differ], distance[differ]
        right = (near[:, None] < far) + 0.5 * (near[:, None] == far)
        places.append((right.mean(axis=1), right.mean(axis=0)))
    by_near, by_far = (a - b for a, b in zip(*places, strict=True))
    variance = by_near.var(ddof=1) / len(by_near) + by_far.var(ddof=1) / len(by_far)
    return float(by_near.mean()), float(variance)


def clearly_better(groups: Sequence[Measured], others: Sequence[Measured]) -> bool:
    """Whether trees measure pairs of unseen rows better than other trees, with sizes as heights."""
    found = [
        auc_gain(new.differ, new.plain, old.plain) for new, old in zip(groups, others, strict=True)
    ]
    gain, variance = np.array(found).T
    return bool(gain.sum() > SURE * np.sqrt(variance.sum()))


def choose(groups: Sequence[Measured], parts: Sequence[LeftOut]) -> Choice:
    """The best penalty, if what it teaches is ahead of sizes."""
    with threadpool_limits(1, user_api="blas"):
        found = scores(groups, parts, (None, *PENALTIES))
    best = int(found[:, 1:].mean(axis=0).argmax()) + 1
    if not ahead(found, best, 0) or not found[:, best].mean() > 0.5:
        best = 0
    auc = found[:, best]
    error = auc.std(ddof=1) / np.sqrt(len(auc))
    gain = auc.mean() - found[:, 0].mean()
    return Choice((None, *PENALTIES)[best], float(auc.mean()), float(error), float(gain))


def with_learned(forest: Forest, groups: Sequence[Measured], penalty: float | None) -> Forest:
    """The forest with heights from the pairs of all groups, in the units of sizes.

    The mean distance of these pairs stays what it was, unless distances could then be above 1.
    """
    size = sizes(forest)
    if penalty is None:
        return forest._replace(height=size)
    height = size.copy()
    before = after = 0.0
    with threadpool_limits(1, user_api="blas"):
        for known in groups:
            every = np.arange(len(known.differ))
            w, unit = learned(known, every, penalty, ITERATIONS)
            for t in known.trees:  # splits that separate none of the pairs keep their size
                own = slice(forest.root[t], forest.root[t + 1])
                height[own] = unit * size[own]
            height[known.splits] = w
            before, after = before + known.plain.mean(), after + (known.parts @ w).mean()
    highest = np.mean(np.maximum.reduceat(height, forest.root[:-1]))
    scale = min(before / after if after > 0.0 else 1.0, 1.0 / highest if highest > 0.0 else 1.0)
    return forest._replace(height=height * scale)
