"""Makes the tables of docs/command_line.md: offers of a shop, labelled pairs of them, and new offers.

    python examples/shop/make.py          # writes into its own folder

Sellers list the same articles with their own weights, prices and dates. `labelled.csv` has what such
files have: labelled pairs given twice, one given both ways, ids that do not exist, a row with itself.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
TYPES = ("lamp", "chair", "desk", "sofa", "shelf")
BRANDS = ("Acme", "Bolt", "Corvid", "Dorn", "Echo", "Fjord", "Gale")
COLUMNS = (
    "sku", "type", "brand", "weight", "price", "colour", "listed", "in_stock", "remark", "region",
)  # fmt: skip
COLOURS = ("black", "white", "oak", "grey", "red")


def offers(rng: np.random.Generator, n_articles: int) -> tuple[list[list[str]], np.ndarray]:
    """Rows of the table, shuffled, and the article that each one is."""
    rows, article = [], []
    for number in range(n_articles):
        kind = int(rng.integers(len(TYPES)))
        weight = float(rng.gamma(4.0, 1.5) * (1 + kind))
        price = 10 + 4 * weight + 15 * float(rng.normal())
        brand, colour = str(rng.choice(BRANDS)), str(rng.choice(COLOURS))
        day = np.datetime64("2024-01-01") + int(rng.integers(0, 600))
        for _ in range(int(rng.integers(1, 5))):
            rows.append(
                [
                    TYPES[kind],
                    "" if rng.random() < 0.1 else brand,
                    "" if rng.random() < 0.08 else f"{weight * (1 + 0.02 * rng.normal()):.2f}",
                    "ask us" if rng.random() < 0.01 else f"{price * (1 + 0.04 * rng.normal()):.2f}",
                    colour if rng.random() < 0.9 else str(rng.choice(COLOURS)),
                    str(day + int(rng.integers(-5, 6))),
                    str(rng.choice(["yes", "no"])),
                    f"offer {int(rng.integers(10**6))} of this {TYPES[kind]}, no returns",
                    "EU",
                ]
            )
            article.append(number)
    order = rng.permutation(len(rows))
    return [[f"S{i:04d}", *rows[j]] for i, j in enumerate(order)], np.array(article)[order]


def labelled(
    rng: np.random.Generator, rows: list[list[str]], article: np.ndarray
) -> list[list[str]]:
    """Labelled pairs of offers that look alike, as a person gets them to see, and of some others."""
    kinds = np.array([row[1] for row in rows])
    day = np.array([row[6] for row in rows], "datetime64[D]").astype(int)
    answers = []
    for i in rng.permutation(len(rows))[:350]:
        alike = np.flatnonzero((kinds == kinds[i]) & (np.arange(len(rows)) != i))
        near = alike[np.argsort(np.abs(day[alike] - day[i]), kind="stable")[:6]]
        for j in rng.choice(near, 2, replace=False):
            answers.append([i, j, "same" if article[i] == article[j] else "different"])
    for i, j in rng.integers(0, len(rows), (150, 2)):
        answers.append([i, j, "same" if article[i] == article[j] else "different"])
    named = [[f"S{i:04d}", f"S{j:04d}", answer] for i, j, answer in answers if i != j]
    left, right, answer = named[0]
    other = "different" if answer == "same" else "same"
    return [
        *named,
        [right, left, answer],
        [left, right, other],
        ["S9999", "S0001", "same"],
        ["X12", "S0002", "different"],
        ["S0003", "X13", "same"],
        ["S0004", "S0005", "unsure"],
        ["S0001", "S0001", "same"],
    ]


def write(name: str, head: tuple[str, ...], rows: list[list[str]]) -> None:
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main() -> None:
    rng = np.random.default_rng(2)
    rows, article = offers(rng, 250)
    write("products.csv", COLUMNS, rows[:-40])
    write("labelled.csv", ("left", "right", "answer"), labelled(rng, rows[:-40], article[:-40]))
    new = [[f"N{i:02d}", *row[1:]] for i, row in enumerate(rows[-40:])]
    new[0][2] = "Hygge"  # a brand that nobody has seen
    write("new.csv", COLUMNS, new)
    truth = [[row[0], str(number)] for row, number in zip(rows[:-40], article[:-40], strict=True)]
    write("articles.csv", ("sku", "article"), truth)


if __name__ == "__main__":
    main()
