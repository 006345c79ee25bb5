"""Tables and the picture of `labelled_pairs.py`, from the stored lines alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labelled_pairs_data import CHOOSE, CONFIRM, SETS
from labelled_pairs_methods import AS_PAPER, METHODS, OURS, RIVALS

SCORES = {
    "auc": "pair AUC",
    "ap": "average precision, one match in a hundred",
    "p10": "precision at 10",
    "knn": "5-NN accuracy",
}
CLOSE = 0.005  # as good as the best
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "labelled_pairs.svg"
Cell = tuple[str, int]  # set, pairs
Scores = dict[Cell, dict[str, dict[int, dict[str, float]]]]  # cell, method, draw, score


def by_cell(lines: dict[Any, dict[str, Any]]) -> Scores:
    """Scores of the units that ended well."""
    found: Scores = {}
    for unit, line in lines.items():
        if "auc" in line:
            methods = found.setdefault((unit.set, unit.pairs), {})
            methods.setdefault(unit.method, {})[unit.draw] = line
    return found


def ahead(ours: dict, theirs: dict, score: str) -> float:
    """Mean difference over the draws that both have."""
    draws = sorted(set(ours) & set(theirs))
    return float(np.mean([ours[d][score] - theirs[d][score] for d in draws])) if draws else np.nan


def gain(methods: dict[str, dict], ours: str, score: str) -> tuple[float, str]:
    """How far ahead of the best rival (behind, if negative), and which that is."""
    gaps = {name: ahead(methods[ours], methods[name], score) for name in RIVALS if name in methods}
    gaps = {name: gap for name, gap in gaps.items() if not np.isnan(gap)}
    best = min(gaps, key=lambda name: gaps[name])
    return gaps[best], best


def gains(cells: Scores, ours: str, score: str, sets: Any) -> dict[Cell, tuple[float, str]]:
    return {
        cell: gain(methods, ours, score)
        for cell, methods in cells.items()
        if cell[0] in sets and ours in methods and any(name in methods for name in RIVALS)
    }


def our_methods(cells: Scores) -> list[str]:
    present = {name for methods in cells.values() for name in methods}
    return [name for name in (AS_PAPER, *OURS) if name in present]


# ------------------------------------------------------------------------------------------ tables


def verdict(cells: Scores) -> str:
    """In how many cells ours are best or nearly so."""
    text = [
        "| | sets | cells | score | best or within .005 | mean gain | worst | where |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for ours in our_methods(cells):
        for half, sets in (("chosen on", CHOOSE), ("confirmed on", CONFIRM)):
            for score in SCORES:
                found = gains(cells, ours, score, sets)
                if not found:
                    continue
                values = np.array([value for value, _ in found.values()])
                worst = min(found, key=lambda cell: found[cell][0])
                text.append(
                    f"| `{ours}` | {half} | {len(values)} | {SCORES[score]} | "
                    f"{np.mean(values >= -CLOSE):.0%} | {values.mean():+.3f} | {values.min():+.3f} | "
                    f"{worst[0]}, {worst[1]:,} pairs, {found[worst][1]} |"
                )
    return "\n".join(text)


def means(cells: Scores, score: str) -> str:
    """Mean over the sets, by method and number of pairs: every method over the same cells."""
    numbers = sorted({n for _, n in cells})
    text = [
        f"| {SCORES[score]} | " + " | ".join(f"{n:,}" for n in numbers) + " |",
        "|---" * (1 + len(numbers)) + "|",
    ]
    sets = {n: sorted({name for name, m in cells if m == n}) for n in numbers}
    for method in METHODS:
        entries, some = [], False
        for n in numbers:
            found = [cells[name, n].get(method) for name in sets[n]]
            if all(found):
                values = [np.mean([line[score] for line in one.values()]) for one in found if one]
                entries.append(f"{np.mean(values):.3f}")
                some = True
            else:
                entries.append("")
        if some:
            text.append(f"| {method} | " + " | ".join(entries) + " |")
    text.append("| *sets* | " + " | ".join(str(len(sets[n])) for n in numbers) + " |")
    return "\n".join(text)


def misses(cells: Scores, ours: str) -> str:
    """Cells of the confirming half that are more than CLOSE behind."""
    text = ["| set | pairs | score | behind | best |", "|---|---|---|---|---|"]
    for score in ("auc", "p10"):
        for (name, n), (value, best) in sorted(gains(cells, ours, score, CONFIRM).items()):
            if value < -CLOSE:
                text.append(f"| {name} | {n:,} | {SCORES[score]} | {value:+.3f} | {best} |")
    return "\n".join(text)


def bars(cells: Scores, ours: str) -> str:
    """In one line per score of the confirming half: how many cells, how often best, how far behind."""
    text = []
    for score in ("auc", "p10"):
        values = np.array([value for value, _ in gains(cells, ours, score, CONFIRM).values()])
        if len(values):
            text.append(
                f"- `{ours}`, {SCORES[score]}, {len(values)} cells that confirm: best or within .005 in "
                f"{np.mean(values >= -CLOSE):.0%}, more than .04 behind in {np.sum(values < -0.04)}, at "
                f"worst {values.min():+.3f}"
            )
    return "\n".join(text)


def beside_paper(cells: Scores) -> str:
    """Mean difference of ours to the paper's settings over all cells."""
    text = []
    for ours in OURS:
        for score in SCORES:
            found = [
                ahead(methods[ours], methods[AS_PAPER], score)
                for methods in cells.values()
                if ours in methods and AS_PAPER in methods
            ]
            if found:
                text.append(
                    f"`{ours}` beside `{AS_PAPER}`, {SCORES[score]}: {np.mean(found):+.3f} in the mean "
                    f"over {len(found)} cells, {min(found):+.3f} to {max(found):+.3f}"
                )
    return "\n".join(f"- {line}" for line in text)


