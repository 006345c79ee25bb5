"""What a table and labelled pairs hold and what was learned from them, in lines and as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..tables.metric import TableMetric
    from ..tables.pair_labels import LabelledPairs
    from ..tables.pair_model import PairModel

GUESSING = 0.6  # pair AUC below which a user should know that little was learned


def what_was_read(
    model: TableMetric, table: str, n_rows: int, pairs: str, labels: str | None
) -> list[str]:
    """The report before training."""
    preparation = model.preparation_
    lines = [rows_read(table, n_rows, len(model.ids_), preparation.n_features_in_)]
    lines += columns_in_use(preparation.columns_)
    lines += [f"  not used: {name} ({why})" for name, why in preparation.dropped_.items()]
    lines += [f"  note: {note}" for note in preparation.notes_]
    if model.id is None:
        lines.append("  no --id: rows are called 0, 1, 2, ... by their place")
    if model.labelled_pairs_ is not None:
        lines += pairs_read(model.labelled_pairs_, pairs, labels is None)
    return lines


def pairs_compared(
    model: PairModel,
    tables: list[tuple[str, int, int]],
    labelled: LabelledPairs,
    pairs: str,
) -> list[str]:
    """The report before a pair model; of each table its name and its numbers of rows and of columns."""
    comparison = model.comparison_
    lines = [
        rows_read(name, n_rows, len(ids), width)
        for (name, n_rows, width), ids in zip(tables, model.ids_, strict=True)
    ]
    by_kind: dict[str, list[str]] = {}
    for name, read in zip(comparison.names, comparison.read, strict=True):
        by_kind.setdefault(read or "text", []).append(name)
    lines += [f"  compared as {kind}: {', '.join(names)}" for kind, names in by_kind.items()]
    if model.id is None:
        lines.append("  no --id: rows are called 0, 1, 2, ... by their place")
    return lines + pairs_read(labelled, pairs, True)


def rows_read(table: str, n_rows: int, n_learned: int, width: int) -> str:
    line = f"{table}: {n_rows:,} rows, {width} column{'s' * (width != 1)}"
    if n_learned < n_rows:
        line += f"; learning from {n_learned:,} of the rows, labelled ones among them"
    return line


def pairs_read(labelled: LabelledPairs, pairs: str, alone: bool) -> list[str]:
    """What became of labelled pairs."""
    n_same = int((labelled.labels == 1).sum())
    lines = [
        f"{pairs}: {labelled.n_given:,} labelled pairs; used are {n_same:,} same, "
        f"{len(labelled.labels) - n_same:,} different"
    ]
    if labelled.merged:
        lines.append(f"  merged: {labelled.merged} that had been given before")
    if labelled.contradictions:
        some = ", ".join(f"{a} - {b}" for a, b in labelled.contradictions[:3])
        n = len(labelled.contradictions)
        lines.append(f"  contradictions: {n} labelled both ways, both stay ({some})")
    lines += [f"  left out: {part}" for part in labelled.left_out()]
    if n_same == len(labelled.labels) and alone:
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
    pairs = model.pair_model_
    return of_distance(model) + ([] if pairs is None else of_pairs(pairs, "comparing pairs: "))


def of_pairs(model: PairModel, what: str = "") -> list[str]:
    """What a pair model says of pairs that were held out."""
    figures = pair_figures(model)
    if figures["pair_auc"] is None:
        return [
            f"{what}10 labelled pairs of each kind are needed to hold some out; "
            f"rows are called the same from probability {figures['threshold']:g} on"
        ]
    return [
        f"{what}pair AUC {figures['pair_auc']:.3f} on {figures['held_out_pairs']} held-out pairs",
        f"  called the same from probability {figures['threshold']:.3g} on: precision "
        f"{figures['precision']:.3f}, recall {figures['recall']:.3f} on these",
    ]


def pair_figures(model: PairModel) -> dict[str, Any]:
    """The same for machines."""
    from sklearn.metrics import roc_auc_score

    probability, same = model.held_out_probability_, model.held_out_same_
    called = probability >= model.threshold_
    hits = int((called & same).sum())
    return {
        "held_out_pairs": len(same),
        "pair_auc": float(roc_auc_score(same, probability)) if len(same) else None,
        "threshold": model.threshold_,
        "precision": hits / called.sum() if called.any() else None,
        "recall": hits / same.sum() if len(same) else None,
    }


def of_distance(model: TableMetric) -> list[str]:
    """What the distance says of pairs that were held out."""
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
    if model.pair_model_ is not None:
        answer["comparing_pairs"] = pair_figures(model.pair_model_)
    if labelled is not None:
        answer["pairs"] = given_pairs(labelled)
    return answer


def report_pairs(model: PairModel) -> dict[str, Any]:
    """What is known of a pair model, for machines."""
    comparison = model.comparison_
    read = zip(comparison.names, comparison.read, strict=True)
    return {
        "rows": sum(map(len, model.ids_)),
        "columns": {name: kind or "text" for name, kind in read},
        "features": len(comparison.comparison_names()),
        **pair_figures(model),
    }


def given_pairs(labelled: LabelledPairs) -> dict[str, Any]:
    return {
        "given": labelled.n_given,
        "same": int((labelled.labels == 1).sum()),
        "different": int((labelled.labels == -1).sum()),
        "merged": labelled.merged,
        "contradictions": labelled.contradictions,
        "unknown_ids": labelled.unknown,
        "left_out": labelled.n_unknown + labelled.selves + labelled.unsure,
    }
