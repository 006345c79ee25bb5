"""Time and peak memory of LMNN on CIFAR-10: 50,000 rows of 300 principal components, two threads.

Prints one JSON line. Accuracy is of 5 nearest neighbours on the first 2,000 test images, beside
Euclidean distance of the same standardised rows.

    METRICFOREST_DATA=folder python benchmarks/rivals_large_lmnn.py [--rows 50000] [--n-jobs 2]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path

import numpy as np
import sklearn
from sklearn.neighbors import KNeighborsClassifier

from metricforest.rivals import LMNN

N_TEST = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--n-jobs", type=int, default=2)
    arguments = parser.parse_args()
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    with np.load(Path(os.environ.get("METRICFOREST_DATA", beside)) / "cifar10.npz") as data:
        X = data["X"][: arguments.rows].astype(np.float64)
        y = data["y"][: arguments.rows]
        X_test, y_test = data["X_test"][:N_TEST].astype(np.float64), data["y_test"][:N_TEST]

    LMNN(n_jobs=arguments.n_jobs).fit(X[:100], y[:100])  # compiles
    lmnn = LMNN(n_jobs=arguments.n_jobs, verbose=1)
    wall, cpu = time.perf_counter(), time.process_time()
    lmnn.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    def accuracy(train: np.ndarray, test: np.ndarray) -> float:
        return float(KNeighborsClassifier(5).fit(train, y).score(test, y_test))

    scaled = (X - lmnn.mean_) / lmnn.scale_, (X_test - lmnn.mean_) / lmnn.scale_
    print(
        json.dumps(
            {
                "benchmark": "LMNN on CIFAR-10",
                "rows": len(X),
                "features": X.shape[1],
                "n_jobs": arguments.n_jobs,
                "wall_s": round(wall, 1),
                "cpu_s": round(cpu, 1),
                "peak_gib": round(peak, 2),
                "n_iter": lmnn.n_iter_,
                "objective": lmnn.objective_,
                "objective_bound": lmnn.objective_bound_,
                "accuracy_5nn": accuracy(lmnn.transform(X), lmnn.transform(X_test)),
                "accuracy_5nn_euclidean": accuracy(*scaled),
                "numpy": np.__version__,
                "sklearn": sklearn.__version__,
                "python": platform.python_version(),
            }
        )
    )


if __name__ == "__main__":
    main()
