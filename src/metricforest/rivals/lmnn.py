"""LMNN: large margin nearest neighbours (Weinberger and Saul, JMLR 10, 2009).

The problem is convex in M = L^T L. It is solved for L, by L-BFGS on the loss of impostors.py with an
ever sharper hinge; impostors are sought anew after every few steps. Rows are rotated to unit
covariance first, which leaves the problem as it is and makes it well conditioned. What it costs at
least is known from the dual,

    max sum_r u_r    with 0 <= u_r <= mu and C - sum_r u_r A_r positive semidefinite,

where r runs over (row, target, impostor), A_r = C_il - C_ij and C = (1 - mu) sum C_ij: the slopes of
the hinges, shrunk until the matrix is positive semidefinite, are such u.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, eigvalsh, svd
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances

from ..checks import check_real, check_whole
from ..supervision import constraints as cn
from ..warn import warn
from .fitting import NeedsLabels, check_n_components, labelled_classes, refuse, say
from .impostors import MOST, Loss, Neighbors, find_impostors, links, margin_loss
from .mapped import LinearMetric
from .scatter import by_weight, scatter

FIRST, LAST, SHARPER = 0.1, 1e-6, 0.1  # widths over which the hinge is rounded off
ROUND = 30  # steps of L-BFGS between two searches for impostors
HALVINGS = 12  # of a step that met unlisted impostors
LARGE = 4_000_000  # numbers in the rows from which on single precision is good enough
SAMPLE = 128  # rows that decide on the scale of the first map
SHORTEST = 1e-3  # beside the longest row of the first map: L-BFGS would not see a shorter one grow
RANK = 1e-11  # directions in which rows spread less, by the largest, are left out


class Solution(NamedTuple):
    """What `solve` found."""

    L: np.ndarray  # [r, d]
    objective: float
    bound: float  # no map has a smaller objective
    n_iter: int  # steps of L-BFGS
    converged: bool
    complete: bool  # whether all impostors were counted


class LMNN(NeedsLabels, LinearMetric):
    """Large margin nearest neighbours: a linear map that makes k-nearest-neighbour votes right.

    Every labelled row should be nearer to its `n_neighbors` nearest rows of its own class (in the
    given features, once and for all) than to any row of another class, by a margin: minimises

        (1 - mu) sum_ij d_ij + mu sum_ijl max(0, 1 + d_ij - d_il)

    over squared distances ``d`` of mapped rows, ``j`` a target neighbour of ``i`` and ``l`` of another
    class. Learns from labels only; unlabelled rows are not used, but can be found.

    Parameters
    ----------
    n_neighbors : int, default=3
        Target neighbours of every row; fewer for rows of a class that has no more.
    mu : float, default=0.5
        Weight of pushing other classes away, between 0 and 1; the rest draws targets nearer.
    n_components : int, default=None
        Most dimensions of the mapped rows. None: as many as there are features. With fewer the
        problem is not convex, and the map is one that small changes do not improve.
    max_iter : int, default=1000
        Steps of the optimiser at most.
    tol : float, default=0.01
        The objective may be about this share above its minimum.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first.
    n_jobs : int, default=None
        Threads. None is 1 unless in a `joblib.parallel_config`; -1 uses all cores.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, `n_features_in_`)
        The map of standardised rows, rows by falling weight: the metric is Euclidean distance of
        ``rows @ components_.T``.
    objective_ : float
        The objective at the map.
    objective_bound_ : float
        No map has a smaller objective (of the directions in which rows spread by at least 1e-11 of
        the largest). 0 where nothing is proven.
    n_iter_ : int
        Steps of the optimiser.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    References
    ----------
    K. Q. Weinberger and L. K. Saul, "Distance Metric Learning for Large Margin Nearest Neighbor
    Classification", JMLR 10, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest.rivals import LMNN
    >>> X = np.array([[0.0, 0], [0.1, 9], [0.2, 4], [1.0, 1], [1.1, 8], [1.2, 5]])
    >>> lmnn = LMNN(n_neighbors=2).fit(X, [0, 0, 0, 1, 1, 1])
    >>> sorted(lmnn.kneighbors(n_neighbors=2, return_distance=False)[0].tolist())
    [1, 2]
    """

    def __init__(
        self,
        n_neighbors: int = 3,
        mu: float = 0.5,
        n_components: int | None = None,
        max_iter: int = 1_000,
        tol: float = 0.01,
        standardize: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(standardize, n_jobs)
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_neighbors", 1)
        check_whole(self, "max_iter", 1)
        check_real(self, "mu", 0.0, 1.0, open_low=True, open_high=True)
        check_real(self, "tol", 0.0, 1.0, open_low=True, open_high=True)

    def _fit(self, X, y, pairs, pair_labels, triplets) -> None:
        refuse(self, "labels y", pairs=pairs, pair_labels=pair_labels, triplets=triplets)
        rows = self._standardised(X)
        check_n_components(self, rows.shape[1])
        codes = labelled_classes(self, y, len(rows))
        known = np.flatnonzero(codes != cn.UNLABELLED)
        learned, own = rows[known], codes[known]
        targets = cn.class_neighbors(learned, own, self.n_neighbors, True, self.n_jobs)
        found = solve(
            learned,
            own,
            targets,
            float(self.mu),
            self.n_components,
            self.max_iter,
            float(self.tol),
            self.n_jobs,
            self.verbose,
        )
        warn_unfinished(found)
        self.components_ = found.L
        self.objective_, self.objective_bound_ = found.objective, found.bound
        self.n_iter_ = found.n_iter
        self._index(rows)


def warn_unfinished(found: Solution) -> None:
    if not found.converged:
        warn(
            f"LMNN has not converged in {found.n_iter} steps: its objective is "
            f"{found.objective:.6g}, proven to be at least {found.bound:.6g}",
            ConvergenceWarning,
        )
    if not found.complete:
        warn(
            f"so many rows of other classes are within the margin that only the {MOST:,} nearest were "
            "counted",
            ConvergenceWarning,
        )


def solve(
    rows: np.ndarray,
    codes: np.ndarray,
    targets: np.ndarray,
    mu: float = 0.5,
    n_components: int | None = None,
    max_iter: int = 1_000,
    tol: float = 0.01,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Solution:
    """The map that minimises LMNN's objective on labelled rows; `targets` int32 [n, k], -1 for none.

    Ends when a round of L-BFGS gains less than a tenth of tol and rounding the hinge costs less than
    tol, or when the bound proves what is left to be less than tol.
    """
    white, back, L = whiten(rows)
    if white.size > LARGE:
        white = white.astype(np.float32)
    L = L[:n_components]
    L *= np.sqrt(best_scale(white @ L.T, codes, targets, mu))
    near = find_impostors(image(white, L), codes, targets, n_jobs)
    bound_from = dual_bound(white, near, 1.0 - mu)
    best, bound, n_iter, tau, converged = None, 0.0, 0, FIRST, False

    def at(L: np.ndarray, near: Neighbors) -> Loss:
        return margin_loss(image(white, L), near, 1.0 - mu, mu, tau, n_jobs)

    def flat(values: np.ndarray) -> tuple[float, np.ndarray]:
        found = at(values.reshape(L.shape), near)
        slope = (found.gradient.T @ white).ravel().astype(np.float64)
        return found.value / unit, slope / unit  # of order 1: L-BFGS takes ftol as of 1 at least

    before = at(L, near).value
    while n_iter < max_iter and not converged:
        unit = before or 1.0
        options = {"maxiter": min(ROUND, max_iter - n_iter), "maxcor": 5, "ftol": 1e-5, "gtol": 0}
        step = minimize(flat, L.ravel(), jac=True, method="L-BFGS-B", options=options)
        n_iter += max(1, step.nit)
        # The list is right near L. A step beyond what it covers may meet impostors that outweigh
        # its gain: then half of it is tried, and so on.
        for halving in range(HALVINGS):
            moved = L + (step.x.reshape(L.shape) - L) / 2**halving
            there = find_impostors(image(white, moved), codes, targets, n_jobs)
            now = at(moved, there)
            if now.value <= before and there.complete >= near.complete:
                L, near = moved, there
                break
        else:
            now = at(L, near)
        stuck = before - now.value <= 0.1 * tol * now.value
        before = now.value
        if best is None or now.plain < best.objective:
            best = Solution(L, now.plain, 0.0, 0, False, near.complete)
        if stuck:
            bound = max(bound, bound_from(near, now))
            converged = (
                best.objective - bound <= tol * best.objective
                or now.plain - now.value <= tol * now.plain
            )
            if not converged:
                tau *= SHARPER
                if tau < LAST:
                    break
                before = at(L, near).value
        say(
            verbose,
            f"LMNN step {n_iter}: objective {now.plain:.6g}, proven at least {bound:.6g}, "
            f"{len(near.other):,} neighbours listed",
        )
    assert best is not None
    L = by_weight(best.L @ back.T)
    return best._replace(L=L, bound=bound, n_iter=n_iter, converged=converged)


def image(white: np.ndarray, L: np.ndarray) -> np.ndarray:
    return white @ L.T.astype(white.dtype)


def whiten(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows of unit covariance, ``back`` with white = centred rows @ back, a first map of white rows).

    The first map gives the distances of the rows as they came, but for directions in which these
    hardly spread; its rows come by falling length. Columns are brought to one scale first: which
    directions are there at all must not depend on units.
    """
    centred = rows - rows.mean(axis=0)
    scale = np.abs(centred).max(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    left, singular, right = svd(centred / scale, full_matrices=False)
    q = max(1, int((singular > RANK * singular[0]).sum()))
    spread = singular[:q] / np.sqrt(len(rows))
    spread = np.where(spread > 0.0, spread, 1.0)
    axes, lengths, _ = svd((right[:q].T * spread).T * scale, full_matrices=False)
    lengths = np.maximum(lengths, SHORTEST * lengths[0])
    return (
        np.ascontiguousarray(left[:, :q]) * np.sqrt(len(rows)),
        right[:q].T / spread / scale[:, np.newaxis],
        (axes * lengths).T,
    )


def best_scale(Z: np.ndarray, codes: np.ndarray, targets: np.ndarray, mu: float) -> float:
    """The factor of squared distances that minimises the objective, measured on a sample of rows."""
    sample = np.flatnonzero(targets[:, 0] >= 0)
    sample = sample[np.linspace(0, len(sample) - 1, min(SAMPLE, len(sample))).astype(int)]
    sq_dist = euclidean_distances(Z[sample], Z, squared=True)
    to_target = np.take_along_axis(sq_dist, targets[sample], axis=1)
    to_target[targets[sample] < 0] = np.nan
    foreign = codes[sample, None] != codes
    typical = sq_dist[foreign].mean()
    if not typical > 0.0:
        return 1.0

    def objective(log_scale: float) -> float:
        scale = np.exp(log_scale) / typical
        total = (1.0 - mu) * scale * np.nansum(to_target)
        for j in range(targets.shape[1]):
            hinge = 1.0 + scale * (to_target[:, j, None] - sq_dist)
            total += mu * np.nansum(hinge, where=foreign & (hinge > 0.0))
        return total

    found = minimize_scalar(
        objective, bounds=(-7.0, 14.0), method="bounded", options={"xatol": 0.1}
    )
    return float(np.exp(found.x) / typical)


def dual_bound(
    white: np.ndarray, near: Neighbors, pull: float
) -> Callable[[Neighbors, Loss], float]:
    """A function that bounds the objective from below by the slopes of the hinges at some map."""
    white = white.astype(np.float64)
    is_target = np.zeros(len(near.other))
    for j in range(int((near.middle - near.start[:-1]).max())):
        is_target[(near.start[:-1] + j)[near.start[:-1] + j < near.middle]] = 1.0
    C = scatter(white, links(near, pull * is_target))
    eigenvalues, axes = eigh(C)
    if eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
        return lambda near, loss: 0.0
    to_unit = axes / np.sqrt(eigenvalues)

    def bound(near: Neighbors, loss: Loss) -> float:
        # C - s sum u A >= 0 for s up to 1 / (1 - lowest eigenvalue of C - sum u A beside C).
        slack = to_unit.T @ scatter(white, links(near, loss.weight)) @ to_unit
        lowest = eigvalsh(slack, subset_by_index=[0, 0])[0]
        return loss.multipliers / max(1.0, 1.0 - lowest)

    return bound
