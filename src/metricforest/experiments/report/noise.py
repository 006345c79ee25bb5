"""Figure 2: accuracy while training labels go wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import noise, protocol
from ..protocol import HFD
from .plots import below, canvas, plot_line
from .results import Claim, Parts, Results, best_variant, gaps, joined, with_error
from .tables import Figure, Section, Table


def curves_of(results: Results, metric: str, voters: str) -> dict[int, dict[int, float]]:
    """Accuracy by level of noise and seed; the best variant at each level."""
    curves = {}
    for level in results.settings["noise"]["levels"]:
        lines = results.of("noise", metric=metric, noise=level)
        if lines:
            values = best_variant([line["scores"][voters] for line in lines])
            seeds = [line["seed"] for line in lines]
            curves[level] = dict(zip(seeds, values, strict=True))
    return curves


def losses_of(results: Results, voters: str) -> dict[str, list[float]]:
    """Points lost from 0 to 20 % noise, one value per repetition."""
    losses = {}
    for metric in protocol.METRICS:
        curve = curves_of(results, metric, voters)
        if 0 in curve and 20 in curve:
            common = sorted(set(curve[0]) & set(curve[20]))
            losses[metric] = [100 * (curve[0][seed] - curve[20][seed]) for seed in common]
    return losses


def losing_less(losses: dict[str, list[float]]) -> list[str]:
    """Metrics that lose less than HFD, the least first; equal but for rounding is not less."""
    means = {metric: round(float(np.mean(lost)), 9) for metric, lost in losses.items()}
    return [
        metric for metric in sorted(means, key=lambda m: means[m]) if means[metric] < means[HFD]
    ]


def loss_and_rank(losses: dict[str, list[float]]) -> str:
    """What HFD loses, and who loses less."""
    said = ", ".join(f"{metric} {with_error(losses[metric], 1)}" for metric in losing_less(losses))
    return f"{with_error(losses[HFD], 1)} points, " + (
        f"less: {said}" if said else "no metric less"
    )


class Place(NamedTuple):
    """HFD's accuracy at one level of noise beside the best other metric's, in per cent."""

    level: int
    ours: float
    best: float
    metric: str

    def __str__(self) -> str:
        return f"at {self.level} % it has {self.ours:.1f}, the best other {self.best:.1f} ({self.metric})"


def places(results: Results, voters: str) -> list[Place]:
    """At the levels that the paper names, where they were run."""
    found = []
    for level in (10, 20):
        means = {
            metric: 100 * float(np.mean([*curve[level].values()]))
            for metric in protocol.METRICS
            if level in (curve := curves_of(results, metric, voters))
        }
        others = [metric for metric in means if metric != HFD]
        if HFD in means and others:
            best = max(others, key=lambda m: means[m])
            found.append(Place(level, means[HFD], means[best], best))
    return found


class Shares(NamedTuple):
    """Points lost from 0 to 20 % noise, one value per repetition: by the metric, and by who votes."""

    metric: np.ndarray  # with right voters
    voters: np.ndarray  # right voters less wrong ones, with 20 % noise


def shares_of(results: Results, metric: str, variant: int | None = None) -> Shares | None:
    """The loss by cause. Of several variants the one given, or the best with wrong voters, level by level."""
    scores = {
        level: {
            line["seed"]: line["scores"] for line in results.of("noise", metric=metric, noise=level)
        }
        for level in (0, 20)
    }
    seeds = sorted(scores[0].keys() & scores[20].keys())
    if not seeds:
        return None

    def accuracy(level: int, voters: str) -> np.ndarray:
        chosen = variant
        if chosen is None:
            votes = [one["corrupted"] for one in scores[level].values()]
            chosen = int(np.mean(votes, axis=0).argmax())
        return 100 * np.array([scores[level][seed][voters][chosen] for seed in seeds])

    right = accuracy(20, "clean")
    return Shares(accuracy(0, "clean") - right, right - accuracy(20, "corrupted"))


def loss_by_cause(results: Results) -> Parts:
    """The losses by cause, and what ITML's depends on."""
    table = Table(
        ["metric", "total", "metric learned from wrong labels", "wrong labels vote"],
        [],
        caption="Accuracy loss by cause, in points from 0 to 20 % noise",
    )
    found = {metric: shares_of(results, metric) for metric in protocol.METRICS}
    for metric, shares in found.items():
        if shares is not None:
            parts = (shares.metric + shares.voters, *shares)
            table.rows.append([metric, *[with_error(part.tolist(), 1) for part in parts]])
    if not table.rows:
        return []
    said = []
    plain = found.get("Euclidean")
    if plain is not None:
        spared = [
            f"{metric} ({with_error(shares.voters.tolist(), 1)}; the metric itself loses "
            f"{with_error(shares.metric.tolist(), 1)})"
            for metric, shares in found.items()
            if shares is not None and shares.voters.mean() < plain.voters.mean()
        ]
        said.append(
            "Wrong labels that vote cost the Euclidean distance, which learns nothing, "
            f"{with_error(plain.voters.tolist(), 1)} points. They cost less under "
            f"{', '.join(spared) or 'no other metric'}."
        )
    gammas = results.settings["noise"].get("itml_gammas", ())
    if found.get("ITML") is not None and len(gammas) > 1:
        each = [shares_of(results, "ITML", variant) for variant in range(len(gammas))]
        lost = ", ".join(
            f"{with_error((s.metric + s.voters).tolist(), 1)} with gamma {gamma:g}"
            for gamma, s in zip(gammas, each, strict=True)
            if s is not None
        )
        said.append(
            "The smaller gamma is, the closer ITML stays to the Euclidean distance. The tables show it with "
            f"the best gamma of each level; with one gamma for all levels it loses {lost}."
        )
    return [table, *said]


