"""`cluster`: clusters of a table's rows that keep labelled pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import (
    Result,
    example,
    jobs_option,
    load_model,
    main,
    naming,
    pairs_option,
    result_options,
    say,
    sep_option,
    whole_table,
)
from .labelled import checked_pairs, joined, read_pairs

if TYPE_CHECKING:
    from ..estimators.cluster import MetricSpectralClustering
    from ..tables.metric import TableMetric

CLUSTERS = ("id", "cluster")  # the columns by which an earlier result is known


@main.command(
    epilog=example(
        "metricforest cluster shop.mf --pairs labelled.csv -o clusters.csv",
        "metricforest cluster shop.mf -n 7 -o clusters.csv",
        "metricforest cluster shop.mf --json",
    )
)
@click.argument("model")
@click.argument("table", required=False)
@pairs_option(" that the clusters keep")
@click.option(
    "-n", "n_clusters", type=click.IntRange(1), help="Number of clusters. [default: an estimate]"
)
@click.option("--neighbors", "n_neighbors", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@result_options
@sep_option
@jobs_option
def cluster(
    model: str,
    table: str | None,
    pairs: tuple[str, ...],
    n_clusters: int | None,
    n_neighbors: int,
    seed: int,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """Clusters of the rows of TABLE, or of the model's own table.

    Every row with its cluster and its membership, the share of that cluster among the nearest rows: where
    it is low, the row is doubtful. With --pairs, give those again that the model has learned from: same
    rows are in one cluster, different ones in two, and the number of clusters is estimated from the pairs.
    """
    import numpy as np

    from ..estimators.cluster import AUTO, MetricSpectralClustering
    from ..tables.columns import as_table
    from ..tables.files import pandas
    from ..tables.pair_labels import row_ids

    to = result.checked(CLUSTERS, model, table, *pairs)
    metric: TableMetric = load_model(model, jobs)
    frame = None if table is None else whole_table(metric, table, sep)
    with naming(table or model):
        searcher = metric.searcher(frame)
        ids = metric.ids_ if frame is None else row_ids(as_table(frame), metric.id)
        if len(ids) < 2 or (n_clusters or 2) > len(ids):
            raise ValueError(f"{len(ids)} rows are too few for {n_clusters or 2} clusters")
    known = known_pairs(pairs, ids, table or model)
    found = MetricSpectralClustering(n_clusters or AUTO, None, n_neighbors, random_state=seed)
    found._cluster(searcher, known, getattr(metric, "threshold_", None))
    say_what(found, n_clusters is None, len(known[0]))
    sure = found.membership_[np.arange(len(ids)), found.labels_]
    columns = {"id": ids, "cluster": found.labels_, "membership": sure.round(4)}
    to.write([pandas().DataFrame(columns)])


def known_pairs(paths: tuple[str, ...], ids: Any, where: str) -> Any:
    """Labelled pairs of some files as row numbers and labels."""
    import numpy as np

    from ..tables.files import pandas
    from ..tables.pair_labels import check_labelled_pairs, read_labelled_pairs

    if not paths:
        return np.empty((0, 2), np.int64), np.empty(0, np.int64)
    rows = pandas().DataFrame({"id": ids})
    labelled = checked_pairs([read_pairs(path) for path in paths], rows, "id", where, paths)
    with naming(", ".join(paths)):
        found = read_labelled_pairs(joined(labelled), None, ids)
        check_labelled_pairs(found)
    return found.pairs, found.labels


def say_what(found: MetricSpectralClustering, estimated: bool, n_pairs: int) -> None:
    """How many clusters, and what became of the pairs."""
    if estimated:
        other = found.runner_up_
        second = f" (next best: {other})" if other != found.n_clusters_ else ""
        say(f"estimated number of clusters: {found.n_clusters_}{second}; -n sets another")
    if n_pairs:
        n_broken = len(found.broken_pairs_)
        say(
            f"{n_pairs - n_broken:,} labelled pairs are kept"
            + (f"; {n_broken:,} contradict others and are not" if n_broken else "")
        )
