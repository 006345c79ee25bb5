"""What labelled pairs imply for clusters: groups of rows that are the same, and groups that differ.

Same pairs join rows into groups. A different pair sets the groups of its two rows apart. Pairs may
contradict each other (a same as b, b same as c, a different from c). Then they are accepted one by one,
the most credible first, and a pair that contradicts the accepted ones is broken. Consistent pairs are
all kept, in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SAME = 1


class Facts(NamedTuple):
    """Groups of rows, and which of them are different."""

    group: np.ndarray  # int64 [n_rows]       group of every row, 0 to n_groups - 1
    apart: (
        np.ndarray
    )  # int64 [m, 2]         two groups that are different, the lesser first, each once
    broken: np.ndarray  # bool [n_pairs]      pairs that contradict more credible ones

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1


def facts_of(
    n_rows: int, pairs: np.ndarray, labels: np.ndarray, doubt: np.ndarray | None = None
) -> Facts:
    """Groups and differences that pairs imply; `doubt` orders contradicting pairs, the least first.

    Parameters
    ----------
    n_rows : int
    pairs : int array of shape (m, 2)
    labels : array of shape (m,), +1 same, -1 different
    doubt : array of shape (m,), default=None
        How likely each label is wrong. None: pairs are taken in their order.
    """
    order = np.arange(len(pairs)) if doubt is None else np.argsort(doubt, kind="stable")
    parent = list(range(n_rows))
    others: dict[int, set[int]] = {}  # of a root: the roots it is different from
    broken = np.zeros(len(pairs), bool)
    for place in order.tolist():
        a, b = _root(parent, int(pairs[place, 0])), _root(parent, int(pairs[place, 1]))
        if labels[place] == SAME:
            if a == b:
                continue
            if b in others.get(a, ()):
                broken[place] = True
                continue
            if len(others.get(a, ())) < len(others.get(b, ())):
                a, b = b, a
            parent[b] = a
            for other in others.pop(b, set()):
                others[other].discard(b)
                others[other].add(a)
                others.setdefault(a, set()).add(other)
        elif a == b:
            broken[place] = True
        else:
            others.setdefault(a, set()).add(b)
            others.setdefault(b, set()).add(a)
    roots = np.array([_root(parent, row) for row in range(n_rows)])
    names, group = np.unique(roots, return_inverse=True)
    number = dict(zip(names.tolist(), range(len(names)), strict=True))
    apart = [
        (number[a], number[b]) for a, them in others.items() for b in them if number[a] < number[b]
    ]
    return Facts(group.astype(np.int64), np.array(sorted(apart), np.int64).reshape(-1, 2), broken)


def _root(parent: list[int], row: int) -> int:
    """The row that stands for the group of this one; paths get shorter on the way."""
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = parent[row]
    return row
