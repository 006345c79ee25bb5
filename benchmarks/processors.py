"""How far do distances move with the processor? The same fits, compiled and multiplied otherwise.

    python benchmarks/processors.py

Every leg is a process of its own, with settings that make Numba (NUMBA_CPU_NAME) or numpy's BLAS
(OPENBLAS_CORETYPE) work as on another processor. It fits forests and rivals on four data sets of
scikit-learn and measures pairs; a line of the table compares it with this processor as it is. A forest
is equal if all its arrays are, to the bit. Differences of distances are relative to the largest one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score

from metricforest import HierarchyForest, rivals
from metricforest.demo import labelled_pairs

SETS = (load_iris, load_wine, load_breast_cancer, load_digits)
SEEDS = range(2)
N_PAIRS = 4000  # measured per data set
RIVALS = ("ITML", "LMNN", "RandomForestDistance")
LEGS = {
    "native": {},
    "generic": {"NUMBA_CPU_NAME": "generic"},
    "generic, Prescott": {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Prescott"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
}


def fits(X: np.ndarray, y: np.ndarray, seed: int):
    """(name, fitted metric) for each metric."""
    pairs, same = labelled_pairs(y, 300, seed=seed)
    yield (
        "HierarchyForest",
        HierarchyForest(20, random_state=seed).fit(X, pairs=pairs, pair_labels=same),
    )
    few = np.random.default_rng(seed).permutation(len(X))[:300]
    for name in RIVALS:
        metric = getattr(rivals, name)()
        if "random_state" in metric.get_params():
            metric.set_params(random_state=seed)
        yield name, metric.fit(X[few], y[few])


def answers() -> dict[str, np.ndarray]:
    """What one leg stores: distances of every metric, and the forests."""
    found = {}
    for load in SETS:
        X, y = load(return_X_y=True)
        i, j = np.random.default_rng(9).integers(len(X), size=(2, N_PAIRS))
        for seed in SEEDS:
            for name, metric in fits(X, y, seed):
                key = f"{name}/{load.__name__}/{seed}"
                found[f"{key}/distance"] = metric.pair_distance(X[i], X[j])
                found[f"{key}/same"] = y[i] == y[j]
                if name == "HierarchyForest":
                    arrays = [part for part in metric.forest_ if isinstance(part, np.ndarray)]
                    found[f"{key}/forest"] = np.concatenate(
                        [np.ravel(a).view(np.uint8) for a in arrays]
                    )
    return found


def auc(found: dict[str, np.ndarray], key: str) -> float:
    return roc_auc_score(found[f"{key}/same"], -found[f"{key}/distance"])


def compare(found: dict[str, np.ndarray], native: dict[str, np.ndarray], name: str) -> str:
    """Cells of one metric in one leg: share equal, mean and largest difference, of AUC."""
    keys = [key.removesuffix("/distance") for key in native if key.endswith("/distance")]
    keys = [key for key in keys if key.startswith(f"{name}/")]
    what = "forest" if f"{keys[0]}/forest" in native else "distance"
    equal = sum(np.array_equal(found[f"{key}/{what}"], native[f"{key}/{what}"]) for key in keys)
    apart, aucs = [], []
    for key in keys:
        distance = native[f"{key}/distance"]
        apart.append(np.abs(found[f"{key}/distance"] - distance) / distance.max())
        aucs.append(abs(auc(found, key) - auc(native, key)))
    mean, most = np.mean(np.concatenate(apart)), max(part.max() for part in apart)
    return f"{equal} of {len(keys)} | {mean:.1e} | {most:.1e} | {max(aucs):.4f}"


def main() -> None:
    if len(sys.argv) > 1:  # a leg
        warnings.simplefilter("ignore")
        np.savez(sys.argv[1], **answers())
        return
    print("| metric | leg | equal | mean difference | largest | largest of pair AUC |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for leg, settings in LEGS.items():
            env = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/{settings.get('NUMBA_CPU_NAME')}"}
            out = Path(folder) / f"{leg}.npz"
            subprocess.run([sys.executable, __file__, out], env={**env, **settings}, check=True)
            found = dict(np.load(out))
            if leg == "native":
                native = found
                continue
            for name in ("HierarchyForest", *RIVALS):
                print(f"| {name} | {leg} | {compare(found, native, name)} |", flush=True)


if __name__ == "__main__":
    main()
