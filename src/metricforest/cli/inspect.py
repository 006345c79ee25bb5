"""`distance`, `explain`, `info` and `map`: two rows, or a model, looked at closely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import (
    ANYWAY,
    example,
    json_option,
    load_model,
    main,
    naming,
    print_json,
    queries,
    sep_option,
    separator,
    show,
)
from .fit import columns_in_use, report, what_was_learned

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


def two_rows_options(command: Any) -> Any:
    """A model, two of its rows, and the table to look them up in."""
    table = "Look the rows up there. [default: the model's own table]"
    for option in (
        json_option,
        sep_option,
        click.option("--table", metavar="FILE", help=table),
        click.argument("row_b", metavar="ROW"),
        click.argument("row_a", metavar="ROW"),
        click.argument("model"),
    ):
        command = option(command)
    return command


@main.command(
    epilog=example(
        "metricforest distance shop.mf A-1001 A-1002",
        "metricforest distance shop.mf n1 n2 --table new.csv --json",
    )
)
@two_rows_options
def distance(
    model: str, row_a: str, row_b: str, table: str | None, sep: str | None, as_json: bool
) -> None:
    """The distance of two rows, by their ids, and how likely they are the same."""
    from ..inspection.calibration import probability

    metric: TableMetric = load_model(model)
    with naming(table or model):
        a, b = two_rows(metric, (row_a, row_b), table, sep)
        far = float(metric._pair_distance(metric._measured(a), metric._measured(b))[0])
    answer: dict[str, Any] = {"a": row_a, "b": row_b, "distance": far}
    if hasattr(metric, "calibration_"):
        import numpy as np

        answer["probability"] = float(probability(metric.calibration_, np.array([far]))[0])
    if hasattr(metric, "threshold_"):
        answer["threshold"] = metric.threshold_
        answer["same"] = far <= metric.threshold_
    if as_json:
        print_json(answer)
        return
    for name, value in answer.items():
        show([f"{name}: {value:.6g}" if isinstance(value, float) else f"{name}: {value}"])


@main.command(epilog=example("metricforest explain shop.mf A-1001 A-1002"))
@two_rows_options
def explain(
    model: str, row_a: str, row_b: str, table: str | None, sep: str | None, as_json: bool
) -> None:
    """Why two rows are near or far: the columns and depths that separate them."""
    metric: TableMetric = load_model(model)
    with naming(table or model):
        answer = metric.explain_pair(*two_rows(metric, (row_a, row_b), table, sep))
    if as_json:
        print_json({"a": row_a, "b": row_b, **answer.to_dict()})
    else:
        show([answer.summary()])


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
        figures["rows"] = sum(map(len, metric.ids_))
        figures["features"] = len(metric.comparison_.comparison_names())
        figures["columns"] = metric.comparison_.names
        figures["threshold"] = metric.threshold_
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
        "metricforest map shop.mf --labels clusters.csv -o map.svg",
    ),
)
@click.argument("model")
@click.option("-o", "--output", metavar="FILE", required=True, help="A .png, .svg or .pdf file.")
@click.option("--labels", metavar="FILE", help="Colours: a table with ids first and labels second.")
@click.option("--force", is_flag=True, help="Replace a file that is not such a picture.")
@sep_option
def map_(model: str, output: str, labels: str | None, force: bool, sep: str | None) -> None:
    """Draw the rows of the model's table in the plane, near where they are near."""
    from ..storage.outputs import PICTURE, check_output, replace_file

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
