"""Pairs held out fold by fold, and what a metric that has not seen them says of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from ..estimators.model_selection import PairKFold
from ..supervision import constraints as cn
from .pair_labels import LabelledPairs

DRAWN = 2_000  # pairs drawn from labels to ask about, for each fold, where no pairs are given


class HeldOut(NamedTuple):
    """Pairs as metrics see them that have learned from neither of their rows."""

    distance: np.ndarray  # float64 [n]
    same: np.ndarray  # bool [n]
    auc: np.ndarray  # float64 [folds], nan where a fold has no pairs of both kinds


def held_out(
    metric: Any,
    rows: np.ndarray,
    codes: np.ndarray | None,
    labelled: LabelledPairs | None,
    cv: int,
    random_state: Any,
    progress: Callable[[str], None],
) -> HeldOut:
    """Hold out the labelled pairs fold by fold, or pairs drawn from class labels, and measure them."""
    if labelled is not None:
        pairs, labels = labelled.pairs, labelled.labels
    elif codes is not None:
        pairs, labels = cn.draw_pairs(codes, DRAWN * cv, np.random.default_rng(0))
    else:
        pairs, labels = np.empty((0, 2), np.int64), np.empty(0, np.int64)
    distance, same, auc = [np.empty(0)], [np.empty(0, bool)], []
    if cv and len(pairs) and len(rows) >= cv:
        folds = PairKFold(cv, random_state=random_state)
        for number, fold in enumerate(folds.split(rows, pairs, labels), 1):
            progress(f"fold {number} of {cv}: asking about {len(fold.test_pairs)} pairs")
            given: dict[str, Any] = {}
            if labelled is not None:
                given = {"pairs": fold.train_pairs, "pair_labels": fold.train_labels}
            known = None if codes is None else codes[fold.train]
            if not len(fold.test_pairs) or not len(fold.train_pairs):
                auc.append(np.nan)
                continue
            learned = learn(clone(metric), rows[fold.train], known, given)
            a, b = (rows[fold.test][fold.test_pairs[:, side]] for side in (0, 1))
            distance.append(learned.pair_distance(a, b))
            same.append(fold.test_labels == 1)
            both = 0 < same[-1].sum() < len(same[-1])
            auc.append(roc_auc_score(same[-1], -distance[-1]) if both else np.nan)
    return HeldOut(np.concatenate(distance), np.concatenate(same), np.array(auc))


def learn(metric: Any, rows: np.ndarray, codes: np.ndarray | None, given: dict[str, Any]) -> Any:
    """The metric, learned; that labelled pairs contradict each other is said elsewhere."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*labelled both must-link and cannot-link")
        return metric.fit(rows, codes, **given)