def given_up(lines: dict[Any, dict[str, Any]]) -> str:
    """Units that took too long or could not learn."""
    text = []
    for method in METHODS:
        own = [line for unit, line in lines.items() if unit.method == method]
        over, failed = (sum(key in line for line in own) for key in ("over", "failed"))
        if over or failed:
            text.append(
                f"- {method}: {over} of {len(own)} units took too long, {failed} could not learn"
            )
    return "\n".join(text)


# ----------------------------------------------------------------------------------------- picture


def draw_picture(cells: Scores, ours: str, path: Path) -> None:
    """Gain over the best rival by number of pairs: a thin line per set, a thick one for the mean."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "metricforest"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, score in zip(axes, ("auc", "p10"), strict=True):
        found = gains(cells, ours, score, SETS)
        numbers = sorted({n for _, n in found})
        for name in SETS:
            line = [(n, found[name, n][0]) for n in numbers if (name, n) in found]
            if line:
                colour = "tab:blue" if name in CHOOSE else "tab:orange"
                axis.plot(*zip(*line, strict=True), color=colour, alpha=0.45, linewidth=1)
        mean = [np.mean([found[c][0] for c in found if c[1] == n]) for n in numbers]
        axis.plot(numbers, mean, color="black", linewidth=2.5, label="mean of all sets")
        axis.axhline(0, color="grey", linewidth=0.8)
        axis.set(xscale="log", xlabel="labelled pairs", title=SCORES[score])
        axis.set_xticks(numbers, [f"{n:,}" for n in numbers])
        axis.minorticks_off()
    axes[0].plot([], [], color="tab:blue", label="sets chosen on")
    axes[0].plot([], [], color="tab:orange", label="sets that confirm")
    axes[0].set_ylabel("ahead of the best rival")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


# ------------------------------------------------------------------------------------------ report


def report(lines: dict[Any, dict[str, Any]], page: Path | None) -> None:
    """Print every table; write those that the page has marks for, and the picture, with `page`."""
    cells = by_cell(lines)
    if not cells:
        raise SystemExit("there are no results yet: run first")
    shown = next((name for name in OURS if name in our_methods(cells)), AS_PAPER)
    tables = {
        "verdict": verdict(cells),
        **{score: means(cells, score) for score in SCORES},
        "bars": bars(cells, shown),
        "misses": misses(cells, shown),
        "beside paper": beside_paper(cells),
        "given up": given_up(lines),
    }
    print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
    if page is None:
        return
    text = page.read_text()
    for name, table in tables.items():
        mark, end = f"<!-- {name} -->", "<!-- end -->"
        before, found, rest = text.partition(mark)
        if found:
            text = f"{before}{mark}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    page.write_text(text)
    draw_picture(cells, shown, PICTURE)
