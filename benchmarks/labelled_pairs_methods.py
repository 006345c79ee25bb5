"""The distances that `labelled_pairs.py` compares: each learns from rows and labelled pairs.

`METHODS[name](task)` gives an object with `pair_distance` and `pairwise_distances`. Every setting that
is chosen is chosen here, on the labelled pairs alone. The metrics that want classes get those that the
pairs imply: rows that "same" pairs join are one class.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metricforest import Blend, HierarchyForest, VectorForest, rivals
from metricforest.rivals.itml import GAMMAS
from metricforest.rivals.nca import implied_classes
from metricforest.supervision.constraints import UNLABELLED

BLOCK_NUMBERS = 4_000_000  # numbers in the features of pairs measured at once
FOLDS = 3
NCA_DIRECTIONS = 32


class Task(NamedTuple):
    """What a distance may learn from."""

    X: np.ndarray
    pairs: np.ndarray  # (m, 2) row numbers of X
    labels: np.ndarray  # +1 same, -1 different
    seed: int
    trees: int  # of every forest


class PairFeatures:
    """Probability of "different" by a classifier on features of a pair."""

    def __init__(self, model: Any, middle: bool = True):
        self.model = model
        self.middle = middle

    def features(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        apart = np.abs(A - B)
        return np.hstack([apart, (A + B) / 2]) if self.middle else apart

    def fit(self, task: Task) -> PairFeatures:
        i, j = task.pairs.T
        self.model.fit(self.features(task.X[i], task.X[j]), task.labels == -1)
        return self

    def pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        step = max(1, BLOCK_NUMBERS // (2 * A.shape[1]))
        parts = (slice(low, low + step) for low in range(0, len(A), step))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of names of columns
            return np.concatenate(
                [self.model.predict_proba(self.features(A[part], B[part]))[:, 1] for part in parts]
            )

    def pairwise_distances(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        i, j = np.indices((len(A), len(B))).reshape(2, -1)
        return self.pair_distance(A[i], B[j]).reshape(len(A), len(B))


def from_pairs(metric: Any, task: Task) -> Any:
    return metric.fit(task.X, pairs=task.pairs, pair_labels=task.labels)


def from_classes(metric: Any, task: Task) -> Any:
    return metric.fit(task.X, implied_classes(len(task.X), task.pairs, task.labels))


def itml(task: Task) -> Any:
    """ITML, gamma by three folds over the pairs."""
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=task.seed).split(*task[1:3]))
    score = {}
    for gamma in GAMMAS:
        found = []
        for train, test in folds:
            part = task._replace(pairs=task.pairs[train], labels=task.labels[train])
            metric = from_pairs(rivals.ITML(gamma, random_state=task.seed), part)
            i, j = task.pairs[test].T
            distance = metric.pair_distance(task.X[i], task.X[j])
            found.append(roc_auc_score(task.labels[test] == -1, distance))
        score[gamma] = np.mean(found)
    best = max(score, key=lambda gamma: score[gamma])
    return from_pairs(rivals.ITML(best, random_state=task.seed), task)


def logistic(task: Task) -> Any:
    """Logistic regression on |a - b|, its penalty by three folds over the pairs."""
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 2, 6),
        cv=StratifiedKFold(FOLDS, shuffle=True, random_state=task.seed),
        scoring="roc_auc",
        max_iter=2_000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return PairFeatures(make_pipeline(StandardScaler(), model), middle=False).fit(task)


def leaf_size(task: Task) -> int:
    """20 as both libraries have it; with fewer than 1,000 pairs that would be too many."""
    return 20 if len(task.pairs) >= 1_000 else 5


def boosted(task: Task) -> Any:
    model = HistGradientBoostingClassifier(
        max_iter=200, min_samples_leaf=leaf_size(task), early_stopping=False, random_state=task.seed
    )
    return PairFeatures(model).fit(task)


def lightgbm(task: Task) -> Any:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=200,
        min_child_samples=leaf_size(task),
        n_jobs=1,
        random_state=task.seed,
        verbose=-1,
    )
    return PairFeatures(model).fit(task)


def nca(task: Task) -> Any:
    """At most 32 directions, from the principal components: more take long and help little."""
    known = implied_classes(len(task.X), task.pairs, task.labels) != UNLABELLED
    n_components = min(task.X.shape[1], NCA_DIRECTIONS, int(known.sum()))
    return from_pairs(rivals.NCA(n_components, init="pca", random_state=task.seed), task)


def paper_forest(task: Task) -> Any:
    make: Any = getattr(HierarchyForest, "paper", HierarchyForest)
    return from_pairs(make(n_estimators=task.trees, random_state=task.seed), task)


def blend(task: Task) -> Any:
    """The default members, with the trees that all forests here have."""
    members = [
        copy.set_params(n_estimators=task.trees) if "n_estimators" in copy.get_params() else copy
        for copy in Blend()._fresh(task.seed)
    ]
    return from_pairs(Blend(members, random_state=task.seed), task)


METHODS: dict[str, Callable[[Task], Any]] = {
    "Euclidean": lambda task: rivals.Euclidean().fit(task.X),
    "HierarchyForest.paper()": paper_forest,
    "HierarchyForest()": lambda task: from_pairs(
        HierarchyForest(n_estimators=task.trees, random_state=task.seed), task
    ),
    "VectorForest()": lambda task: from_pairs(
        VectorForest(task.trees, random_state=task.seed), task
    ),
    "Blend()": blend,
    "RandomForestDistance": lambda task: from_pairs(
        rivals.RandomForestDistance(task.trees, random_state=task.seed), task
    ),
    "boosted trees": boosted,
    "LightGBM": lightgbm,
    "logistic regression": logistic,
    "ITML": itml,
    "DCA": lambda task: from_pairs(rivals.DCA(), task),
    "NCA": nca,
    "LMNN": lambda task: from_classes(rivals.LMNN(n_neighbors=1), task),
    "BoostMetric": lambda task: from_classes(rivals.BoostMetric(n_neighbors=1), task),
    "GBLMNN": lambda task: from_classes(rivals.GBLMNN(n_neighbors=1, random_state=task.seed), task),
}
OURS = ("HierarchyForest()", "VectorForest()", "Blend()")
SLOW = ("NCA", "LMNN", "BoostMetric", "GBLMNN")  # first draw only
AS_PAPER = "HierarchyForest.paper()"
RIVALS = tuple(name for name in METHODS if name not in (*OURS, AS_PAPER))


def available(name: str) -> bool:
    return name != "LightGBM" or importlib.util.find_spec("lightgbm") is not None
