"""What each parameter of the forest is worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ablations
from .plots import below, canvas
from .results import Parts, Results, gaps, joined, title_of
from .tables import Figure, Section, Table


def section(results: Results) -> Section:
    settings = results.settings["ablations"]
    parts: Parts = [
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
