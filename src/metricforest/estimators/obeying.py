"""Clusters of a metric's rows that keep labelled pairs, and how many clusters the pairs speak for.

The number of clusters is chosen by pairs held out: without a fold of the pairs the rows are clustered for
every number, and the fold's pairs say how well. Too few clusters put different rows together, too many
set same rows apart, so the mean share of "same" and "different" pairs that come out right is greatest near
the true number. How alike the folds' clusters are counts a little too. Of numbers that do about as well the
least counts: where few pairs are the same, hardly anything tells against too many. Without pairs, a metric's
threshold says of any two rows whether they are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from ..base import Metric
from ..inspection import suspect
from ..supervision.left_out import fewest
from ..warn import warn
from . import points as pt
from .facts import SAME, Facts, facts_of
from .graph_cut import estimate_n_clusters, joined
from .obedient import Clustering, obedient_kmeans

RERUNS = 4  # from other seeds, to see how stable the clusters are
UNSTABLE = 0.6  # stability below which `fit` warns
FOLDS = 4
FEWEST = 8  # pairs of each kind from which on the number of clusters is chosen by pairs
ASKED = 20_000  # pairs of rows that a threshold is asked about
MOST_BY_GRAPH = 20
STARTS = 2  # of k-means for each number that is tried
PATIENCE = 8  # numbers beyond the best one that are tried
STABLE = 0.02  # what the stability of a number counts beside the share of pairs that come out right

Pairs = tuple[np.ndarray, np.ndarray]  # rows int64 [m, 2], labels +1 or -1 [m]


class Ground(NamedTuple):
    """What clusters are made from, before the pairs."""

    graph: sp.csr_matrix  # to the nearest rows, in one piece
    n_pieces: int  # it was in
    directions: np.ndarray  # float64 [n_rows, d]
    metric: Metric
    seed: int


def ground_of(
    metric: Metric, neighbours: tuple[np.ndarray, np.ndarray], rng: np.random.RandomState
) -> Ground:
    k = min(pt.NEAREST, neighbours[0].shape[1])
    graph = pt.adaptive_graph(*(each[:, :k] for each in neighbours))
    n_pieces = connected_components(graph, directed=False)[0]
    graph = joined(graph, metric, None if metric.bounded else 1.0)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    directions = pt.directions(metric, metric._rows, np.random.default_rng(seed))
    return Ground(graph, n_pieces, directions, metric, seed)


class Placed(NamedTuple):
    """Rows as points of two kinds, for some facts."""

    whitened: np.ndarray
    of_graph: np.ndarray  # leading vectors first
    n_pairs: int

    def points(self, n_clusters: int) -> np.ndarray:
        return pt.beside(self.whitened, self.of_graph[:, :n_clusters], self.n_pairs)


def placed(ground: Ground, facts: Facts, n_pairs: int, most: int) -> Placed:
    """Points for up to `most` clusters."""
    rng = np.random.RandomState(ground.seed)
    most = min(most, len(ground.directions))
    of_graph = pt.of_graph(ground.graph, facts, most, rng)
    return Placed(pt.whitened(ground.directions, facts), of_graph, n_pairs)


class Obeying(NamedTuple):
    """Clusters that keep labelled pairs."""

    labels: np.ndarray  # int64 [n_rows]
    graph: sp.csr_matrix  # with the pairs written in
    stability: float


def consistent(ground: Ground, known: Pairs) -> Facts:
    """What pairs imply, the most doubtful of contradicting ones left out."""
    n_rows = len(ground.directions)
    facts = facts_of(n_rows, *known)
    if facts.broken.any():
        facts = facts_of(n_rows, *known, doubt_of(ground.metric, *known))
    return facts


def obeying(ground: Ground, known: Pairs, facts: Facts, n_clusters: int, n_init: int) -> Obeying:
    """Clusters of a metric's own rows that keep known pairs."""
    seeds = np.random.default_rng(ground.seed)
    points = placed(ground, facts, len(known[0]), n_clusters).points(n_clusters)

    def clustered(n_init: int) -> Clustering:
        return obedient_kmeans(points, facts.group, facts.apart, n_clusters, n_init, seeds)

    best = clustered(n_init)
    if best.n_broken or facts.broken.any():
        facts = believed(points, known, doubt_of(ground.metric, *known), facts, n_clusters)
        best = clustered(n_init)
    labels = best.label[facts.group]
    others = (clustered(max(1, n_init // 2)).label[facts.group] for _ in range(RERUNS))
    stability = float(np.mean([adjusted_rand_score(labels, other) for other in others]))
    if stability < UNSTABLE:
        pieces = (
            f", and the neighbour graph is in {ground.n_pieces} pieces"
            if ground.n_pieces > n_clusters
            else ""
        )
        warn(
            f"the clusters depend on the random start (stability {stability:.2f}, 1 is stable){pieces}: "
            "more labelled pairs, more n_neighbors or another number of clusters may help"
        )
    return Obeying(labels, pt.with_facts(ground.graph, facts), stability)


def believed(
    points: np.ndarray, known: Pairs, doubt: np.ndarray, facts: Facts, n_clusters: int
) -> Facts:
    """What pairs imply without the most doubtful ones: as few left out as gives clusters that break none.

    `facts` itself where even without a quarter of the pairs some are broken.
    """
    order = np.argsort(doubt, kind="stable")
    few, many, found = 0, max(1, len(order) // 4), facts  # left out: too few, and perhaps enough
    while few < many:
        n_out = (few + many) // 2
        kept = order[: len(order) - n_out]
        trial = facts_of(len(points), known[0][kept], known[1][kept])
        seeds = np.random.default_rng(0)
        if trial.broken.any() or (
            obedient_kmeans(points, trial.group, trial.apart, n_clusters, 2, seeds).n_broken
        ):
            few = n_out + 1
        else:
            many, found = n_out, trial
    return found


def doubt_of(metric: Metric, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How likely each label is wrong, as `suspect_pairs` says."""
    rows = metric._rows
    far = metric._pair_distance(rows[pairs[:, 0]], rows[pairs[:, 1]])
    return suspect.suspicion(metric, rows, pairs, labels, far)


# ------------------------------------------------------------------------------ the number of clusters


class Number(NamedTuple):
    """How many clusters, and what else was tried."""

    best: int
    runner_up: int
    scores: dict[int, float]  # of every number tried; empty where pairs were too few


def choose_number(ground: Ground, known: Pairs, most: int, threshold: float | None) -> Number:
    """The number of clusters, 2 to `most`, that pairs speak for, or the metric's threshold, if there is one.

    With neither it is what a leap in the graph's eigenvalues says.
    """
    if fewest(known[1] != SAME) >= FEWEST:
        trials = _held_out(ground, known, most)
    elif threshold is not None:
        trials = [_by_threshold(ground, known, most, threshold)]
    else:
        trials = []
    if not sum(len(trial.asked) for trial in trials):
        rng = np.random.RandomState(ground.seed)
        found = estimate_n_clusters(ground.graph, rng, min(most, MOST_BY_GRAPH))
        return Number(found, found, {})
    scores: dict[int, float] = {}
    errors: dict[int, float] = {}
    best = 2
    for n_clusters in range(2, most + 1):
        scores[n_clusters], errors[n_clusters] = _score(trials, n_clusters)
        top = max(scores, key=scores.__getitem__)
        best = next(n for n in scores if scores[n] >= scores[top] - errors[top])
        if n_clusters >= best + PATIENCE:
            break
    others = [n for n in scores if n != best]
    runner_up = max(others, key=scores.__getitem__) if others else best
    return Number(best, runner_up, scores)


class _Trial(NamedTuple):
    """A fold of pairs, and points that know of the others."""

    facts: Facts
    placed: Placed
    asked: np.ndarray  # int64 [m, 2]  rows of the pairs held out that the others leave open
    same: np.ndarray  # bool [m]
    seed: int


def _held_out(ground: Ground, known: Pairs, most: int) -> list[_Trial]:
    pairs, labels = known
    fold = np.random.default_rng(ground.seed).permutation(len(pairs)) % FOLDS
    found = []
    for f in range(FOLDS):
        kept = fold != f
        facts = consistent(ground, (pairs[kept], labels[kept]))
        asked, same = pairs[~kept], labels[~kept] == SAME
        open_ = ~settled(facts, asked)
        points = placed(ground, facts, int(kept.sum()), most)
        found.append(_Trial(facts, points, asked[open_], same[open_], f))
    return found


def _by_threshold(ground: Ground, known: Pairs, most: int, threshold: float) -> _Trial:
    """Any two rows, the same where they are no farther apart than the threshold."""
    rows = ground.metric._rows
    drawn = np.random.default_rng(ground.seed).integers(0, len(rows), (ASKED, 2))
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    near = ground.metric._pair_distance(rows[drawn[:, 0]], rows[drawn[:, 1]]) <= threshold
    facts = consistent(ground, known)
    return _Trial(facts, placed(ground, facts, len(known[0]), most), drawn, near, 0)


def settled(facts: Facts, pairs: np.ndarray) -> np.ndarray:
    """Which pairs of rows follow from facts: same or different."""
    a, b = np.sort(facts.group[pairs], axis=1).T
    keys = facts.apart[:, 0] * facts.n_groups + facts.apart[:, 1]
    return (a == b) | np.isin(a * facts.n_groups + b, keys)


def _score(trials: list[_Trial], n_clusters: int) -> tuple[float, float]:
    """Mean share of "same" and "different" pairs that come out right, and its standard error.

    A little is added for how alike the clusters of all folds are.
    """
    labels = []
    for trial in trials:
        seeds = np.random.default_rng(trial.seed)
        points = trial.placed.points(n_clusters)
        group, apart = trial.facts.group, trial.facts.apart
        found = obedient_kmeans(points, group, apart, n_clusters, STARTS, seeds)
        labels.append(found.label[group])
    same = np.concatenate([trial.same for trial in trials])
    together = np.concatenate(
        [
            label[trial.asked[:, 0]] == label[trial.asked[:, 1]]
            for label, trial in zip(labels, trials, strict=True)
        ]
    )
    right, square = [], 0.0
    for kind in (True, False):
        n, own = int((same == kind).sum()), int((together[same == kind] == kind).sum())
        if n:
            share = (own + 1) / (n + 2)  # never quite sure
            right.append(own / n)
            square += share * (1.0 - share) / n
    alike = [
        adjusted_rand_score(labels[i], labels[j]) for i in range(len(labels)) for j in range(i)
    ]
    score = float(np.mean(right) + STABLE * np.mean(alike or [1.0]))
    return score, float(np.sqrt(square)) / len(right)
