"""Matches by recordlinkage's logistic regression; runs in an environment with recordlinkage alone.

    python recordlinkage_peer.py FOLDER

As its documentation does: Jaro-Winkler similarity of every column (0 where either cell is empty),
`LogisticRegressionClassifier` with its defaults, learned from the labelled pairs, asked about the
candidate pairs. FOLDER holds left.csv, perhaps right.csv, pairs.csv and candidates.csv; matches.csv is
written there.
"""

import sys
from pathlib import Path

import pandas as pd
import recordlinkage


def main() -> None:
    folder = Path(sys.argv[1])
    names = [n for n in ("left", "right") if (folder / f"{n}.csv").exists()]
    tables = [pd.read_csv(folder / f"{n}.csv", dtype=str).set_index("id") for n in names]
    pairs = pd.read_csv(folder / "pairs.csv", dtype=str).set_index(["a", "b"])
    candidates = pd.read_csv(folder / "candidates.csv", dtype=str).set_index(["a", "b"])
    compare = recordlinkage.Compare()
    for column in tables[0]:
        compare.string(column, column, method="jarowinkler", label=column)
    learned = compare.compute(pairs.index, *tables)
    same = pairs.index[(pairs["same"] == "1").to_numpy()]
    model = recordlinkage.LogisticRegressionClassifier()
    model.fit(learned, same)
    kept = folder / "recordlinkage_features.pkl"  # of the same tables and candidates, asked again
    asked = pd.read_pickle(kept) if kept.exists() else compare.compute(candidates.index, *tables)
    if not kept.exists():
        asked.to_pickle(kept)
    found = model.predict(asked)
    found.set_names(["a", "b"]).to_frame(index=False).to_csv(folder / "matches.csv", index=False)


if __name__ == "__main__":
    main()
