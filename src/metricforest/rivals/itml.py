"""Information-theoretic metric learning (Davis, Kulis, Jain, Sra and Dhillon, ICML 2007).

Among all matrices A, find the one nearest to a prior A0 under which must-links are short and
cannot-links long: with p the squared length of a pair under A, u and l the bounds for must-links and
cannot-links, phi(r) = r - log r - 1 and LogDet(A, A0) = tr(A inv(A0)) - log det(A inv(A0)) - d,

    minimise LogDet(A, A0) + gamma sum phi(xi / xi0)
    with     p <= xi, xi0 = u for a must-link,  p >= xi, xi0 = l for a cannot-link.

Rows are mapped first so that A0 is the identity. For given A the best xi is max(p, u) or min(p, l):
what remains is a smooth convex function F of A = CC', which L-BFGS minimises in C by matrix products
over the rows. The projections of the paper climb its dual one pair at a time. At any A, the
multipliers lambda = gamma (1 / xi0 - 1 / xi) (< 0 for a cannot-link) give M = I + sum lambda e e' and,
where M is positive definite, the lower bound log det M - gamma sum log(xi / xi0) of the minimum: the
gap to it decides when to stop, for both solvers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from ..checks import check_choice, check_real, check_whole
from ..core import aside, kernel
from ..warn import warn
from .fitting import say
from .mapped import LinearMetric
from .paired import PairMetric
from .scatter import by_weight, scatter

GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of `gamma` worth trying."""

PRIORS = ("identity", "covariance")
SOLVERS = ("lbfgs", "projections")
PERCENTILES = (5, 95)
N_SAMPLED = 20_000  # pairs of rows whose squared lengths give the percentiles
COINCIDE = 1e-12  # a pair shorter than this share of the upper bound joins equal rows
SCALE = 2.0  # L-BFGS first goes a step of length 1, which from C = I could end at a singular C
PER_FEATURE = 10.0  # largest gamma for the scale of features, per breached must-link and feature
TINY = 1e-300  # keeps logarithms finite
PRIOR_RIDGE = 1e-6  # share of the mean variance added to the covariance of the prior


