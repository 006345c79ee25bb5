"""Constraints: must-link, cannot-link and triplets, checked, drawn from labels, put into one table.

Labelled pairs, triplets and classes all end as one `Constraints` table: the split solver reads it as
it is, and every metric that learns from pairs takes its pairs from it. Row numbers are checked here,
once; compiled code trusts them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.utils.multiclass import check_classification_targets

from ..core import CANNOT, MUST, TRIPLET
from ..warn import warn
from .labels import UNLABELLED, plain_labels, unlabelled_among

# Constraints drawn from labels with n_constraints="auto": the counts of the paper's section 6.
AUTO_PER_CLASS = 1_000  # below MEDIUM labelled rows
AUTO_MEDIUM, MEDIUM = 30_000, 5_000  # in all, from MEDIUM labelled rows on
AUTO_LARGE, LARGE = 600_000, 40_000
IMPLIED = 16  # implied pairs of each kind per labelled row, at most


class Constraints(NamedTuple):
    """L constraints, sorted by kind, each once."""

    members: np.ndarray  # int32 [L, 3]  rows of X; the third is -1 for a pair
    kind: np.ndarray  # int8 [L]         MUST, CANNOT or TRIPLET

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(pairs int32 [m, 2], labels +1 or -1 [m]), triplets left out."""
        is_pair = self.kind != TRIPLET
        return self.members[is_pair, :2], np.where(self.kind[is_pair] == MUST, 1, -1)

    def triplets(self) -> np.ndarray:
        return self.members[self.kind == TRIPLET]


def check_rows(rows: object, width: int, n_rows: int, name: str) -> np.ndarray:
    """An int64 array (m, width) of row numbers of X, or a ValueError that names the culprit."""
    array = np.asarray(rows)
    if array.size == 0 and array.ndim <= 2:
        return np.empty((0, width), np.int64)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (m, {width}), got shape {array.shape}")
    if array.dtype == bool or not (
        np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    ):
        raise ValueError(f"{name} must hold integer row numbers of X, got dtype {array.dtype}")
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64)
    odd = np.flatnonzero((whole != array).any(axis=1))
    if len(odd):
        raise ValueError(f"{name}[{odd[0]}] = {array[odd[0]].tolist()} is not integral")
    outside = np.flatnonzero(((whole < 0) | (whole >= n_rows)).any(axis=1))
    if len(outside):
        raise ValueError(
            f"{name}[{outside[0]}] = {whole[outside[0]].tolist()} is out of range: X has {n_rows} "
            f"rows, so row numbers go from 0 to {n_rows - 1}. {name} must be numbered by the rows of "
            "the X it is fitted with (see PairKFold for cross-validation)"
        )
    return whole


