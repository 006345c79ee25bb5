"""The report: stored results as tables and figures, beside the paper's, in HTML and Markdown.

`sections` builds the content once, as `Section`s of paragraphs, `Table`s and `Figure`s; `markdown` and
`html` only lay it out. A cell that was not run is empty, and the text under its table says why.
"""

from __future__ import annotations

import html as markup
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..storage import replace_file
from . import ablations, classification, clustering, noise, paper, protocol, retrieval
from .catalogue import EXPERIMENTS
from .protocol import HFD, Unit
from .runner import digest, duration, raw_path, read_lines, settings_of, units

Line = dict[str, Any]
NAMES = {
    "usps": "USPS",
    "magic": "Magic",
    "cifar10": "CIFAR-10",
    "cifar100-coarse": "CIFAR-100, 20 classes",
    "cifar100-fine": "CIFAR-100, 100 classes",
}
# Okabe and Ito's colours, which colour-blind readers tell apart; the forest is the boldest.
COLOURS = dict(
    zip(
        protocol.METRICS,
        ("#999999", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00"),
        strict=True,
    )
)
MARKERS = dict(zip(protocol.METRICS, "ovs^DPX*", strict=True))


@dataclass
class Table:
    """Cells are text; those in `strong` are set in bold."""

    head: list[str]
    rows: list[list[str]]
    strong: set[tuple[int, int]] = field(default_factory=set)
    caption: str = ""


@dataclass
class Figure:
    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass
class Section:
    title: str
    parts: list[str | Table | Figure]


def title_of(dataset: str) -> str:
    return NAMES.get(dataset, dataset.capitalize())


class Results:
    """The stored lines of one folder and how complete they are."""

    def __init__(self, folder: Path, rescore: bool = False):
        machine = folder / "machine.json"
        self.machine: dict[str, Any] = json.loads(machine.read_text()) if machine.is_file() else {}
        self.quick = bool(self.machine.get("quick"))
        self.settings = {name: settings_of(name, self.quick) for name in EXPERIMENTS}
        wanted = {unit.key: unit for unit in units(EXPERIMENTS, self.quick)}
        self.lines: list[Line] = []
        self.stale = 0  # made with other settings than today's
        for line in read_lines(folder):
            unit = wanted.get(line["unit"])
            settings = self.settings[line["experiment"]] if unit else {}
            if unit is None or line["settings"] != digest(unit, settings):
                self.stale += 1
                continue
            if rescore and raw_path(folder, unit).is_file():
                with np.load(raw_path(folder, unit), allow_pickle=False) as raw:
                    answers = {key: raw[key] for key in raw.files}
                score = EXPERIMENTS[unit.experiment].score
                line = {**line, "scores": score(unit, answers, settings)}
            self.lines.append(line)
        done = {line["unit"] for line in self.lines}
        self.missing: list[Unit] = [unit for key, unit in wanted.items() if key not in done]

    def of(self, experiment: str, **equal: Any) -> list[Line]:
        return [
            line
            for line in self.lines
            if line["experiment"] == experiment
            and all(line.get(key) == value for key, value in equal.items())
        ]

    def n_missing(self, experiment: str) -> int:
        return sum(unit.experiment == experiment for unit in self.missing)


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(spread)


def with_error(values: Sequence[float], digits: int = 3) -> str:
    if not len(values):
        return ""
    mean, error = mean_error(values)
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def best_variant(scores: list[list[float]]) -> list[float]:
    """Of the variants of a metric (columns), the one with the best mean over units (rows)."""
    table = np.array(scores)
    return table[:, table.mean(axis=0).argmax()].tolist() if len(table) else []


def notes_of(lines: Iterable[Line]) -> list[str]:
    """What deviates from the rest, metric by metric."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in lines:
        if line["notes"]:
            place = (line["metric"], line["dataset"])
            found.setdefault(place, set()).add("; ".join(line["notes"]))
    return [
        f"{metric} on {title_of(dataset)}: {', '.join(sorted(texts))}."
        for (metric, dataset), texts in sorted(found.items())
    ]


def gaps(results: Results, experiment: str) -> list[str]:
    """Why cells are empty."""
    missing = results.n_missing(experiment)
    said = []
    if missing:
        total = missing + len(results.of(experiment))
        said.append(
            f"{missing} of {total} units of work have not been run; empty cells wait for them."
        )
    return said


def joined(sentences: list[str]) -> list[str | Table | Figure]:
    return [" ".join(sentences)] if sentences else []


# ---------------------------------------------------------------------------------- experiments


def neighbours_section(results: Results) -> Section:
    settings = results.settings["neighbours"]
    parts: list[str | Table | Figure] = [
        "Every row asks for its 50 nearest neighbours; k_O is the number of candidates that each of "
        "the 100 trees proposes. Mean over forests. 'Algorithm 1' is the paper's own solver, the "
        "other lines are this library's default. 'Rows alone': learned without constraints; the paper "
        "does not say from how many its forest was learned here."
    ]
    quality = Table(
        ["k_O", *map(str, paper.CANDIDATES)], [], caption="Table 1: mean average precision"
    )
    times = Table(
        ["k_O", *map(str, paper.CANDIDATES)],
        [],
        caption="Table 2: time as a share of brute force (one thread, medians of warm runs)",
    )
    for dataset in settings["datasets"]:
        name = title_of(dataset)
        published = paper.TABLE_1[dataset]
        quality.rows.append([f"{name}, paper", *[f"{v:.3f}" for v in published]])
        for reading in EXPERIMENTS["neighbours"].readings(settings):
            lines = search_lines(results, dataset, reading)
            if not lines:
                quality.rows.append([f"{name}, ours{algorithm(reading)}", *[""] * len(published)])
                continue
            ours = np.array([line["scores"]["map"] for line in lines])
            cells = [with_error(column.tolist()) for column in ours.T]
            quality.rows.append([f"{name}, ours{algorithm(reading)}", *cells])
            difference = ours.mean(axis=0) - published
            quality.rows.append(["difference", *[f"{d:+.3f}" for d in difference]])
        lines = search_lines(results, dataset, {"solver": "lbfgs"})
        times.rows.append([f"{name}, paper", *[f"{v:.3f}" for v in paper.TABLE_2[dataset]]])
        for label, base in (
            ("ours, beside pair by pair", "pair_by_pair"),
            ("ours, beside our exact search", "exact"),
        ):
            shares = [
                [line["seconds"][f"candidates_{c}"] / line["seconds"][base] for line in lines]
                for c in paper.CANDIDATES
            ]
            cells = [f"{np.mean(share):.4f}" if share else "" for share in shares]
            times.rows.append([f"{name}, {label}", *cells])
        if lines:
            took = {
                key: np.mean([line["seconds"][key] for line in lines])
                for key in ("pair_by_pair", "exact", "candidates_10")
            }
            parts.append(
                f"{name}: {took['pair_by_pair']:.1f} s pair by pair, {took['exact']:.2f} s exact, "
                f"{took['candidates_10']:.2f} s with k_O = 10, for all rows."
            )
    parts += [quality, times]
    parts.append(
        "The paper's brute force measures the query's distance to every row pair by pair; so does the "
        "first line of ours (timed on some queries, scaled to all). Our own exact search meets every "
        "row once per tree instead and is far faster, so that less is left to gain beside it."
    )
    return Section(EXPERIMENTS["neighbours"].TITLE, parts + joined(gaps(results, "neighbours")))


def search_lines(results: Results, dataset: str, reading: dict[str, Any]) -> list[Line]:
    return results.of("neighbours", dataset=dataset, **{"pairs": None, **reading})


def algorithm(reading: dict[str, Any]) -> str:
    if reading.get("pairs") == 0:
        return " (rows alone)"
    return " (Algorithm 1)" if reading["solver"] == "subgradient" else ""


def accuracies(results: Results, dataset: str, metric: str) -> dict[tuple[int, int], float]:
    """Accuracy by (seed, fold), of the metric's best variant."""
    lines = results.of("classification", dataset=dataset, metric=metric)
    values = best_variant([line["scores"]["accuracy"] for line in lines])
    return {(line["seed"], line["fold"]): value for line, value in zip(lines, values, strict=True)}


def behind(ours: dict[Any, float], theirs: dict[Any, float]) -> tuple[float, float]:
    """By how much theirs is better, unit by unit where both have it, and the standard error."""
    common = sorted(set(ours) & set(theirs))
    return mean_error([theirs[key] - ours[key] for key in common])


def classification_summary(results: Results) -> tuple[Table, list[str], int, int]:
    """The table, remarks, on how many sets HFD is best or within an error of it, and of how many."""
    datasets = results.settings["classification"]["datasets"]
    table = Table(["metric", *map(title_of, datasets)], [], caption="5-NN accuracy, %")
    found = {
        (metric, dataset): accuracies(results, dataset, metric)
        for metric in protocol.METRICS
        for dataset in datasets
    }
    for metric in protocol.METRICS:
        cells = [
            with_error([100 * v for v in found[metric, dataset].values()], 1)
            for dataset in datasets
        ]
        table.rows.append([metric, *cells])
    remarks, close, judged = [], 0, 0
    for column, dataset in enumerate(datasets, 1):
        means = {
            m: np.mean([*found[m, dataset].values()]) for m in protocol.METRICS if found[m, dataset]
        }
        if not means:
            continue
        best = max(means, key=lambda m: means[m])
        table.strong.add((protocol.METRICS.index(best), column))
        if HFD not in means:
            continue
        judged += 1
        if best == HFD:
            close += 1
            remarks.append(f"{title_of(dataset)}: HFD is best.")
            continue
        gap, error = behind(found[HFD, dataset], found[best, dataset])
        near = gap <= error
        close += near
        remarks.append(
            f"{title_of(dataset)}: {best} is best, HFD {100 * gap:.1f} ± {100 * error:.1f} points behind"
            f"{' (within one standard error)' if near else ''}."
        )
    return table, remarks, close, judged


def classification_section(results: Results) -> Section:
    table, remarks, close, judged = classification_summary(results)
    datasets = results.settings["classification"]["datasets"]

    def draw() -> Any:
        fig, ax = canvas(9, 3.6)
        width = 0.8 / len(protocol.METRICS)
        for i, metric in enumerate(protocol.METRICS):
            places, heights, errors = [], [], []
            for place, dataset in enumerate(datasets):
                values = [100 * v for v in accuracies(results, dataset, metric).values()]
                if values:
                    mean, error = mean_error(values)
                    places.append(place + (i - 3.5) * width)
                    heights.append(mean)
                    errors.append(0 if np.isnan(error) else error)
            if places:
                ax.bar(
                    places, heights, width * 0.92, yerr=errors, label=metric,
                    color=COLOURS[metric], edgecolor="#333333", linewidth=0.4,
                    error_kw={"lw": 0.8},
                )  # fmt: skip
        ax.set_xticks(range(len(datasets)), [title_of(d) for d in datasets])
        ax.set_ylim(60, 100)
        ax.set_ylabel("5-NN accuracy, %")
        below(fig, ax)
        return fig

    lines = results.of("classification")
    parts: list[str | Table | Figure] = [
        "Five-fold cross-validation, mean ± standard error over folds and repetitions; the best mean is "
        f"bold. HFD is best, or its gap to the best is within one standard error of the paired "
        f"difference, on {close} of {judged} sets. (The paper shows bars without numbers and says: "
        "best on four of six.)",
        table,
        Figure("classification", "5-NN accuracy with standard errors", draw),
    ]
    said = remarks + notes_of(lines) + gaps(results, "classification")
    return Section(classification.TITLE, parts + joined(said))


def noise_curves(results: Results, metric: str, voters: str) -> dict[int, dict[int, float]]:
    """Accuracy by level of noise and seed; the best variant at each level."""
    curves = {}
    for level in results.settings["noise"]["levels"]:
        lines = results.of("noise", metric=metric, noise=level)
        if lines:
            values = best_variant([line["scores"][voters] for line in lines])
            seeds = [line["seed"] for line in lines]
            curves[level] = dict(zip(seeds, values, strict=True))
    return curves


def noise_losses(results: Results, voters: str) -> dict[str, list[float]]:
    """Points lost from 0 to 20 % noise, one value per repetition."""
    losses = {}
    for metric in protocol.METRICS:
        curve = noise_curves(results, metric, voters)
        if 0 in curve and 20 in curve:
            common = sorted(set(curve[0]) & set(curve[20]))
            losses[metric] = [100 * (curve[0][seed] - curve[20][seed]) for seed in common]
    return losses


def loss_and_rank(losses: dict[str, list[float]]) -> str:
    """What HFD loses, and where that puts it among the metrics."""
    order = sorted(losses, key=lambda m: np.mean(losses[m]))
    least = f" (least: {order[0]}, {with_error(losses[order[0]], 1)})" * (order[0] != HFD)
    return (
        f"{with_error(losses[HFD], 1)} points, rank {order.index(HFD) + 1} of {len(order)}{least}"
    )


def noise_voters(results: Results) -> list[Table]:
    """Who votes with 20 % noise; of several variants of a metric, the one with the best vote.

    Nothing where the scores are older than that question and the raw answers are not there.
    """
    table = Table(
        ["metric", "neighbours with a wrong label", "neighbours truly of the class"],
        [],
        caption="Who votes when 20 % of the labels are wrong, %",
    )
    for metric in protocol.METRICS:
        lines = results.of("noise", metric=metric, noise=20)
        scores = [line["scores"] for line in lines if "wrong" in line["scores"]]
        if scores:
            best = np.mean([s["corrupted"] for s in scores], axis=0).argmax()
            cells = [
                with_error([100 * s[what][best] for s in scores], 1) for what in ("wrong", "alike")
            ]
            table.rows.append([metric, *cells])
    return [table] if table.rows else []


def noise_section(results: Results) -> Section:
    levels = results.settings["noise"]["levels"]
    parts: list[str | Table | Figure] = [
        "Sonar, five-fold cross-validation; a share of the training labels is made wrong, the same "
        "labels for all metrics. 'Corrupted votes': the neighbours vote with the wrong labels too, the "
        "paper's likely reading. 'Clean votes': only the metric saw them. Mean ± standard error over "
        "repetitions."
    ]
    for voters in results.settings["noise"]["votes"]:
        table = Table(
            ["metric", *[f"{level} %" for level in levels], "lost from 0 to 20 %"],
            [],
            caption=f"5-NN accuracy, %, {voters} votes",
        )
        losses = noise_losses(results, voters)
        for metric in protocol.METRICS:
            curve = noise_curves(results, metric, voters)
            cells = [
                with_error([100 * v for v in curve.get(level, {}).values()], 1) for level in levels
            ]
            table.rows.append([metric, *cells, with_error(losses.get(metric, []), 1)])
        if losses:
            least = min(losses, key=lambda m: np.mean(losses[m]))
            table.strong.add((protocol.METRICS.index(least), len(levels) + 1))
        parts.append(table)
    parts += noise_voters(results)

    def draw() -> Any:
        fig, axes = canvas(9, 3.8, 2)
        for ax, voters in zip(axes, results.settings["noise"]["votes"], strict=True):
            for metric in protocol.METRICS:
                curve = noise_curves(results, metric, voters)
                if curve:
                    plot_line(
                        ax, metric, [*curve], [100 * np.mean([*v.values()]) for v in curve.values()]
                    )
            ax.set_title(f"{voters} votes")
            ax.set_xticks(levels)
            ax.set_xlabel("wrong training labels, %")
            ax.set_ylabel("5-NN accuracy, %")
        below(fig, axes[0])
        return fig

    parts.append(Figure("noise", "Accuracy on sonar while labels go wrong", draw))
    return Section(noise.TITLE, parts + joined(gaps(results, "noise")))


def retrieval_scores(results: Results, dataset: str) -> dict[tuple[str, str], Line]:
    """The line of every (metric, scaling), the best gamma where there are several."""
    found: dict[tuple[str, str], Line] = {}
    for line in results.of("retrieval", dataset=dataset):
        place = (line["metric"], line["scaling"])
        known = found.get(place)
        if known is None or line["scores"]["precision"][-1] > known["scores"]["precision"][-1]:
            found[place] = line
    return found


def retrieval_section(results: Results) -> Section:
    settings = results.settings["retrieval"]
    datasets = settings["datasets"]
    if not datasets:
        return Section(retrieval.TITLE, ["A quick run leaves CIFAR out."])
    cuts = [settings["retrieved"][0], settings["retrieved"][-1]]
    table = Table(
        ["metric", "scaling", *[f"{title_of(d)}, at {cut}" for d in datasets for cut in cuts]],
        [],
        caption="Precision, %, ± standard error over queries",
    )
    scores = {dataset: retrieval_scores(results, dataset) for dataset in datasets}
    for metric in protocol.METRICS:
        for scaling in settings["scaling"]:
            if scaling != settings["scaling"][0] and metric not in settings["both_scalings"]:
                continue
            row = [metric, scaling]
            for dataset in datasets:
                line = scores[dataset].get((metric, scaling))
                for place in (0, -1):
                    if line is None:
                        row.append("")
                        continue
                    value, error = (line["scores"][k][place] for k in ("precision", "error"))
                    row.append(f"{100 * value:.1f} ± {100 * error:.1f}")
            table.rows.append(row)

    def draw() -> Any:
        fig, axes = canvas(10, 3.8, len(datasets))
        for ax, dataset in zip(np.atleast_1d(axes), datasets, strict=True):
            for (metric, scaling), line in scores[dataset].items():
                precision = [100 * p for p in line["scores"]["precision"]]
                main = scaling == settings["scaling"][0]
                dashed = {} if main else {"linestyle": "--", "label": None}
                plot_line(ax, metric, settings["retrieved"], precision, **dashed)
            ax.set_title(title_of(dataset))
            ax.set_xlabel("images retrieved")
            ax.set_ylabel("precision, %")
        below(fig, np.atleast_1d(axes)[0])
        return fig

    parts: list[str | Table | Figure] = [
        "Queries are the test images, the training images are searched; 300 principal components. "
        "'As they are': components keep their own variances; 'unit': every component scaled to unit "
        "variance (dashed). The paper can be read either way; see the settings for more."
    ]
    parts += [table, Figure("retrieval", "Precision of the images retrieved", draw)]
    said = [f"{metric}: {why}." for metric, why in retrieval.SKIPPED.items()]
    said += notes_of(results.of("retrieval")) + gaps(results, "retrieval")
    return Section(retrieval.TITLE, parts + joined(said))


def clustering_values(
    results: Results, dataset: str, metric: str, count: int, what: str, sampling: str = "per class"
) -> list[float]:
    if metric == "Euclidean":
        count, sampling = paper.CONSTRAINTS[dataset][0], "per class"
    lines = results.of(
        "clustering", dataset=dataset, metric=metric, constraints=count, sampling=sampling
    )
    return [line["scores"][what] for line in lines]


def clustering_summary(results: Results) -> tuple[int, int, list[str]]:
    """In how many columns of Table 3 HFD reaches the paper, of how many run, and where it lags."""
    reached, judged, lags = 0, 0, []
    for dataset in results.settings["clustering"]["datasets"]:
        for column, count in enumerate(paper.CONSTRAINTS[dataset]):
            values = clustering_values(results, dataset, HFD, count, "best")
            if not values:
                continue
            judged += 1
            mean, error = mean_error(values)
            gap = mean - paper.TABLE_3[dataset][HFD][column]
            reached += gap >= 0
            if gap < 0:
                lags.append(
                    f"{title_of(dataset)} with {count:,} constraints: {gap:+.3f} ± {error:.3f}"
                )
    return reached, judged, lags


def clustering_section(results: Results) -> Section:
    reached, judged, lags = clustering_summary(results)
    parts: list[str | Table | Figure] = [
        "V-measure of spectral clustering in metrics learned from so many random pairs; the best over "
        "the graphs (and widths of the Gaussian) that the paper tries, mean ± standard error over draws "
        "of pairs. The best over graphs cannot be known without the answer; 'fixed' is one graph that "
        f"nobody has tuned. HFD's mean reaches the paper's in {judged and reached} of {judged} columns.",
        "How pairs are drawn matters: the paper does not say it. The first lines draw as many for every "
        "class (see the settings), those marked 'uniform pairs' draw any two rows.",
    ]
    if lags:
        parts.append(
            f"Below the paper: {'; '.join(lags)}. What was tried to find out why is in "
            "docs/reproduce.md of the library."
        )
    for dataset in results.settings["clustering"]["datasets"]:
        counts = paper.CONSTRAINTS[dataset]
        table = Table(
            [
                "",
                *[
                    f"{c:,}: {what}"
                    for c in counts
                    for what in ("paper", "ours", "difference", "fixed")
                ],
            ],
            [],
            caption=f"Table 3: {title_of(dataset)}",
        )
        sampled = [(metric, "per class") for metric in clustering.METRICS]
        if dataset != "usps":
            sampled += [
                (metric, "uniform") for metric in clustering.METRICS if metric != "Euclidean"
            ]
        for row, (metric, sampling) in enumerate(sampled):
            cells = [metric + (", uniform pairs" if sampling == "uniform" else "")]
            for column, count in enumerate(counts):
                published = paper.TABLE_3[dataset][metric][column]
                best, fixed = (
                    clustering_values(results, dataset, metric, count, what, sampling)
                    for what in ("best", "fixed")
                )
                difference = f"{np.mean(best) - published:+.3f}" if best else ""
                cells += [f"{published:.3f}", with_error(best), difference, with_error(fixed)]
            table.rows.append(cells)
            if (metric, sampling) == (HFD, "per class"):
                table.strong |= {(row, place) for place in range(len(cells))}
        parts.append(table)

    def draw() -> Any:
        datasets = results.settings["clustering"]["datasets"]
        fig, axes = canvas(10, 3.2, len(datasets))
        for ax, dataset in zip(np.atleast_1d(axes), datasets, strict=True):
            counts = paper.CONSTRAINTS[dataset]
            for metric in clustering.METRICS:
                means = [clustering_values(results, dataset, metric, c, "best") for c in counts]
                if all(means):
                    plot_line(ax, metric, counts, [np.mean(v) for v in means])
            ax.plot(
                counts,
                paper.TABLE_3[dataset][HFD],
                ":",
                color="#333333",
                label="HFD, paper",
                lw=1.5,
            )
            ax.set_title(title_of(dataset))
            ax.set_xlabel("constraints")
            ax.set_ylim(0, 1)
        np.atleast_1d(axes)[0].set_ylabel("V-measure")
        below(fig, np.atleast_1d(axes)[0])
        return fig

    parts.append(Figure("clustering", "V-measure against the number of judged pairs", draw))
    said = notes_of(results.of("clustering")) + gaps(results, "clustering")
    return Section(clustering.TITLE, parts + joined(said))


def ablations_section(results: Results) -> Section:
    settings = results.settings["ablations"]
    parts: list[str | Table | Figure] = [
        f"One parameter changes, the others keep their defaults ({settings['trees']} trees). Accuracy of "
        "the 5-NN vote and AUC of held-out pairs (how well distances tell same from different), five "
        "folds, mean over repetitions."
    ]

    def values(parameter: str, value: Any, dataset: str, what: str) -> list[float]:
        lines = results.of("ablations", dataset=dataset)
        return [
            100 * line["scores"][what]
            for line in lines
            if parameter in line and line[parameter] == value
            and type(line[parameter]) is type(value)
        ]  # fmt: skip

    for parameter, tried in settings["parameters"].items():
        table = Table(
            [
                parameter,
                *[
                    f"{title_of(d)}: {what}"
                    for d in settings["datasets"]
                    for what in ("5-NN", "AUC")
                ],
            ],
            [],
        )
        for value in tried:
            cells = [str(value)]
            for dataset in settings["datasets"]:
                for what in ("accuracy", "pair_auc"):
                    found = values(parameter, value, dataset, what)
                    cells.append(f"{np.mean(found):.1f}" if found else "")
            table.rows.append(cells)
        parts.append(table)

    def draw() -> Any:
        parameters = settings["parameters"]
        n_columns = 4
        n_rows = -(-len(parameters) // n_columns)
        fig, axes = canvas(11, 2.9 * n_rows, n_columns, n_rows)
        axes = np.ravel(axes)
        colours = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
        for ax, (parameter, tried) in zip(axes, parameters.items(), strict=False):
            for dataset, colour, marker in zip(settings["datasets"], colours, "os^D", strict=False):
                means = [values(parameter, v, dataset, "accuracy") for v in tried]
                if all(means):
                    ax.plot(
                        range(len(tried)), [np.mean(m) for m in means],
                        color=colour, marker=marker, label=title_of(dataset),
                    )  # fmt: skip
            ax.set_xticks(range(len(tried)), [str(v) for v in tried])
            ax.set_title(parameter)
        for ax in axes[len(parameters) :]:
            ax.set_axis_off()
        axes[0].set_ylabel("5-NN accuracy, %")
        below(fig, axes[0])
        return fig

    parts.append(Figure("ablations", "5-NN accuracy while one parameter changes", draw))
    return Section(ablations.TITLE, parts + joined(gaps(results, "ablations")))


# -------------------------------------------------------------------------------------- the rest


def summary(results: Results) -> Section:
    said = []
    _, _, close, judged = classification_summary(results)
    if judged:
        said.append(
            f"Classification: HFD is best or within one standard error of the best on {close} of {judged} "
            "data sets (paper: best on 4 of 6)."
        )
    losses = noise_losses(results, "corrupted")
    if HFD in losses and len(losses) > 1:
        said.append(
            f"Noise: from 0 to 20 % wrong labels HFD loses {loss_and_rank(losses)}. Where right labels "
            "vote and only the metric saw the wrong ones it loses "
            f"{loss_and_rank(noise_losses(results, 'clean'))}."
        )
    reached, judged, _ = clustering_summary(results)
    if judged:
        said.append(
            f"Clustering: HFD reaches the paper's V-measure in {reached} of {judged} columns."
        )
    for dataset in results.settings["retrieval"]["datasets"]:
        found = {
            place: line["scores"]["precision"][-1]
            for place, line in retrieval_scores(results, dataset).items()
        }
        ours = [value for (metric, _), value in found.items() if metric == HFD]
        rest = {place: value for place, value in found.items() if place[0] != HFD}
        if ours and rest:
            (metric, scaling), value = max(rest.items(), key=lambda item: item[1])
            said.append(
                f"Retrieval, {title_of(dataset)}: precision at 50 is {100 * max(ours):.1f} % with HFD, "
                f"{100 * value:.1f} % with the best other ({metric}, {scaling})."
            )
    for dataset in results.settings["neighbours"]["datasets"]:
        shown = []
        for reading in EXPERIMENTS["neighbours"].readings(results.settings["neighbours"]):
            own = search_lines(results, dataset, reading)
            if own:
                gap = np.mean([line["scores"]["map"] for line in own], axis=0)
                gap -= paper.TABLE_1[dataset]
                shown.append(", ".join(f"{d:+.3f}" for d in gap[1:4]) + algorithm(reading))
        if shown:
            said.append(
                f"Approximate search, {title_of(dataset)}: mAP minus the paper's at k_O = 3, 5, 10: "
                + "; ".join(shown)
                + "."
            )
    total = sum(line["seconds"]["unit"] for line in results.lines)
    used = sum(line["seconds"]["unit_processor"] for line in results.lines)
    parts: list[str | Table | Figure] = []
    if results.quick:
        parts.append(
            "This is a quick run: small data sets, few trees, few repetitions. Its numbers show that "
            "everything works, not how good it is."
        )
    parts += [f"- {line}" for line in said]
    finished = len(results.lines)
    parts.append(
        f"{finished} of {finished + len(results.missing)} units of work are done. They took "
        f"{duration(total)} in all, one after the other ({duration(used)} of processor time); small "
        "ones run side by side."
    )
    if results.stale:
        parts.append(
            f"{results.stale} stored results were made with other settings and are left out."
        )
    return Section("In short", parts)


def settings_section(results: Results) -> Section:
    parts: list[str | Table | Figure] = [
        "What the paper fixes, what it leaves open, and what was chosen. All of it is in "
        "`metricforest.experiments`, where it can be changed."
    ]
    for name, module in EXPERIMENTS.items():
        table = Table(["setting", "value", "why"], [], caption=name)
        for key, setting in module.SETTINGS.items():
            table.rows.append([key, str(results.settings[name][key]), setting.why])
        parts.append(table)
    return Section("Settings", parts)


def machine_section(results: Results) -> Section:
    table = Table(["", ""], [[k, str(v)] for k, v in results.machine.items() if k != "quick"])
    data = sorted({(title_of(line["dataset"]), line["data"]) for line in results.lines})
    when = sorted(line["when"] for line in results.lines)
    parts: list[str | Table | Figure] = [table]
    if data:
        parts.append(Table(["data set", "version used"], [list(row) for row in data]))
        parts.append(f"Run between {when[0]} and {when[-1]} UTC.")
    return Section("Machine, versions, data", parts)


def sections(results: Results) -> list[Section]:
    return [
        summary(results),
        neighbours_section(results),
        classification_section(results),
        noise_section(results),
        retrieval_section(results),
        clustering_section(results),
        ablations_section(results),
        settings_section(results),
        machine_section(results),
    ]


# --------------------------------------------------------------------------------------- drawing


def canvas(width: float, height: float, n_columns: int = 1, n_rows: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure as Canvas

    fig = Canvas(figsize=(width, height), layout="constrained")
    axes = fig.subplots(n_rows, n_columns)
    for ax in np.ravel(axes):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.3)
    return fig, axes


def plot_line(ax: Any, metric: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> None:
    look = {
        "color": COLOURS[metric],
        "marker": MARKERS[metric],
        "label": metric,
        "ms": 5,
        "lw": 1.3,
    }
    if metric == HFD:
        look |= {"lw": 2.4, "ms": 8, "zorder": 5}
    ax.plot(x, y, **look | more)


def below(fig: Any, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        fig.legend(
            handles, labels, loc="outside lower center", ncols=min(8, len(labels)), frameon=False
        )


def as_svg(fig: Any) -> str:
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "metricforest", "svg.fonttype": "path"}):
        fig.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


# ---------------------------------------------------------------------------------------- layout

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; --soft: #161b22; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left; }
th { background: var(--soft); } td { white-space: nowrap; } td.long { white-space: normal; min-width: 18rem; }
figure { margin: 1.5rem 0; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem; } figure svg { width: 100%; height: auto; }
figcaption { color: #1b1f24; font-size: .86rem; } nav a { margin-right: 1rem; }
"""


LONG = 40  # letters of a cell that may be broken into lines


def heading(results: Results) -> str:
    return "The paper, reproduced" + (" (quick run)" if results.quick else "")


def html(results: Results, content: list[Section], drawings: dict[str, str]) -> str:
    out = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>metricforest: {heading(results)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{heading(results)}</h1>",
        "<p>Johnson, Xiong and Corso, <em>Semi-Supervised Nonlinear Distance Metric Learning via "
        "Forests of Max-Margin Cluster Hierarchies</em>: the tables and figures of its section 6, the "
        "paper's numbers beside ours.</p><nav>",
        *[
            f"<a href='#s{i}'>{markup.escape(s.title.partition(' (')[0])}</a>"
            for i, s in enumerate(content)
        ],
        "</nav>",
    ]
    for i, section in enumerate(content):
        out.append(f"<h2 id='s{i}'>{markup.escape(section.title)}</h2>")
        for part in section.parts:
            if isinstance(part, Table):
                out.append(html_table(part))
            elif isinstance(part, Figure):
                out.append(
                    f"<figure>{drawings[part.name]}"
                    f"<figcaption>{markup.escape(part.caption)}</figcaption></figure>"
                )
            elif part.startswith("- "):
                out.append(f"<ul><li>{markup.escape(part[2:])}</li></ul>")
            else:
                out.append(f"<p>{markup.escape(part)}</p>")
    return "\n".join([*out, "</body></html>\n"])


def html_table(table: Table) -> str:
    caption = f"<caption>{markup.escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(f"<th>{markup.escape(cell)}</th>" for cell in table.head)
    rows = []
    for i, row in enumerate(table.rows):
        cells = [
            f"<td><strong>{markup.escape(cell)}</strong></td>"
            if (i, j) in table.strong and cell
            else f"<td{' class=long' if len(cell) > LONG else ''}>{markup.escape(cell)}</td>"
            for j, cell in enumerate(row)
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<div class='wide'><table>{caption}<tr>{head}</tr>{''.join(rows)}</table></div>"


def markdown(results: Results, content: list[Section]) -> str:
    out = [f"# {heading(results)}", ""]
    for section in content:
        out += [f"## {section.title}", ""]
        for part in section.parts:
            if isinstance(part, Table):
                if part.caption:
                    out += [f"**{part.caption}**", ""]
                out += ["| " + " | ".join(part.head) + " |", "|" + "---|" * len(part.head)]
                for i, row in enumerate(part.rows):
                    cells = [
                        f"**{cell}**"
                        if (i, j) in part.strong and cell
                        else cell.replace("|", "\\|")
                        for j, cell in enumerate(row)
                    ]
                    out.append("| " + " | ".join(cells) + " |")
                out.append("")
            elif isinstance(part, Figure):
                out += [f"![{part.caption}](figures/{part.name}.svg)", ""]
            elif part.startswith("- "):
                out.append(part)
            else:  # a paragraph stands apart from a list before it
                out += [*([""] if out[-1].startswith("- ") else []), part, ""]
        out.append("")
    return "\n".join(out)


def write(folder: Path, rescore: bool = False) -> list[Path]:
    """report.html, report.md and the figures it shows, each written beside and renamed."""
    results = Results(folder, rescore)
    if not results.lines:
        raise FileNotFoundError(f"{folder} holds no results of `metricforest reproduce`")
    content = sections(results)
    drawings = {
        part.name: as_svg(part.draw())
        for section in content
        for part in section.parts
        if isinstance(part, Figure)
    }
    files = {
        folder / "report.html": html(results, content, drawings),
        folder / "report.md": markdown(results, content),
        **{folder / "figures" / f"{name}.svg": text for name, text in drawings.items()},
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        replace_file(path, iter([text.encode()]))
    return [folder / "report.html", folder / "report.md"]
