"""What a forest is asked beyond distances: why, how sure, which labels look wrong, what to label next.

`ForestQuestions` are the methods of `HierarchyForest` for that. They put together what the modules
beside this one compute: `explain`, `suspect` and `suggest`.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .. import search
from ..checks import check_count
from . import explain, suggest, suspect

CROSS_TREES = 100  # of a forest that is grown to measure labelled pairs it has not seen
MOST_SUGGESTED = 10_000
CURVE_PAIRS = 2_000  # labelled pairs that show how likely a pair is the same


class ForestQuestions:
    """Methods of a metric with a forest that look into it. It brings what they name."""

    forest_: Any
    constraints_: Any
    scale_: np.ndarray
    n_features_in_: int
    alpha: float
    implied_pairs: bool
    n_estimators: int
    _entropy: int
    _rows: np.ndarray
    _threads: Any
    _searched: Any
    _n_indexed: Any
    _over: Any
    _check_ready: Any
    _check_rows: Any
    _check_row_pairs: Any
    _pair_distance: Any
    _pairwise_distance: Any

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the distances between rows that were labelled different.

        In every tree the node that separates two rows adds certainty times size to their distance.
        That is shared among the node's features in proportion to ``|w_j (a_j - b_j)|``, with the
        plane's weights w and standardised rows a and b. The shares are summed over all trees and all
        pairs labelled different (and anchor and farther row of triplets; above 4,096 in all, over
        4,096 of them, evenly chosen), and divided by their total. So they sum to 1, and are the mean
        of the `by_feature` of `explain_pair` over these pairs, weighted by their distances.

        Where no pair was labelled different, 4,096 random pairs of rows are used: the shares then
        say what separates any two rows. If no tree separates any rows, all are 0. Computed anew at
        every access.
        """
        rows = self._rows_of_fit("feature_importances_")
        a, b = explain.different_rows(self.constraints_, len(rows), self._entropy)
        return explain.importances(
            self.forest_, rows[a], rows[b], float(self.alpha), self._threads()
        )

    def explain_pair(self, a: Any, b: Any, *, n_pairs: int = 3) -> explain.PairExplanation:
        """What the distance of two rows is made of, and which labelled pairs are like them.

        What a tree adds to the distance belongs to the node that separates the two rows, hence to
        that node's depth. It is shared among the node's features by ``|w_j (a_j - b_j)|``: how far
        each moves the two rows apart across the plane.

        Parameters
        ----------
        a, b : int, or array-like of shape (n_features,)
            Ids in `ids_` (row numbers of `fit`, or what `add` returned), or rows.
        n_pairs : int, default=3
            Labelled pairs to name: those with the least mean distance from `a` to the one end and
            from `b` to the other. Their row numbers are those of `fit`, whatever was added or
            removed since. All labelled rows are measured for it; 0 saves that time. A metric that
            an estimator has put over other rows names none.

        Returns
        -------
        explanation : PairExplanation
            With `distance`, `by_depth`, `by_feature`, `spread`, `nearest_pairs` and more;
            `summary()` as text, `to_dict()` ready for JSON.

        Examples
        --------
        >>> from metricforest import HierarchyForest
        >>> X = [[0.0, 0], [0.2, 1], [0.1, 2], [5, 0], [5.1, 1], [5.2, 2], [4.9, 1]]
        >>> hf = HierarchyForest(20, max_features=None, min_node_size=2, random_state=0)
        >>> hf = hf.fit(X, pairs=[[0, 1], [3, 4], [0, 3], [2, 5]], pair_labels=[1, 1, -1, -1])
        >>> why = hf.explain_pair(1, [5.0, 1.0])
        >>> bool(why.by_feature[0] > 0.9)
        True
        >>> why.nearest_pairs[0].same
        False
        """
        n = check_count("n_pairs", n_pairs, 0)
        row_a, row_b = self._one_row(a, "a"), self._one_row(b, "b")
        alpha, threads = float(self.alpha), self._threads()
        heights, by_depth, by_feature, n_separating = explain.shares(
            self.forest_, row_a, row_b, alpha
        )
        mean, deviation = explain.spread(self.forest_, row_a[None], row_b[None], alpha, 1)
        near = []
        if n and explain.is_grown_on(self.forest_, self._rows):
            near = explain.nearest_pairs(
                self.forest_, self._rows, self.constraints_, row_a, row_b, n, alpha, threads
            )
        total = heights.sum() or 1.0
        return explain.PairExplanation(
            distance=float(mean[0]),
            spread=float(deviation[0]),
            standard_error=float(deviation[0] / np.sqrt(len(heights))),
            n_trees=len(heights),
            n_separating=n_separating,
            by_depth=by_depth / total,
            by_feature=by_feature / total,
            difference=(row_a.astype(np.float64) - row_b) * self.scale_,
            feature_names=self._feature_names(),
            nearest_pairs=near,
        )

    def uncertainty(
        self, A: ArrayLike, B: ArrayLike, *, kind: str = "standard_error"
    ) -> np.ndarray:
        """How much the distance of each row of `A` to the same row of `B` varies from tree to tree.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)
        kind : {"standard_error", "spread"}, default="standard_error"
            "spread" is the standard deviation of the trees' distances (with T - 1 below the sum of
            squares). "standard_error" divides it by the root of T, the number of trees: how far the
            distance may be from that of endlessly many trees grown in the same way on the same
            labelled pairs. It says nothing about pairs with wrong labels, or missing ones.

        Returns
        -------
        uncertainty : ndarray of shape (n,)
            Trees are measured one after the other: the memory does not grow with their number.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(30, 2))
        >>> hf = HierarchyForest(20, random_state=0).fit(X)
        >>> hf.uncertainty(X[:2], X[2:4]).shape
        (2,)
        """
        if kind not in ("standard_error", "spread"):
            raise ValueError(f"kind must be 'standard_error' or 'spread', got {kind!r}")
        rows_a, rows_b = self._check_row_pairs(A, B)
        T = self.forest_.n_trees
        if T < 2:
            raise ValueError(f"uncertainty needs at least 2 trees, the forest has {T}")
        _, deviation = explain.spread(
            self.forest_, rows_a, rows_b, float(self.alpha), self._threads()
        )
        return deviation if kind == "spread" else deviation / np.sqrt(T)

    def suspect_pairs(self, n: int | None = None, *, cv: int | None = None) -> suspect.SuspectPairs:
        """Labelled pairs that the forest disbelieves, the most suspect first: the labeller's errors.

        A labelled pair is suspect when its label does not fit the distance of its two rows, and when
        it does not fit the labels of pairs of rows near them; see docs/understanding.md. These are
        the pairs of `fit` (given, or drawn from `y`), whatever was added or removed since. Triplets
        are left out.

        Parameters
        ----------
        n : int, default=None
            How many to return. None: all labelled pairs.
        cv : int, default=None
            Cut the labelled pairs into this many folds, at least 2, and measure each pair with a
            forest (of 100 trees at most) that has learned from the other folds only. Takes as many
            fits, and helps where a forest reproduces whatever labels it is given: many features, few
            labelled pairs.

        Returns
        -------
        suspects : SuspectPairs
            With `pairs`, `pair_labels`, `suspicion`, `distance`; `summary()` as text.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> rng = np.random.default_rng(0)
        >>> side = np.arange(80) % 2
        >>> X = rng.normal(size=(80, 2)) + 6 * side[:, None]
        >>> pairs = np.array([rng.choice(80, 2, replace=False) for _ in range(100)])
        >>> same = np.where(side[pairs[:, 0]] == side[pairs[:, 1]], 1, -1)
        >>> same[7] *= -1  # an error
        >>> hf = HierarchyForest(50, random_state=0).fit(X, pairs=pairs, pair_labels=same)
        >>> first = hf.suspect_pairs(1)
        >>> bool((first.pairs[0] == np.sort(pairs[7])).all())
        True
        """
        rows = self._rows_of_fit("suspect_pairs")
        pairs, labels = self.constraints_.pairs()
        count = len(pairs) if n is None else check_count("n", n, 1)
        if len(pairs) == 0:
            raise ValueError("suspect_pairs needs labelled pairs, and the forest was grown without")
        if cv is None:
            far = self._pair_distance(rows[pairs[:, 0]], rows[pairs[:, 1]])
        else:
            if check_count("cv", cv, 2) > len(pairs):
                raise ValueError(f"cv must be at most {len(pairs)}, the labelled pairs, got {cv}")
            far = self._unseen_distance(rows, pairs, labels, cv)
        doubt = suspect.suspicion(self, rows, pairs, labels, far)
        order = np.argsort(-doubt, kind="stable")[:count]
        return suspect.SuspectPairs(pairs[order], labels[order], doubt[order], far[order])

    def suggest_pairs(self, n: int = 10, *, random_state: int | None = None) -> np.ndarray:
        """Pairs of rows of `fit` that are worth labelling next.

        With `implied_pairs=True` they are chosen so that each label implies many others: whether groups
        of rows known to be the same differ from each other, and to which group other rows belong.
        Without, they are random rows, or drawn so that 35 to 65 in a hundred labelled pairs are
        "same". docs/understanding.md shows what either gains over random pairs. No labelled pair is
        suggested, no row with itself, no pair twice; pairs that follow from labelled ones (a is b, b
        is c) only if nothing else is left. Rows that were removed are still rows of `fit`; rows that
        were added are not.

        Parameters
        ----------
        n : int, default=10
            At most 10,000. A few at a time, with a new fit between, are better than many at once.
        random_state : int, default=None
            The same number gives the same pairs. None: a number that `fit` has drawn.

        Returns
        -------
        pairs : ndarray of shape (n, 2)
            Row numbers, the lesser first.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> hf = HierarchyForest(10, random_state=0).fit(X, pairs=[[0, 1], [2, 3]], pair_labels=[1, -1])
        >>> hf.suggest_pairs(5).shape
        (5, 2)
        """
        rows = self._rows_of_fit("suggest_pairs")
        if check_count("n", n, 1) > MOST_SUGGESTED:
            raise ValueError(f"n must be at most {MOST_SUGGESTED}, got {n}")
        seed = self._entropy
        if random_state is not None:
            seed = check_count("random_state", random_state, 0)
        pairs, labels = self.constraints_.pairs()

        def measure(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return self._pairwise_distance(rows[a], rows[b])

        rng = np.random.default_rng(seed)
        found = np.empty((0, 2), np.int64)
        if self.implied_pairs:
            found = suggest.linked(int(n), len(rows), pairs, labels, measure, rng)
        if len(found) < n:
            some = np.sort(rng.permutation(len(pairs))[:CURVE_PAIRS])
            labelled = self._pair_distance(rows[pairs[some, 0]], rows[pairs[some, 1]])
            more = suggest.mixed(
                int(n) - len(found),
                len(rows),
                pairs,
                labels,
                (labelled, labels[some] == 1),
                measure,
                rng,
                found,
            )
            found = np.concatenate([found, more])
        if len(found) < n:
            raise ValueError(f"n must be at most {len(found)}, the pairs not labelled yet, got {n}")
        return found

    def _unseen_distance(
        self, rows: np.ndarray, pairs: np.ndarray, labels: np.ndarray, n_parts: int
    ) -> np.ndarray:
        """Distance of each labelled pair under a forest that has not seen it labelled."""
        copy: Any = clone(self)
        learner = copy.set_params(
            n_estimators=min(int(self.n_estimators), CROSS_TREES),
            standardize=False,
            warm_start=False,
            random_state=self._entropy,
            verbose=0,
        )
        part = np.random.default_rng(self._entropy).permutation(len(pairs)) % n_parts
        far = np.empty(len(pairs))
        for own in range(n_parts):
            seen, asked = part != own, pairs[part == own]
            with warnings.catch_warnings():  # of contradictions and splits: `fit` has warned
                warnings.simplefilter("ignore")
                learner.fit(
                    rows,
                    pairs=pairs[seen],
                    pair_labels=labels[seen],
                    triplets=self.constraints_.triplets(),
                )
            far[part == own] = learner._pair_distance(rows[asked[:, 0]], rows[asked[:, 1]])
        return far

    def _rows_of_fit(self, what: str) -> np.ndarray:
        """The prepared rows that labelled pairs are numbered by."""
        self._check_ready()
        if not explain.is_grown_on(self.forest_, self._rows):
            raise ValueError(
                f"{what} is about the rows of fit, and this metric was put over others: "
                "call it on the metric that was fitted"
            )
        return self._rows

    def _one_row(self, row: Any, name: str) -> np.ndarray:
        """The prepared row with this id, or of these values."""
        self._check_ready()
        if isinstance(row, Integral) and not isinstance(row, bool):
            index = self._searched.kept()
            if index is not None:
                found = search.row_of(index, int(row))
            else:
                found = self._rows[int(row)] if 0 <= int(row) < len(self._rows) else None
            if found is None:
                raise ValueError(
                    f"{name} = {row} is not an id of the {self._n_indexed()} rows that are searched "
                    "(see ids_); give the row itself"
                )
            return found
        values = row if hasattr(row, "columns") else np.asarray(row)
        if values.ndim == 1:
            values = values[None]
        if values.ndim != 2 or len(values) != 1:
            raise ValueError(f"{name} must be an id or one row, got shape {values.shape}")
        return self._check_rows(values)[0]

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"feature {j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]
