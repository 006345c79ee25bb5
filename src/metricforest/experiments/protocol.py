"""What all experiments share: units of work, settings with reasons, the eight metrics, the vote.

`quick` in a setting is the value of a quick run, where it differs.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import datasets, rivals
from ..base import Metric
from ..hierarchy import HierarchyForest
from ..supervision.constraints import draw_pairs

HFD = "HFD"
CLASSES = {
    "Euclidean": rivals.Euclidean,
    "DCA": rivals.DCA,
    "ITML": rivals.ITML,
    "LMNN": rivals.LMNN,
    "GB-LMNN": rivals.GBLMNN,
    "BoostMetric": rivals.BoostMetric,
    "RFD": rivals.RandomForestDistance,
    HFD: HierarchyForest,
}
METRICS = tuple(CLASSES)  # as the paper calls them
FROM_PAIRS = ("DCA", "ITML", "RFD", HFD)
GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)


class Setting(NamedTuple):
    """A choice the paper leaves open or fixes, and why it is so here."""

    value: Any
    why: str
    quick: Any = None


Settings = dict[str, Any]


def chosen(settings: dict[str, Setting], quick: bool) -> Settings:
    return {
        name: s.quick if quick and s.quick is not None else s.value for name, s in settings.items()
    }


LISTS = (  # settings that only say which units there are
    "datasets",
    "repeats",
    "more_repeats",
    "draws",
    "rfd_draws",
    "levels",
    "parameters",
    "sampling",
    "scaling",
    "both_scalings",
    "solvers",
    "unsupervised",
)
OWNERS = {
    "itml_": ("ITML",),
    "rfd_": ("RFD",),
    "gblmnn_": ("GB-LMNN",),
    "lmnn_": ("LMNN", "GB-LMNN"),
    "boost_": ("BoostMetric",),
    "linear_": ("Euclidean", "DCA", "ITML"),
}


@dataclass(frozen=True)
class Unit:
    """One piece of work; everything in it is part of its name."""

    experiment: str
    dataset: str
    metric: str
    seed: int
    more: tuple[tuple[str, Any], ...] = ()
    alone: bool = field(default=False, compare=False)  # timed, or large: has the machine to itself

    @property
    def key(self) -> str:
        more = "".join(f"/{name}={value}" for name, value in self.more)
        return f"{self.experiment}/{self.dataset}/{self.metric}/seed={self.seed}{more}"

    def __getitem__(self, name: str) -> Any:
        return dict(self.more)[name]

    def rng(self, *shared: Any) -> np.random.Generator:
        """Random numbers that depend on the data set, the seed and `shared`, not on the metric."""
        name = f"{self.experiment}/{self.dataset}/{self.seed}/{shared}"
        return np.random.default_rng(zlib.crc32(name.encode()))


def relevant(unit: Unit, settings: Settings) -> Settings:
    """The settings that one unit depends on: not what lists units, not what is for other metrics."""
    return {
        name: value
        for name, value in settings.items()
        if name not in LISTS
        and not any(
            name.startswith(prefix) and unit.metric not in owners
            for prefix, owners in OWNERS.items()
        )
    }


class Answer(NamedTuple):
    """What one unit of work found."""

    raw: dict[str, np.ndarray]  # enough to score it again
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()


FOREST = {
    "trees": Setting(500, "the paper's T for HFD, RFD and GB-LMNN", 50),
    "max_features": Setting(1 / 3, "the paper's d_k = d / 3"),
    "max_features_balance": Setting(None, "the paper's exception: d_k = d on balance"),
    "itml_gammas": Setting(
        GAMMAS,
        "the paper tries five values it does not name and reports the best result; so does this, "
        "choosing by the test score, which favours ITML",
        (1.0,),
    ),
    "gblmnn_trees": Setting(
        500, "the paper's T; training stops earlier where a held-out fifth no longer gains", 50
    ),
    "boost_corrective": Setting(
        False,
        "the published BoostMetric is stage-wise; the corrective variant, this library's default, "
        "takes longer the more triplets there are",
    ),
    "rfd_trees": Setting("random-forest", "the paper of RFD; extra-trees are its author's option"),
}


@lru_cache(maxsize=1)
def load(name: str, labels: str) -> datasets.Dataset:
    """A data set, kept until another is asked for; nobody writes to its arrays."""
    return datasets.load(name, labels=labels)


def make(name: str, dataset: str, settings: Settings, seed: int, n_jobs: int, **more) -> Metric:
    """One of the eight metrics, not learned yet."""
    given: dict[str, Any] = {}
    if name == HFD:
        features = settings["max_features_balance" if dataset == "balance" else "max_features"]
        given = {"n_estimators": settings["trees"], "max_features": features}
    elif name == "RFD":
        given = {"n_estimators": settings["trees"], "trees": settings["rfd_trees"]}
    elif name == "GB-LMNN":
        given = {"n_estimators": settings["gblmnn_trees"]}
    elif name == "BoostMetric":
        given = {"corrective": settings["boost_corrective"]}
    if name in ("DCA", "ITML", "GB-LMNN", "RFD", HFD):
        given["random_state"] = seed
    if name != "Euclidean":
        given["n_jobs"] = n_jobs
    made: Any = CLASSES[name]
    return getattr(made, "paper", made)(**given | more)


def learn(
    metric: Any, name: str, X: np.ndarray, y: np.ndarray, pairs: np.ndarray, same: np.ndarray
) -> Metric:
    """From pairs what learns from pairs, from the labels what learns from labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # contradictory pairs are part of the experiment with noise
        warnings.filterwarnings("ignore", message=".*labelled both.*")
        if name in FROM_PAIRS:
            return metric.fit(X, pairs=pairs, pair_labels=same)
        return metric.fit(X, y)


def pairs_of_labels(
    y: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    _, codes = np.unique(y, return_inverse=True)
    return draw_pairs(codes, count, rng)


def n_constraints(dataset: str, n_classes: int, settings: Settings) -> int:
    """The paper's counts: so many per class, or for the two larger sets so many in all."""
    if dataset in ("usps", "magic"):
        return settings["constraints_large"]
    return settings["constraints_per_class"] * n_classes


COUNTS = {
    "constraints_per_class": Setting(
        1_000, "the paper's count; a third are must-links, as in its author's sampler", 300
    ),
    "constraints_large": Setting(30_000, "the paper's count for USPS and magic", 3_000),
}


def variants(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Parameters of a metric that are all tried, the best being reported."""
    return [{"gamma": gamma} for gamma in settings["itml_gammas"]] if name == "ITML" else [{}]


def search(
    metric: Any, name: str, X: np.ndarray | None, k: int, n_candidates: int | None
) -> tuple[np.ndarray, np.ndarray]:
    if name == HFD:
        return metric.kneighbors(X, k, n_candidates=n_candidates)
    return metric.kneighbors(X, k)


def vote(neighbour_labels: np.ndarray) -> np.ndarray:
    """The most frequent label in every row; of equally frequent ones the nearest neighbour's."""
    n = len(neighbour_labels)
    alike = neighbour_labels[:, :, None] == neighbour_labels[:, None, :]
    return neighbour_labels[np.arange(n), alike.sum(axis=2).argmax(axis=1)]


@contextmanager
def stopwatch(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Wall and processor time, added up under a name."""
    wall, used = time.perf_counter(), time.process_time()
    yield
    wall, used = time.perf_counter() - wall, time.process_time() - used
    seconds[name] = seconds.get(name, 0.0) + wall
    seconds[f"{name}_processor"] = seconds.get(f"{name}_processor", 0.0) + used
