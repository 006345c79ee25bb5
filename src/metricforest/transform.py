"""Rows as dense vectors: `transform` of the forest, learned when it is first needed, kept in files.

The projection is learned once, under a lock, and put in its place all at once; it depends on the
rows of `fit`, `alpha`, `n_components` and the seed, not on what is searched or asked.
"""

from __future__ import annotations

import logging
from functools import partial
from numbers import Integral, Real
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .checks import check_whole
from .core import LEAF, Forest, pairwise_distance, read_only
from .search import Index, proposals, propose, vectors
from .search.vectors import Projection
from .storage.values import check_array
from .warn import warn

logger = logging.getLogger("metricforest")

AUTO = "auto"
MOST, MOST_RANDOM = 256, 192  # directions, and random numbers, that "auto" may choose
SHAPES = (  # (directions, random numbers) that "auto" tries in turn
    *((32, 0), (64, 0), (96, 0), (64, 64), (128, 0), (64, 128), (128, 64)),
    *((192, 0), (64, 192), (128, 128), (256, 0)),
)
ASKED = 200  # own rows that "auto" asks for
AMONG = 50_000  # rows it looks for their neighbours among, at most
TRUE, LOOKED_AT, ENOUGH = 10, 100, 0.97  # so many of their ten nearest among a hundred vectors
RECALL = 0.95  # of a search, where none is given
SEARCHES = ("leaves", "vectors", "auto")
PER_TREE = 10  # rows that each tree proposes: the paper's number
DTYPES = ("float32", "float16", "int8")


class Made(NamedTuple):
    """A projection, ready, and what it was learned for."""

    asked: Any  # n_components
    projection: Projection
    placer: vectors.Placer


class SearchBy(NamedTuple):
    """How `kneighbors` searches."""

    search: Any = None
    n_candidates: Any = AUTO
    target_recall: Any = None


def check_search(how: SearchBy) -> None:
    n, target = how.n_candidates, how.target_recall
    if how.search is not None and how.search not in SEARCHES:
        raise ValueError(f"search must be one of {', '.join(SEARCHES)}, got {how.search!r}")
    if n is not None and n != AUTO:
        if isinstance(n, bool) or not isinstance(n, Integral):
            raise TypeError(f"n_candidates must be an int, 'auto' or None, got {n!r}")
        if n < 1:
            raise ValueError(f"n_candidates must be at least 1, got {n}")
    if target is not None:
        if isinstance(target, bool) or not isinstance(target, Real):
            raise TypeError(f"target_recall must be a number or None, got {target!r}")
        if not 0.0 < float(target) <= 1.0:
            raise ValueError(f"target_recall must be above 0 and at most 1, got {target}")
        if n != AUTO:
            raise ValueError(
                f"target_recall={target} finds the number of candidates, and n_candidates={n} gives "
                "it: give one of the two"
            )
    if how.search == AUTO and n not in (AUTO, None):
        raise ValueError(
            f"search='auto' finds the number of candidates by target_recall: with n_candidates={n}, "
            "choose 'leaves' or 'vectors'"
        )


class SharedProjection:
    """The projection that one fitted forest and all its copies share, learned by the first who needs it."""

    def __init__(self, rows: np.ndarray, made: Made | None = None) -> None:
        self._rows = rows  # of `fit`: landmarks are drawn from them
        self._made = made
        self._lock = Lock()

    def kept(self) -> Made | None:
        return self._made

    def now(self, forest: Forest, asked: Any, alpha: float, seed: int, n_threads: int) -> Made:
        """The projection for these parameters."""
        made = self._made
        if made is not None and fits(made, asked, alpha):
            return made
        with self._lock:
            made = self._made
            if made is None or not fits(made, asked, alpha):
                made = make(forest, self._rows, asked, alpha, seed, n_threads)
                self._made = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": self._rows, "_made": self._made and self._made[:2]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_rows"])
        self._restored = state["_made"]

    def attach(self, forest: Forest) -> None:
        """After a pickle has been read: make what was kept ready again."""
        kept = vars(self).pop("_restored", None)
        if kept is not None:
            projection = read_only(kept[1])
            self._made = Made(kept[0], projection, vectors.placer(forest, projection))


def fits(made: Made, asked: Any, alpha: float) -> bool:
    return made.asked == asked and float(made.projection.alpha[0]) == alpha


def make(
    forest: Forest, rows: np.ndarray, asked: Any, alpha: float, seed: int, n_threads: int
) -> Made:
    """Learn a projection, with a warning if it has fewer numbers than are wanted."""
    if asked == AUTO:
        projection = choose(forest, rows, alpha, seed, n_threads)
        k, r = projection.directions.shape[1], len(projection.correction)
        logger.info("n_components='auto': %d directions and %d random numbers", k, r)
    else:
        projection = vectors.learn(forest, rows, alpha, asked, 0, seed, n_threads)
        if projection.n_numbers < asked:
            warn(
                f"n_components={asked}, but {len(rows)} rows and the splits of "
                f"{forest.n_trees} trees give {projection.n_numbers}: vectors have as many numbers",
                UserWarning,
            )
    return Made(asked, projection, vectors.placer(forest, projection))


