"""Writes the golden files of this version of the format: ``python tests/golden.py [table]``.

A file of every version ever written stays in tests/data and must load for ever, so this is run once
per version, before its release, and never again for an older one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


def main() -> None:
    import pandas as pd

    from metricforest import HierarchyForest
    from metricforest.storage.format import VERSION

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


def table() -> None:
    """The golden file of a `TableMetric`, which came later within version 1."""
    import pandas as pd

    from metricforest import HierarchyForest, TableMetric
    from metricforest.storage.format import VERSION

    frame = pd.DataFrame(
        {
            "Schlüssel": [f"k{i}" for i in range(12)],
            "width": [1.5, None, 2.5, 9.0, 8.5, 9.5, 1.0, 2.0, None, 8.0, 9.0, 1.5],
            "Farbe": ["rot", "blau", None, "rot", "blau", "grün", *["rot", "blau"] * 3],
            "made": [f"2024-0{1 + i % 9}-11" for i in range(12)],
            "sold": [True, False] * 6,
        }
    )
    metric = TableMetric(HierarchyForest(3, standardize=False), id="Schlüssel", random_state=0)
    answers = ["same", "different"] * 33
    pairs = [[f"k{i}", f"k{j}"] for i in range(12) for j in range(i)]
    metric.fit(frame, pairs=pairs, pair_labels=answers)
    metric.save(DATA / f"table_metric_v{VERSION}.mf")
    expected = {
        "params": {k: v for k, v in metric.get_params().items() if k != "metric"},
        "rows": json.loads(frame.to_json(orient="records")),
        "features": metric.preparation_.transform(frame).tolist(),
        "feature_names": metric.preparation_.get_feature_names_out().tolist(),
        "distances": metric.pairwise_distances(frame).tolist(),
        "ids": metric.ids_.tolist(),
        "threshold": metric.threshold_,
    }
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (DATA / f"table_metric_v{VERSION}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    table() if sys.argv[1:] == ["table"] else main()
