"""Writes the golden files of this version of the format: ``python tests/golden.py``.

A file of every version ever written stays in tests/data and must load for ever, so this is run once
per version, before its release, and never again for an older one.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


def main() -> None:
    import pandas as pd

    from metricforest import HierarchyForest
    from metricforest.storage import VERSION

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12, 3)).round(2), columns=["width", "Höhe", "深さ"])
    queries = X.iloc[:6] * 1.5
    metric = HierarchyForest(4, max_features=2, min_node_size=3, random_state=0)
    metric.fit(X, pairs=[[0, 1], [2, 3], [4, 5]], pair_labels=[1, -1, -1], triplets=[[6, 7, 8]])
    metric.save(DATA / f"hierarchy_forest_v{VERSION}.mf")
    expected = {
        "params": metric.get_params(),
        "feature_names": X.columns.tolist(),
        "queries": queries.to_numpy().tolist(),
        "distances": metric.pairwise_distances(queries, X).tolist(),
        "rows": X.to_numpy().tolist(),
    }
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (DATA / f"hierarchy_forest_v{VERSION}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
