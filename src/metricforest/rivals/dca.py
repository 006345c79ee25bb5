"""Discriminative component analysis (Hoi, Liu, Lyu and Ma, CVPR 2006).

Must-links join rows into chunklets. Directions are sought in which the means of chunklets that a
cannot-link separates lie far apart while each chunklet stays small: maximise |A'CbA| / |A'CwA|, by the
leading eigenvectors of Cb a = lambda Cw a with a'Cw a = 1.

The paper whitens Cb first and then keeps the directions of least Cw. That is the same A where Cb has
full rank. Where it has not, it looks for A in the range of Cb only and can miss the maximum.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, eigh
from scipy.sparse.csgraph import connected_components, laplacian

from ..checks import check_real
from ..warn import warn
from .fitting import check_n_components
from .mapped import LinearMetric
from .paired import PairMetric

RANK = 1e-9  # eigenvalues below this share of the largest are zero
ROUNDING = 1e-14  # so is a scatter whose trace is below this share of that of all rows


class DCA(LinearMetric, PairMetric):
    """Discriminative component analysis: a linear map from must-links and cannot-links.

    With as many components as features and cannot-links that span all directions, the learned matrix
    is the inverse of the within-chunklet scatter, whatever the cannot-links say: they choose and
    order directions, and only matter where fewer are kept (`n_components`) or where they do not span
    all of them.

    Parameters
    ----------
    n_components : int, default=None
        Directions to keep, the most discriminative ones. None keeps all that the cannot-links span,
        and there are never more.
    ridge : float, default=0.1
        Added to the diagonal of the within-chunklet scatter, as a share of its mean diagonal entry.
        Few must-links leave directions without scatter, which blow up as it goes to 0.
    n_constraints : "auto" or int, default="auto"
        As in `HierarchyForest`: pairs to draw from `y`.
    standardize : bool, default=True
        As in `Euclidean`.
    n_jobs : int, default=None
        Threads of the neighbour search.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, `n_features_in_`)
        The map; the learned matrix is ``components_.T @ components_``.
    n_chunklets_ : int
        Chunklets with at least two rows.
    n_features_in_, feature_names_in_, mean_, scale_
        As in `Euclidean`.

    Notes
    -----
    A cannot-link inside a chunklet contradicts the must-links and is left out with a warning. Without
    must-links the within-chunklet scatter is taken to be the identity; without cannot-links no
    direction is preferred, which with all components is relevant component analysis.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from metricforest.rivals import DCA
    >>> X, y = load_iris(return_X_y=True)
    >>> DCA(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        ridge: float = 0.1,
        n_constraints: int | str = "auto",
        standardize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(n_constraints, standardize, n_jobs, random_state)
        self.n_components = n_components
        self.ridge = ridge

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real(self, "ridge", 0.0, np.inf, open_low=False)

    def _learn(self, rows, must, cannot, rng) -> None:
        check_n_components(self, rows.shape[1])
        keep = self.n_components or rows.shape[1]
        Cb, Cw, self.n_chunklets_ = scatters(rows, must, cannot)
        self.components_ = discriminate(Cb, Cw, float(self.ridge), keep)
        if self.n_components and len(self.components_) < self.n_components:
            warn(
                f"n_components={self.n_components}, but the cannot-links span only "
                f"{len(self.components_)} directions: no more are kept",
                UserWarning,
            )


def scatters(
    rows: np.ndarray, must: np.ndarray, cannot: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """(Cb between chunklets that a cannot-link separates, Cw within chunklets, number of chunklets).

    Each is zero where there is nothing to take it from.
    """
    n, d = rows.shape
    rows = rows - rows.mean(axis=0)
    links = sp.coo_matrix((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n))
    n_parts, part = connected_components(links, directed=False)
    size = np.bincount(part, minlength=n_parts)
    gather = sp.csr_matrix((1.0 / size[part], (part, np.arange(n))), shape=(n_parts, n))
    means = gather @ rows

    joined = np.flatnonzero(size[part] >= 2)
    n_chunklets = int((size >= 2).sum())
    apart = rows[joined] - means[part[joined]]
    apart /= np.sqrt(n_chunklets * size[part[joined]])[:, None]
    Cw = apart.T @ apart

    a, b = np.sort(part[cannot], axis=1).T
    inside = a == b
    if inside.any():
        warn(
            f"{inside.sum()} of {len(cannot)} cannot-links join rows that must-links join as well; "
            "they are left out",
            UserWarning,
        )
    key = np.unique(a[~inside].astype(np.int64) * n_parts + b[~inside])
    parted = sp.coo_matrix(
        (np.ones(len(key)), (key // n_parts, key % n_parts)), shape=(n_parts, n_parts)
    )
    # The sum of (m_a - m_b)(m_a - m_b)' over the edges of a graph is M' L M with its Laplacian L.
    Cb = means.T @ (laplacian(parted + parted.T) @ means) / max(1, len(key))
    least = ROUNDING * np.sum(rows**2) / n
    Cb, Cw = (C if np.trace(C) > least else np.zeros((d, d)) for C in ((Cb + Cb.T) / 2, Cw))
    return Cb, Cw, n_chunklets


def discriminate(Cb: np.ndarray, Cw: np.ndarray, ridge: float, keep: int) -> np.ndarray:
    """The `keep` leading directions as rows a with a'(Cw + ridge)a = 1; fewer if Cb has fewer."""
    d = len(Cb)
    Cw = Cw + ridge * np.trace(Cw) / d * np.eye(d) if Cw.any() else np.eye(d)
    if not Cb.any():
        Cb = np.eye(d)
    try:
        ratio, directions = eigh(Cb, Cw)
    except LinAlgError:
        raise ValueError(
            f"the within-chunklet scatter is singular with ridge={ridge}: give a larger ridge"
        ) from None
    spanned = int((ratio > RANK * ratio[-1]).sum())
    return directions[:, ::-1][:, : min(keep, spanned)].T.copy()
