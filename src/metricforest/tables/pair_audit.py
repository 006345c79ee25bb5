"""How right the matches of a table are, by labels of a sample of its own candidate pairs.

Candidates are cut by their probability into strata, half of them from the model's threshold on, and
finer near it; a sample takes as many of each. A label then stands for as many pairs as its
stratum holds per label, and what share of a stratum is the same has a known uncertainty (a beta
distribution), whatever the model believes. Only this is taken from the model: that matches are not rarer
where it finds them likelier. Shares are made to rise with the probability, so that no stricter wish has a
looser threshold, and so are those that are drawn for the intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.isotonic import IsotonicRegression

STRATA = 8
LEAST_BELOW = 20  # candidates in the first of them
DOUBT = 1e-6  # variance that even the surest pair is taken to have
DRAWS = 4_000  # of the uncertain shares
# Labels of each answer that every part of the candidates is taken to have had before. Intervals hold
# the truth as often as they should with these (tests/tables/test_pair_audit.py): below the threshold
# are many pairs and few matches, and half a match in every part would be far too many.
PRIOR_ABOVE, PRIOR_BELOW = 0.35, 0.06
WIDTH = 0.95  # of intervals


class MatchAudit(NamedTuple):
    """What is to be expected of the pairs called the same, with intervals that hold it 95 times of 100."""

    threshold: float  # the probability from which on pairs are called the same
    n_matches: int  # candidate pairs that are
    precision: float  # share of them that are right
    precision_interval: tuple[float, float]
    recall: float  # share of the candidates' true matches that are among them
    recall_interval: tuple[float, float]
    match_rate: float  # share of true matches among all candidates
    n_labels: int

    def __str__(self) -> str:
        def span(share: float, interval: tuple[float, float]) -> str:
            return f"{share:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"

        return (
            f"{self.n_matches} matches from probability {self.threshold:.3f} on: expected precision "
            f"{span(self.precision, self.precision_interval)}, recall among candidate pairs "
            f"{span(self.recall, self.recall_interval)}, by {self.n_labels} labels"
        )


def strata_of(probability: np.ndarray, cut: float) -> np.ndarray:
    """The stratum of each candidate, 0 for the least likely: half of them are from the cut on.

    Those from the cut on are in equal shares of the doubt. Below it, strata grow downward: where matches
    are missed they stand near the cut, and most candidates are far below.
    """
    order = np.argsort(probability, kind="stable")
    below = int(np.searchsorted(probability[order], cut))
    answer = np.empty(len(probability), np.int64)
    p = probability[order[below:]]
    doubt = np.cumsum(np.sqrt(p * (1.0 - p) + DOUBT))
    half = STRATA // 2
    if len(doubt):
        part = np.minimum(half * doubt / doubt[-1], half - 1).astype(np.int64)
        answer[order[below:]] = STRATA - half + part
    first_end = min(max(len(p), LEAST_BELOW), below / (STRATA - half))
    ends = np.geomspace(max(first_end, 1.0), max(below, 1.0), STRATA - half)[:-1]
    from_cut = np.arange(below, 0, -1)  # 1 for the likeliest below the cut
    answer[order[:below]] = STRATA - half - 1 - np.searchsorted(ends, from_cut)
    first = np.searchsorted(probability[order], probability)  # equal ones stay together
    return answer[order[first]]


def drawn(stratum: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of about n candidates, as many of each stratum as there are or may be, in random order."""
    members = [rng.permutation(np.flatnonzero(stratum == s)) for s in range(STRATA)]
    order = sorted(members, key=len)
    chosen, left = [], n
    for place, of in enumerate(order):
        take = min(len(of), left // (STRATA - place))
        chosen.append(of[:take])
        left -= take
    return rng.permutation(np.concatenate(chosen))


def audit(
    probability: np.ndarray,
    labelled: np.ndarray,
    same: np.ndarray,
    threshold: float,
    wish: float | None,
    cut: float,
    called_from: Callable[[float], np.ndarray] | None = None,
) -> MatchAudit:
    """What labels of the candidates ``labelled`` say of a threshold, or of that of a wished precision.

    ``cut`` is where the strata of the sample meet. ``called_from`` says which candidates a threshold
    calls the same, as a mask; None: all that reach it.
    A ValueError says that some stratum lacks labels, or which precision is to be had.
    """
    stratum = strata_of(probability, cut)
    size = np.bincount(stratum, minlength=STRATA)
    n = np.bincount(stratum[labelled], minlength=STRATA)
    lacking = int(((n == 0) & (size > 0)).sum())
    if lacking:
        raise ValueError(
            f"{len(labelled)} labels say nothing of {lacking} of {STRATA} parts of the candidate "
            "pairs: label all pairs that `questions` gives"
        )
    if wish is not None:
        hits = np.bincount(stratum[labelled], same, minlength=STRATA)
        first = np.array([probability[stratum == s].min(initial=1.0) for s in range(STRATA)])
        threshold = cut_for(first, size, rising(n, hits, size), wish)
    # the threshold may cut a stratum in two: of both parts the labels are known
    chosen = probability >= threshold if called_from is None else called_from(threshold)
    cell = stratum + STRATA * chosen  # those not called come first: matches are rarer there
    above = np.arange(2 * STRATA) >= STRATA
    size, n, hits = (
        np.bincount(*of, minlength=2 * STRATA)
        for of in ((cell,), (cell[labelled],), (cell[labelled], same))
    )
    share = rising(n, hits, size)
    prior = np.where(above, PRIOR_ABOVE, PRIOR_BELOW)
    uncertain = np.random.default_rng(0).beta(hits + prior, n - hits + prior, (DRAWS, 2 * STRATA))
    there = size > 0
    uncertain[:, there] = risen(uncertain[:, there], n[there] + 2.0 * prior[there])
    called, matches = float(size[above].sum()), share * size
    found = uncertain * size
    precision = matches[above].sum() / called if called else 1.0
    recall = matches[above].sum() / matches.sum() if matches.sum() > 0.0 else 1.0
    some_wrong, some_missed = hits[above].sum() < n[above].sum(), hits[~above].sum() > 0
    return MatchAudit(
        threshold,
        int(called),
        float(precision),
        interval(found[:, above].sum(axis=1) / max(called, 1.0), precision, some_wrong),
        float(recall),
        interval(found[:, above].sum(axis=1) / found.sum(axis=1), recall, some_missed),
        float(matches.sum() / len(probability)),
        len(labelled),
    )


def rising(n: np.ndarray, hits: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The share of matches of each part, made to rise; parts without labels lie between the others."""
    known = np.flatnonzero(n)
    model: Any = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(known, hits[known] / n[known], sample_weight=np.maximum(size[known], 1.0))
    return model.predict(np.arange(len(n)))


def risen(draws: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each draw's shares, made to rise: isotonic regression of few columns, all rows at once."""
    total = np.cumsum(np.column_stack([np.zeros(len(draws)), draws * weight]), axis=1)
    above = np.cumsum(np.append(0.0, weight))
    k = len(weight)
    answer = np.empty_like(draws)
    for i in range(k):
        best = np.full(len(draws), -np.inf)
        for low in range(i + 1):
            means = [(total[:, high] - total[:, low]) / (above[high] - above[low])
                     for high in range(i + 1, k + 1)]  # fmt: skip
            best = np.maximum(best, np.min(means, axis=0))
        answer[:, i] = best
    return answer


def interval(draws: np.ndarray, expected: float, open_above: bool) -> tuple[float, float]:
    """Where the middle of the draws lies, up to 1 where no label says that it cannot be."""
    low, high = np.quantile(draws, [(1.0 - WIDTH) / 2, (1.0 + WIDTH) / 2])
    return min(float(low), expected), max(float(high), expected) if open_above else 1.0


def cut_for(first: np.ndarray, size: np.ndarray, share: np.ndarray, wish: float) -> float:
    """The lowest of the strata's first probabilities with the expected precision that is wished."""
    there = np.flatnonzero(size)[::-1]
    expected = np.cumsum((share * size)[there]) / np.cumsum(size[there])
    good = np.flatnonzero(expected >= wish - 1e-12)
    if not len(good):
        raise ValueError(
            f"no threshold has an expected precision of {wish:g} on these labels: the best is "
            f"{expected[0]:.2f}; with more labels from `questions` it may be higher"
        )
    return float(first[there[good[-1]]])
