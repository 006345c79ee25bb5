"""`demo` and `fit`: what a table and labelled pairs hold, and what was learned from them."""

from __future__ import annotations

import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import click

from .common import (
    ANYWAY,
    example,
    id_option,
    jobs_option,
    json_option,
    main,
    naming,
    pairs_option,
    print_json,
    sep_option,
    separator,
    show,
)
from .metrics import METRICS, forget_run, unfitted_metric

if TYPE_CHECKING:
    from ..tables.metric import TableMetric

GUESSING = 0.6  # pair AUC below which a user should know that little was learned
LABEL_NAMES = frozenset(
    ["same", "label", "answer", "match", "judgement", "judgment", "verdict", "is_match", "is_same"]
)


@main.command(epilog=example("metricforest demo"))
def demo() -> None:
    """Learn from 500 labelled pairs of data that comes along; print a table, write demo.png."""
    from .. import demo as module

    module.main()


@main.command(
    epilog=example(
        "metricforest fit products.csv --id sku --pairs labelled.csv -o shop.mf",
        "metricforest fit flowers.parquet --labels species -o flowers.mf",
        "metricforest fit big.csv --id key --pairs labels.tsv --max-rows 50000 -o big.mf",
    )
)
@click.argument("table")
@pairs_option(" (1 or 0, +1 or -1, true or false, match or distinct)")
@click.option("--labels", metavar="COLUMN", help="Column with class labels; empty: unlabelled.")
@id_option
@click.option("-o", "--output", metavar="FILE", required=True, help="The model file to write.")
@click.option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="forest",
    show_default=True,
    help="; ".join(f"{name}: {what}" for name, what in METRICS.items()) + ".",
)
@click.option("--trees", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option(
    "--max-rows",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    help="Learn from a random sample of so many rows; rows in pairs always stay. 0: all rows.",
)
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Folds by which pairs are held out, for AUC and threshold. 0: neither.",
)
@click.option("--min-node-size", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--alpha",
    type=click.FloatRange(0.0, 1e6, min_open=True),
    default=4.0,  # as tables.ALPHA, which takes long to import
    show_default=True,
    help="How sharply planes separate rows. The paper's 0.5 tells same from different less well.",
)
@click.option(
    "--implied",
    is_flag=True,
    help="Learn also from what the labelled pairs imply (a is b, b is c). Not for noisy ones.",
)
@click.option("--category", metavar="COLUMN", multiple=True, help="Column of codes, not numbers.")
@click.option("--drop", metavar="COLUMN", multiple=True, help="Column not to use.")
@sep_option
@jobs_option
@json_option
@click.option("--force", is_flag=True, help="Replace a file that is not a model.")
def fit(
    table: str,
    pairs: tuple[str, ...],
    labels: str | None,
    id_: str | None,
    output: str,
    metric: str,
    trees: int,
    seed: int,
    max_rows: int,
    folds: int,
    min_node_size: int,
    alpha: float,
    implied: bool,
    category: tuple[str, ...],
    drop: tuple[str, ...],
    sep: str | None,
    jobs: int,
    as_json: bool,
    force: bool,
) -> None:
    """Learn a distance from TABLE (.csv, .tsv, .parquet, .npy, .npz) and labelled pairs."""
    from ..storage.format import no_model
    from ..storage.outputs import check_output
    from ..tables.columns import as_table

    check_options(pairs, labels, folds, implied, metric, jobs)
    check_output(
        output,
        inputs=(table, *pairs),
        foreign=None if force else no_model,
        hint=ANYWAY,
    )
    started = time.perf_counter()
    labelled = [read_pairs(path) for path in pairs]
    frame, n_rows = read_rows(table, labelled, id_, max_rows, separator(sep), seed)
    for column in (id_, labels, *category, *drop):
        need_column(table, frame, column)
    labelled = checked_pairs(labelled, frame, id_, table, pairs)

    from ..tables.metric import TableMetric

    model = TableMetric(
        unfitted_metric(
            metric,
            trees,
            min_node_size=min_node_size,
            alpha=alpha,
            implied=implied,
            jobs=jobs,
            seed=seed,
            verbose=sys.stderr.isatty(),
        ),
        id=id_,
        kinds={**dict.fromkeys(category, "category"), **dict.fromkeys(drop, "drop")} or None,
        cv=folds,
        random_state=seed,
    )
    shown = False

    def progress(line: str) -> None:
        nonlocal shown
        if not shown and not as_json:
            show(what_was_read(model, table, n_rows, " + ".join(pairs), labels))
        shown = True
        if sys.stderr.isatty():
            click.echo(line, err=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="pairs left out")  # said in what was read
        model.fit(as_table(frame), labels, pairs=joined(labelled), progress=progress)
    forget_run(model.metric_)
    forget_run(model.metric)
    model.save(output, overwrite=force)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({**report(model, n_rows), "model": output, "seconds": round(seconds, 2)})
        return
    show(what_was_learned(model))
    size = os.path.getsize(output)
    show([f"{output}: written, {size / 1e6:.1f} MB, {seconds:.0f} s in all"])


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


