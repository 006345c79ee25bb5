"""Clusters by PCKMeans, MPCKMeans and COP-KMeans; runs in an environment with their package alone.

    python clusterers_peer.py SECONDS

Reads lines METHOD FILE from standard input. FILE is an .npz with standardised rows X, pairs, labels (+1 the
same, -1 different), the number of clusters k and a seed. The answer to each line is one line of JSON: the
clusters of the rows and the seconds of computing, or why there are none. A method that computes for more
than SECONDS is stopped. All parameters are the package's defaults.
"""

import json
import signal
import sys
import time
import warnings

import numpy as np
from active_semi_clustering.semi_supervised.pairwise_constraints import (
    COPKMeans,
    MPCKMeans,
    PCKMeans,
)

KINDS = {"PCKMeans": PCKMeans, "MPCKMeans": MPCKMeans, "COP-KMeans": COPKMeans}


def out_of_time(*_):
    raise TimeoutError("out of time")


def main() -> None:
    warnings.simplefilter("ignore")
    limit = float(sys.argv[1])
    signal.signal(signal.SIGVTALRM, out_of_time)
    for line in sys.stdin:
        method, path = line.rstrip("\n").split(" ", 1)
        with np.load(path) as file:
            X, pairs, labels, k, seed = (
                file[name] for name in ("X", "pairs", "labels", "k", "seed")
            )
        same, different = ([tuple(p) for p in pairs[labels == s].tolist()] for s in (1, -1))
        np.random.seed(int(seed))  # noqa: NPY002  the package draws from NumPy's global generator
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)  # of computing: other work does not count
        try:
            model = KINDS[method](int(k))
            model.fit(X, ml=same, cl=different)
            answer = {"clusters": np.asarray(model.labels_).astype(int).tolist()}
        except Exception as error:  # many kinds: no clustering found, empty clusters, time
            answer = {"failed": f"{type(error).__name__}: {error}"[:100]}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        answer["seconds"] = round(time.process_time() - began, 2)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
