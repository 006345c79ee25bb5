"""`distance`, `explain`, `info` and `map`: two rows, or a model, looked at closely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    ANYWAY,
    Result,
    example,
    json_option,
    load_model,
    main,
    naming,
    print_json,
    queries,
    result_options,
    say,
    sep_option,
    separator,
    show,
    whole_table,
)
from .reports import columns_in_use, of_pairs, report, report_pairs, what_was_learned

if TYPE_CHECKING:
    from ..tables.metric import TableMetric


def two_rows(metric: TableMetric, ids: tuple[str, str], table: str | None, sep: str | None) -> Any:
    """What stands for two rows: their ids in the model's table, or tables of one row."""
    from ..tables.columns import as_table, id_text
    from ..tables.pair_labels import row_ids

    if table is None:
        metric.rows_of(ids)
        return ids
    wanted = [id_text(called) for called in ids]
    found: dict[str, Any] = {}
    for frame in queries(metric, table, sep):
        for place, called in enumerate(row_ids(as_table(frame), metric.id).tolist()):
            if id_text(called) in wanted:
                found.setdefault(id_text(called), frame.iloc[[place]])
    unknown = [called for called in wanted if called not in found]
    if unknown:
        raise ValueError(f"no row is called {unknown[0]!r}")
    return [found[called] for called in wanted]


table_option = click.option(
    "--table",
    metavar="FILE",
    multiple=True,
    help="Look the rows up there; given twice, the second rows in the second. "
    "[default: the model's own tables]",
)
DISTANCES = ("a", "b", "distance")  # the columns by which an earlier result is known


