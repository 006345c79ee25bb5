"""How many matches are right, by the truth in articles.csv; and a person who judges some of them.

metricforest match shop.mf products.csv --precision 0.9 -o matches.csv
python check.py matches.csv                                  # prints the share that is right
python check.py matches.csv --label 150 -o more.csv          # labelled.csv and 150 matches, labelled
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("matches")
    parser.add_argument("--label", type=int, default=0, metavar="N")
    parser.add_argument("-o", "--output", default="more.csv")
    options = parser.parse_args()
    article = pd.read_csv(HERE / "articles.csv", index_col="sku")["article"]
    matches = pd.read_csv(options.matches)
    right = article[matches["a"]].to_numpy() == article[matches["b"]].to_numpy()
    print(f"{len(matches)} matches, {right.mean():.0%} right")
    if options.label:
        some = matches.assign(answer=right).sample(min(options.label, len(matches)), random_state=0)
        some = some.rename(columns={"a": "left", "b": "right"})[["left", "right", "answer"]]
        some["answer"] = some["answer"].map({True: "same", False: "different"})
        labelled = pd.read_csv(HERE / "labelled.csv", dtype=str)
        pd.concat([labelled, some.astype(str)]).to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
