"""From comparisons of two rows to the odds that they are the same: two models and their blend.

A logistic regression on ranks of the comparisons, strongly shrunk, learns from few pairs;
extremely randomised trees find what goes together once there are more. What is learned is arrays
and numbers, and answers are made of these alone, the same to the bit after a file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit, logit
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from ..core.compiled import kernel
from ..core.parallel import aside
from ..inspection import calibration
from ..storage import sklearn_trees
from ..storage.values import check_array

KNOTS = 51  # quantiles of a comparison among the labelled pairs
SHRINK = 0.03  # C of the logistic regression: how freely its weights may grow
LEAF = 2  # pairs in a leaf at least
TRIED = 0.3  # share of the comparisons that a split is chosen from
SURE = 1e-3  # probabilities of the trees are kept this far from 0 and 1
LARGEST = 1e9  # weight in a file: sums stay finite
SHARES = (0.5, 0.25, 0.75, 0.0, 1.0)  # of the trees; the first unless another is clearly better


class Scorer(NamedTuple):
    """What was learned of d comparisons."""

    knots: np.ndarray  # float64 [KNOTS, d]  quantiles of every comparison, rising
    weights: np.ndarray  # float64 [d]         of the ranks, in the logistic regression
    bias: float
    trees: sklearn_trees.Trees
    share: float = SHARES[0]  # of the trees in the score, which is in log-odds
    slope: float = 1.0  # of the answer's log-odds, by score
    intercept: float = 0.0


def learn(X: np.ndarray, same: np.ndarray, n_trees: int, seed: int, n_jobs: int | None) -> Scorer:
    """Both models, of equal share and not calibrated."""
    knots = np.quantile(X, np.linspace(0.0, 1.0, KNOTS), axis=0)
    linear: Any = LogisticRegression(C=SHRINK, tol=1e-6, max_iter=5_000)
    linear.fit(ranks(X, knots), same)
    tried: Any = TRIED
    forest = ExtraTreesClassifier(
        n_trees, min_samples_leaf=LEAF, max_features=tried, n_jobs=n_jobs, random_state=seed
    ).fit(X, same)
    weights, bias = linear.coef_[0].copy(), float(linear.intercept_[0])
    return Scorer(knots, weights, bias, sklearn_trees.pack(forest))


def ranks(X: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Where each comparison lies among those of the labelled pairs: near 0, of variance 1 or less."""
    answer = np.empty(X.shape)
    for j in range(X.shape[1]):
        below = np.searchsorted(knots[:, j], X[:, j], "left")
        up_to = np.searchsorted(knots[:, j], X[:, j], "right")
        answer[:, j] = (below + up_to) / (2 * len(knots)) - 0.5
    return answer * np.sqrt(12.0)


def scores(scorer: Scorer, X: np.ndarray) -> np.ndarray:
    """Log-odds by the logistic regression, and by the trees: float64 [2, n]."""
    share = np.zeros(len(X))
    t = scorer.trees
    aside(
        leaf_share, X.astype(np.float32), t.root, t.left, t.right, t.feature, t.threshold,
        np.ascontiguousarray(t.value[:, 0, 1]), share,
    )  # fmt: skip
    linear = (ranks(X, scorer.knots) * scorer.weights).sum(axis=1) + scorer.bias
    return np.stack([linear, logit(np.clip(share, SURE, 1.0 - SURE))])


@kernel
def leaf_share(X, root, left, right, feature, threshold, value, share):
    """The mean over trees of the share of same pairs in each row's leaf, as scikit-learn has it."""
    for i in range(len(X)):
        for t in range(len(root) - 1):
            node = root[t]
            while left[node] >= 0:
                goes_left = X[i, feature[node]] <= threshold[node]
                node = root[t] + (left[node] if goes_left else right[node])
            share[i] += value[node]
        share[i] /= len(root) - 1


def blended(scorer: Scorer, both: np.ndarray) -> np.ndarray:
    """Log-odds of the answer from those of the two models."""
    score = scorer.share * both[1] + (1.0 - scorer.share) * both[0]
    return scorer.slope * score + scorer.intercept


def log_odds(scorer: Scorer, X: np.ndarray) -> np.ndarray:
    return blended(scorer, scores(scorer, X))


def weigh(scorer: Scorer, held_out: np.ndarray, same: np.ndarray) -> Scorer:
    """The scorer with the share, slope and intercept that suit held-out scores best.

    Equal shares stay unless others lower the logarithmic loss by more than its standard error.
    """
    best, least = scorer, np.empty(0)
    for share in SHARES:
        trial = scorer._replace(share=share, slope=1.0, intercept=0.0)
        line = calibration.fit_logistic(-blended(trial, held_out), same)
        trial = trial._replace(slope=-line["slope"], intercept=line["intercept"])
        odds = blended(trial, held_out)
        loss = -log_expit(np.where(same, odds, -odds))
        if not len(least):
            best, least = trial, loss
            continue
        gain = least - loss
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            best, least = trial, loss
    return best


def best_cut(probability: np.ndarray, counts: np.ndarray) -> float:
    """The probability from which on pairs are called the same, for the best expected F1.

    Each pair stands for `counts` pairs of those that will be asked about.
    """
    order = np.argsort(-probability, kind="stable")
    falling, counts = probability[order], counts[order]
    hits = np.cumsum(falling * counts)
    k = int(np.argmax(2.0 * hits / (np.cumsum(counts) + hits[-1])))
    below = falling[k + 1] if k + 1 < len(falling) else 0.0
    return float((falling[k] + below) / 2)


def checked(state: Any, d: int) -> Scorer:
    """A scorer of a file, or a ValueError; compiled code follows its trees unchecked."""
    scorer = Scorer(**state)
    check_array(scorer.knots, "knots", np.float64, (KNOTS, d))
    check_array(scorer.weights, "weights", np.float64, (d,))
    if (scorer.knots[1:] < scorer.knots[:-1]).any():
        raise ValueError("knots do not rise")
    sklearn_trees.check(scorer.trees)
    value = scorer.trees.value
    if scorer.trees.n_features != d or value.shape[1:] != (1, 2):
        raise ValueError(f"the trees of a pair model are not of {d} comparisons and 2 answers")
    if value.min() < 0.0 or value.max() > 1.0:
        raise ValueError("the trees of a pair model hold a share that is not in [0, 1]")
    numbers = [scorer.bias, scorer.share, scorer.slope, scorer.intercept]
    if any(type(number) is not float for number in numbers):
        raise ValueError("a number of a pair model is none")
    if not (np.abs([*numbers, *scorer.weights]) <= LARGEST).all() or not 0.0 <= scorer.share <= 1.0:
        raise ValueError("a number of a pair model is not finite, or too large")
    return scorer
