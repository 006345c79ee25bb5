"""How the figures of the report are drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import protocol
from ..protocol import HFD

# Okabe and Ito's colours, which colour-blind readers tell apart; the forest is the boldest.
COLOURS = dict(
    zip(
        protocol.METRICS,
        ("#999999", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00"),
        strict=True,
    )
)
MARKERS = dict(zip(protocol.METRICS, "ovs^DPX*", strict=True))


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