def choose(forest: Forest, rows: np.ndarray, alpha: float, seed: int, n_threads: int) -> Projection:
    """The fewest numbers that find enough of own rows' nearest; if none do, those that find most."""
    order = np.random.default_rng((seed, 1)).permutation(len(rows))[:AMONG]
    among, n = rows[order], len(order)
    asked = np.arange(min(ASKED, n))
    k = min(TRUE, n - 1)
    far = pairwise_distance(forest, among[asked], among, alpha, False, n_threads)
    far[asked, asked] = np.inf
    nearest = np.argsort(far, axis=1, kind="stable")[:, :k]
    del far
    learned = vectors.learn(forest, rows, alpha, MOST, MOST_RANDOM, seed, n_threads)
    width = learned.directions.shape[1]
    ready = vectors.placer(forest, learned)
    plain = ready._replace(correction=np.zeros((0, width + MOST_RANDOM), np.float32))
    whole = vectors.place(forest, plain, among, n_threads)
    every = np.zeros(n, bool)  # none is left out
    best, most = learned, -1.0
    for n_directions, n_random in SHAPES:
        projection = vectors.cut(learned, n_directions, n_random)
        scale = np.float32(np.sqrt(MOST_RANDOM / max(1, n_random)))
        z = np.zeros((n, projection.n_numbers), np.float32)
        vectors.mend(whole, width, scale, projection.correction, z)
        points = proposals.points_of(z, float(np.linalg.norm(z, axis=1).max()))
        nearer = proposals.ranks(points, every, proposals.pick(points, asked), asked, nearest)
        found = float((nearer < LOOKED_AT).mean()) if k else 1.0
        if found > most:
            best, most = vectors.sized(projection, z), found
        if found >= ENOUGH:
            break
    return best


class VectorTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """`transform` into dense vectors, for a metric that has a forest."""

    n_components: Any
    alpha: float
    forest_: Forest
    _entropy: int
    _projection: SharedProjection

    def _check_n_components(self) -> None:
        if isinstance(self.n_components, str):
            if self.n_components != AUTO:
                raise ValueError(
                    f"n_components must be an int or 'auto', got {self.n_components!r}"
                )
        else:
            owner: Any = self
            check_whole(owner, "n_components", 1)

    def _made(self) -> Made:
        """The projection, learned now if nobody has needed it before."""
        check_is_fitted(self)
        self._check_n_components()
        asked: Any = self.n_components
        asked = asked if asked == AUTO else int(asked)
        owner: Any = self
        return self._projection.now(
            self.forest_, asked, float(self.alpha), self._entropy, owner._threads()
        )

    def _vectors(self, rows: np.ndarray) -> np.ndarray:
        """Vectors float32 of prepared rows."""
        owner: Any = self
        return vectors.place(self.forest_, self._made().placer, rows, owner._threads())

    @property
    def n_components_(self) -> int:
        """How many numbers a vector has."""
        return self._made().projection.n_numbers

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def int8_scale_(self) -> float:
        """What vectors of ``dtype="int8"`` are multiplied with to be vectors again."""
        return float(self._made().projection.size[0]) / 127.0 or 1.0

    def transform(self, X: ArrayLike, *, dtype: str = "float32") -> np.ndarray:
        """Rows as vectors whose Euclidean distance follows the learned distance.

        For everything that takes vectors and no metric: indices, databases, clustering, maps. They are
        approximate: rows that are near in the metric are near as vectors. Whoever needs the distance
        itself measures what the vectors propose; see docs/vectors.md.

        The vectors are learned from rows of `fit` when they are first needed. They depend on `alpha`,
        `n_components` and `random_state`, not on what was added or removed since.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        dtype : {"float32", "float16", "int8"}, default="float32"
            "float16" takes half the room, "int8" a quarter: whole numbers from -127 to 127, to be
            multiplied with `int8_scale_`.

        Returns
        -------
        Z : ndarray of shape (n, `n_components_`)
            The same row has the same vector, to the bit, in any company.

        Examples
        --------
        >>> import numpy as np
        >>> from metricforest import HierarchyForest
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> hf = HierarchyForest(20, n_components=8, random_state=0).fit(X)
        >>> hf.transform(X[:5]).shape
        (5, 8)
        """
        owner: Any = self
        return self._transform(owner._check_rows(X), dtype)

    def _transform(self, rows: np.ndarray, dtype: str) -> np.ndarray:
        """Vectors of prepared rows."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        z = self._vectors(rows)
        if dtype == "int8":
            return np.rint(z / self.int8_scale_).clip(-127, 127).astype(np.int8)
        return z.astype(dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _n_candidates(self, index: Index, k: int, how: SearchBy) -> tuple[int | None, bool]:
        """How many rows are proposed, None for all, and whether by vectors: else per tree."""
        n, search = how.n_candidates, how.search
        if search is None:
            search = "leaves" if how.target_recall is None else AUTO
        by_vectors = search == "vectors"
        if n is None:
            return None, False
        if n != AUTO:
            return int(n), by_vectors
        if search == "leaves" and how.target_recall is None:
            return PER_TREE, False
        owner: Any = self
        target = RECALL if how.target_recall is None else float(how.target_recall)
        points = self._points(index)
        threads = owner._threads()
        effort = owner._proposer.effort(
            self.forest_, index, points, self._made().projection, target, k, self._entropy, threads
        )
        if search == AUTO:
            by_vectors = effort.vectors_cost <= effort.leaves_cost
            logger.info(
                "search='auto': %s, which cost %.2f of the other at recall %g",
                f"{effort.n_vectors} candidates by vectors"
                if by_vectors
                else f"{effort.n_leaves} per tree by the leaves",
                min(effort[2:]) / max(*effort[2:], 1.0),
                target,
            )
        return (effort.n_vectors if by_vectors else effort.n_leaves), by_vectors

    def _points(self, index: Index) -> Any:
        made, owner = self._made(), self
        shared: Any = owner
        return shared._proposer.points(
            self.forest_, made.projection, made.placer, index, shared._threads()
        )

    def _propose(self, index: Index, count: int) -> Any:
        """What finds the rows whose vectors are nearest to those of queries, by their paths."""
        owner, made, points = self, self._made(), self._points(index)
        longest = float(made.projection.size[1])
        return partial(propose, owner.forest_, made.placer, longest, points, index, count)

    def _vectors_state(self) -> Any:
        """What a file keeps of the vectors."""
        made = self._projection.kept()
        if made is None:
            return None
        return {"n_components": made.asked, **made.projection._asdict()}

    def _restore_vectors(self, packed: Any, rows: np.ndarray) -> None:
        made = None
        if packed is not None:
            if not isinstance(packed, dict):
                raise ValueError(f"the vectors are a {type(packed).__name__}")
            packed = dict(packed)
            asked = packed.pop("n_components", None)
            if asked != AUTO and (type(asked) is not int or asked < 1):
                raise ValueError(f"n_components of the vectors is {asked!r}")
            projection = unpack(self.forest_, packed, asked)
            made = Made(asked, projection, vectors.placer(self.forest_, projection))
        self._projection = SharedProjection(rows, made)


def unpack(forest: Forest, packed: dict[str, Any], asked: Any = None) -> Projection:
    """The projection that a file holds; ValueError unless it is one of this forest.

    Made ready, it is larger than in the file: so no larger than one that was learned can be, for the
    `n_components` that was asked for (None: for as many numbers as it has).
    """

    def demand(holds: object, what: str) -> None:
        if not holds:
            raise ValueError(f"not valid vectors: {what}")

    packed = {"shortened": np.zeros(1), **packed}  # those of earlier files were not
    demand(set(packed) == set(Projection._fields), f"they have {', '.join(map(str, packed))[:200]}")
    nodes = check_array(packed["nodes"], "nodes", np.int32, (None,))
    V = check_array(packed["directions"], "directions", np.float16, (len(nodes), None))
    check_array(packed["correction"], "correction", np.float32, (None, V.shape[1]))
    check_array(packed["alpha"], "alpha", np.float64, (1,))
    check_array(packed["size"], "size", np.float64, (2,))
    check_array(packed["seed"], "seed", np.int64, (1,))
    demand(packed["seed"][0] >= 0, "the seed is negative")
    demand((packed["size"] >= 0.0).all(), "a size is negative")
    check_array(packed["shortened"], "shortened", np.float64, (1,))
    demand(0.0 <= packed["shortened"][0] <= 1.0, "shortened is not in [0, 1]")
    asked = V.shape[1] if asked is None else asked
    most, most_random = (MOST, MOST_RANDOM) if asked == AUTO else (max(1, asked), 0)
    demand(V.shape[1] <= most, f"{V.shape[1]} directions, {most} is the most")
    demand(len(packed["correction"]) <= most_random, "there are too many random numbers")
    demand(len(nodes) <= vectors.most_nodes(most), f"{len(nodes)} nodes are too many")
    demand(np.all(nodes[1:] > nodes[:-1]), "nodes do not ascend")
    demand(not len(nodes) or 0 <= nodes[0] <= nodes[-1] < len(forest.left), "a node is not there")
    demand(np.all(forest.left[nodes] != LEAF), "a node has no split")
    return read_only(Projection(**packed))
