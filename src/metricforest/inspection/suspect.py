"""Labelled pairs that the forest disbelieves: where a labeller may have erred.

Two estimates of the probability that two rows are the same:

- the distance of the two rows, by a logistic curve over all labelled pairs. A forest leans towards the
  labels it has learned from, so this estimate is biased; distances may also come from forests that have
  not seen the pair (`cv`);
- the labelled pairs about rows near these two. A labelled pair (u, v) has a vote about (a, b) with the weight
  exp(-(D(a, u) + D(b, v)) / h), whichever way round is heavier counted with the other; h is the
  median distance of labelled rows to the `NEAR`-th labelled row beside them. `PRIOR` votes for the share of
  must-links among all pairs are added, so that a single faint neighbour does not decide.

The suspicion is the mean of both probabilities that the label is wrong.

With K the sparse matrix of exp(-D / h) between labelled rows and S that of labels (+1, -1), the votes of all
pairs are the entries (a, b) of K S K', less what a pair says about itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from .calibration import fit_logistic

NEAR = 8  # the neighbour whose distance is the unit of nearness
HEARD = 150  # labelled rows near a row that have a vote, at most
PRIOR = 0.3  # votes for what is usual
BLOCK = 1_024  # pairs whose votes are counted together


@dataclass(frozen=True)
class SuspectPairs:
    """Labelled pairs, the most suspect first; from `HierarchyForest.suspect_pairs`.

    Attributes
    ----------
    pairs : ndarray of shape (n, 2)
        Row numbers of `fit`.
    pair_labels : ndarray of shape (n,)
        How they were labelled: +1 the same, -1 different.
    suspicion : ndarray of shape (n,)
        Estimated probability that the label is wrong; good for ranking, not calibrated.
    distance : ndarray of shape (n,)
        Of the two rows; with `cv`, under forests that have not seen the label.
    """

    pairs: np.ndarray
    pair_labels: np.ndarray
    suspicion: np.ndarray
    distance: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, chosen: slice) -> SuspectPairs:
        """Some of them, as with an array."""
        return SuspectPairs(
            self.pairs[chosen],
            self.pair_labels[chosen],
            self.suspicion[chosen],
            self.distance[chosen],
        )

    def summary(self, n: int = 10) -> str:
        """The first n as text."""
        lines = []
        for (i, j), label, doubt, far in zip(
            self.pairs[:n], self.pair_labels, self.suspicion, self.distance, strict=False
        ):
            labelled = "same" if label == 1 else "different"
            lines.append(
                f"rows {i} and {j}: labelled {labelled}, {far:.3f} apart, suspicion {doubt:.2f}"
            )
        return "\n".join(lines)


def distance_curve(distance: np.ndarray, same: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Probability that a pair is the same as a function of its distance.

    From labelled pairs; where all of them are of one kind, the share of labelled pairs that are farther.
    """
    if same.all() or not same.any():
        ascending = np.sort(distance)

        def farther(far: np.ndarray) -> np.ndarray:
            below = np.searchsorted(ascending, far) + np.searchsorted(ascending, far, "right")
            return 1.0 - below / (2 * len(ascending))

        return farther
    curve = fit_logistic(distance, same)
    return lambda far: expit(curve["slope"] * far + curve["intercept"])


def nearness_unit(far: np.ndarray) -> float:
    """h: the median distance to the `NEAR`-th neighbour, from those to the nearest ones (n, k)."""
    if far.shape[1] == 0:
        return 1.0
    return float(np.median(far[:, min(NEAR, far.shape[1]) - 1])) or 1.0


def same_by_neighbours(
    pairs: np.ndarray, labels: np.ndarray, far: np.ndarray, near: np.ndarray
) -> np.ndarray:
    """Probability that pairs are the same, from labelled pairs about rows nearby.

    `pairs` count labelled rows from 0; far, near (U, k): distances and numbers of the labelled rows
    nearest to each, itself left out.
    """
    n_rows, k = near.shape
    same = labels == 1
    unit = nearness_unit(far)
    steps = np.arange(0, n_rows * k + 1, k)
    K = sp.csr_matrix((np.exp(-far.ravel() / unit), near.ravel(), steps), (n_rows, n_rows))
    K = (K.maximum(K.T) + sp.eye_array(n_rows)).tocsr()

    def matrix(values: np.ndarray) -> sp.csr_matrix:
        S = sp.coo_matrix((values.astype(float), (pairs[:, 0], pairs[:, 1])), (n_rows, n_rows))
        return (S + S.T).tocsr()

    heard, must = matrix(np.ones(len(pairs))), matrix(same)
    share = same.mean()
    out = np.empty(len(pairs))
    for low in range(0, len(pairs), BLOCK):
        a, b = pairs[low : low + BLOCK].T
        from_a, to_b = K[a], K[b]
        own = 1.0 + np.asarray(from_a[np.arange(len(a)), b]).ravel() ** 2
        votes, yes = (
            np.asarray((from_a @ S).multiply(to_b).sum(axis=1)).ravel() for S in (heard, must)
        )
        yes = yes - own * same[low : low + BLOCK]
        votes = np.maximum(votes - own, 0.0)
        out[low : low + BLOCK] = (yes.clip(0.0, votes) + PRIOR * share) / (votes + PRIOR)
    return out


def doubt(same: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Probability that labels are wrong, from that of being the same."""
    return np.where(labels == 1, 1.0 - same, same)


def suspicion(
    metric: Any, rows: np.ndarray, pairs: np.ndarray, labels: np.ndarray, far: np.ndarray
) -> np.ndarray:
    """How likely each label is wrong, by both estimates; `far` are the distances of the pairs of rows."""
    doubted = doubt(distance_curve(far, labels == 1)(far), labels)
    labelled, place = np.unique(pairs, return_inverse=True)
    if len(labelled) <= 2:
        return doubted
    beside = metric._over(rows[labelled])
    k = min(HEARD, len(labelled) - 1)
    votes = same_by_neighbours(place.reshape(-1, 2), labels, *beside._nearest(None, k))
    return (doubted + doubt(votes, labels)) / 2