def read_rows(
    path: str, labelled: list[Any], id_: str | None, max_rows: int, sep: str | None, seed: int
) -> tuple[Any, int]:
    """(the rows to learn from, how many there are): labelled ones, and a sample of the others."""
    import numpy as np

    from ..tables import files
    from ..tables.columns import id_text

    named: set[str] = set()
    for part in labelled:
        named |= {id_text(v) for v in part.iloc[:, :2].to_numpy().ravel()}
        named |= {id_text(name) for name in part.columns[:2]}

    def keep(frame: Any) -> Any:
        need_column(path, frame, id_)
        values = frame.index if id_ is None else frame[id_]
        return np.fromiter((id_text(v) in named for v in values), bool, len(frame))

    def seen(rows: int) -> None:
        if sys.stderr.isatty() and rows > files.CHUNK:
            click.echo(f"\r{rows:,} rows read ", err=True, nl=False)

    frame, total = files.read_sample(
        path, max_rows or sys.maxsize, keep, sep=sep, seed=seed, seen=seen
    )
    if sys.stderr.isatty() and total > files.CHUNK:
        click.echo("", err=True)
    return frame, total


def need_column(path: str, frame: Any, column: str | None) -> None:
    """Raise where a column was named that the table does not have."""
    if column is not None and column not in frame.columns:
        known = ", ".join(map(str, frame.columns[:20]))
        raise click.ClickException(f"{path}: no column {column!r}; it has {known}")


def check_options(
    pairs: tuple[str, ...], labels: str | None, folds: int, implied: bool, metric: str, jobs: int
) -> None:
    """Raise where options of `fit` contradict each other."""
    if not pairs and labels is None:
        raise click.UsageError("nothing to learn from: give --pairs, --labels or both")
    if folds == 1:
        raise click.UsageError("--folds must be 0 or at least 2, got 1")
    if implied and metric == "vectors":
        raise click.UsageError("--implied is for a forest: --metric vectors does not learn by it")
    if jobs == 0:
        raise click.UsageError("--jobs must not be 0")


def checked_pairs(
    labelled: list[Any], frame: Any, id_: str | None, table: str, paths: tuple[str, ...]
) -> list[Any]:
    """The labelled pairs of all files; an error names the file, and the value that is wrong in it."""
    from ..tables.columns import as_table, values_of
    from ..tables.pair_labels import read_label, row_ids

    with naming(table):
        row_ids(as_table(frame), id_, unique=True)
    checked = []
    for part, path in zip(labelled, paths, strict=True):
        part = settle_header(part, frame, id_)
        check_ids(part, frame, id_, table, path)
        with naming(path):
            for row, label in enumerate(values_of(part.iloc[:, 2]).tolist()):
                read_label(label, row)
        checked.append(part)
    return checked


def settle_header(labelled: Any, frame: Any, id_: str | None) -> Any:
    """The pairs, with their header as the first of them where it is one: two known ids."""
    from ..tables.columns import id_text
    from ..tables.files import pandas

    known = known_ids(frame, id_)
    head = [str(name).strip() for name in labelled.columns]
    if not {id_text(h) for h in head[:2]} <= known:
        return labelled
    first = pandas().DataFrame([head], columns=labelled.columns)
    return pandas().concat([first, labelled], ignore_index=True)


def known_ids(frame: Any, id_: str | None) -> set[str]:
    from ..tables.columns import id_text

    return {id_text(v) for v in (frame.index if id_ is None else frame[id_])}


def check_ids(labelled: Any, frame: Any, id_: str | None, table: str, pairs: str) -> None:
    """Raise where no pair names two rows of the table, and say which column would do."""
    from ..tables.columns import id_text

    known = known_ids(frame, id_)
    ends = [[id_text(a), id_text(b)] for a, b in labelled.iloc[:, :2].to_numpy().tolist()]
    asked = {end for pair in ends for end in pair}
    if any(a in known and b in known for a, b in ends):
        return
    hint = ""
    for column in frame.columns:
        held = {id_text(value) for value in frame[column]}
        if column != id_ and len(held & asked) > len(asked) / 2:
            hint = f"; column {str(column)!r} holds them: pass --id {column}"
            break
    what = "row numbers of" if id_ is None else f"ids in column {id_!r} of"
    some = ", ".join(map(repr, sorted(asked)[:3]))
    raise click.ClickException(
        f"{pairs}: no pair names two {what} {table} (it names {len(asked)}: {some}, ...){hint}"
    )