class ITML(LinearMetric, PairMetric):
    """Information-theoretic metric learning: the matrix nearest to a prior that honours pairs.

    Must-links are asked to be shorter than a small percentile of all distances and cannot-links
    longer than a large one; `gamma` weighs breaches of that against leaving the prior.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of the pairs. Small stays near the prior. `metricforest.rivals.itml.GAMMAS` holds five
        values worth trying.
    prior : {"identity", "covariance"}, default="identity"
        Where to start from: the Euclidean or the Mahalanobis distance.
    bounds : tuple of two floats, default=None
        Squared distances: what a must-link should be at most, what a cannot-link should be at least.
        None takes the 5th and the 95th percentile of squared distances under the prior between
        20,000 random pairs of different rows.
    solver : {"lbfgs", "projections"}, default="lbfgs"
        Both solve the same problem. "projections" are the cyclic Bregman projections of the paper,
        kept as a reference: far slower where `gamma` is not small.
    tol : float, default=1e-4
        Stop when the objective is proven to be so near its minimum, relative to itself or to 1.
    max_iter : int, default=1000
        Most passes over the pairs. A fit that ends on it warns.
    n_constraints : "auto" or int, default="auto"
        As in `HierarchyForest`: pairs to draw from `y`.
    standardize : bool, default=True
        As in `Euclidean`.
    n_jobs : int, default=None
        Threads of the neighbour search. Learning uses those of the linear algebra library.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs, the sampled distances and the order of projections.
    verbose : int, default=0
        1 prints objective and gap of every pass on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (`n_features_in_`, `n_features_in_`)
        The map; the learned matrix is ``components_.T @ components_``.
    bounds_ : tuple of two floats
        The bounds in use.
    objective_ : float
        Value of the objective.
    gap_ : float
        How far it is from its minimum at most.
    n_iter_ : int
        Passes over the pairs.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    Notes
    -----
    Pairs of equal rows are left out: no matrix can change their distance.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import ITML
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = ITML(random_state=0).fit(X, y)
    >>> metric.gap_ <= 1e-4 * metric.objective_
    True
    """

    def __init__(
        self,
        gamma: float = 1.0,
        prior: str = "identity",
        bounds: tuple[float, float] | None = None,
        solver: str = "lbfgs",
        tol: float = 1e-4,
        max_iter: int = 1_000,
        n_constraints: int | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        super().__init__(n_constraints, standardize, n_jobs, random_state)
        self.gamma = gamma
        self.prior = prior
        self.bounds = bounds
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real(self, "gamma", 0.0, 1e6, open_low=True)
        check_choice(self, "prior", PRIORS)
        check_choice(self, "solver", SOLVERS)
        check_real(self, "tol", 0.0, 1.0, open_low=True)
        check_whole(self, "max_iter", 1)
        if self.bounds is not None:
            try:
                bounds = np.asarray(self.bounds, float)
            except (TypeError, ValueError):
                bounds = np.empty(0)
            if bounds.shape != (2,) or not 0.0 < bounds[0] <= bounds[1] < np.inf:
                raise ValueError(f"bounds must be (u, l) with 0 < u <= l, got {self.bounds!r}")

    def _learn(self, rows, must, cannot, rng) -> None:
        half = square_root_of_prior(rows, self.prior)
        Z = rows @ half
        self.bounds_ = u, l = sampled_bounds(Z, rng) if self.bounds is None else self.bounds
        problem = pose(Z, must, cannot, float(u), float(l), float(self.gamma))
        if self.solver == "lbfgs":
            best = minimise(problem, self.tol, self.max_iter, self.verbose)
        else:
            best = project(problem, self.tol, self.max_iter, rng, self.verbose)
        self.components_ = by_weight(best.C.T @ half.T)
        self.objective_, self.gap_, self.n_iter_ = best.objective, best.gap, best.n_iter
        if not best.proven(self.tol):
            warn(
                f"ITML stopped after {best.n_iter} passes at an objective of {best.objective:g}, not "
                f"proven to be nearer than {best.gap:.2g} to its minimum; a larger max_iter or tol or "
                "a smaller gamma helps",
                ConvergenceWarning,
            )


class Problem(NamedTuple):
    """Rows of the labelled pairs, mapped so that the prior is the identity, and the m pairs' bounds."""

    Z: np.ndarray  # float64 [n, d], centred
    pairs: np.ndarray  # int64 [m, 2]
    sign: np.ndarray  # float64 [m]  1 for a must-link, -1 for a cannot-link
    xi0: np.ndarray  # float64 [m]   its bound, u or l
    gamma: float


def pose(
    Z: np.ndarray, must: np.ndarray, cannot: np.ndarray, u: float, l: float, gamma: float
) -> Problem:
    """The problem without rows that no pair names and without pairs of equal rows."""
    pairs = np.concatenate([must, cannot])
    sign = np.repeat([1.0, -1.0], [len(must), len(cannot)])
    apart = squared_lengths(Z, pairs) > COINCIDE * l
    named, pairs = np.unique(pairs[apart], return_inverse=True)
    sign = sign[apart]
    Z = Z[named]
    Z -= Z.mean(axis=0) if len(Z) else 0.0
    return Problem(Z, pairs.reshape(-1, 2), sign, np.where(sign > 0.0, u, l), gamma)


class Best:
    """The best point seen, and the best lower bound of the minimum."""

    def __init__(self, d: int, verbose: int):
        self.C = np.eye(d)
        self.objective, self.bound, self.n_iter = np.inf, -np.inf, 0
        self.verbose = verbose

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.bound)

    def see(self, C: np.ndarray, objective: float, bound: float) -> None:
        self.n_iter += 1
        self.bound = max(self.bound, bound)
        if objective < self.objective:
            self.C, self.objective = C.copy(), objective
        say(
            self.verbose,
            f"ITML pass {self.n_iter}: objective {self.objective:.6g}, gap {self.gap:.2g}",
        )

    def proven(self, tol: float) -> bool:
        return self.gap <= tol * max(1.0, self.objective)


def square_root_of_prior(rows: np.ndarray, prior: str) -> np.ndarray:
    """H with HH' = A0."""
    d = rows.shape[1]
    if prior == "identity":
        return np.eye(d)
    covariance = np.cov(rows, rowvar=False, bias=True).reshape(d, d)
    variance, directions = np.linalg.eigh(covariance)
    mean = variance.mean()
    return directions / np.sqrt(variance.clip(0.0) + PRIOR_RIDGE * mean) if mean > 0 else np.eye(d)


