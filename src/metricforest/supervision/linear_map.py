"""A linear map of vectors that labelled pairs teach, and how free it may be.

Learned from differences of vectors, D [m, k], one per labelled pair. A map is a matrix A [k, k]; the new
squared distance of a pair is q = |d A|^2. Half of the weight is on pairs of each kind. Three steps, each
with more freedom than the one before:

    as they are     A = I
    whitened        A = W, W W' = (S + c tr(S)/k I)^-1, S the scatter of "same" pairs: directions in which
                    rows that are the same differ count less
    learned         A = W B or B, B the minimum of the logistic loss of the labels at q - b, over all b, plus
                    penalty * |B - t I|^2, where t I is the best multiple of the identity

Which to take is chosen by pairs held out (`choose_map`): the strongest penalty, without whitening, unless
another is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

RIDGE = 0.5  # of the mean eigenvalue of the scatter, added to each before whitening
STEEPEST = 100.0  # the most that a squared distance, on average 1, is multiplied with
ITERATIONS = 50
PENALTIES = (1e-2, 1e-3, 1e-4)
SURE = 2.0  # standard errors that all kinds of vectors must be behind some, not to be used
MOST = 4_000  # pairs that a map is learned from: more take longer and hardly change it
MOST_CHOOSING = 1_000  # in order to choose


class Freedom(NamedTuple):
    """How a map is learned."""

    whiten: bool
    penalty: float | None  # None: not learned further


class Pairs(NamedTuple):
    """Differences of vectors of labelled pairs, of both kinds."""

    difference: np.ndarray  # float64 [m, k]
    differ: np.ndarray  # bool [m]

    def part(self, chosen: np.ndarray) -> Pairs:
        return Pairs(self.difference[chosen], self.differ[chosen])


PLAIN = Freedom(False, None)
FREEDOMS = (  # the one to be trusted first; then the least free first
    Freedom(False, PENALTIES[0]),
    *(Freedom(whiten, None) for whiten in (False, True)),
    Freedom(True, PENALTIES[0]),
    *(Freedom(whiten, penalty) for penalty in PENALTIES[1:] for whiten in (False, True)),
)
MIDDLE = Freedom(False, PENALTIES[1])  # by which kinds of vectors are compared


# ---------------------------------------------------------------------------------------- learning


def learn_map(pairs: Pairs, freedom: Freedom) -> np.ndarray:
    """The map A, float64 [k, k]; on the average the pairs are at squared distance 1."""
    A = np.eye(pairs.difference.shape[1])
    with threadpool_limits(1, user_api="blas"):
        if freedom.whiten:
            A = whitening(pairs)
        if freedom.penalty is not None:
            B, _ = nearest_good_map(Pairs(pairs.difference @ A, pairs.differ), freedom.penalty)
            A = A @ B
        return A * scale_of(pairs.difference @ A)


def scale_of(difference: np.ndarray) -> float:
    """What brings the mean squared length to 1; 1 where all are 0."""
    mean = np.square(difference).sum(axis=1).mean()
    return float(1.0 / np.sqrt(mean)) if mean > np.finfo(float).tiny else 1.0


def whitening(pairs: Pairs) -> np.ndarray:
    """W: with it the scatter of "same" pairs is the identity, but for the ridge."""
    same = pairs.difference[~pairs.differ]
    k = same.shape[1]
    scatter = same.T @ same / len(same)
    ridge = RIDGE * np.trace(scatter) / k
    if not ridge > np.finfo(float).tiny:
        return np.eye(k)
    value, vector = np.linalg.eigh(scatter + ridge * np.eye(k))
    return vector / np.sqrt(value)


def weights_of(differ: np.ndarray) -> np.ndarray:
    """Half of the weight on pairs of each kind."""
    return np.where(differ, 0.5 / differ.sum(), 0.5 / (~differ).sum())


def best_multiple(square: np.ndarray, differ: np.ndarray) -> tuple[float, float]:
    """(s, b): the logistic regression of the labels on s * square - b, s at least 0."""
    weight, sign = weights_of(differ), np.where(differ, 1.0, -1.0)

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (at[0] * square - at[1])
        slope = -weight * sign * expit(-margin)
        value = weight @ np.logaddexp(0.0, -margin)
        return float(value), np.array([slope @ square, -slope.sum()])

    bounds = [(1e-2, STEEPEST), (None, None)]
    found = minimize(loss, [1.0, 1.0], jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(found[0]), float(found[1])


def penalised_loss(
    A: np.ndarray, b: float, pairs: Pairs, t: float, penalty: float
) -> tuple[float, np.ndarray, float]:
    """The loss, and its derivatives by A and b."""
    sign = np.where(pairs.differ, 1.0, -1.0)
    weight = weights_of(pairs.differ)
    mapped = pairs.difference @ A
    margin = sign * (np.square(mapped).sum(axis=1) - b)
    slope = -weight * sign * expit(-margin)
    away = A - t * np.eye(len(A))
    value = weight @ np.logaddexp(0.0, -margin) + penalty * np.square(away).sum()
    by_A = pairs.difference.T @ (mapped * (2.0 * slope)[:, None]) + 2.0 * penalty * away
    return float(value), by_A, -float(slope.sum())


def nearest_good_map(pairs: Pairs, penalty: float) -> tuple[np.ndarray, float]:
    """(A, t): the map near a multiple t of the identity that minimises the penalised loss.

    Differences are brought to the mean squared length 1 first, and A is of those.
    """
    scaled = Pairs(pairs.difference * scale_of(pairs.difference), pairs.differ)
    k = scaled.difference.shape[1]
    s, b = best_multiple(np.square(scaled.difference).sum(axis=1), scaled.differ)
    t = np.sqrt(s)

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_A, by_b = penalised_loss(at[:-1].reshape(k, k), at[-1], scaled, t, penalty)
        return value, np.append(by_A.ravel(), by_b)

    start = np.append((t * np.eye(k)).ravel(), b)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS}).x
    return found[:-1].reshape(k, k), float(t)


# ---------------------------------------------------------------------------------------- choosing


class Choice(NamedTuple):
    """What held-out pairs chose, and how sure that is."""

    kinds: tuple[int, ...]  # of vectors
    freedom: Freedom
    auc: float  # on held-out pairs, the mean over the parts
    error: float  # its standard error
    gain: float  # over the first kinds as they are


def columns_of(widths: Sequence[int], kinds: Sequence[int]) -> np.ndarray:
    """The columns of some kinds of vectors where all stand side by side."""
    ends = np.cumsum([0, *widths])
    return np.concatenate([np.arange(ends[k], ends[k + 1]) for k in kinds])


def choose_map(
    groups: Sequence[Pairs],
    folds: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]],
    widths: Sequence[Sequence[int]],
) -> Choice:
    """Which kinds of vectors to use, and how free their maps are: the same for all groups.

    Each group has its own pairs, the differences of its vectors of every kind, side by side, and folds
    of them: places of those that a map is learned from, and of those that judge it.
    """
    n_kinds = len(widths[0])
    each = [(k,) for k in range(n_kinds)]
    offered = [tuple(range(n_kinds)), *each] if n_kinds > 1 else each

    def scored(kinds: tuple[int, ...], freedoms: Sequence[Freedom]) -> np.ndarray:
        parts = []
        for pairs, own, width in zip(groups, folds, widths, strict=True):
            used = Pairs(pairs.difference[:, columns_of(width, kinds)], pairs.differ)
            parts.append(scores(used, own, freedoms))
        return np.concatenate(parts)

    compared = np.hstack([scored(kinds, [MIDDLE]) for kinds in offered])
    kinds = offered[choose(compared, SURE)]
    found = scored(kinds, FREEDOMS)
    j = choose(found)
    error = found[:, j].std(ddof=1) / np.sqrt(len(found))
    auc = found[:, j].mean()
    plain = scored(offered[0], [PLAIN])[:, 0]
    return Choice(kinds, FREEDOMS[j], float(auc), float(error), float(auc - plain.mean()))


def scores(
    pairs: Pairs,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    freedoms: Sequence[Freedom],
) -> np.ndarray:
    """float64 [folds, F]: pair AUC of every map on what judges it."""
    found = np.empty((len(folds), len(freedoms)))
    for i, (train, test) in enumerate(folds):
        known, asked = pairs.part(evenly(train, MOST_CHOOSING)), pairs.part(test)
        for j, freedom in enumerate(freedoms):
            mapped = asked.difference @ learn_map(known, freedom)
            found[i, j] = roc_auc_score(asked.differ, np.square(mapped).sum(axis=1))
    return found


def evenly(places: np.ndarray, most: int) -> np.ndarray:
    """So many of them at most, evenly spaced."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]


def choose(scores: np.ndarray, errors: float = 1.0) -> int:
    """The first column that is behind the best by no more than so many standard errors.

    Of each column the mean over the parts (rows) counts. The standard error is that of the differences
    to the best column, part by part. Columns come in the order of preference.
    """
    best = int(scores.mean(axis=0).argmax())
    behind = scores[:, [best]] - scores
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return int(np.flatnonzero(behind.mean(axis=0) <= errors * error)[0])
