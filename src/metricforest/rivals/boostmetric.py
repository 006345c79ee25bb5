"""BoostMetric: a Mahalanobis metric from triplets, boosted (Shen et al., JMLR 13, 2012).

A triplet r = (i, j, k) says that i is nearer to j than to k. With A_r = (x_i - x_k)(x_i - x_k)^T -
(x_i - x_j)(x_i - x_j)^T its margin under the metric M >= 0 is rho_r = <A_r, M>, and

    exponential   min  log sum_r exp(-rho_r)      + v trace M
    logistic      min  sum_r log(1 + exp(-rho_r)) + v trace M

M grows by weak learners w z z^T, z a unit vector: the top eigenvector of sum_r u_r A_r, where u is
minus the loss's gradient by rho, is the one that lowers the objective fastest. A weight alone gives
w (stage-wise, as published), or all weights so far are set anew (totally corrective), which a
stage-wise fit, never taking weight away, cannot replace. No A_r is ever formed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.optimize import brentq, minimize
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from ..checks import check_choice, check_flag, check_real, check_whole
from ..supervision import constraints as cn
from ..warn import warn
from .fitting import labelled_classes, refuse, say
from .mapped import LinearMetric
from .scatter import by_weight, scatter

LOSSES = ("exponential", "logistic")
MARGIN = 10.0  # where all triplets hold by so much, the exponential loss has no minimum: it ends

SMALLEST = 1e-12  # a piece of less weight, by all before it, changes nothing
SHORTEST = 1e-140  # of rows: below, squares and quotients by them leave float64


class Boosted(NamedTuple):
    """What `boost` found: M = sum_j weights[j] * directions[j] directions[j]^T."""

    directions: np.ndarray  # [m, d]  unit vectors
    weights: np.ndarray  # [m]        above 0
    objective: float
    gap: float  # about how far the objective is above its minimum at most
    n_iter: int
    converged: bool


class BoostMetric(LinearMetric):
    """A linear metric boosted from triplets (anchor, nearer, farther), or from labels.

    The metric is a sum of rank-one pieces, each of which points where the triplets that do not yet
    hold ask for it. Where all triplets can hold at once the exponential loss has no minimum, only
    ever larger margins: it ends when every margin is 10.

    Parameters
    ----------
    n_estimators : int, default=500
        Rank-one pieces at most.
    loss : {"exponential", "logistic"}, default="exponential"
        The exponential loss listens to the worst triplets, the logistic one less so.
    corrective : bool, default=True
        Set all weights anew after each piece, which reaches the minimum. False is the published
        stage-wise method: quicker per piece, never takes a weight back, ends above the minimum.
    n_neighbors : int, default=3
        Triplets drawn from labels: every row with each of so many nearest rows of its own class and
        each of so many of other classes.
    reg_trace : float, default=1e-7
        Weight of the metric's trace in the objective.
    tol : float, default=1e-3
        With `corrective`, ends when the objective is less than about this share above its minimum.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Threads that search neighbours. None is 1 unless in a `joblib.parallel_config`; -1 uses all
        cores.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, `n_features_in_`)
        The map, as in `LMNN`.
    objective_ : float
        The objective at the metric.
    n_iter_ : int
        Pieces that were tried.
    n_triplets_ : int
        Triplets learned from.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    References
    ----------
    C. Shen, J. Kim, L. Wang and A. van den Hengel, "Positive Semidefinite Metric Learning Using
    Boosting-like Algorithms", JMLR 13, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest.rivals import BoostMetric
    >>> X = np.array([[0.0, 0], [0.1, 9], [0.2, 4], [1.0, 1], [1.1, 8], [1.2, 5]])
    >>> metric = BoostMetric().fit(X, triplets=[[0, 1, 3], [2, 1, 5], [3, 4, 0], [4, 5, 1]])
    >>> sorted(metric.kneighbors(n_neighbors=2, return_distance=False)[0].tolist())
    [1, 2]
    """

    def __init__(
        self,
        n_estimators: int = 500,
        loss: str = "exponential",
        corrective: bool = True,
        n_neighbors: int = 3,
        reg_trace: float = 1e-7,
        tol: float = 1e-3,
        standardize: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(standardize, n_jobs)
        self.n_estimators = n_estimators
        self.loss = loss
        self.corrective = corrective
        self.n_neighbors = n_neighbors
        self.reg_trace = reg_trace
        self.tol = tol
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_estimators", 1)
        check_whole(self, "n_neighbors", 1)
        check_real(self, "reg_trace", 0.0, np.inf, open_low=True)
        check_real(self, "tol", 0.0, 1.0, open_low=True, open_high=True)
        check_choice(self, "loss", LOSSES)
        check_flag(self, "corrective")

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        refuse(self, "triplets or labels y", pairs=pairs, pair_labels=pair_labels)
        rows = self._standardised(X)
        if y is None and triplets is None:
            raise ValueError("BoostMetric learns from triplets or labels y: give one of them")
        table = np.empty((0, 3), np.int64)
        if triplets is not None:
            table = cn.check_triplets(triplets, len(rows))
        if y is not None:
            codes = labelled_classes(self, y, len(rows))
            drawn = cn.draw_triplets(rows, codes, self.n_neighbors, self.n_jobs)
            table = np.concatenate([table, drawn])
        table = cn.gather(len(rows), triplets=table).triplets()
        if not len(table):
            raise ValueError("BoostMetric needs at least one triplet, got 0")
        found = boost(
            rows,
            table,
            self.loss,
            float(self.reg_trace),
            self.n_estimators,
            bool(self.corrective),
            float(self.tol),
            self.verbose,
        )
        self._warn(found)
        self.components_ = by_weight(np.sqrt(found.weights)[:, None] * found.directions)
        self.objective_, self.n_iter_ = found.objective, found.n_iter
        self.n_triplets_ = len(table)
        self._index(rows)

    def _warn(self, found: Boosted) -> None:
        if not found.weights.any():
            warn(
                "no direction makes the triplets hold better by more than its weight costs "
                f"(reg_trace={self.reg_trace:g} times its squared length in the given units): all "
                "distances are 0. Standardised rows, or a smaller reg_trace, may help",
                ConvergenceWarning,
            )
        elif self.corrective and not found.converged:
            spent = found.n_iter >= self.n_estimators
            warn(
                "BoostMetric has not converged with "
                f"{f'n_estimators={self.n_estimators}' if spent else f'{found.n_iter} pieces'}: its "
                f"objective is {found.objective:.6g}, up to about {found.gap:.3g} above the minimum",
                ConvergenceWarning,
            )


def boost(
    rows: np.ndarray,
    triplets: np.ndarray,
    loss: str = "exponential",
    v: float = 1e-7,
    n_estimators: int = 500,
    corrective: bool = True,
    tol: float = 1e-3,
    verbose: int = 0,
) -> Boosted:
    """Rank-one pieces that minimise the objective over triplets [R, 3] of rows."""
    rows = rows - rows.mean(axis=0)
    unit = (
        np.abs(rows).max() or 1.0
    )  # tolerances below are absolute: lengths are brought to order 1
    if unit < SHORTEST:
        raise ValueError(
            f"rows differ by {unit:g} at most: their squared distances underflow (the bound is about "
            f"{SHORTEST:g})"
        )
    rows, v = rows / unit, v / unit**2
    near, far = (np.sort(triplets[:, [0, end]], axis=1) for end in (1, 2))
    n, R = len(rows), len(triplets)
    pairs, which = np.unique(np.concatenate([near, far]), axis=0, return_inverse=True)
    which = which.ravel()  # numpy 2.0.0 gives it a second axis
    links = sp.csr_matrix((np.arange(len(pairs)), pairs.T), shape=(n, n))
    order = links.data.astype(np.int64)  # of the pairs in the matrix
    signs = np.repeat([-1.0, 1.0], R)

    directions, weights = np.empty((0, rows.shape[1])), np.empty(0)
    margins = np.empty((R, 0))  # of every piece: z^T A_r z
    rho = np.zeros(R)
    start = value = lost(rho, loss)
    gap, n_iter, converged = np.inf, 0, False
    while n_iter < n_estimators:
        u = slopes(rho, loss)
        links.data = np.bincount(which, np.tile(u, 2) * signs)[order]
        _, z = eigh(scatter(rows, links), subset_by_index=[rows.shape[1] - 1] * 2)
        q = rows @ z[:, 0]
        i, j, k = triplets.T
        h = (q[i] - q[k]) ** 2 - (q[i] - q[j]) ** 2
        steepest = u @ h  # the largest eigenvalue
        if n_iter:  # convexity: f - f* <= <grad f, M - M*>, with the trace of M* taken as that of M
            trace = weights.sum()
            gap = max(0.0, steepest - v) * trace + v * trace - u @ rho
        close = gap <= tol * min(abs(value), start - value)
        if steepest <= v * (1.0 + 1e-6) or (corrective and close):
            converged = close or not corrective
            break
        w = best_weight(rho, h, loss, v)
        if w <= SMALLEST * weights.sum():  # rounding is all that is left
            converged = close or not corrective
            break
        n_iter += 1
        directions, weights = np.vstack([directions, z.T]), np.append(weights, w)
        rho = rho + w * h
        if corrective and not endless(rho, loss):
            margins = np.column_stack([margins, h])
            weights = best_weights(weights, margins, loss, v)
            kept = weights > 0.0
            directions, weights, margins = directions[kept], weights[kept], margins[:, kept]
            rho = margins @ weights
        value = lost(rho, loss) + v * weights.sum()
        if n_iter % 10 == 0:
            say(verbose, f"BoostMetric piece {n_iter}: objective {value:.6g}")
        if endless(rho, loss):
            converged = True
            break
    say(verbose, f"BoostMetric ends after {n_iter} pieces: objective {value:.6g}")
    if not len(weights):
        directions, weights = np.zeros((1, rows.shape[1])), np.zeros(1)
    return Boosted(directions, weights / unit**2, value, gap, n_iter, converged)


def endless(rho: np.ndarray, loss: str) -> bool:
    """Whether all triplets hold by so much that the exponential loss would only ask for more."""
    return loss == "exponential" and rho.min() >= MARGIN


def lost(rho: np.ndarray, loss: str) -> float:
    """The loss of margins rho."""
    value: Any = logsumexp(-rho) if loss == "exponential" else np.logaddexp(0.0, -rho).sum()
    return float(value)


def slopes(rho: np.ndarray, loss: str) -> np.ndarray:
    """Minus the gradient of the loss by rho."""
    return np.exp(-rho - logsumexp(-rho)) if loss == "exponential" else expit(-rho)


def best_weight(rho: np.ndarray, h: np.ndarray, loss: str, v: float) -> float:
    """The weight w > 0 of one more piece with margins h that minimises the objective."""
    if loss == "exponential" and h.min() > v:  # it puts all triplets right: the more the better
        return MARGIN / h.min()

    def descent(w: float) -> float:
        return float(slopes(rho + w * h, loss) @ h) - v

    high = 1.0 / np.abs(h).max()
    while descent(high) > 0.0:
        high *= 2.0
    root: Any = brentq(descent, 0.0, high, xtol=1e-15 * high)
    return float(root)


def best_weights(weights: np.ndarray, margins: np.ndarray, loss: str, v: float) -> np.ndarray:
    """All weights >= 0 that minimise the objective, none more than twice the sum of those given."""

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        rho = margins @ w
        value = lost(rho, loss) + v * w.sum()
        return value / scale, (v - slopes(rho, loss) @ margins) / scale

    # The logistic loss may end anywhere above 0, and tolerances are absolute.
    scale = 1.0
    scale = 1.0 if loss == "exponential" else objective(weights)[0]
    bounds = [(0.0, 2.0 * weights.sum())] * len(weights)
    options = {"maxiter": 200, "ftol": 1e-12, "gtol": 1e-12}
    value = objective(weights)[0]
    for _ in range(5):  # a step that went wrong ends it early now and then: it starts afresh
        found = minimize(objective, weights, jac=True, bounds=bounds, options=options)
        weights, before, value = found.x, value, found.fun
        if before - value <= 1e-9 * abs(value):
            break
    return weights
