"""Files of labelled pairs: read, their header settled, and whether their ids are those of a table."""

from __future__ import annotations

from typing import Any

import click

from .common import naming

LABEL_NAMES = frozenset(
    ["same", "label", "answer", "match", "judgement", "judgment", "verdict", "is_match", "is_same"]
)


def read_pairs(path: str) -> Any:
    """The file of labelled pairs as three columns of text: two ids and a label."""
    from ..tables import files

    frame = files.read_table(path, sep=files.guess_separator(path), twice=True)
    if frame.shape[1] > 3:
        names = [str(name).strip().lower() for name in frame.columns]
        known = [j for j, name in enumerate(names) if name in LABEL_NAMES]
        if len(known) != 1:
            raise click.ClickException(
                f"{path}: which of its {frame.shape[1]} columns holds the labels? Call one "
                "'same', or keep two ids and the label only"
            )
        ends = [j for j in range(len(names)) if j != known[0]][:2]
        frame = frame.iloc[:, [*ends, known[0]]]
    if frame.shape[1] < 3:
        raise click.ClickException(
            f"{path}: labelled pairs need three columns, two ids and a label, "
            f"but it has {', '.join(map(repr, map(str, frame.columns)))}"
        )
    return frame


def joined(labelled: list[Any]) -> Any:
    """The pairs of all files in one frame; None of none."""
    from ..tables.files import pandas

    if not labelled:
        return None
    names = ["left", "right", "answer"]
    parts = [
        part.set_axis(names, axis=1).astype(object) for part in labelled
    ]  # ids stay as they are
    return pandas().concat(parts, ignore_index=True)


def need_column(path: str, frame: Any, column: str | None) -> None:
    """Raise where a column was named that the table does not have."""
    if column is not None and column not in frame.columns:
        known = ", ".join(map(str, frame.columns[:20]))
        raise click.ClickException(f"{path}: no column {column!r}; it has {known}")


def checked_pairs(
    labelled: list[Any],
    frame: Any,
    id_: str | None,
    table: str,
    paths: tuple[str, ...],
    right: Any = None,
) -> list[Any]:
    """The labelled pairs of all files; an error names the file, and the value that is wrong in it."""
    from ..tables.columns import as_table, values_of
    from ..tables.pair_labels import read_label, row_ids

    with naming(table):
        row_ids(as_table(frame), id_, unique=True)
    checked = []
    for part, path in zip(labelled, paths, strict=True):
        part = settle_header(part, frame, id_, right)
        check_ids(part, frame, id_, table, path, right)
        with naming(path):
            for row, label in enumerate(values_of(part.iloc[:, 2]).tolist()):
                read_label(label, row)
        checked.append(part)
    return checked


def settle_header(labelled: Any, frame: Any, id_: str | None, right: Any = None) -> Any:
    """The pairs, with their header as the first of them where it is one: two known ids."""
    from ..tables.columns import id_text
    from ..tables.files import pandas

    known = [known_ids(table, id_) for table in (frame, frame if right is None else right)]
    head = [str(name).strip() for name in labelled.columns]
    if not all(id_text(h) in ids for h, ids in zip(head[:2], known, strict=True)):
        return labelled
    first = pandas().DataFrame([head], columns=labelled.columns)
    return pandas().concat([first, labelled], ignore_index=True)


def known_ids(frame: Any, id_: str | None) -> set[str]:
    from ..tables.columns import id_text

    return {id_text(v) for v in (frame.index if id_ is None else frame[id_])}


def check_ids(
    labelled: Any, frame: Any, id_: str | None, table: str, pairs: str, right: Any = None
) -> None:
    """Raise where no pair names two rows of the table, or of the two, and say what would do."""
    from ..tables.columns import id_text

    right = frame if right is None else right
    known, known_right = known_ids(frame, id_), known_ids(right, id_)
    ends = [[id_text(a), id_text(b)] for a, b in labelled.iloc[:, :2].to_numpy().tolist()]
    asked = {end for pair in ends for end in pair}
    if any(a in known and b in known_right for a, b in ends):
        return
    hint = ""
    if any(b in known and a in known_right for a, b in ends):
        hint = "; its first ids are those of the second table: name the tables the other way round"
    for column in [] if hint else frame.columns:
        held = {id_text(value) for value in frame[column]}
        if column in right.columns and right is not frame:
            held |= {id_text(value) for value in right[column]}
        if column != id_ and len(held & asked) > len(asked) / 2:
            hint = f"; column {str(column)!r} holds them: pass --id {column}"
            break
    what = "row numbers of" if id_ is None else f"ids in column {id_!r} of"
    some = ", ".join(map(repr, sorted(asked)[:3]))
    raise click.ClickException(
        f"{pairs}: no pair names two {what} {table} (it names {len(asked)}: {some}, ...){hint}"
    )
