"""What a report is made of, and how that becomes a page or a text."""

from __future__ import annotations

import html as markup
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


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
th { background: var(--soft); } td { white-space: nowrap; } td.long { white-space: normal; min-width: 14rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--soft); }
figure { margin: 1.5rem 0; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem; overflow-x: auto; } figure svg { width: 100%; min-width: 44rem; height: auto; }
@media (max-width: 40rem) { table { font-size: .78rem; } td.long { min-width: 8.5rem; }
  th:first-child, td:first-child { max-width: 7.5rem; white-space: normal; } }
figcaption { color: #1b1f24; font-size: .86rem; } nav a { margin-right: 1rem; }
"""


LONG = 40  # letters of a cell that may be broken into lines


def html(heading: str, content: list[Section], drawings: dict[str, str]) -> str:
    """One page that needs nothing else; `drawings` are the figures by their names."""
    out = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>metricforest: {heading}</title><style>{STYLE}</style></head><body>",
        f"<h1>{heading}</h1>",
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


def plain(text: str) -> str:
    """Text as Markdown that shows it: no HTML, one line, no end of a cell."""
    text = " ".join(text.split("\n")).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("|", "\\|")


def markdown(heading: str, content: list[Section]) -> str:
    out = [f"# {heading}", ""]
    for section in content:
        out += [f"## {plain(section.title)}", ""]
        for part in section.parts:
            if isinstance(part, Table):
                if part.caption:
                    out += [f"**{plain(part.caption)}**", ""]
                head = " | ".join(map(plain, part.head))
                out += [f"| {head} |", "|" + "---|" * len(part.head)]
                for i, row in enumerate(part.rows):
                    cells = [
                        f"**{plain(cell)}**" if (i, j) in part.strong and cell else plain(cell)
                        for j, cell in enumerate(row)
                    ]
                    out.append("| " + " | ".join(cells) + " |")
                out.append("")
            elif isinstance(part, Figure):
                out += [f"![{plain(part.caption)}](figures/{part.name}.svg)", ""]
            elif part.startswith("- "):
                out.append(plain(part))
            else:  # a paragraph stands apart from a list before it
                out += [*([""] if out[-1].startswith("- ") else []), plain(part), ""]
        out.append("")
    return "\n".join(out)