@main.command(
    epilog=example(
        "metricforest distance shop.mf A-1001 A-1002",
        "metricforest distance shop.mf n1 n2 --table new.csv --json",
        "metricforest distance both.mf --pairs test.csv -o answers.csv",
    )
)
@click.argument("model")
@click.argument("row_a", metavar="[ROW]", required=False)
@click.argument("row_b", metavar="[ROW]", required=False)
@click.option(
    "--pairs", metavar="FILE", help="Pairs of ids, instead of two rows; answers are checked."
)
@table_option
@result_options
@sep_option
def distance(
    model: str,
    row_a: str | None,
    row_b: str | None,
    pairs: str | None,
    table: tuple[str, ...],
    result: Result,
    sep: str | None,
) -> None:
    """How far two rows are apart, or those of each pair of a file, and how likely they are the same."""
    if (row_b is None) == (pairs is None):
        raise click.UsageError("give the ids of two rows, or --pairs with a file of them")
    if pairs is None and (result.output is not None or result.format not in (None, "json")):
        raise click.UsageError("--output and --format are for --pairs")
    if pairs is not None:
        to = result.checked(DISTANCES, model, pairs, *table)
        metric = load_model(model, pairs=True)
        frame, answers = asked_pairs(pairs)
        with naming(pairs):
            found = told(metric, frame, tables_of(metric, table, sep))
        to.write([found])
        if (answers != 0).any():
            say(how_right(found["same"].to_numpy(), answers))
        return
    metric = load_model(model, pairs=True)
    with naming(table[0] if table else model):
        frame = pandas_frame({"a": [row_a], "b": [row_b]})
        found = told(metric, frame, tables_of(metric, table, sep))
    answer: dict[str, Any] = found.to_dict("records")[0]
    scorer = getattr(metric, "pair_model_", None) or metric
    if hasattr(scorer, "threshold_"):
        answer["threshold"] = scorer.threshold_
        answer["same"] = answer.pop("same")
    if result.format == "json":
        print_json(answer)
        return
    for name, value in answer.items():
        show([f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}"])


def pandas_frame(columns: dict[str, Any]) -> Any:
    from ..tables.files import pandas

    return pandas().DataFrame(columns)


def tables_of(metric: Any, paths: tuple[str, ...], sep: str | None) -> list[Any]:
    """The tables that pairs are looked up in; none: those of the model."""
    if len(paths) > 2:
        raise click.UsageError(f"--table names one table or two, got {len(paths)}")
    return [whole_table(metric, path, sep) for path in paths]


def asked_pairs(path: str) -> tuple[Any, Any]:
    """(ids a and b as a frame, answers 1, -1 or 0 where there is none) of a file of pairs."""
    import numpy as np

    from ..tables import files
    from ..tables.columns import values_of
    from ..tables.pair_labels import read_label
    from .labelled import read_pairs

    frame = files.read_table(path, sep=files.guess_separator(path), twice=True)
    if frame.shape[1] < 2:
        raise click.ClickException(f"{path}: pairs need two columns of ids, it has one")
    answers = np.zeros(len(frame), np.int64)
    if frame.shape[1] > 2:
        frame = read_pairs(path)
        with naming(path):
            given = values_of(frame.iloc[:, 2]).tolist()
            answers = np.array([read_label(value, i) for i, value in enumerate(given)])
    return frame.iloc[:, :2].set_axis(["a", "b"], axis=1), answers


def told(metric: Any, frame: Any, tables: list[Any]) -> Any:
    """The pairs with distance, probability and whether they are called the same, as far as known."""
    from ..inspection.calibration import probability

    answer = frame.copy()
    pairs = getattr(metric, "pair_model_", metric)
    likely: Any = None if pairs is None else pairs.probability(frame, *tables)
    if metric is not pairs:
        answer["distance"] = metric.distance_of(frame, *tables)
        if pairs is None and hasattr(metric, "calibration_"):
            likely = probability(metric.calibration_, answer["distance"].to_numpy())
    else:
        answer["distance"] = 1.0 - likely
    if likely is not None:
        answer["probability"] = likely
    if pairs is not None:
        answer["same"] = likely >= pairs.threshold_
    elif hasattr(metric, "threshold_"):
        answer["same"] = answer["distance"] <= metric.threshold_
    return answer


def how_right(same: Any, answers: Any) -> str:
    """How right the answers are where the file has its own."""
    there, true = answers != 0, answers == 1
    hits = int((same & true).sum())
    precision, recall = hits / max(1, int((same & there).sum())), hits / max(1, int(true.sum()))
    f1 = 2 * hits / max(1, int((same & there).sum()) + int(true.sum()))
    return (
        f"{int(there.sum()):,} pairs have answers, "
        f"the model agrees with {int((same == true)[there].sum()):,}; "
        f"precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}"
    )


@main.command(
    epilog=example(
        "metricforest explain both.mf 534 1",
        "metricforest explain shop.mf A-1001 A-1002 --distance",
    )
)
@click.argument("model")
@click.argument("row_a", metavar="ROW")
@click.argument("row_b", metavar="ROW")
@click.option("--distance", "of_distance", is_flag=True, help="What the distance is made of.")
@table_option
@sep_option
@json_option
def explain(
    model: str,
    row_a: str,
    row_b: str,
    of_distance: bool,
    table: tuple[str, ...],
    sep: str | None,
    as_json: bool,
) -> None:
    """What speaks for and against two rows being the same, column by column.

    With --distance, or where the model has no labelled pairs: why two rows are near or far, the columns and
    depths that separate them.
    """
    metric = load_model(model, pairs=not of_distance)
    pairs = None if of_distance else getattr(metric, "pair_model_", metric)
    with naming(table[0] if table else model):
        if pairs is not None:
            reasons = pairs.explain([row_a, row_b], *tables_of(metric, table, sep))
            answer = {"probability": reasons.probability, "same": reasons.same}
            answer["reasons"] = [reason._asdict() for reason in reasons.reasons]
            text = str(reasons)
        else:
            where = table[0] if table else None
            found = metric.explain_pair(*two_rows(metric, (row_a, row_b), where, sep))
            answer, text = found.to_dict(), found.summary()
    if as_json:
        print_json({"a": row_a, "b": row_b, **answer})
    else:
        show([text])


@main.command(epilog=example("metricforest info shop.mf", "metricforest info shop.mf --json"))
@click.argument("model")
@json_option
def info(model: str, as_json: bool) -> None:
    """What a model file holds: its table, its columns, its metric and its threshold."""
    metric = load_model(model, table=False)
    inner = getattr(metric, "metric_", metric)
    figures: dict[str, Any] = {
        "model": type(inner).__name__,
        "parameters": inner.get_params(),
        "size": os.path.getsize(model),
    }
    if hasattr(metric, "preparation_"):
        figures |= report(metric, 0)
        figures["id"] = metric.id
        figures["ids"] = metric.ids_[:3].tolist()
    elif hasattr(metric, "comparison_"):
        figures |= report_pairs(metric)
    else:
        figures["rows"], figures["features"] = inner._n_indexed(), inner.n_features_in_
        figures["threshold"] = getattr(inner, "threshold_", None)
    if hasattr(inner, "what_was_chosen"):
        figures["chosen"] = inner.what_was_chosen()
    if as_json:
        print_json(figures)
        return
    show([f"{model}: {figures['model']}, {figures['size'] / 1e6:.1f} MB"])
    default = type(inner)().get_params()
    changed = {k: v for k, v in figures["parameters"].items() if v != default[k]}
    show([f"  parameters: {', '.join(f'{k}={v}' for k, v in changed.items()) or 'defaults'}"])
    show([f"  {figures['rows']:,} rows, {figures['features']} features"])
    if "chosen" in figures:
        show([f"  chosen: {figures['chosen']}"])
    if "columns" in figures and not hasattr(metric, "preparation_"):
        show([f"  compares {', '.join(figures['columns'])}; threshold: {metric.threshold_:.4g}"])
        show([f"  {line.strip()}" for line in of_pairs(metric)])
        return
    if not hasattr(metric, "preparation_"):
        show([f"  no table; threshold: {figures['threshold'] or 'none'}"])
        return
    ids = ", ".join(map(str, figures["ids"]))
    show([f"  ids: {'row numbers' if metric.id is None else f'column {metric.id!r}'} ({ids}, ...)"])
    show(columns_in_use(metric.preparation_.columns_))
    for name, why in metric.preparation_.dropped_.items():
        show([f"  not used: {name} ({why})"])
    for line in what_was_learned(metric):
        show([f"  {line}"])


@main.command(
    "map",
    epilog=example(
        "metricforest map shop.mf -o map.png",
        "metricforest map shop.mf --colours clusters.csv -o map.svg",
    ),
)
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", required=True, help="A .png, .svg or .pdf file.")
@click.option(
    "--colours", metavar="FILE", help="A table with ids first, and second what is coloured alike."
)
@click.option("--labels", metavar="FILE", hidden=True)  # the name before
@click.option("--force", is_flag=True, help="Replace a file that is not such a picture.")
@sep_option
def map_(
    model: str,
    output: str,
    colours: str | None,
    labels: str | None,
    force: bool,
    sep: str | None,
) -> None:
    """Draw the rows of the model's table in the plane, near where they are near."""
    from ..storage.outputs import PICTURE, check_output, replace_file

    labels = colours or labels
    suffix = Path(output).suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg", "pdf"):
        raise click.UsageError(f"a picture is a .png, .svg or .pdf file, got {output!r}")
    foreign = None if force else PICTURE
    check_output(output, inputs=(model, labels), foreign=foreign, hint=ANYWAY)
    metric: TableMetric = load_model(model)
    given = None if labels is None else labels_by_id(metric, labels, sep)
    try:
        import matplotlib

        from .. import plots

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'pictures cannot be drawn here ({error}): pip install "metricforest[plot]"'
        ) from error
    import io

    axes = plots.plot_map(metric.metric_, labels=given)
    picture = io.BytesIO()
    axes.figure.savefig(picture, format=suffix, dpi=150, bbox_inches="tight")
    plt.close(axes.figure)
    replace_file(output, [picture.getvalue()], foreign=foreign, hint=ANYWAY)


def labels_by_id(metric: TableMetric, path: str, sep: str | None) -> Any:
    """The second column of a table, in the order of the model's rows; -1 where it has none."""
    import numpy as np

    from ..tables.columns import id_text
    from ..tables.files import read_table

    frame = read_table(path, sep=separator(sep))
    if frame.shape[1] < 2:
        raise click.ClickException(f"{path}: labels need two columns, ids and labels")
    called = {
        id_text(row): str(label)
        for row, label in frame.iloc[:, :2].fillna("-1").to_numpy().tolist()
    }
    labels = np.array([called.get(id_text(value), "-1") for value in metric.ids_.tolist()])
    if (labels == "-1").all():
        raise click.ClickException(f"{path}: none of its ids is a row of the model's table")
    try:
        return labels.astype(np.int64)
    except ValueError:
        return labels
