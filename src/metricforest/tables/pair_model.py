"""`PairModel`: how likely two rows are the same, learned from labelled pairs of one or two tables.

It learns from what rows have in common (comparison.py), by two models side by side: a logistic
regression on ranks, which few pairs suffice for, and extremely randomised trees, which find what
goes together once there are more. Pairs that were held out say how much each of the two counts,
how likely a score makes a match, and from which probability on rows are best called the same.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..base import unchanged_on_failure
from ..checks import check_n_jobs, check_real, check_seed, check_whole
from ..storage.outputs import PathLike
from ..storage.registry import save
from ..storage.values import check_array
from .columns import (
    DROP,
    KINDS,
    as_table,
    check_kinds,
    check_name,
    id_text,
    items_of,
    values_of,
)
from .comparison import BLOCK, PairComparison, side_by_side
from .pair_audit import STRATA, MatchAudit, audit, drawn, strata_of
from .pair_labels import read_label, row_ids
from .pair_matches import EVERY, candidate_pairs, check_keep, kept, united
from .pair_reasons import PairReasons, reasons
from .pair_scorer import Scorer, best_cut, blended, checked, learn, log_odds, scores, weigh

ASKED_WITH = "probability"  # the column of `questions` that `audit` looks at
HELD_OUT = ("held_out_probability_", "held_out_same_")
FOLDS = 5  # by which pairs are held out
LEAST = 2  # pairs of each kind, without which nothing is learned
LEAST_HELD_OUT = 10  # pairs of each kind, without which they are too few to choose by


class PairModel(BaseEstimator):
    """How likely two rows are the same, learned from labelled pairs.

    Rows are compared column by column: how alike texts are, by letters, by words and by runs of
    letters, rare ones weighing more; which numbers stand in them; how far numbers and dates lie apart;
    what is missing; and whether either row has a better partner elsewhere in its table. The tables
    may hold text, numbers, dates and categories as they are.

    Parameters
    ----------
    id : str, default=None
        The column of both tables that holds the ids pairs name rows by. None: the index of a pandas
        frame, row numbers of other tables.
    kinds : dict, default=None
        Column name to "number", "date", "text", "category", "boolean" or "drop", for columns that are not
        to be guessed. Values of the other kinds than "number" and "date" are compared as texts.
    match_rate : float, default=None
        Share of the pairs to be asked about that are the same. None: as among the labelled pairs. Where
        those were chosen so as to hold more matches, probabilities and the threshold need it.
    n_estimators : int, default=200
        Number of trees.
    n_jobs : int, default=None
        Threads that grow trees; the result is the same for any number.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    comparison_ : PairComparison
    scorer_ : Scorer
    threshold_ : float
        The probability from which on pairs are called the same: the best expected F1 on pairs that
        were held out, 0.5 where those are fewer than 10 of a kind.
    held_out_probability_, held_out_same_ : ndarray of shape (n_pairs,)
        Probabilities of the labelled pairs, each by models that had not seen it; empty where there
        are fewer than 10 of a kind.

    Examples
    --------
    >>> from metricforest import PairModel
    >>> left = {"name": ["Echo chair 12", "Dorn table", "Sol lamp 3", "Rio desk"]}
    >>> right = {"name": ["table, Dorn", "chair Echo 12", "desk Rio", "lamp Sol 3"]}
    >>> pairs = [[0, 1, 1], [1, 0, 1], [2, 3, 1], [0, 0, 0], [1, 2, 0], [2, 2, 0]]
    >>> model = PairModel(random_state=0).fit(left, right, pairs=pairs)
    >>> model.predict([[3, 2], [3, 1]]).tolist()
    [True, False]
    """

    comparison_: PairComparison
    scorer_: Scorer
    threshold_: float
    held_out_probability_: np.ndarray
    held_out_same_: np.ndarray

    def __init__(
        self,
        id: str | None = None,
        kinds: dict[str, str] | None = None,
        match_rate: float | None = None,
        n_estimators: int = 200,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.id = id
        self.kinds = kinds
        self.match_rate = match_rate
        self.n_estimators = n_estimators
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------ learning

    def fit(
        self, left: Any, right: Any = None, *, pairs: Any, pair_labels: ArrayLike | None = None
    ) -> PairModel:
        """Learn from labelled pairs of rows.

        Parameters
        ----------
        left : frame, dict of columns or array-like
        right : frame, dict of columns or array-like, default=None
            The table that the second rows of the pairs are in. None: `left` as well.
        pairs : frame or array-like of shape (n_pairs, 3) or (n_pairs, 2)
            An id of `left`, one of `right`, and a label: same or different, 1 or 0, +1 or -1.
        pair_labels : array-like of shape (n_pairs,), default=None
            The labels, where `pairs` has only ids.

        Returns
        -------
        self : PairModel
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            tables = [as_table(table) for table in (left, right) if table is not None]
            kinds = dict(self.kinds or {})
            if self.id is not None:
                kinds[self.id] = DROP
            self.ids_ = [row_ids(table, self.id, unique=True) for table in tables]
            rows, labels = labelled_rows(pairs, pair_labels, self.ids_[0], self.ids_[-1])
            self.comparison_ = PairComparison(kinds).fit(*tables)
            A, B = self.comparison_.tables[0], self.comparison_.tables[-1]
            self._learn(self.comparison_.compare(A, rows[:, 0], B, rows[:, 1]), labels)
        return self

    def _check_parameters(self) -> None:
        """Raise unless every parameter has a value that can be used."""
        check_whole(self, "n_estimators", 1)
        check_n_jobs(self)
        check_seed(self)
        if self.match_rate is not None:
            check_real(self, "match_rate", 0.0, 1.0, open_low=True, open_high=True)
        check_name("id", self.id)
        check_kinds(self.kinds, KINDS)

    def _check_ready(self) -> None:
        """Raise unless fitted, with parameters that can be used: they may be set after `fit` too."""
        check_is_fitted(self, "scorer_")
        self._check_parameters()

    def _learn(self, X: np.ndarray, same: np.ndarray) -> None:
        """The scorer from comparisons and answers, and what held-out pairs say of it."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        few = int(min(same.sum(), len(same) - same.sum()))
        if few < LEAST:
            raise ValueError(
                f"labelled pairs of both kinds are needed, {LEAST} at least: of {len(same)} pairs "
                f"{int(same.sum())} are the same"
            )
        scorer = learn(X, same, self.n_estimators, seed, self.n_jobs)
        self.threshold_ = 0.5
        self.held_out_probability_, self.held_out_same_ = np.empty(0), np.empty(0, bool)
        held_out = np.empty((2, len(same)))
        if few >= LEAST_HELD_OUT:
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
            for train, test in folds.split(X, same):
                part = learn(X[train], same[train], self.n_estimators, seed, self.n_jobs)
                held_out[:, test] = scores(part, X[test])
            scorer = weigh(scorer, held_out, same)
        share = float(same.mean())
        rate = share if self.match_rate is None else self.match_rate
        scorer = scorer._replace(intercept=scorer.intercept + float(logit(rate) - logit(share)))
        if few >= LEAST_HELD_OUT:
            self.held_out_probability_ = expit(blended(scorer, held_out))
            self.held_out_same_ = same
            counts = np.where(same, rate / share, (1.0 - rate) / (1.0 - share))
            self.threshold_ = best_cut(self.held_out_probability_, counts)
        self.scorer_ = scorer

    # ----------------------------------------------------------------------------------- answering

    def probability(self, pairs: Any, left: Any = None, right: Any = None) -> np.ndarray:
        """How likely the two rows of each pair are the same.

        Parameters
        ----------
        pairs : frame or array-like of shape (n_pairs, 2)
            An id of `left` and one of `right`; columns beyond two are not looked at.
        left, right : frame, dict of columns or array-like, default=None
            Other tables than those of `fit`. Better partners are looked for among these then.

        Returns
        -------
        probability : ndarray of shape (n_pairs,)
        """
        comparison, ids = self._over(left, right)
        rows = paired_rows(pairs, ids[0], ids[-1])
        A, B = comparison.tables[0], comparison.tables[-1]
        return expit(log_odds(self.scorer_, comparison.compare(A, rows[:, 0], B, rows[:, 1])))

    def predict(self, pairs: Any, left: Any = None, right: Any = None) -> np.ndarray:
        """Whether the rows of each pair are called the same: as likely as `threshold_`, or more.

        Parameters
        ----------
        pairs, left, right
            As in `probability`.

        Returns
        -------
        same : ndarray of bool of shape (n_pairs,)
        """
        return self.probability(pairs, left, right) >= self.threshold_

    def match(
        self,
        left: Any = None,
        right: Any = None,
        *,
        threshold: float | None = None,
        keep: str = EVERY,
        candidates: int = 10,
        also: ArrayLike | None = None,
    ) -> dict[str, np.ndarray]:
        """Pairs of rows of whole tables that are called the same, the likeliest first.

        Parameters
        ----------
        left, right : frame, dict of columns or array-like, default=None
            The tables; `left` alone is matched with itself, every pair once. None: those of `fit`, of
            two the first where `right` is given.
        threshold : float, default=None
            The probability from which on rows are called the same. None: `threshold_`.
        keep : {"every", "best", "one-to-one"}, default="every"
            "best": for each row of `left` its likeliest match alone. "one-to-one": no row in two
            matches; the likeliest pairs are taken first.
        candidates : int, default=10
            For each row the nearest of the other table that are looked at, by words and by letters.
        also : array-like of shape (n_pairs, 2), default=None
            Row numbers of further pairs that are looked at.

        Returns
        -------
        table : dict of columns
            a and b (ids), probability.
        """
        check_keep(keep)
        cut = self.threshold_ if threshold is None else check_share("threshold", threshold)
        comparison, ids = self._over(left, right)
        pairs, probability = self._candidates(comparison, candidates, also)
        likely = probability >= cut
        pairs, probability = pairs[likely], probability[likely]
        chosen = kept(pairs, probability, keep, len(comparison.tables) == 1)
        a, b = pairs[chosen].T
        return {"a": ids[0][a], "b": ids[-1][b], "probability": probability[chosen]}

    def _candidates(
        self, comparison: PairComparison, most: int, also: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(pairs of known rows worth comparing, their probabilities)."""
        if isinstance(most, bool) or not isinstance(most, Integral) or most < 1:
            raise ValueError(f"candidates must be a whole number of at least 1, got {most!r}")
        pairs = candidate_pairs(comparison, int(most))
        A, B = comparison.tables[0], comparison.tables[-1]
        if also is not None:
            pairs = united(pairs, also, A.n, B.n, len(comparison.tables) == 1)
        probability = np.empty(len(pairs))
        for low in range(0, len(pairs), BLOCK):
            a, b = pairs[low : low + BLOCK].T
            X = comparison.compare(A, a, B, b)
            probability[low : low + BLOCK] = expit(log_odds(self.scorer_, X))
        return pairs, probability

    def questions(
        self,
        n: int = 60,
        left: Any = None,
        right: Any = None,
        *,
        candidates: int = 10,
        also: ArrayLike | None = None,
        contents: bool = False,
    ) -> dict[str, np.ndarray]:
        """Candidate pairs of whole tables whose labels tell how right the matches are: see `audit`.

        Parameters
        ----------
        n : int, default=60
        left, right, candidates, also
            As in `match`.
        contents : bool, default=False
            Whether the contents of both rows are added, column by column.

        Returns
        -------
        table : dict of columns
            a and b (ids), probability, answer (empty: to be filled in). In random order.
        """
        if isinstance(n, bool) or not isinstance(n, Integral) or n < STRATA:
            raise ValueError(f"n must be a whole number of at least {STRATA}, got {n!r}")
        comparison, ids = self._over(left, right)
        pairs, probability = self._candidates(comparison, candidates, also)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        chosen = drawn(strata_of(probability, self.threshold_), int(n), rng)
        a, b = pairs[chosen].T
        answer = {"a": ids[0][a], "b": ids[-1][b], "probability": probability[chosen]}
        answer["answer"] = np.full(len(chosen), "", object)
        return answer | (side_by_side(comparison, a, b) if contents else {})

    def audit(
        self,
        pairs: Any,
        pair_labels: ArrayLike | None = None,
        left: Any = None,
        right: Any = None,
        *,
        threshold: float | None = None,
        precision: float | None = None,
        keep: str = EVERY,
        candidates: int = 10,
        also: ArrayLike | None = None,
    ) -> MatchAudit:
        """How right the matches of whole tables are, by labels of pairs that `questions` gave.

        Parameters
        ----------
        pairs, pair_labels
            As in `fit`: the pairs of `questions`, all of them and no others, with answers.
            With their column probability it is seen whether they were asked of this model.
        left, right, candidates, also
            As in `match` and `questions`.
        threshold : float, default=None
            The probability from which on rows are called the same. None: `threshold_`.
        precision : float, default=None
            Wished instead of a threshold: the lowest one with that expected precision is taken.
        keep : {"every", "best", "one-to-one"}, default="every"
            As in `match`: what is expected is that of the matches that are kept.

        Returns
        -------
        audit : MatchAudit
            Threshold, expected precision and recall with intervals; ``str(audit)`` is for reading.
            Give ``audit.threshold`` to `match`.
        """
        check_keep(keep)
        if precision is not None and threshold is not None:
            raise ValueError("give a threshold or a precision, not both")
        cut = self.threshold_ if threshold is None else check_share("threshold", threshold)
        wish = None if precision is None else check_share("precision", precision)
        comparison, ids = self._over(left, right)
        table = as_table(pairs)
        rows, same, at = answered_rows(table, pair_labels, ids[0], ids[-1])
        if len(comparison.tables) == 1:
            rows = np.sort(rows, axis=1)
        known, probability = self._candidates(comparison, candidates, also)
        n = len(ids[-1])
        asked = rows @ [n, 1]
        strange = int((~np.isin(asked, known @ [n, 1])).sum())
        place = np.searchsorted(known @ [n, 1], asked)
        if strange:
            raise ValueError(
                f"{strange} of {len(rows)} pairs are not candidates of these tables: label the "
                "pairs that `questions` gives"
            )
        if ASKED_WITH in table.names:
            told = np.array(items_of(table[ASKED_WITH]), np.float64)[at]
            other = int((np.abs(told - probability[place]) > 1e-4).sum())
            if other:
                raise ValueError(
                    f"{other} of {len(rows)} pairs were asked of another model or other tables: there "
                    "their probability was another. Ask anew, and label those"
                )
        one_table = len(comparison.tables) == 1

        def called(threshold: float) -> np.ndarray:
            likely = np.flatnonzero(probability >= threshold)
            chosen = kept(known[likely], probability[likely], keep, one_table)
            answer = np.zeros(len(known), bool)
            answer[likely[chosen]] = True
            return answer

        return audit(probability, place, same, cut, wish, self.threshold_, called)

    def explain(self, pair: Any, left: Any = None, right: Any = None) -> PairReasons:
        """What speaks for and against two rows being the same, column by column.

        Parameters
        ----------
        pair : two ids
        left, right
            As in `probability`.

        Returns
        -------
        reasons : PairReasons
            ``str(reasons)`` is for reading.
        """
        comparison, ids = self._over(left, right)
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"pair must be two ids, got {pair!r}")
        a, b = paired_rows([list(pair)], ids[0], ids[-1])[0]
        A, B = comparison.tables[0], comparison.tables[-1]
        X = comparison.compare(A, np.array([a]), B, np.array([b]))
        return reasons(comparison, A, a, B, b, self._without_columns(X), self.threshold_)

    def _without_columns(self, X: np.ndarray) -> np.ndarray:
        """Log-odds of one pair, then those with each column as in the middle of the labelled pairs."""
        names = self.comparison_.comparison_names()
        columns = list(dict.fromkeys(name for name, _ in names))
        many = np.repeat(X, len(columns) + 1, axis=0)
        middle = self.scorer_.knots[len(self.scorer_.knots) // 2]
        for i, column in enumerate(columns, 1):
            at = [j for j, (name, _) in enumerate(names) if name == column]
            many[i, at] = middle[at]
        return log_odds(self.scorer_, many)

    def _over(self, left: Any, right: Any) -> tuple[PairComparison, list[np.ndarray]]:
        """(comparisons, ids of the rows of each table) of other tables, or of those of `fit`."""
        self._check_ready()
        if left is None and right is None:
            return self.comparison_, self.ids_
        rows, ids = [], []
        for side, given in enumerate((left, right)):
            if given is not None:
                table = as_table(given)
                rows.append(self.comparison_.rows(table, side))
                ids.append(row_ids(table, self.id, unique=True))
            elif side == 0:
                rows.append(self.comparison_.tables[0])
                ids.append(self.ids_[0])
        return self.comparison_.over(*rows), ids

    # --------------------------------------------------------------------------------------- files

    def save(self, path: PathLike, overwrite: bool = False) -> None:
        """Write the model to one file, without pickle; `metricforest.load` reads it.

        Parameters
        ----------
        path : str or path-like
        overwrite : bool, default=False
            Replace a file that is not an earlier result as well.
        """
        self._check_ready()
        save(self, path, overwrite)

    def _params(self) -> dict[str, Any]:
        return self.get_params(deep=False)

    def _state(self) -> dict[str, Any]:
        return {
            "comparison_": self.comparison_.state(),
            "ids_": self.ids_,
            "scorer_": self.scorer_._asdict(),
            "threshold_": self.threshold_,
            "held_out_probability_": self.held_out_probability_,
            "held_out_same_": self.held_out_same_,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over what `_state` gave; ValueError unless it can be relied on."""
        wanted = {"comparison_", "ids_", "scorer_", "threshold_", *HELD_OUT}
        if set(state) != wanted:
            raise ValueError(f"it holds {', '.join(sorted(state))}"[:400])
        self._check_parameters()
        self.comparison_ = PairComparison.restored(state["comparison_"])
        self.scorer_ = checked(state["scorer_"], len(self.comparison_.comparison_names()))
        self.ids_ = list(state["ids_"])
        if len(self.ids_) != len(self.comparison_.tables):
            raise ValueError(
                f"ids and rows differ in number: {len(self.ids_)} lists of ids, "
                f"{len(self.comparison_.tables)} tables"
            )
        for ids, rows in zip(self.ids_, self.comparison_.tables, strict=True):
            if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iU":
                raise ValueError("ids are no whole numbers or text")
            if ids.shape != (rows.n,) or len(np.unique(ids)) < rows.n:
                raise ValueError(f"{ids.shape} ids, or one of them twice, for {rows.n} rows")
        threshold: Any = state["threshold_"]
        if type(threshold) is not float or not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold_ is {str(threshold)[:80]}")
        self.threshold_ = threshold
        probability, same = (state[name] for name in HELD_OUT)
        check_array(probability, HELD_OUT[0], np.float64, (None,))
        check_array(same, HELD_OUT[1], bool, (len(probability),))
        if probability.min(initial=0.0) < 0.0 or probability.max(initial=0.0) > 1.0:
            raise ValueError(f"{HELD_OUT[0]} is not in [0, 1]")
        self.held_out_probability_, self.held_out_same_ = probability, same


def labelled_rows(
    pairs: Any, pair_labels: Any, ids_a: np.ndarray, ids_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(row numbers [m, 2], same [m]) of pairs of ids with answers; those without one are left out."""
    return answered_rows(pairs, pair_labels, ids_a, ids_b)[:2]


def answered_rows(
    pairs: Any, pair_labels: Any, ids_a: np.ndarray, ids_b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row numbers [m, 2], same [m], which of the pairs [m]) of ids with answers; others are left out.

    Answers are in a column called answer, or in the third.
    """
    table = as_table(pairs)
    wanted = 3 if pair_labels is None else 2
    if len(table.names) < wanted:
        raise ValueError(
            f"pairs need {wanted} columns, two ids{' and a label' if wanted == 3 else ''}, "
            f"got {len(table.names)}: {', '.join(table.names[:8])}"
        )
    third = "answer" if "answer" in table.names[2:] else (*table.names, "", "")[2]
    answers = table[third] if pair_labels is None else np.asarray(pair_labels)
    rows = paired_rows(table, ids_a, ids_b)
    if len(answers) != len(rows):
        raise ValueError(f"{len(rows)} pairs, but {len(answers)} pair_labels")
    labels = np.array([read_label(v, i) for i, v in enumerate(values_of(answers).tolist())])
    at = np.flatnonzero(labels)
    return rows[at], labels[at] == 1, at


def paired_rows(pairs: Any, ids_a: np.ndarray, ids_b: np.ndarray) -> np.ndarray:
    """Row numbers [m, 2] of pairs of ids; a ValueError names the first id that no row has."""
    table = as_table(pairs)
    if len(table.names) < 2:
        raise ValueError(f"pairs need two columns of ids, got {len(table.names)}")
    answer = np.empty((table.n_rows, 2), np.int64)
    for side, ids in enumerate((ids_a, ids_b)):
        place = {id_text(value): i for i, value in enumerate(ids.tolist())}
        for i, value in enumerate(items_of(table.columns[side])):
            row = place.get("" if value is None else id_text(value))
            if row is None:
                some = ", ".join(map(repr, ids[:3].tolist()))
                raise ValueError(
                    f"pair {i + 1}: no row of the {('first', 'second')[side]} table is called "
                    f"{value!r}; there are {len(ids)} rows: {some}, ..."
                )
            answer[i, side] = row
    return answer


def check_share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return float(value)
