"""Our rivals beside metric-learn 0.7.0: objective, accuracy and time, one table.

metric-learn does not run with today's scikit-learn, so it gets an environment of its own with
scikit-learn 1.7 (made on the first run beside the checkout). Both learn from the same standardised
training folds, the same pairs and the same bounds, on one thread; both are scored by the same plain
formulas below. Objective, accuracy and time (processor time of a `fit`; of LMNN, which takes less than a
tenth of a second, the second of two in a row, on either side: right after other work the first is half as
slow again) are means over the folds
of all repetitions, each of which cuts the rows into folds anew. "Ahead" is the mean difference in
accuracy with two standard errors: over repetitions, which tells what other cuts of these rows would
show, and for other rows like these (Nadeau and Bengio, 2003: training folds overlap, so that more
repetitions do not make it small).

Where metric-learn ends at a higher objective, its map is nearer to the Euclidean distance it started
from. `--drawn-back` adds a line for LMNN in which ours is mixed with the Euclidean distance until its
objective is as high: what differs then is not how far the objective was brought down.

    python benchmarks/metric_learn.py [--data sonar ionosphere balance segmentation] [--only ITML LMNN]
                                      [--folds 5] [--repetitions 1] [--gamma 1] [--drawn-back]
                                      [--venv FOLDER]
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from threadpoolctl import threadpool_limits

from metricforest.supervision.constraints import auto_count, collect

HERE = Path(__file__).parent
REQUIREMENTS = ["metric-learn==0.7.0", "scikit-learn>=1.7,<1.8"]
TARGETS, MU = 3, 0.5  # of LMNN
FITS = {"LMNN": 2}  # in a row, the last being timed; one of others
PEER = """
import sys, time, warnings
import numpy as np
import metric_learn
warnings.simplefilter("ignore")
name, source, target = sys.argv[1:]
task = np.load(source)
if name == "ITML":
    metric = metric_learn.ITML(gamma=float(task["gamma"]))
    given = (task["X"][task["pairs"]], task["labels"])
    extra = {"bounds": task["bounds"].copy()}
else:
    metric = metric_learn.LMNN(n_neighbors=int(task["targets"]), regularization=1 - float(task["mu"]))
    given, extra = (task["X"], task["y"]), {}
for _ in range(int(task["fits"])):
    start = time.process_time()
    metric.fit(*given, **extra)
np.savez(target, components=metric.components_, seconds=time.process_time() - start)
"""


class Task(NamedTuple):
    """What a metric learns from."""

    X: np.ndarray
    y: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray
    bounds: np.ndarray
    gamma: float
    targets: int = TARGETS
    mu: float = MU


class Method(NamedTuple):
    """A class of `metricforest.rivals`, how to fit it, and what it minimises."""

    fit: Callable[[Any, Task], Any]
    objective: Callable[[np.ndarray, Task], float]


def fit_itml(ITML: Any, task: Task) -> Any:
    metric = ITML(task.gamma, bounds=tuple(task.bounds), standardize=False, random_state=0)
    return metric.fit(task.X, pairs=task.pairs, pair_labels=task.labels)


def itml_objective(A: np.ndarray, task: Task) -> float:
    """LogDet(A, I) + gamma sum phi(xi / xi0), with the best slacks xi for A."""
    e = task.X[task.pairs[:, 0]] - task.X[task.pairs[:, 1]]
    p = np.einsum("ij,jk,ik->i", e, A, e, optimize=True)
    u, l = task.bounds
    r = np.where(task.labels == 1, np.maximum(p, u) / u, np.minimum(p, l) / l)
    sign, log_det = np.linalg.slogdet(A)
    if sign <= 0:
        return np.inf
    return float(np.trace(A) - log_det - len(A) + task.gamma * np.sum(r - np.log(r) - 1))


def fit_lmnn(LMNN: Any, task: Task) -> Any:
    return LMNN(n_neighbors=task.targets, mu=task.mu, standardize=False).fit(task.X, task.y)


def lmnn_objective(A: np.ndarray, task: Task) -> float:
    """(1 - mu) pull + mu push, over the Euclidean nearest neighbours of the own class."""
    values, V = np.linalg.eigh(A)
    Z = task.X @ (V * np.sqrt(values.clip(0)))
    pull, push = 0.0, 0.0
    for c in np.unique(task.y):
        own, other = np.flatnonzero(task.y == c), np.flatnonzero(task.y != c)
        finder = NearestNeighbors(n_neighbors=task.targets).fit(task.X[own])
        targets = own[finder.kneighbors(return_distance=False)]
        for i, near in zip(own, targets, strict=True):
            to_near = np.sum((Z[near] - Z[i]) ** 2, axis=1)
            to_other = np.sum((Z[other] - Z[i]) ** 2, axis=1)
            pull += to_near.sum()
            push += np.maximum(0, 1 + to_near[:, None] - to_other).sum()
    return float((1 - task.mu) * pull + task.mu * push)


def drawn_back(L: np.ndarray, goal: float, task: Task) -> np.ndarray:
    """A map between LMNN's and the Euclidean distance (of the best scale) with the objective `goal`."""
    M, eye = L.T @ L, np.eye(task.X.shape[1])
    scale = minimize_scalar(
        lambda s: lmnn_objective(np.exp(s) * eye, task), bounds=(-9, 3), method="bounded"
    )

    def mixed(share: float) -> np.ndarray:
        return (1 - share) * M + share * np.exp(scale.x) * eye

    def above(share: float) -> float:
        return lmnn_objective(mixed(share), task) - goal

    if above(0) >= 0 or above(1) <= 0:
        share = 0.0 if above(0) >= 0 else 1.0
    else:
        share = brentq(above, 0, 1, xtol=1e-3)
    values, V = np.linalg.eigh(mixed(share))
    return (V * np.sqrt(values.clip(0))).T