def what_was_read(
    model: TableMetric, table: str, n_rows: int, pairs: str, labels: str | None
) -> list[str]:
    """The report before training."""
    preparation = model.preparation_
    width = preparation.n_features_in_
    lines = [f"{table}: {n_rows:,} rows, {width} column{'s' * (width != 1)}"]
    if len(model.ids_) < n_rows:
        lines[0] += f"; learning from {len(model.ids_):,} of the rows, labelled ones among them"
    lines += columns_in_use(preparation.columns_)
    lines += [f"  not used: {name} ({why})" for name, why in preparation.dropped_.items()]
    lines += [f"  note: {note}" for note in preparation.notes_]
    if model.id is None:
        lines.append("  no --id: rows are called 0, 1, 2, ... by their place")
    labelled = model.labelled_pairs_
    if labelled is not None:
        n_same = int((labelled.labels == 1).sum())
        lines.append(
            f"{pairs}: {labelled.n_given:,} labelled pairs; used are {n_same:,} same, "
            f"{len(labelled.labels) - n_same:,} different"
        )
        if labelled.merged:
            lines.append(f"  merged: {labelled.merged} that had been given before")
        if labelled.contradictions:
            some = ", ".join(f"{a} - {b}" for a, b in labelled.contradictions[:3])
            lines.append(
                f"  contradictions: {len(labelled.contradictions)} labelled both ways, both stay ({some})"
            )
        lines += [f"  left out: {part}" for part in labelled.left_out()]
        if n_same == len(labelled.labels) and labels is None:
            lines.append("  note: same alone teaches nothing; label some pairs that are different")
    return lines


def columns_in_use(columns: list[Any]) -> list[str]:
    """A line for each kind of column."""
    by_kind: dict[str, list[str]] = {}
    for column in columns:
        name = column.name + "*" * column.indicator
        if column.kind == "category":
            others = " and others" if column.other else ""
            n = len(column.levels)
            name += f" ({n} level{'s' * (n != 1)}{others})"
        by_kind.setdefault(column.kind, []).append(name)
    lines = [f"  used as {kind}: {', '.join(names)}" for kind, names in by_kind.items()]
    return lines + ["  (* some values are missing)"] * any(c.indicator for c in columns)


def what_was_learned(model: TableMetric) -> list[str]:
    """The report after training."""
    if not model.cv:
        return ["no pairs were held out: pair AUC and threshold are not known"]
    figures = report(model, 0)
    held_out, auc = figures["held_out_pairs"], figures["pair_auc"]
    if auc is None:
        lines = [f"pair AUC: not known, {held_out} pairs could be held out and asked about"]
    else:
        lines = [f"pair AUC {auc:.3f} on {held_out} held-out pairs"]
    if auc is not None and len(model.cv_auc_) > 1:
        folds = ", ".join(f"{value:.3f}" for value in model.cv_auc_)
        lines[0] += f" (by fold: {folds})"
    if auc is not None and auc < GUESSING:
        lines.append("  that is hardly better than guessing, 0.5: check the labels and the columns")
    if figures["threshold"] is None:
        lines.append("no threshold: that needs 5 held-out pairs of each kind; label more pairs")
    else:
        lines.append(
            f"suggested threshold {figures['threshold']:.4g}: precision "
            f"{figures['precision']:.3f}, recall {figures['recall']:.3f} on the held-out pairs"
        )
    return lines


def report(model: TableMetric, n_rows: int) -> dict[str, Any]:
    """What is known of a model, for machines."""
    import numpy as np

    preparation, labelled = model.preparation_, model.labelled_pairs_
    threshold = getattr(model, "threshold_", None)
    called = model.held_out_distance_ <= (-1 if threshold is None else threshold)
    hits = int((called & model.held_out_same_).sum())
    auc = model.cv_auc_[~np.isnan(model.cv_auc_)]
    answer: dict[str, Any] = {
        "rows": n_rows or len(model.ids_),
        "rows_learned": len(model.ids_),
        "columns": {column.name: column.kind for column in preparation.columns_},
        "not_used": preparation.dropped_,
        "notes": preparation.notes_,
        "features": len(preparation.get_feature_names_out()),
        "held_out_pairs": len(model.held_out_same_),
        "pair_auc": float(auc.mean()) if len(auc) else None,
        "threshold": threshold,
        "precision": hits / called.sum() if called.any() else None,
        "recall": hits / model.held_out_same_.sum() if called.any() else None,
    }
    if labelled is not None:
        answer["pairs"] = {
            "given": labelled.n_given,
            "same": int((labelled.labels == 1).sum()),
            "different": int((labelled.labels == -1).sum()),
            "merged": labelled.merged,
            "contradictions": labelled.contradictions,
            "unknown_ids": labelled.unknown,
            "left_out": labelled.n_unknown + labelled.selves + labelled.unsure,
        }
    return answer