def voters_of(results: Results) -> list[Table]:
    """The neighbours' labels with 20 % noise; of several variants of a metric, of the most accurate."""
    table = Table(
        ["metric", "wrong label", "truly of the query's class"],
        [],
        caption="Labels of the neighbours when 20 % are wrong, %",
    )
    for metric in protocol.METRICS:
        lines = results.of("noise", metric=metric, noise=20)
        scores = [line["scores"] for line in lines]
        if scores:
            best = np.mean([s["corrupted"] for s in scores], axis=0).argmax()
            cells = [
                with_error([100 * s[what][best] for s in scores], 1) for what in ("wrong", "alike")
            ]
            table.rows.append([metric, *cells])
    return [table] if table.rows else []


def repetitions(results: Results) -> str:
    """How many there are, where levels differ by level."""
    counts = {
        level: len(results.of("noise", metric=HFD, noise=level))
        for level in results.settings["noise"]["levels"]
    }
    usual = min(counts.values())
    more = [f"{count} at {level} %" for level, count in counts.items() if count > usual]
    return ", ".join([str(usual), *more])


def section(results: Results) -> Section:
    levels = results.settings["noise"]["levels"]
    parts: Parts = [
        "Sonar, five-fold cross-validation; a share of the training labels is made wrong, the same "
        "labels for all metrics. 'Corrupted votes': neighbours vote with the corrupted labels, which is what "
        "the paper probably means. 'Clean votes': only the metric learns from them. Mean ± standard error "
        f"over repetitions ({repetitions(results)})."
    ]
    for voters in results.settings["noise"]["votes"]:
        table = Table(
            ["metric", *[f"{level} %" for level in levels], "lost from 0 to 20 %"],
            [],
            caption=f"5-NN accuracy, %, {voters} votes",
        )
        losses = losses_of(results, voters)
        for metric in protocol.METRICS:
            curve = curves_of(results, metric, voters)
            cells = [
                with_error([100 * v for v in curve.get(level, {}).values()], 1) for level in levels
            ]
            table.rows.append([metric, *cells, with_error(losses.get(metric, []), 1)])
        if losses:
            least = min(losses, key=lambda m: np.mean(losses[m]))
            table.strong.add((protocol.METRICS.index(least), len(levels) + 1))
        parts.append(table)
    parts += voters_of(results) + loss_by_cause(results)

    def draw() -> Any:
        fig, axes = canvas(9, 3.8, 2)
        for ax, voters in zip(axes, results.settings["noise"]["votes"], strict=True):
            for metric in protocol.METRICS:
                curve = curves_of(results, metric, voters)
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

    parts.append(Figure("noise", "Accuracy on sonar as more labels are wrong", draw))
    return Section(noise.TITLE, parts + joined(gaps(results, "noise")))


def claims(results: Results) -> list[Claim]:
    losses = losses_of(results, "corrupted")
    if HFD not in losses or len(losses) == 1:
        return []
    placed = places(results, "corrupted")
    found = (
        f"it loses {'; '.join([loss_and_rank(losses), *map(str, placed)])}. Where right labels vote and "
        f"only the metric learned from wrong ones it loses {loss_and_rank(losses_of(results, 'clean'))}"
    )
    least, best = not losing_less(losses), all(place.ours >= place.best for place in placed)
    claim = "Label noise on sonar: HFD loses least from 0 to 20 %, and is best from 10 % on"
    return [Claim(claim, found, (least and best) or (None if least or best else False))]