METHODS = {
    "ITML": Method(fit_itml, itml_objective),
    "LMNN": Method(fit_lmnn, lmnn_objective),
}


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    folder = os.environ.get("METRICFOREST_DATA", HERE.parent.parent / "shared" / "data")
    with np.load(Path(folder) / f"{name}.npz") as archive:
        return archive["X"].astype(np.float64), archive["y"].astype(np.int64)


def tasks(name: str, folds: int, repetition: int, gamma: float):
    """(task of the training fold, its test rows and labels) of every fold."""
    X, y = load(name)
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=repetition).split(X, y):
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        scale[scale == 0] = 1
        A, B = (X[train] - mean) / scale, (X[test] - mean) / scale
        table = collect(len(train), y[train], n_constraints=auto_count(y[train]))
        pairs, labels = table.pairs()
        apart = np.any(A[pairs[:, 0]] != A[pairs[:, 1]], axis=1)  # metric-learn divides by zero
        i, j = np.random.default_rng(0).integers(len(A), size=(2, 20_000))
        bounds = np.percentile(np.sum((A[i] - A[j]) ** 2, axis=1)[i != j], [5, 95])
        yield Task(A, y[train], pairs[apart], labels[apart], bounds, gamma), B, y[test]


def environment(folder: Path) -> Path:
    """Python of an environment with metric-learn, made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"making {folder} with {', '.join(REQUIREMENTS)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        (folder / "ready").touch()
    return python


def run_peer(python: Path, name: str, task: Task) -> tuple[np.ndarray, float]:
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "task.npz"), Path(scratch, "answer.npz")
        np.savez(source, **task._asdict(), fits=FITS.get(name, 1))
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        env.pop("PYTHONPATH", None)
        subprocess.run([python, "-P", "-c", PEER, name, source, target], check=True, env=env)
        with np.load(target) as answer:
            return answer["components"], float(answer["seconds"])


def run_ours(name: str, estimator: Any, task: Task) -> tuple[np.ndarray, float]:
    with threadpool_limits(1):
        for _ in range(FITS.get(name, 1)):
            start = time.process_time()
            metric = METHODS[name].fit(estimator, task)
            seconds = time.process_time() - start
        return metric.components_, seconds


def accuracy(L: np.ndarray, task: Task, X: np.ndarray, y: np.ndarray) -> float:
    return float(KNeighborsClassifier(5).fit(task.X @ L.T, task.y).score(X @ L.T, y))


def compare(
    estimator: Any,
    name: str,
    task: Task,
    X: np.ndarray,
    y: np.ndarray,
    python: Path,
    warm: bool,
    back: bool,
) -> list[tuple[float, float, float]]:
    """Objective, accuracy on X and y, and seconds: ours, metric-learn's, with `back` ours drawn back."""
    method = METHODS[name]
    if not warm:
        method.fit(estimator, task)  # compiles
    answers = [run_ours(name, estimator, task), run_peer(python, name, task)]
    if back:
        goal = method.objective(answers[1][0].T @ answers[1][0], task)
        answers.append((drawn_back(answers[0][0], goal, task), np.nan))
    return [
        (method.objective(L.T @ L, task), accuracy(L, task, X, y), seconds)
        for L, seconds in answers
    ]


