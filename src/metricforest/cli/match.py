"""`match` and `suggest`: which rows are the same, how sure that is, and which pairs to label for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from .common import (
    Result,
    counted,
    example,
    is_model,
    jobs_option,
    load_model,
    main,
    naming,
    queries,
    result_options,
    say,
    sep_option,
    separator,
    whole_table,
)

if TYPE_CHECKING:
    from ..tables.metric import TableMetric
    from ..tables.pair_audit import MatchAudit

MATCHES = ("a", "b")  # the columns by which an earlier result is known
QUESTIONS = ("left", "right", "answer")
FEW = 30  # held-out pairs below which a precision says little


@main.command(
    epilog=example(
        "metricforest match both.mf --one-to-one -o matches.csv",
        "metricforest match shop.mf products.csv --ask 60 -o questions.csv    # fill in the answers",
        "metricforest match shop.mf products.csv --answers questions.csv --precision 0.95 -o same.csv",
    )
)
@click.argument("model")
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option(
    "--precision",
    type=click.FloatRange(0, 1),
    help="Share of the matches that shall be right, by the --answers.",
)
@click.option(
    "--answers", metavar="FILE", help="Questions of --ask with the answers: how right matches are."
)
@click.option(
    "--threshold",
    type=click.FloatRange(0),
    help="Least probability of a match; of a model without labelled pairs, farthest distance.",
)
@click.option("--best", is_flag=True, help="Of each row of A its likeliest match alone.")
@click.option("--one-to-one", is_flag=True, help="No row in two matches, the likeliest first.")
@click.option(
    "--ask",
    type=click.IntRange(8, 10_000),
    help="Instead of matches write so many pairs whose labels say how right the matches are.",
)
@click.option(
    "--max-matches",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Nearest rows that each row of A is compared with.",
)
@result_options
@sep_option
@jobs_option
def match(
    model: str,
    a: str | None,
    b: str | None,
    precision: float | None,
    answers: str | None,
    threshold: float | None,
    best: bool,
    one_to_one: bool,
    ask: int | None,
    max_matches: int,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """Pairs of rows that are the same: one in A, the other in B, or both in A.

    Without A and B, in the tables that the model was learned from. Rows are called the same from the
    model's own probability on, from a --threshold of yours, or from one that reaches a --precision: for
    that, --ask writes pairs of these tables to label.
    """
    if precision is not None and threshold is not None:
        raise click.UsageError("--precision and --threshold exclude each other")
    if best and one_to_one:
        raise click.UsageError("--best and --one-to-one exclude each other")
    if ask is not None and (answers is not None or precision is not None):
        raise click.UsageError("--ask writes pairs to label: --answers and --precision come after")
    keep = "one-to-one" if one_to_one else "best" if best else "every"
    shape = QUESTIONS if ask else MATCHES
    to = result.checked(shape, model, a, b, answers, fill_in="answer" if ask else None)
    metric: Any = load_model(model, jobs, pairs=True)
    if getattr(metric, "pair_model_", metric) is None:
        if ask is not None or answers is not None:
            raise click.ClickException(
                f"{model}: it was learned without labelled pairs of both kinds, so that nothing but "
                "the distance says what matches: --ask and --answers are for models with them"
            )
        by_distance(metric, model, (a, b), precision, threshold, keep, max_matches, sep, to, result)
        return
    tables = [None if name is None else whole_table(metric, name, sep) for name in (a, b)]
    with naming(a or model):
        if ask is not None:
            to.write([questions_of(metric, ask, tables, max_matches)])
            say_what_to_do(ask, result.output, given_tables(model, a, b))
            return
        found = None
        if answers is not None:
            found = audited(metric, answers, tables, threshold, precision, keep, max_matches)
            threshold = found.threshold
        elif precision is not None:
            raise click.ClickException(
                f"which threshold has precision {precision:g} is not known for these tables: "
                f"`metricforest match {given_tables(model, a, b)} --ask 60 -o questions.csv` writes "
                "pairs to label; then give --answers questions.csv"
            )
        options: Any = {"threshold": threshold, "keep": keep, candidates(metric): max_matches}
        matches = metric.match(*tables, **options)
    from ..tables.files import pandas

    frame = pandas().DataFrame(matches)
    to.write(counted([frame], "matches", result.output))
    if result.is_elsewhere:
        cut = getattr(metric, "pair_model_", metric).threshold_ if threshold is None else threshold
        for line in what_to_expect(len(frame), cut, found, given_tables(model, a, b)):
            say(line)


def candidates(metric: Any) -> str:
    """What a model calls the number of rows that each one is compared with."""
    return "max_matches" if hasattr(metric, "pair_model_") else "candidates"


def given_tables(model: str, a: str | None, b: str | None) -> str:
    return " ".join(name for name in (model, a, b) if name is not None)


def questions_of(metric: Any, n: int, tables: list[Any], most: int) -> Any:
    """Pairs to label as a frame: ids, an empty answer, what both rows hold, the probability."""
    from ..tables.files import pandas

    asked = metric.questions(n, *tables, contents=True, **{candidates(metric): most})
    named = {"left": asked.pop("a"), "right": asked.pop("b"), "answer": asked.pop("answer")}
    probability = asked.pop("probability")
    return pandas().DataFrame({**named, **asked, "probability": probability})


def say_what_to_do(n: int, output: str | None, tables: str) -> None:
    if output is not None:
        say(
            f"{output}: fill in the column answer (y or n) of all pairs, {n} or a few less; then "
            f"`metricforest match {tables} --answers {output}` says how right the matches are"
        )


def audited(
    metric: Any,
    path: str,
    tables: list[Any],
    threshold: float | None,
    precision: float | None,
    keep: str,
    most: int,
) -> MatchAudit:
    """What the answers say of a threshold, or of that of a wished precision."""
    from ..tables import files

    frame = files.read_table(path, sep=files.guess_separator(path))
    wanted = [*QUESTIONS, "probability"]
    lacking = [name for name in wanted if name not in frame.columns]
    if lacking:
        raise click.ClickException(
            f"{path}: it has no column {lacking[0]!r}: answers are those to the questions that --ask has "
            "written"
        )
    with naming(path):
        options: Any = {"threshold": threshold, "precision": precision, "keep": keep}
        return metric.audit(frame[wanted], None, *tables, **options, **{candidates(metric): most})


def what_to_expect(n: int, cut: float, found: MatchAudit | None, tables: str) -> list[str]:
    """How right the matches are, in plain words."""
    matches = f"{n:,} match{'es' * (n != 1)}, called the same from probability {cut:.3g} on"
    if found is None:
        return [
            matches,
            "how right they are is not known: labelled pairs are seldom like all pairs of a table. "
            f"`metricforest match {tables} --ask 60 -o questions.csv` writes pairs to label; then "
            "--answers questions.csv says it, and --precision chooses",
        ]
    right, missed = (
        f"{100 * share:.0f} ({100 * low:.0f} to {100 * high:.0f})"
        for share, (low, high) in (
            (found.precision, found.precision_interval),
            (found.recall, found.recall_interval),
        )
    )
    return [
        matches,
        f"expected by {found.n_labels} labels: of 100 matches {right} are right; of 100 true ones among "
        f"the pairs compared {missed} are found",
        f"{found.match_rate:.1%} of the pairs compared are the same; true matches that were not compared "
        "(--max-matches) are not counted",
    ]


def by_distance(
    metric: TableMetric,
    model: str,
    names: tuple[str | None, str | None],
    precision: float | None,
    threshold: float | None,
    keep: str,
    max_matches: int,
    sep: str | None,
    to: Any,
    result: Result,
) -> None:
    """Matches of a model that has no labelled pairs: rows no farther apart than a threshold."""
    from ..tables.answers import near_pairs
    from ..tables.columns import as_table
    from ..tables.files import pandas
    from ..tables.pair_labels import row_ids

    with naming(model):
        cut = metric._cut(threshold, precision)
    a, b = names
    n_full = 0

    def pieces() -> Iterator[Any]:
        """Matches, piece by piece of A where nothing is kept between its rows."""
        where = None if b is None else whole_table(metric, b, sep)
        if a is None or b is None or keep != "every":
            first = None if a is None else whole_table(metric, a, sep)
            with naming(a or model):
                options: Any = {"max_matches": max_matches, "keep": keep}
                yield metric.match(first, where, threshold=cut, **options)
            return
        searcher, called = metric.searcher(where), row_ids(as_table(where), metric.id)
        for frame in queries(metric, a, sep):
            with naming(a):
                rows, ids = metric._check_rows(frame), row_ids(as_table(frame), metric.id)
            i, j, distance = near_pairs(searcher, rows, cut, max_matches)
            found = {"a": ids[i], "b": called[j], "distance": distance}
            yield metric._with_probability(found)

    def matches() -> Iterator[Any]:
        nonlocal n_full
        for found in pieces():
            most = Counter(found["a"].tolist()).most_common(1) or [(0, 0)]
            n_full += int(most[0][1] >= max_matches)
            yield pandas().DataFrame(found)

    to.write(counted(matches(), "matches", to.output))
    if n_full:
        say(f"note: some rows have {max_matches} matches or more; --max-matches looks at more")
    if result.is_elsewhere:
        say(f"called the same: rows no farther apart than {cut:.4g}" + called_so_far(metric, cut))


def called_so_far(metric: TableMetric, cut: float) -> str:
    """What is known about a cut: how many held-out pairs it calls the same, and how many rightly."""
    near = metric.held_out_distance_ <= cut
    n_near, n_right = int(near.sum()), int(metric.held_out_same_[near].sum())
    n_same = int(metric.held_out_same_.sum())
    if not len(near):
        return ""
    if not n_near:
        return f"; none of {len(near):,} held-out pairs is called the same"
    few = ": few to go by" * (n_near < FEW)
    return (
        f"; of {len(near):,} held-out pairs {n_near:,} are called the same, {n_right:,} of them correctly "
        f"(precision {n_right / n_near:.2f}, recall {n_right / max(1, n_same):.2f}){few}"
    )


@main.command(
    epilog=example(
        "metricforest suggest ours.csv theirs.csv --id id -n 50 -o questions.csv",
        "metricforest fit ours.csv theirs.csv --id id --pairs questions.csv -o both.mf",
        "metricforest suggest both.mf -n 20 -o more.csv",
    )
)
@click.argument("model", metavar="MODEL_OR_TABLE")
@click.argument("table_b", metavar="[TABLE_B]", required=False)
@click.option("-n", "n", type=click.IntRange(2, 10_000), default=20, show_default=True)
@click.option("--id", "id_", metavar="COLUMN", help="Of tables: the column with the rows' ids.")
@click.option("--drop", metavar="COLUMNS", multiple=True, help="Of tables: columns not to use.")
@click.option(
    "--pairs", metavar="FILE", multiple=True, help="Labelled pairs that are not to be asked again."
)
@click.option("--seed", type=click.IntRange(0), help="Other pairs. [default: that of the model]")
@result_options
@sep_option
@jobs_option
def suggest(
    model: str,
    table_b: str | None,
    n: int,
    id_: str | None,
    drop: tuple[str, ...],
    pairs: tuple[str, ...],
    seed: int | None,
    result: Result,
    sep: str | None,
    jobs: int,
) -> None:
    """Pairs that are worth labelling next, with what both rows hold.

    Of a table, or two, of which nothing is known yet: likely matches and likely others, to begin with. Of
    a model: pairs of its tables that it is in doubt about. Fill in the column answer (y or n) and
    give the file to `fit` as --pairs, beside those that were labelled before.
    """
    from ..tables.files import pandas

    to = result.checked(QUESTIONS, model, table_b, *pairs, fill_in="answer")
    known = asked_before(pairs)
    if is_model(model):
        if table_b is not None or id_ is not None or drop:
            raise click.UsageError(
                "a model knows its tables: TABLE_B, --id and --drop are for tables"
            )
        asked = of_model(load_model(model, jobs, pairs=True), model, n + len(known), seed)
    else:
        asked = of_tables([model, table_b], n + len(known), id_, drop, separator(sep), seed)
    named = {"left": asked.pop("a"), "right": asked.pop("b"), "answer": ""}
    frame = pandas().DataFrame({**named, **asked})
    ends = zip(map(str, frame["left"]), map(str, frame["right"]), strict=True)
    new = [frozenset(pair) not in known for pair in ends]
    to.write([frame[new][:n]])


def asked_before(paths: tuple[str, ...]) -> set[frozenset[str]]:
    """The pairs of files, whichever way round."""
    from ..tables.columns import id_text
    from .labelled import read_pairs

    found = [read_pairs(path).iloc[:, :2].to_numpy().tolist() for path in paths]
    return {frozenset((id_text(a), id_text(b))) for part in found for a, b in part}


def of_model(metric: Any, path: str, n: int, seed: int | None) -> dict[str, Any]:
    """Pairs that a model is in doubt about."""
    with naming(path):
        if getattr(metric, "pair_model_", metric) is None or learns_what_is_implied(metric):
            a, b = metric.suggest_pairs(n, random_state=seed).T
            return {"a": a, "b": b}
        if seed is not None:
            getattr(metric, "pair_model_", metric).set_params(random_state=seed)
        asked = metric.questions(max(n, 8), contents=True)
        return {name: v[:n] for name, v in asked.items() if name not in ("answer", "probability")}


def learns_what_is_implied(metric: Any) -> bool:
    return bool(getattr(getattr(metric, "metric_", None), "implied_pairs", False))


def of_tables(
    paths: list[str | None],
    n: int,
    id_: str | None,
    drop: tuple[str, ...],
    sep: str | None,
    seed: int | None,
) -> dict[str, Any]:
    """Pairs to begin with, of tables of which nothing is known."""
    from ..tables import files
    from ..tables.first_questions import first_questions
    from .fit import Given, check_columns, kinds_of

    frames = [(path, files.read_table(path, sep=sep)) for path in paths if path is not None]
    tables = [Given(path, frame, len(frame)) for path, frame in frames]
    kinds = kinds_of({"drop": drop}, tables, (id_,))
    check_columns(tables, id_)
    with naming(tables[0].path):
        return first_questions(
            *(given.frame for given in tables),
            n=n, id=id_, kinds=kinds, random_state=seed or 0, contents=True,
        )  # fmt: skip
