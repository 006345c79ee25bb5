"""`Blend`: one distance made of several, with weights that labelled pairs choose.

Every member is fitted without a third of the labelled pairs, three times, and measures the pairs that
it has not seen. On these distances a logistic regression with weights of at least 0 learns what each
member is worth; then the members are fitted again on all pairs. Rows of left-out pairs stay in: what is
left out is what was said about them. Where every row is in many pairs, all pairs of a third of the rows
are left out instead: one alone would say nothing new.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import Metric, check_n_neighbors
from .checks import check_auto, check_whole
from .hierarchy import HierarchyForest
from .numbered import Numbered, check_numbered, first_numbered, with_rows, without_rows
from .rivals import BoostedTreesDistance, RandomForestDistance
from .rivals.fitting import NeedsLabels, refuse
from .search import check_ids
from .storage.format import Content
from .storage.registry import content_of, from_content, params_of, unfitted
from .storage.values import check_array
from .supervision.given_pairs import NEEDED, need_pairs, pairs_to_learn
from .supervision.left_out import folds_of
from .supervision.pair_weights import Weights, equal_weights, learned_weights
from .vector_forest import VectorForest
from .version import __version__
from .warn import warn

LEAST_PAIRS = 30  # to learn weights from
EXACT = 2_000  # rows up to which every row is measured
BLOCK = 1 << 16  # pairs measured at once by a search
LARGEST = 1e100  # weight in a file: sums stay finite


class Blend(NeedsLabels, Metric):
    """A distance made of other distances, weighted by labelled pairs that their members did not see.

    The distance is the probability, among pairs like the labelled ones, that two rows differ: a number
    from 0 to 1. A row need not be at distance 0 from itself, and the triangle inequality does not hold.
    Fitting takes `n_folds` + 1 fits of every member.

    Parameters
    ----------
    members : list of metrics, default=None
        Unfitted metrics that learn from labelled pairs. None: a `VectorForest`, a `HierarchyForest`, a
        `RandomForestDistance` and a `BoostedTreesDistance`.
    n_folds : int, default=3
        Parts of the labelled pairs, each of which is left out once.
    n_candidates : int or None, default=100
        Rows that each member that can search proposes to `kneighbors`; the blend measures them and all
        other members' proposals. None measures every row, as it does in any case up to 2,000 rows or
        where no member searches faster than by measuring everything.
    n_constraints : "auto" or int, default="auto"
        How many pairs to draw from `y`. "auto": 1,000 per class, from 5,000 labelled rows on at
        least 30,000 in all, from 40,000 on 600,000; a third of them must-links.
    n_jobs : int, default=None
        Given to the members that have none of their own.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs, the folds, and the members that have no seed of their own.

    Attributes
    ----------
    members_ : list of metrics
        Fitted on all labelled pairs. A member that cannot learn from only one kind of pair is left out.
    weights_ : ndarray of shape (n_members,)
        Weight of each member's distance, at least 0, per standard deviation of its distances.
    held_out_auc_ : ndarray of shape (n_members,)
        Pair AUC of each member on the pairs that it had not seen; nan where there were too few pairs to
        leave some out.
    ids_ : ndarray of int64
        Ids of the rows that are searched, ascending: row numbers of `fit`, and what `add` returned.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest import Blend, HierarchyForest
    >>> from metricforest.demo import labelled_pairs
    >>> from metricforest.rivals import ITML
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs, same = labelled_pairs(y, 200, seed=0)
    >>> blend = Blend([HierarchyForest(20), ITML()], random_state=0)
    >>> blend = blend.fit(X, pairs=pairs, pair_labels=same)
    >>> near, far = blend.pair_distance(X[[0, 0]], X[[1, 100]])
    >>> bool(0 <= near < far <= 1)
    True
    """

    bounded = True
    members_: list[Metric]
    weights_: np.ndarray
    _weights: Weights
    _searched: Numbered

    def __init__(
        self,
        members: Sequence[Metric] | None = None,
        n_folds: int = 3,
        n_candidates: int | None = 100,
        n_constraints: int | str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.members = members
        self.n_folds = n_folds
        self.n_candidates = n_candidates
        self.n_constraints = n_constraints
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------ learning

    def _fit(self, X: Any, y: Any, pairs: Any, pair_labels: Any, triplets: Any) -> None:
        refuse(self, NEEDED, triplets=triplets)
        need_pairs(self, y, pairs, pair_labels)
        self._check_parameters()
        data: Any = validate_data(self, X, dtype=np.float64)
        chosen, labels, seed = pairs_to_learn(self, len(data), y, pairs, pair_labels)
        fresh = self._fresh(seed)
        self.members_, kept = self._fitted(fresh, data, chosen, labels)
        fresh = [fresh[j] for j in kept]
        self._weigh(fresh, data, chosen, labels, seed)
        self._keep(data)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole(self, "n_folds", 2)
        if self.n_candidates is not None:
            check_whole(self, "n_candidates", 1)
        check_auto(self, "n_constraints", 1)
        members = self.members
        if members is None:
            return
        if not isinstance(members, list | tuple) or not members:
            raise ValueError(f"members must be a list of metrics, got {members!r}")
        for member in members:
            if not isinstance(member, Metric) or member.of_tables:
                raise TypeError(
                    "members must be metrics of this library over numbers, such as "
                    f"HierarchyForest(): got {member!r}"
                )
            member._check_parameters()

    def _fresh(self, seed: int) -> list[Metric]:
        """Unfitted members; those without a seed or threads of their own are given some."""
        members = self.members
        if members is None:
            members = [
                VectorForest(),
                HierarchyForest(),
                RandomForestDistance(),
                BoostedTreesDistance(),
            ]
        fresh = []
        for j, member in enumerate(members):
            copy: Any = clone(member)
            params = copy.get_params(deep=False)
            if params.get("random_state", 0) is None:
                own = np.random.SeedSequence((seed, j)).generate_state(1)[0]
                copy.set_params(random_state=int(own) & np.iinfo(np.int32).max)
            if params.get("n_jobs", 0) is None:
                copy.set_params(n_jobs=self.n_jobs)
            fresh.append(copy)
        return fresh

    def _fitted(
        self, fresh: list[Metric], data: np.ndarray, pairs: np.ndarray, labels: np.ndarray
    ) -> tuple[list[Metric], list[int]]:
        """Members fitted on all pairs, and which they are: some cannot learn from one kind alone."""
        one_kind = len(np.unique(labels)) == 1
        fitted, kept, said = [], [], ""
        for j, member in enumerate(fresh):
            try:
                fitted.append(_fit(member, data, pairs, labels))
                kept.append(j)
            except ValueError as error:
                said = str(error)
                if not one_kind:
                    raise
                warn(f"{type(member).__name__} is left out of the blend: {said}", UserWarning)
        if not fitted:
            raise ValueError(f"no member of the blend can learn from these pairs: {said}")
        return fitted, kept

    def _weigh(
        self,
        fresh: list[Metric],
        data: np.ndarray,
        pairs: np.ndarray,
        labels: np.ndarray,
        seed: int,
    ) -> None:
        """Set `_weights`, `weights_` and `held_out_auc_`."""
        fewest = min((labels == 1).sum(), (labels == -1).sum())
        differ = labels == -1
        enough = len(pairs) >= LEAST_PAIRS and fewest >= self.n_folds
        if enough:
            held, distance = self._held_out(fresh, data, pairs, differ, seed)
            differ = differ[held]
            self.held_out_auc_ = np.array([roc_auc_score(differ, one) for one in distance.T])
            self._weights = learned_weights(distance, differ)
        else:
            warn(
                f"{len(pairs)} labelled pairs, {fewest} of the rarer kind, are too few to weigh the "
                f"members by ({LEAST_PAIRS} and {self.n_folds} are needed): all count the same",
                UserWarning,
            )
            i, j = pairs.T
            distance = np.stack([m.pair_distance(data[i], data[j]) for m in self.members_], axis=1)
            self.held_out_auc_ = np.full(len(fresh), np.nan)
            self._weights = equal_weights(distance)
        if enough and not self._weights.each.any():
            warn(
                "no member distinguishes labelled pairs that it has not seen: all count the same",
                UserWarning,
            )
            self._weights = equal_weights(distance)
        self.weights_ = self._weights.each * distance.std(axis=0)

    def _held_out(
        self,
        fresh: list[Metric],
        data: np.ndarray,
        pairs: np.ndarray,
        differ: np.ndarray,
        seed: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(numbers of pairs that were held out, what each member that has not seen them measures).

        That is all pairs; where every row has many, a third or so (`supervision.left_out`).
        """
        held, distance = [], []
        for train, test in folds_of(pairs, differ, int(self.n_folds), seed):
            i, j = pairs[test].T
            measured = np.empty((len(test), len(fresh)))
            for k, member in enumerate(fresh):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # said when all pairs are there
                    fitted = _fit(clone(member), data, pairs[train], np.where(differ[train], -1, 1))
                measured[:, k] = fitted.pair_distance(data[i], data[j])
            held.append(test)
            distance.append(measured)
        return np.concatenate(held), np.concatenate(distance)

    # ----------------------------------------------------------------------------------- measuring

    def _used(self) -> list[tuple[float, Metric]]:
        """Members that count, and how much."""
        each = zip(self._weights.each.tolist(), self.members_, strict=True)
        return [(weight, member) for weight, member in each if weight > 0.0]

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        return X  # every member prepares rows in its own way

    def _pair_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        odds = np.full(len(A), self._weights.intercept)
        for weight, member in self._used():
            odds += weight * member._pair_distance(member._prepare(A), member._prepare(B))
        return expit(odds)

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        odds = np.full((len(A), len(B)), self._weights.intercept)
        for weight, member in self._used():
            odds += weight * member._pairwise_distance(member._prepare(A), member._prepare(B))
        return expit(odds)

    # ----------------------------------------------------------------------------------- searching

    def _check_ready(self) -> None:
        super()._check_ready()
        for member in self.members_:
            member._check_ready()

    def _keep(self, rows: np.ndarray) -> None:
        super()._keep(rows)
        self._search(first_numbered(rows))

    def _search(self, rows: Numbered) -> None:
        self._searched, self._turn = rows, Lock()

    def _over(self, rows: np.ndarray) -> Any:
        other = super()._over(rows)
        other.members_ = [member._over(member._prepare(rows)) for member in self.members_]
        return other

    @property
    def ids_(self) -> np.ndarray:
        check_is_fitted(self)
        return self._searched.ids.copy()

    def _n_indexed(self) -> int:
        return len(self._searched.ids)

    def _searched_rows(self) -> np.ndarray:
        return self._searched.rows

    def _searched_ids(self) -> np.ndarray:
        return self._searched.ids

    def _nearest(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
        distance, place, now = self._found(queries, k)
        return distance, now.ids[place]

    def _found(self, queries: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray, Numbered]:
        """(distances, places among the rows searched, these rows as they were at one moment)."""
        searching = [member for _, member in self._used() if searches(member)]
        changing = all(hasattr(member, "add") for member in self.members_)
        with self._turn if changing else nullcontext():  # member after member is changed
            now = self._searched
            k = check_n_neighbors(k, len(now.ids), queries is None)
            most = None if self.n_candidates is None else max(k, int(self.n_candidates))
            n = len(now.ids) - (queries is None)
            exact = most is None or not searching or len(now.ids) <= max(EXACT, most)
            if not exact:
                self._check_members(now.ids)
                found = [
                    member._nearest(
                        None if queries is None else member._prepare(queries),
                        min(int(most or n), n),
                    )[1]
                    for member in searching
                ]
        if exact:
            return *self._nearest_among(now.rows, queries, k), now
        rows = now.rows if queries is None else queries
        place = np.searchsorted(now.ids, np.concatenate(found, axis=1))
        return *self._measured(rows, now.rows, place, k), now

    def _check_members(self, ids: np.ndarray) -> None:
        """Raise unless the members search the same rows."""
        for member in self.members_:
            own = member.ids_ if hasattr(member, "ids_") else np.arange(member._n_indexed())  # type: ignore[attr-defined]
            if not np.array_equal(own, ids):
                raise ValueError(
                    f"a member searches {len(own)} rows other than the {len(ids)} of the blend: rows "
                    "were added to or removed from the member itself. Fit again"
                )

    def _measured(
        self, rows: np.ndarray, among: np.ndarray, place: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest of the rows proposed for each query, some of them more than once."""
        place = np.sort(place, axis=1)
        again = np.zeros(place.shape, bool)
        again[:, 1:] = place[:, 1:] == place[:, :-1]
        distance = np.full(place.shape, np.inf)
        query, column = np.nonzero(~again)
        for low in range(0, len(query), BLOCK):
            q, c = query[low : low + BLOCK], column[low : low + BLOCK]
            distance[q, c] = self._pair_distance(rows[q], among[place[q, c]])
        order = np.argsort(distance, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(place, order, axis=1)

    def _within(self, queries: np.ndarray | None, radius: float) -> tuple[np.ndarray, np.ndarray]:
        now = self._searched
        distance, place = self._within_among(now.rows, queries, radius)
        for i, own in enumerate(place):
            place[i] = now.ids[own]
        return distance, place

    def _nearest_columns(
        self, queries: np.ndarray | None, k: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        distance, place, now = self._found(queries, k)
        return distance, place, len(now.ids)

    def add(self, X: ArrayLike, ids: ArrayLike | None = None) -> np.ndarray:
        """Have more rows searched, without learning from them, where every member can.

        Takes and returns what `HierarchyForest.add` does.
        """
        members = self._changing("add")
        rows = self._check_rows(X)
        given = None if ids is None else check_ids(ids)
        with self._turn:
            now = self._searched
            self._check_members(now.ids)
            after, chosen = with_rows(now, rows, given)
            try:
                for member in members:
                    member.add(rows, chosen)
            except BaseException:  # an interrupt as well
                for member in members:
                    there = chosen[np.isin(chosen, member.ids_)]
                    if len(there):
                        member.remove(there)
                raise
            self._searched = after
        return chosen

    def remove(self, ids: ArrayLike) -> None:
        """Have rows searched no more, where every member can.

        Parameters
        ----------
        ids : array-like of shape (n,) of int
            All of them searched, each once; otherwise nothing is removed.
        """
        members = self._changing("remove")
        chosen = check_ids(ids)
        with self._turn:
            now = self._searched
            self._check_members(now.ids)
            after = without_rows(now, chosen)
            try:
                for member in members:
                    member.remove(chosen)
            except BaseException:
                for member in members:
                    gone = np.setdiff1d(chosen, member.ids_)
                    if len(gone):
                        member.add(now.rows[np.searchsorted(now.ids, gone)], gone)
                raise
            self._searched = after

    def _changing(self, what: str) -> list[Any]:
        """The members, if all of them can take rows in and out."""
        self._check_ready()
        cannot = [type(m).__name__ for m in self.members_ if not hasattr(m, what)]
        for member in self.members_:
            if isinstance(member, Blend):
                member._changing(what)
        if cannot:
            raise TypeError(
                f"this Blend cannot {what} rows: its member {cannot[0]} cannot. A Blend of "
                "HierarchyForest alone can"
            )
        return list(self.members_)

    # --------------------------------------------------------------------------------------- files

    def _params(self) -> dict[str, Any]:
        """As they are, but each member by its class and its own parameters."""
        params = super()._params()
        if self.members is not None:
            params["members"] = [
                Content(type(member).__name__, __version__, params_of(member), {})._asdict()
                for member in self.members
            ]
        return params

    def _state(self) -> dict[str, Any]:
        with self._turn:
            rows, ids, next_id = self._searched
            members = [content_of(member)._asdict() for member in self.members_]
        state = {"members_": members, "_weights": list(self._weights)}
        if rows is not self._rows:
            state["_searched"] = rows
        return {**super()._state(), **state, "_ids": ids, "_next_id": next_id}

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        state = dict(state)
        turn = state.pop("_turn", None)  # a copy has a lock of its own
        if turn is not None:
            with turn:
                state["_searched"] = self._searched
                state["members_"] = [copy(member) for member in self.members_]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_searched"):
            self._turn = Lock()

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        described: Any = self.members
        if described is not None:
            self.members = [unfitted(Content(**one)) for one in described]
        packed, weights = state.pop("members_"), state.pop("_weights")
        ids, next_id = state.pop("_ids"), state.pop("_next_id")
        if not isinstance(packed, list) or not packed:
            raise ValueError(f"members_ is {str(packed)[:80]}")
        self.members_ = [from_content(Content(**one)) for one in packed]
        rows = state.pop("_searched", state.get("_rows"))
        super()._restore(state)
        k, d = len(self.members_), self.n_features_in_
        each, intercept = weights
        check_array(each, "_weights", np.float64, (k,))
        check_array(self.weights_, "weights_", np.float64, (k,))
        check_array(self.held_out_auc_, "held_out_auc_", np.float64, (k,), False)
        check_array(self._rows, "_rows", np.float64, (None, d))
        check_array(rows, "_searched", np.float64, (None, d))
        if (each < 0.0).any() or type(intercept) is not float or not np.isfinite(intercept):
            raise ValueError("the weights are not numbers of at least 0 and an intercept")
        if max(each.max(), abs(intercept)) > LARGEST:
            raise ValueError(f"a weight is more than {LARGEST:g}")
        self._search(check_numbered(Numbered(rows, ids, next_id)))
        for member in self.members_:
            if not isinstance(member, Metric) or member.of_tables:
                raise ValueError(f"a {type(member).__name__} cannot be a member")
            if member.n_features_in_ != d:
                raise ValueError(f"a member has {member.n_features_in_} features, not {d}")
        self._check_members(ids)
        self._weights = Weights(each, intercept)


def _fit(member: Any, data: np.ndarray, pairs: np.ndarray, labels: np.ndarray) -> Any:
    return member.fit(data, pairs=pairs, pair_labels=labels)


def searches(member: Metric) -> bool:
    """Whether a metric finds neighbours by other means than measuring every row."""
    return type(member)._nearest is not Metric._nearest
