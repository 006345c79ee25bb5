"""Two pieces of linear algebra that the linear metrics share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import svd


def scatter(rows: np.ndarray, links: sp.csr_matrix) -> np.ndarray:
    """sum over pairs (a, b) of links[a, b] * (x_a - x_b)(x_a - x_b)^T, without forming a difference.

    It is X'(D - W - W')X, where W are the links and D what they add up to at every row: products with
    the rows, of which there are fewer than pairs. Rows far from 0 should come centred.
    """
    degree = np.asarray(links.sum(axis=0)).ravel() + np.asarray(links.sum(axis=1)).ravel()
    across = rows.T @ (links @ rows)
    return (rows.T * degree) @ rows - across - across.T


def by_weight(L: np.ndarray) -> np.ndarray:
    """The same metric with orthogonal rows, longest first, the largest entry of each positive."""
    _, lengths, axes = svd(L, full_matrices=False)
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return lengths[:, None] * axes * np.sign(largest)
