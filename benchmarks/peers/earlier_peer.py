"""Matches by this library as it was at commit 873dc33; runs in an environment with that alone.

    python earlier_peer.py FOLDER

`TableMetric` with its defaults over the table, or over both put into one, and `match` at its own threshold.
FOLDER holds left.csv, perhaps right.csv, and pairs.csv; matches.csv is written there.
"""

import sys
import warnings
from pathlib import Path

import pandas as pd

from metricforest import TableMetric


def main() -> None:
    warnings.filterwarnings("ignore", category=UserWarning)
    folder = Path(sys.argv[1])
    names = [n for n in ("left", "right") if (folder / f"{n}.csv").exists()]
    tables = [pd.read_csv(folder / f"{name}.csv") for name in names]
    pairs = pd.read_csv(folder / "pairs.csv")
    if len(tables) == 2:
        tables = [t.assign(id=[f"{side}{i}" for i in t["id"]])
                  for side, t in zip("ab", tables, strict=True)]  # fmt: skip
        pairs = pairs.assign(a="a" + pairs["a"].astype(str), b="b" + pairs["b"].astype(str))
    model = TableMetric(id="id", random_state=0).fit(pd.concat(tables), pairs=pairs)
    found = pd.DataFrame(model.match())[["a", "b"]].astype(str)
    if len(tables) == 2:
        found = pd.DataFrame(
            [sorted(pair) for pair in found.to_numpy() if len({id[0] for id in pair}) == 2],
            columns=["a", "b"],
        ).map(lambda id: id[1:])
    found.to_csv(folder / "matches.csv", index=False)


if __name__ == "__main__":
    main()