def over_repetitions(ahead: np.ndarray) -> str:
    """Standard error of the mean of `ahead` [repetition, fold], had the same rows been cut otherwise."""
    means = ahead.mean(axis=1)
    return f"{means.std(ddof=1) / len(means) ** 0.5:.3f}" if len(means) > 1 else ""


def over_rows(ahead: np.ndarray) -> str:
    """Standard error of the mean of `ahead` [repetition, fold], had other rows been drawn."""
    test_to_train = 1 / (ahead.shape[1] - 1)
    return f"{(ahead.var(ddof=1) * (1 / ahead.size + test_to_train)) ** 0.5:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", nargs="*", default=["sonar", "ionosphere", "balance", "segmentation"]
    )
    parser.add_argument("--only", nargs="*", default=list(METHODS), help="ITML LMNN")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=1, help="times that folds are cut")
    parser.add_argument("--gamma", type=float, default=1.0, help="of ITML; metric-learn's default")
    parser.add_argument("--drawn-back", action="store_true", help="LMNN also at the same objective")
    parser.add_argument("--venv", type=Path, default=HERE.parent / ".venv-metric-learn")
    options = parser.parse_args()
    python = environment(options.venv.absolute())
    rivals = importlib.import_module("metricforest.rivals")
    warnings.simplefilter("ignore")
    print(
        "| metric | data | objective: ours | metric-learn | 5-NN accuracy: ours | metric-learn | ahead "
        "| ± for other cuts | ± for other rows | seconds per fit: ours | metric-learn | times faster |\n"
        + "|---" * 12
        + "|"
    )
    for name in options.only:
        estimator = getattr(rivals, name, None)
        if estimator is None:
            print(f"metricforest.rivals has no {name}", file=sys.stderr)
            continue
        for data in options.data:
            back = options.drawn_back and name == "LMNN"
            # [repetition, fold, ours or metric-learn or ours drawn back, objective or accuracy or seconds]
            found = np.array(
                [
                    [
                        compare(
                            estimator, name, task, X, y, python, fold > 0 or repetition > 0, back
                        )
                        for fold, (task, X, y) in enumerate(
                            tasks(data, options.folds, repetition, options.gamma)
                        )
                    ]
                    for repetition in range(options.repetitions)
                ]
            )
            print(table_row(name, data, found[:, :, 0], found[:, :, 1]), flush=True)
            if back:
                print(
                    table_row("LMNN drawn back", data, found[:, :, 2], found[:, :, 1]), flush=True
                )


def table_row(name: str, data: str, ours: np.ndarray, theirs: np.ndarray) -> str:
    """A line of the table from [repetition, fold, objective or accuracy or seconds]."""
    value, hits, seconds = ours.mean(axis=(0, 1))
    value_2, hits_2, seconds_2 = theirs.mean(axis=(0, 1))
    ahead = ours[:, :, 1] - theirs[:, :, 1]
    times = ["", "", ""]
    if np.isfinite(seconds):
        times = [f"{seconds:.3g}", f"{seconds_2:.3g}", f"{seconds_2 / seconds:.1f}"]
    cells = [
        *(name, data, f"{value:.5g}", f"{value_2:.5g}", f"{hits:.3f}", f"{hits_2:.3f}"),
        *(f"{ahead.mean():+.3f}", over_repetitions(ahead), over_rows(ahead), *times),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