def sampled_bounds(Z: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles of squared distances between different rows, (1, 1) if all rows are equal."""
    n = len(Z)
    i = rng.integers(n, size=N_SAMPLED)
    j = (i + rng.integers(1, n, size=N_SAMPLED)) % n
    sq_dist = squared_lengths(Z, np.column_stack([i, j]))
    longest = sq_dist.max()
    if not np.isfinite(longest):
        raise ValueError(f"X holds {np.abs(Z).max():g}; its squared distances overflow")
    u, l = np.percentile(sq_dist[sq_dist > COINCIDE * longest] if longest else [1.0], PERCENTILES)
    return float(u), float(l)


def evaluate(problem: Problem, C: np.ndarray) -> tuple[float, np.ndarray, float]:
    """(F, M, lower bound of the minimum of F) at A = CC'. The gradient in A is M - inv(A)."""
    Z, pairs, sign, xi0, gamma = problem
    d = len(C)
    ratio = squared_lengths(Z @ C, pairs) / xi0
    breach = sign * ratio > sign
    ratio = ratio[breach].clip(TINY)  # xi / xi0 where it is not 1
    M = np.eye(d) + pair_scatter(Z, pairs[breach], gamma * (1.0 - 1.0 / ratio) / xi0[breach])
    log_ratio = np.log(ratio).sum()
    slack = (ratio - 1.0).sum()
    log_det = 2.0 * np.linalg.slogdet(C)[1]
    objective = np.sum(C * C) - log_det - d + gamma * (slack - log_ratio)
    try:
        bound = 2.0 * np.log(np.diag(np.linalg.cholesky(M))).sum() - gamma * log_ratio
    except np.linalg.LinAlgError:
        bound = -np.inf
    return float(objective), M, float(bound)


def pair_scatter(Z: np.ndarray, pairs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Sum of weight e e' over pairs, e = z_i - z_j."""
    return scatter(Z, sp.csr_matrix((weight, tuple(pairs.T)), shape=(len(Z), len(Z))))


def minimise(problem: Problem, tol: float, max_iter: int, verbose: int = 0) -> Best:
    """L-BFGS on F as a function of inv(H)C, from the prior, C = I."""
    d = problem.Z.shape[1]
    H = root_for_must_links(problem)
    best = Best(d, verbose)

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        C = H @ x.reshape(d, d) / SCALE
        objective, M, bound = evaluate(problem, C)
        best.see(C, objective, bound)
        if best.proven(tol) or best.n_iter >= max_iter:
            raise StopIteration
        return objective, 2.0 / SCALE * (H @ (M @ C - np.linalg.inv(C).T)).ravel()

    with suppress(StopIteration):
        minimize(
            value_and_gradient,
            SCALE * np.linalg.inv(H).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxfun": 2 * max_iter, "ftol": 0.0, "gtol": 0.0},
        )
    return best


def root_for_must_links(problem: Problem) -> np.ndarray:
    """Symmetric H with HH = inv(M), M of the must-links alone at A = I.

    The minimum has A = inv(M) of all pairs at A. H brings features of very different variance to one
    scale, by as much as gamma asks for: on CIFAR's principal components L-BFGS needs a tenth of the
    steps. Few must-links would mostly stretch what they do not span, so they get less weight.
    """
    Z, pairs, sign, xi0, gamma = problem
    d = Z.shape[1]
    ratio = squared_lengths(Z, pairs) / xi0
    breach = (sign > 0.0) & (ratio > 1.0)
    gamma = min(gamma, PER_FEATURE * breach.sum() / d)
    M = np.eye(d) + pair_scatter(
        Z, pairs[breach], gamma * (1.0 - 1.0 / ratio[breach]) / xi0[breach]
    )
    if not np.isfinite(M).all():
        return np.eye(d)
    values, axes = np.linalg.eigh(M)
    return axes / np.sqrt(values.clip(1.0)) @ axes.T


def project(
    problem: Problem, tol: float, max_iter: int, rng: np.random.Generator, verbose: int = 0
) -> Best:
    """Cyclic Bregman projections in one random order.

    Must-links and cannot-links in turns, as they come, are what makes them converge at all: all
    must-links first collapse A before the first cannot-link is seen.
    """
    Z, pairs, sign, xi0, gamma = problem
    order = rng.permutation(len(sign))
    pairs, sign, xi0 = pairs[order], sign[order], xi0[order]
    A, dual, xi = np.eye(Z.shape[1]), np.zeros(len(sign)), xi0.copy()
    best = Best(len(A), verbose)
    for _ in range(max_iter):
        aside(sweep, A, Z, pairs, sign, gamma, dual, xi)
        try:
            C = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:  # rounding has eaten the smallest eigenvalue
            break
        objective, _, bound = evaluate(problem, C)
        own = -2.0 * np.log(np.diag(C)).sum() - gamma * np.log(xi / xi0).sum()
        best.see(C, objective, max(bound, float(own)))
        if best.proven(tol):
            break
    return best


@kernel
def squared_lengths(Z, pairs):
    """Squared distance of the two rows of every pair."""
    sq_dist = np.zeros(len(pairs))
    for k in range(len(pairs)):
        for f in range(Z.shape[1]):
            e = Z[pairs[k, 0], f] - Z[pairs[k, 1], f]
            sq_dist[k] += e * e
    return sq_dist


@kernel
def sweep(A, Z, pairs, sign, gamma, dual, xi):
    """Project A onto the constraint of every pair in turn; A, dual and xi change in place."""
    d = len(A)
    e, v = np.empty(d), np.empty(d)
    for k in range(len(pairs)):
        for i in range(d):
            e[i] = Z[pairs[k, 0], i] - Z[pairs[k, 1], i]
            v[i] = 0.0
        for j in range(d):  # v = Ae by rows of the symmetric A: no sum to reorder, so it vectorises
            for i in range(d):
                v[i] += e[j] * A[j, i]
        p = 0.0
        for i in range(d):
            p += e[i] * v[i]
        if not p > 0.0:
            continue
        alpha = min(dual[k], sign[k] * gamma / (gamma + 1.0) * (1.0 / p - 1.0 / xi[k]))
        if alpha == 0.0:
            continue
        beta = sign[k] * alpha / (1.0 - sign[k] * alpha * p)
        xi[k] *= gamma / (gamma + sign[k] * alpha * xi[k])
        dual[k] -= alpha
        root = np.sqrt(abs(beta))
        for i in range(d):
            v[i] *= root
        for j in range(d):  # A += beta (Ae)(Ae)', exactly symmetric
            c = v[j] if beta > 0.0 else -v[j]
            for i in range(d):
                A[j, i] += c * v[i]
