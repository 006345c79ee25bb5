"""`HierarchyForest`, the scikit-learn face of the Hierarchy Forest Distance (paper section 2)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import core, forest_fit, forest_search, search
from .base import Metric, graph
from .checks import check_mode, check_radius
from .inspection.questions import ForestQuestions
from .search import live_ids
from .storage.forest_state import check_forest_state, index_of, with_choice
from .supervision import constraints as cn
from .transform import SearchBy, SharedProjection, VectorTransformer


class HierarchyForest(VectorTransformer, Metric, ForestQuestions):
    """Distance learned from rows and a few labelled pairs by a forest of cluster hierarchies.

    Every tree splits the rows by max-margin clustering, which honours must-link and cannot-link
    pairs and unlabelled rows, again and again until nodes are small. The distance of two rows is the
    height of the smallest cluster that contains both, averaged over the trees: its share of all rows, or what
    labelled pairs have taught (`heights`). Distances lie in [0, 1].

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees. Distances get smoother with more, training and measuring take longer.
    max_features : int, float, "sqrt", "log2", "mixed", None or "auto", default="auto"
        Features that each split may use: a number, a share of all, or all (None). "mixed": a third of
        them in half of the trees, all in the others. "auto": a third, or with at most ten features
        "mixed"; the other of the two where a few trees of either kind, grown without the pairs of a third
        of the rows, measure these rows clearly better so (tried from 24 trees on, with at most 50
        features).
    min_node_size : int or "auto", default="auto"
        Nodes with so many rows or fewer are not split. "auto": 5, and with more than 1,000 rows a
        fiftieth of those beyond 750. Smaller nodes hardly change distances and cost time and room.
    reg_lambda : float, default=0.01
        Weight of the squared norm in a split's objective.
    C : float, default=1.0
        Weight of the rows without labelled pairs in a split's objective.
    cannot_link_fraction : float, default=0.25
        Share of a node's cannot-links (and triplets) that its split tries to satisfy: the best
        satisfied ones. The others are left to deeper nodes. 1 means all of them at once.
    alpha : float, default=4.0
        How sharply a row's distance from the splitting plane turns into certainty.
    heights : {"auto", "size"}, default="auto"
        What a cluster adds to the distance of two rows that its split separates. "size": its share of
        all rows, as in the paper. "auto": from 30 labelled pairs of each kind on, every tree is grown
        without a third of the pairs, and these teach the heights, if held-out pairs are better ordered so.
    solver : {"newton", "subgradient"}, default="newton"
        A smoothed Newton method, which stops when a duality gap proves the split's convex problem
        solved to `tol`; or the paper's Algorithm 1, a reference: slower, and less exact. "lbfgs" is an
        older name of "newton".
    tol : float, default=0.2
        Relative error that a split's convex problem may have. Below 0.2 distances hardly change.
    n_constraints : "auto" or int, default="auto"
        How many pairs to draw from `y` where no pairs are given. "auto": 1,000 per class, from 5,000
        labelled rows on at least 30,000 in all, from 40,000 on 600,000; a third of them must-links.
    implied_pairs : bool, default=False
        Learn also from pairs that follow from the labelled ones: rows that are the same as one row are
        the same, and differ from what that one differs from (at most 16 of each kind per labelled
        row). Gains most with the pairs of `suggest_pairs`, which are then chosen to imply many
        others. A wrong label spreads: do not use it with noisy labels.
    standardize : bool, default=True
        Bring every feature to zero mean and unit variance first. The splits weigh features by their
        scale: only turn this off for features whose scales are already comparable.
    keep_certainties : bool, default=True
        Have the index keep how certain every split is of every row, so that searching projects
        nothing: 4 bytes per level, tree and row, from the search on that makes it worth while. Without,
        an index takes 8 bytes per tree and row, and a search several times as long. Distances are the
        same to the bit.
    n_components : int or "auto", default=64
        Numbers of the vectors that `transform` gives. "auto": as many as 200 own rows need to find
        .97 of their ten nearest among their hundred nearest vectors, at most 256.
    warm_start : bool, default=False
        Keep the trees of the last `fit` on the same data and only grow the missing ones.
    n_jobs : int, default=None
        Trees grown, and blocks measured, at once. None is 1 unless in a `joblib.parallel_config`;
        -1 uses all cores. The result does not depend on it, to the bit.
    random_state : int, RandomState instance or None, default=None
        Seeds the drawing of pairs and the trees.
    verbose : int, default=0
        1 shows a progress bar in a terminal (on standard error) or a notebook.

    Attributes
    ----------
    forest_ : Forest
        The trees as flat arrays.
    chosen_ : dict
        What left-out pairs chose: "max_features"; "heights", "learned" or "size"; "penalty" of heights
        that were learned, None otherwise.
    oob_auc_ : float
        Pair AUC of what was chosen on left-out pairs that had no part in it, though their rows may be in
        other pairs; nan where there were too few to leave some out.
    oob_auc_se_ : float
        Its standard error.
    oob_gain_ : float
        How far that is ahead of sizes as heights.
    constraints_ : Constraints
        The labelled pairs the trees were grown with: pairs and triplets given, pairs drawn from `y`.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had names.
    mean_, scale_ : ndarray of shape (`n_features_in_`,)
        What is subtracted from rows, and what `standardize` divides them by; ones without it.
    ids_ : ndarray of int64
        Ids of the rows that are searched, ascending: row numbers of `fit`, and what `add` returned.
    n_since_fit_ : int
        Rows added and removed since `fit`. The forest does not learn from them: when they are a
        large share of the index, fit again.

    References
    ----------
    D. M. Johnson, C. Xiong and J. J. Corso, "Semi-Supervised Nonlinear Distance Metric Learning via
    Forests of Max-Margin Cluster Hierarchies", IEEE TKDE 28(4), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from metricforest import HierarchyForest
    >>> X = np.array([[0.0, 0], [0.2, 1], [0.1, 2], [5, 0], [5.1, 1], [5.2, 2], [4.9, 1]])
    >>> pairs, same = [[0, 1], [3, 4], [0, 3], [2, 5]], [1, 1, -1, -1]
    >>> hf = HierarchyForest(20, max_features=None, min_node_size=2, random_state=0)
    >>> hf = hf.fit(X, pairs=pairs, pair_labels=same)
    >>> near, far = hf.pair_distance(X[[1, 1]], X[[2, 6]])
    >>> bool(near < far)
    True
    """

    bounded = True
    _private_state = ("_rows", "_entropy", "_fitted_with")
    _once = forest_fit.PAPER
    chosen_: dict[str, Any]
    oob_auc_: float
    oob_auc_se_: float
    oob_gain_: float

    def __init__(
        self,
        n_estimators: int = 500,
        max_features: int | float | str | None = "auto",
        min_node_size: int | str = "auto",
        reg_lambda: float = 0.01,
        C: float = 1.0,
        cannot_link_fraction: float = 0.25,
        alpha: float = 4.0,
        heights: str = "auto",
        solver: str = "newton",
        tol: float = 0.2,
        n_constraints: int | str = "auto",
        implied_pairs: bool = False,
        standardize: bool = True,
        keep_certainties: bool = True,
        n_components: int | str = 64,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_node_size = min_node_size
        self.reg_lambda = reg_lambda
        self.C = C
        self.cannot_link_fraction = cannot_link_fraction
        self.alpha = alpha
        self.heights = heights
        self.solver = solver
        self.tol = tol
        self.n_constraints = n_constraints
        self.implied_pairs = implied_pairs
        self.standardize = standardize
        self.keep_certainties = keep_certainties
        self.n_components = n_components
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, n_estimators: int = 500, **changes: Any) -> Self:
        """A forest with the parameters of the paper's experiments, but for those given.

        They are ``max_features=1/3, min_node_size=5, reg_lambda=0.01, C=1, cannot_link_fraction=0.25,
        alpha=0.5, tol=0.01, heights="size"``. Its distance is the paper's, to the bit the one of the stored
        results.

        Parameters
        ----------
        n_estimators : int, default=500
        **changes
            Other parameters of `HierarchyForest`.

        Returns
        -------
        metric : HierarchyForest

        Examples
        --------
        >>> from metricforest import HierarchyForest
        >>> HierarchyForest.paper(100, max_features=None).alpha
        0.5
        """
        return cls(n_estimators, **{**forest_fit.PAPER, **changes})

    # ------------------------------------------------------------------------------------ learning

    def _fit(self, X: Any, y: Any, pairs: Any, pair_labels: Any, triplets: Any) -> None:
        self._check_parameters()
        data: Any = validate_data(self, X, dtype=np.float64, ensure_min_samples=1)
        n_rows = len(data)
        rng = check_random_state(self.random_state)
        adding = self.warm_start and hasattr(self, "forest_")
        entropy = self._entropy if adding else int(rng.randint(np.iinfo(np.int32).max))
        table = cn.collect(
            n_rows, y, pairs, pair_labels, triplets, n_constraints=self.n_constraints, seed=entropy
        )
        mean, scale = forest_fit.mean_and_scale(data, bool(self.standardize))
        rows = forest_fit.prepare(data, mean, scale)
        del data
        grown = forest_fit.grow(self, rows, table, entropy, self.forest_ if adding else None)

        # Nothing is set before every tree has been grown: an interrupted fit leaves no trace.
        self.forest_ = grown.forest
        self.constraints_ = table
        self.mean_, self.scale_ = mean, scale
        self.split_statistics_ = grown.statistics
        self._keep(rows)
        self._projection = SharedProjection(rows)
        self.chosen_ = grown.chosen
        self.oob_auc_, self.oob_auc_se_, self.oob_gain_ = (
            (np.nan,) * 3 if grown.choice is None else map(float, grown.choice[1:])
        )
        self._entropy = entropy
        self._fitted_with = grown.fitted_with
        forest_fit.warn_unfinished(self)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        forest_fit.check_parameters(self)

    def what_was_chosen(self) -> str:
        """What left-out pairs chose and how sure that is, in a line.

        Returns
        -------
        line : str

        Examples
        --------
        >>> from metricforest import HierarchyForest
        >>> HierarchyForest(5, random_state=0).fit([[0.0], [1.0], [2.0]]).what_was_chosen()
        'clusters as high as they are large: nothing was left out to learn more from'
        """
        check_is_fitted(self)
        return forest_fit.what_was_chosen(self)

    def __getstate__(self) -> dict[str, Any]:
        whole: Any = super().__getstate__()
        state = dict(whole)
        if "_searched" in state:  # locks stay where they are: a copy has its own
            state["_index"] = state.pop("_searched").kept()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "forest_"):  # arrays of a pickle can be written to
            self.forest_ = core.read_only(core.with_heights(self.forest_))
            index = vars(self).pop("_index")
            self._searched = search.SharedIndex(self.forest_, self._rows, index)
            self._proposer = search.SharedProposer()
            self._projection.attach(self.forest_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "forest_")

    # ----------------------------------------------------------------------------------- measuring

    def _prepare(self, X: np.ndarray) -> np.ndarray:
        return forest_fit.prepare(X, self.mean_, self.scale_)

    def _pair_distance(self, A: np.ndarray, B: np.ndarray, hard: bool = False) -> np.ndarray:
        return core.pair_distance(self.forest_, A, B, float(self.alpha), hard, self._threads())

    def _pairwise_distance(self, A: np.ndarray, B: np.ndarray, hard: bool = False) -> np.ndarray:
        return core.pairwise_distance(self.forest_, A, B, float(self.alpha), hard, self._threads())

    def pair_distance(self, A: ArrayLike, B: ArrayLike, *, hard: bool = False) -> np.ndarray:
        """Distance of each row of `A` to the same row of `B`.

        Parameters
        ----------
        A, B : array-like of shape (n, n_features)
        hard : bool, default=False
            Measure as if every split were certain. That distance is a metric; its vectors are what
            `hard_vectors` gives.

        Returns
        -------
        distance : ndarray of shape (n,)
        """
        return self._pair_distance(*self._check_row_pairs(A, B), hard)

    def pairwise_distances(
        self, A: ArrayLike, B: ArrayLike | None = None, *, hard: bool = False
    ) -> np.ndarray:
        """Distance of every row of `A` to every row of `B` (of `A` where `B` is None).

        The answer has ``len(A) * len(B)`` numbers; nothing else grows with that product.

        Parameters
        ----------
        A : array-like of shape (n, n_features)
        B : array-like of shape (m, n_features), default=None
        hard : bool, default=False
            As in `pair_distance`.

        Returns
        -------
        distance : ndarray of shape (n, m)
        """
        rows_a = self._check_rows(A)
        return self._pairwise_distance(rows_a, rows_a if B is None else self._check_rows(B), hard)

    def hard_vectors(self, X: ArrayLike) -> sp.csr_matrix:
        """Rows as sparse vectors whose *squared* Euclidean distance is the hard distance.

        Exact for ``pair_distance(hard=True)`` only: the soft distance has no such vectors. Use them
        to find candidates in another index, or for linear models; see docs/neighbors.md.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        Z : csr_matrix of shape (n, n_nodes)
            One column per node of the forest, in a row one entry per tree and level.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> X = np.arange(40.0).reshape(20, 2) % 7
        >>> hf = HierarchyForest(10, min_node_size=2, random_state=0).fit(X)
        >>> difference = hf.hard_vectors(X[:1]) - hf.hard_vectors(X[1:2])
        >>> bool(np.isclose(difference.power(2).sum(), hf.pair_distance(X[:1], X[1:2], hard=True)[0]))
        True
        """
        rows = self._check_rows(X)
        return search.sparse_vectors(self.forest_, rows, self._threads())

    # ----------------------------------------------------------------------------------- searching

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int = 5,
        *,
        n_candidates: int | str | None = "auto",
        hard: bool = False,
        search: str | None = None,
        target_recall: float | None = None,
        return_distance: bool = True,
    ) -> Any:
        """The nearest rows to each row of `X`, approximately or exactly.

        Searched are the rows of `fit`, plus what was added, minus what was removed.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None: all rows that are searched, in the order of `ids_`, each without itself.
        n_neighbors : int, default=5
        n_candidates : int, "auto" or None, default="auto"
            Rows that each tree proposes; with ``search="vectors"``, rows that are proposed in all.
            More find more of the true neighbours and take longer. None is exact. "auto" is as many
            as `target_recall` takes, and 10 per tree without one. The draw among equally good rows
            depends on `random_state` and on the values of the query, not on the other queries.
        hard : bool, default=False
            Search under the hard distance, as in `pair_distance`.
        search : {"leaves", "vectors", "auto"}, default=None
            What proposes rows to be measured: the leaves that a query falls into, which is the
            paper's rule, or the vectors that `transform` gives, all of them compared. Distances are
            the same to the bit. "auto" takes what costs less at `target_recall`, and logs which.
            None is "auto" with a `target_recall`, and "leaves" without.
        target_recall : float, default=None
            Share of the true nearest rows to find, above 0 and at most 1. How many candidates that takes is
            found from 200 rows of the index, once, and kept. None: 0.95 with "vectors" and "auto".
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n, n_neighbors)
            Ascending; only with `return_distance`. The exact distances of the rows found.
        ids : ndarray of shape (n, n_neighbors)
            Equal distances come in the order of their ids. A row of `fit` has its row number as id.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> hf = HierarchyForest(10, random_state=0).fit(X)
        >>> distance, ids = hf.kneighbors(X[:2], 3)
        >>> ids.shape, bool((distance[:, 0] == 0).all())
        ((2, 3), True)
        """
        far, ids = self._nearest(
            self._queries(X),
            n_neighbors,
            n_candidates=n_candidates,
            hard=hard,
            search=search,
            target_recall=target_recall,
        )
        return (far, ids) if return_distance else ids

    def _nearest(
        self,
        queries: np.ndarray | None,
        k: int,
        *,
        n_candidates: int | str | None = "auto",
        hard: bool = False,
        search: str | None = None,
        target_recall: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        how = SearchBy(search, n_candidates, target_recall)
        return forest_search.nearest(self, self._index(), queries, k, how, hard)

    def radius_neighbors(
        self,
        X: ArrayLike | None = None,
        radius: float = 0.5,
        *,
        hard: bool = False,
        return_distance: bool = True,
    ) -> Any:
        """All rows no farther than `radius` from each row of `X`, nearest first; exact.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
            Queries. None: all rows that are searched, in the order of `ids_`, each without itself.
        radius : float, default=0.5
        hard : bool, default=False
            Search under the hard distance, as in `pair_distance`.
        return_distance : bool, default=True

        Returns
        -------
        distance : ndarray of shape (n,) of arrays
            Only with `return_distance`.
        ids : ndarray of shape (n,) of arrays
        """
        far, ids = self._within(self._queries(X), check_radius(radius), hard=hard)
        return (far, ids) if return_distance else ids

    def _within(
        self, queries: np.ndarray | None, radius: float, *, hard: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        return forest_search.within(self, queries, radius, hard)

    def kneighbors_graph(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int = 5,
        *,
        mode: str = "connectivity",
        n_candidates: int | str | None = "auto",
        hard: bool = False,
        search: str | None = None,
        target_recall: float | None = None,
    ) -> sp.csr_matrix:
        """The nearest rows as a sparse matrix, one row per query.

        Parameters
        ----------
        X : array-like of shape (n, n_features), default=None
        n_neighbors : int, default=5
        mode : {"connectivity", "distance"}, default="connectivity"
            Ones, or the distances.
        n_candidates, hard, search, target_recall
            As in `kneighbors`.

        Returns
        -------
        graph : csr_matrix of shape (n, `len(ids_)`)
            Column j is the row with id ``ids_[j]``. Entries of a row come nearest first.
        """
        check_mode(mode)
        rows, index = self._queries(X), self._index()
        how = SearchBy(search, n_candidates, target_recall)
        far, ids = forest_search.nearest(self, index, rows, n_neighbors, how, hard)
        columns = live_ids(index)
        return graph(far, np.searchsorted(columns, ids), len(columns), mode)

    def add(self, X: ArrayLike, ids: ArrayLike | None = None) -> np.ndarray:
        """Have more rows searched, without learning from them.

        Distances between the rows there were stay as they are, to the bit.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        ids : array-like of shape (n,) of int, default=None
            Ids of your own, none of them in use. Without, ids continue upward and are never given
            twice.

        Returns
        -------
        ids : ndarray of shape (n,)
        """
        rows = self._check_rows(X)
        chosen = None if ids is None else search.check_ids(ids)
        if chosen is not None and len(chosen) != len(rows):
            raise ValueError(f"ids must be one per row: {len(chosen)} ids, {len(rows)} rows")
        return self._searched.add(
            rows, chosen, float(self.alpha), bool(self.keep_certainties), self._threads()
        )

    def remove(self, ids: ArrayLike) -> None:
        """Have rows searched no more.

        Parameters
        ----------
        ids : array-like of shape (n,) of int
            All of them in the index, each once; otherwise nothing is removed.
        """
        self._check_ready()
        self._searched.remove(
            search.check_ids(ids), float(self.alpha), bool(self.keep_certainties), self._threads()
        )

    @property
    def ids_(self) -> np.ndarray:
        check_is_fitted(self)
        index = self._searched.kept()
        return np.arange(len(self._rows)) if index is None else search.live_ids(index)

    @property
    def n_since_fit_(self) -> int:
        check_is_fitted(self)
        index = self._searched.kept()
        return 0 if index is None else int(index.n_changes[0])

    def _n_indexed(self) -> int:
        index = self._searched.kept()
        return len(self._rows) if index is None else index.n_live

    def _searched_rows(self) -> np.ndarray:
        index = self._searched.kept()
        if index is None:
            return self._rows
        return search.queries_of(self.forest_, index, None).rows

    def _index(self) -> search.Index:
        """The index as it is now: what a call works on from its beginning to its end."""
        index = self._searched.kept()
        return self._searched.now(float(self.alpha), self._threads()) if index is None else index

    def _keep(self, rows: np.ndarray) -> None:
        super()._keep(rows)
        self._searched = search.SharedIndex(self.forest_, rows)
        self._proposer = search.SharedProposer()

    def _over(self, rows: np.ndarray) -> Self:
        other = super()._over(rows)
        index = search.index_over(self.forest_, rows, float(self.alpha), self._threads())
        other._searched = search.SharedIndex(self.forest_, rows, index)
        return other

    def _threads(self) -> int:
        n_jobs: Any = self.n_jobs
        return effective_n_jobs(n_jobs)

    # --------------------------------------------------------------------------------------- files

    def _state(self) -> dict[str, Any]:
        index = self._searched.kept()
        packed = None if index is None else search.index_arrays(index)
        vectors = self._vectors_state()
        more = {} if vectors is None else {"_vectors": vectors}
        return {**super()._state(), "_index": packed, **more}

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        packed, vectors = state.pop("_index", None), state.pop("_vectors", None)
        super()._restore(with_choice(state, self.max_features))
        self.forest_ = core.with_heights(self.forest_)
        check_forest_state(self, packed)
        self.forest_ = core.read_only(self.forest_)
        self._rows = core.read_only_view(self._rows)
        index = index_of(self.forest_, self._rows, packed, self._threads())
        self._searched = search.SharedIndex(self.forest_, self._rows, index)
        self._proposer = search.SharedProposer()
        self._restore_vectors(vectors, self._rows)
