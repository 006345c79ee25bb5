"""The report: stored results as tables and figures, beside the paper's, in HTML and Markdown.

One module per experiment builds the content, as `Section`s of paragraphs, `Table`s and `Figure`s; `markdown`
and `html` only lay it out. A cell that was not run is empty, and the text under its table says why.
"""

from __future__ import annotations

from pathlib import Path

from ...storage import replace_file
from . import ablations, classification, clustering, neighbours, noise, overview, retrieval
from .plots import as_svg
from .results import Results
from .tables import Figure, Section, html, markdown

__all__ = ["Results", "sections", "write"]

SHOWN = {  # by their experiments, in the paper's order
    "neighbours": neighbours,
    "classification": classification,
    "noise": noise,
    "retrieval": retrieval,
    "clustering": clustering,
}


def sections(results: Results) -> list[Section]:
    return [
        overview.summary(results, {name: part.claims(results) for name, part in SHOWN.items()}),
        *[part.section(results) for part in SHOWN.values()],
        ablations.section(results),
        overview.settings(results),
        overview.machine(results),
    ]


def write(results: Results, folder: Path) -> list[Path]:
    """report.html, report.md and the figures it shows, each written beside and renamed."""
    if not results.lines:
        raise FileNotFoundError(f"{folder} holds no results of `metricforest reproduce`")
    content = sections(results)
    heading = "The paper, reproduced" + (" (quick run)" if results.quick else "")
    drawings = {
        part.name: as_svg(part.draw())
        for section in content
        for part in section.parts
        if isinstance(part, Figure)
    }
    files = {
        folder / "report.html": html(heading, content, drawings),
        folder / "report.md": markdown(heading, content),
        **{folder / "figures" / f"{name}.svg": text for name, text in drawings.items()},
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        replace_file(path, iter([text.encode()]))
    return [folder / "report.html", folder / "report.md"]