def check_pairs(pairs: object, pair_labels: object, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Checked (pairs, labels in {+1, -1})."""
    array = check_rows(pairs, 2, n_rows, "pairs")
    labels = check_pair_labels(pair_labels, len(array))
    same = np.flatnonzero(array[:, 0] == array[:, 1])
    if len(same):
        raise ValueError(
            f"pairs[{same[0]}] = {array[same[0]].tolist()} pairs a row with itself "
            f"({len(same)} such pairs)"
        )
    return array, labels


def check_pair_labels(pair_labels: object, n_pairs: int) -> np.ndarray:
    """Labels in {+1, -1}, one per pair."""
    if pair_labels is None:
        raise ValueError("pairs were given without pair_labels (+1 same, -1 different)")
    labels = np.asarray(pair_labels)
    if labels.shape != (n_pairs,):
        raise ValueError(
            f"pair_labels must have one entry per pair: {n_pairs} pairs, "
            f"pair_labels of shape {labels.shape}"
        )
    if labels.dtype.kind not in "biuf":
        some = f"{labels.tolist()[0]!r}" if len(labels) else f"an array of {labels.dtype}"
        raise ValueError(f"pair_labels must be +1 and -1 (or bool, or 1 and 0), got {some}")
    values = np.unique(labels)
    if not (np.isin(values, (-1, 1)).all() or np.isin(values, (0, 1)).all()):
        wrong = values[~np.isin(values, (-1, 0, 1))]
        what = f"{wrong[0]}" if len(wrong) else "a mix of -1 and 0"
        raise ValueError(f"pair_labels must be +1 and -1 (or bool, or 1 and 0), got {what}")
    return np.where(labels == 1, 1, -1)


def check_triplets(triplets: object, n_rows: int) -> np.ndarray:
    """Checked (m, 3) anchor, nearer, farther."""
    array = check_rows(triplets, 3, n_rows, "triplets")
    a, b, c = array.T
    same = np.flatnonzero((a == b) | (a == c) | (b == c))
    if len(same):
        raise ValueError(
            f"triplets[{same[0]}] = {array[same[0]].tolist()} names a row twice "
            f"({len(same)} such triplets)"
        )
    return array


def check_labels(y: object, n_rows: int) -> np.ndarray:
    """Class labels as codes 0, 1, ... with UNLABELLED (-1) where y is -1, or None or NaN beside names."""
    labels = plain_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warn("y was a column of shape (n, 1); it is read as (n,)")
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must have shape (n,), got {labels.shape}")
    if len(labels) != n_rows:
        raise ValueError(f"y has {len(labels)} labels, X has {n_rows} rows")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y holds NaN or infinity; -1 means unlabelled")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    (missing,) = np.nonzero(classes == unlabelled_among(labels))
    if len(missing):
        if len(classes) == 2 and classes[1 - missing[0]] in (1, "1", "+1"):
            warn(
                "y holds only -1 and 1, and -1 means unlabelled here: there is one class and nothing "
                "to separate. Use 0 and 1 for two classes",
                UserWarning,
            )
        codes = np.where(codes == missing[0], UNLABELLED, codes - (codes > missing[0]))
    return codes


def check_table(table: Constraints, n_rows: int) -> None:
    """Raise ValueError unless a table could have come from `gather`."""
    members, kind = table
    types = (members.dtype, kind.dtype) == (np.int32, np.int8)
    if not types or kind.ndim != 1 or members.shape != (len(kind), 3):
        raise ValueError(
            f"constraints are {members.dtype} {members.shape} and {kind.dtype} {kind.shape}"
        )
    known = (kind == MUST) | (kind == CANNOT) | (kind == TRIPLET)
    inside = members[:, :2].min(initial=0) >= 0 and members.max(initial=0) < n_rows
    third = ((members[:, 2] >= 0) == (kind == TRIPLET)) & (members[:, 2] >= -1)
    if not (known.all() and inside and third.all()):
        raise ValueError(
            f"a constraint has an unknown kind, or names a row that is not below {n_rows}"
        )


def auto_count(codes: np.ndarray) -> int:
    """The paper's number of constraints for so many labelled rows and classes."""
    labelled = codes[codes != UNLABELLED]
    per_class = AUTO_PER_CLASS * len(np.unique(labelled))
    if len(labelled) < MEDIUM:
        return per_class
    return max(per_class, AUTO_MEDIUM if len(labelled) < LARGE else AUTO_LARGE)


def draw_pairs(
    codes: np.ndarray, n_constraints: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs of labelled rows: the same share for every class, a third of it must-links.

    Per class, n/3 pairs inside it and 2n/3 from it to any other class, each unordered pair at most
    once; fewer where a class has no more. Positions in the list of all possible pairs are drawn, so
    it ends whatever is asked.
    """
    rows = np.flatnonzero(codes != UNLABELLED)
    classes = np.unique(codes[rows])
    must, cannot = [np.empty((0, 2), np.int64)], [np.empty((0, 2), np.int64)]
    for position, c in enumerate(classes):
        share = n_constraints // len(classes) + (position < n_constraints % len(classes))
        inside, outside = rows[codes[rows] == c], rows[codes[rows] != c]
        m = len(inside)
        possible = m * (m - 1) // 2
        n_must = min(possible, share // 3 if len(outside) else share)
        at = rng.choice(possible, n_must, replace=False, shuffle=False) if n_must else np.empty(0)
        # The pair at a position of the upper triangle, read row by row.
        i = np.floor((2 * m - 1 - np.sqrt((2 * m - 1) ** 2 - 8.0 * at)) / 2).astype(np.int64)
        i -= at < i * (2 * m - i - 1) // 2
        i += at >= (i + 1) * (2 * m - i - 2) // 2
        j = (at - i * (2 * m - i - 1) // 2 + i + 1).astype(np.int64)
        must.append(np.column_stack([inside[i], inside[j]]))
        n_cannot = min(m * len(outside), share - share // 3)
        if n_cannot:
            at = rng.choice(m * len(outside), n_cannot, replace=False, shuffle=False)
            cannot.append(np.column_stack([inside[at // len(outside)], outside[at % len(outside)]]))
    pairs = np.concatenate(must + cannot)
    labels = np.repeat([1, -1], [sum(map(len, must)), sum(map(len, cannot))])
    return pairs, labels


def class_neighbors(
    rows: np.ndarray, codes: np.ndarray, k: int, same: bool, n_jobs: int | None = None
) -> np.ndarray:
    """The k nearest labelled rows of the same class (itself left out), or of any other class.

    int32 [n, k], nearest first, -1 where there are no more of them and for unlabelled rows.
    """
    near = np.full((len(rows), k), -1, np.int32)
    labelled = codes != UNLABELLED
    for c in np.unique(codes[labelled]):
        inside = np.flatnonzero(codes == c)
        among = inside if same else np.flatnonzero(labelled & (codes != c))
        found = min(k, len(among) - same)
        if found > 0:
            from sklearn.neighbors import NearestNeighbors  # it takes a while to import

            finder = NearestNeighbors(n_neighbors=found, n_jobs=n_jobs).fit(rows[among])
            index = finder.kneighbors(None if same else rows[inside], return_distance=False)
            near[inside, :found] = among[index]
    return near


def draw_triplets(
    rows: np.ndarray, codes: np.ndarray, k: int, n_jobs: int | None = None
) -> np.ndarray:
    """Triplets (m, 3) of labelled rows: anchor, one of its k nearest of its class, one of others.

    Every labelled row with each of its k nearest of its own class and each of its k nearest of all
    other classes: k * k per row, fewer where a class has no more rows.
    """
    nearer = class_neighbors(rows, codes, k, True, n_jobs)
    farther = class_neighbors(rows, codes, k, False, n_jobs)
    triplets = np.empty((len(rows), k, k, 3), np.int64)
    triplets[..., 0] = np.arange(len(rows))[:, None, None]
    triplets[..., 1] = nearer[:, :, None]
    triplets[..., 2] = farther[:, None, :]
    triplets = triplets.reshape(-1, 3)
    return triplets[(triplets >= 0).all(axis=1)]


def gather(
    n_rows: int,
    pairs: np.ndarray | None = None,
    pair_labels: np.ndarray | None = None,
    triplets: np.ndarray | None = None,
) -> Constraints:
    """One table of checked constraints: ends ordered, duplicates merged, contradictions counted.

    Two rows labelled both ways keep both labels, with a warning: noise is a use case.
    """
    pairs = np.empty((0, 2), np.int64) if pairs is None else np.sort(pairs, axis=1)
    labels = np.empty(0, np.int64) if pair_labels is None else pair_labels
    triplets = np.empty((0, 3), np.int64) if triplets is None else triplets
    table = []
    for label, kind in ((1, MUST), (-1, CANNOT)):
        chosen = np.unique(pairs[labels == label], axis=0)
        table.append((np.column_stack([chosen, np.full(len(chosen), -1)]), kind))
    key = [t[:, 0] * n_rows + t[:, 1] for t, _ in table]
    both = len(np.intersect1d(*key, assume_unique=True))
    if both:
        warn(
            f"{both} pairs are labelled both must-link and cannot-link; both labels stay",
            UserWarning,
        )
    table.append((np.unique(triplets, axis=0), TRIPLET))
    return Constraints(
        np.concatenate([t for t, _ in table]).astype(np.int32),
        np.repeat([k for _, k in table], [len(t) for t, _ in table]).astype(np.int8),
    )


def collect(
    n_rows: int,
    y: object = None,
    pairs: object = None,
    pair_labels: object = None,
    triplets: object = None,
    *,
    n_constraints: int | str = "auto",
    seed: int = 0,
) -> Constraints:
    """The table of everything a caller of `fit` said: pairs, triplets, and pairs drawn from y."""
    checked, labels = np.empty((0, 2), np.int64), np.empty(0, np.int64)
    if pairs is not None:
        checked, labels = check_pairs(pairs, pair_labels, n_rows)
    elif pair_labels is not None:
        raise ValueError("pair_labels were given without pairs")
    chosen = None if triplets is None else check_triplets(triplets, n_rows)
    if y is not None:
        codes = check_labels(y, n_rows)
        n = auto_count(codes) if n_constraints == "auto" else int(n_constraints)
        stream = np.random.default_rng(np.random.SeedSequence((seed, 0, 1)))
        drawn, drawn_labels = draw_pairs(codes, n, stream)
        checked = np.concatenate([checked, drawn])
        labels = np.concatenate([labels, drawn_labels])
    return gather(n_rows, checked, labels, chosen)


def groups_of(n_rows: int, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A number for every row, shared by rows that a chain of must-links joins.

    Must-links that are labelled different as well join nothing.
    """
    must = pairs[labels == 1]
    doubted = np.isin(pair_keys(must, n_rows), pair_keys(pairs[labels == -1], n_rows))
    must = must[~doubted]
    links = sp.coo_matrix((np.ones(len(must)), tuple(must.T)), (n_rows, n_rows))
    return connected_components(links, directed=False)[1].astype(np.int64)


def pair_keys(pairs: np.ndarray, n_rows: int) -> np.ndarray:
    """A number for every pair, whichever way round it stands."""
    return np.sort(np.asarray(pairs, np.int64), axis=1) @ np.array([n_rows, 1])


def with_implied(table: Constraints, n_rows: int, seed: int) -> Constraints:
    """The table, and pairs that follow from it: those within a group, those between groups that differ.

    A group are rows that must-links join; two groups differ where any cannot-link says so. Of each
    kind at most IMPLIED per labelled row, all equally likely. Rows labelled to differ though must-links
    join them stay as they were labelled, with a warning.
    """
    pairs, labels = table.pairs()
    if len(pairs) == 0:
        return table
    labelled, ends = np.unique(pairs, return_inverse=True)
    ends = ends.reshape(-1, 2)
    group = groups_of(len(labelled), ends, labels)
    order = np.argsort(group, kind="stable")  # rows group by group
    size = np.bincount(group)
    first = np.cumsum(size) - size
    apart = np.sort(group[ends[labels == -1]], axis=1)
    torn = apart[:, 0] == apart[:, 1]
    if torn.any():
        warn(
            f"{torn.sum()} pairs are labelled different though other labelled pairs imply that they "
            "are the same; both stay, and what is implied may be wrong",
            UserWarning,
        )
    apart = np.unique(apart[~torn], axis=0)
    within = np.repeat(np.arange(len(size))[:, None], 2, axis=1)
    rng = np.random.default_rng(np.random.SeedSequence((seed, 0, 2)))
    known = pair_keys(pairs, n_rows)
    members, kinds = [table.members], [table.kind]
    for blocks, kind in ((within, MUST), (apart, CANNOT)):
        # The pairs of a block are numbered row by row; where it is a group with itself, each comes
        # twice and every row once with itself.
        room = size[blocks[:, 0]] * size[blocks[:, 1]]
        end = np.cumsum(room)
        total = int(room.sum())
        n = IMPLIED * len(labelled)
        n = total if total <= (2 * n if kind == MUST else n) else n
        at = np.sort(rng.choice(total, n, replace=False, shuffle=False)) if n else np.empty(0, int)
        block = np.searchsorted(end, at, side="right")
        a, b = blocks[block].T
        inside = at - (end - room)[block]
        found = np.column_stack([first[a] + inside // size[b], first[b] + inside % size[b]])
        found = np.sort(labelled[order[found]], axis=1).astype(np.int64)
        found = np.unique(found[found[:, 0] != found[:, 1]], axis=0)
        found = found[~np.isin(pair_keys(found, n_rows), known)]
        members.append(np.column_stack([found, np.full(len(found), -1)]).astype(np.int32))
        kinds.append(np.full(len(found), kind, np.int8))
    kind = np.concatenate(kinds)
    by_kind = np.argsort(kind, kind="stable")
    return Constraints(np.concatenate(members)[by_kind], kind[by_kind])
