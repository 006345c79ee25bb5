"""The report: stored results as tables and figures, beside the paper's, in HTML and Markdown.

One module per experiment builds the content, as `Section`s of paragraphs, `Table`s and `Figure`s; `markdown`
and `html` only lay it out. A cell that was not run is empty, and the text under its table says why.
"""

from __future__ import annotations

from pathlib import Path

from ...storage.outputs import PICTURE, replace_file, unlike
from ..catalogue import EXPERIMENTS
from . import ablations, classification, clustering, neighbours, noise, overview, retrieval
from .plots import as_svg
from .results import Results
from .tables import Figure, Section, html, markdown

HEADING = "The paper, reproduced"
OURS = {  # what may stand at the place of a file of the report
    ".html": unlike(b"<title>metricforest: ", what="an earlier report"),
    ".md": unlike(b"# " + HEADING.encode(), what="an earlier report"),
    ".svg": PICTURE,
}
__all__ = ["Results", "sections", "write"]

SHOWN = {  # by their experiments, in the paper's order; the last is not in the paper
    "neighbours": neighbours,
    "classification": classification,
    "noise": noise,
    "retrieval": retrieval,
    "clustering": clustering,
    "ablations": ablations,
}


def sections(results: Results) -> list[Section]:
    claims = {name: part.claims(results) for name, part in SHOWN.items() if part is not ablations}
    return [
        overview.summary(results, claims),
        *[section_of(results, name) for name in SHOWN],
        overview.settings(results),
        overview.machine(results),
    ]


def section_of(results: Results, name: str) -> Section:
    """What an experiment has found; of one that was not begun only that."""
    if results.n_missing(name) and not results.of(name):
        said = f"Not run: `metricforest reproduce {name}` does it ({results.n_missing(name)} units of work)."
        return Section(EXPERIMENTS[name].TITLE, [said])
    return SHOWN[name].section(results)


def write(results: Results, folder: Path) -> list[Path]:
    """report.html, report.md and the figures it shows, each written beside and renamed."""
    if not results.lines:
        raise FileNotFoundError(f"{folder} holds no results of `metricforest reproduce`")
    content = sections(results)
    heading = HEADING + (" (quick run)" if results.quick else "")
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
        replace_file(path, [text.encode()], foreign=OURS[path.suffix])
    return [folder / "report.html", folder / "report.md"]
