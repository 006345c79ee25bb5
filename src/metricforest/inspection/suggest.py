"""Which pairs to label next.

What was measured (benchmarks/questions.py, docs/understanding.md) decided the design: a forest learns most
from many pairs with a fair mix of "same" and "different". Pairs on which trees disagree most are often
outliers, and it learned less from them than from random pairs.

`linked`, for forests that learn from implied pairs too: a label for two groups of rows known to be the
same is a label for all pairs between them. So the questions are, first, whether large groups are the
same; then, to which group new random rows belong. They are compared with the nearest group where "same"
is rare (and the new rows are those, of four each, that lie nearest to a group), and with the nearest or
any group in between. Where "same" is the rule, new rows are compared with the farthest group, of one row
or more, and that is all.

`mixed`, for forests that do not, and where `linked` finds no more: while "same" has a fair share of the
labelled pairs, pairs of random rows are drawn. Otherwise the chance of "same" of each is estimated from
its distance, by a logistic curve over the labelled pairs. Where "same" is rare, the nearest pairs are
left out, those with a quarter of all "same" that are expected. Some of the others are drawn in
proportion to the chance of "same", which draws fairly among all "same", the rest in proportion to its
complement; so many of each as bring all labelled pairs back within bounds.

The curve cannot show how common "same" is: labelled pairs are nearer or farther than others
because the forest has seen them. No row is drawn twice while there are others, and pairs that other
labelled pairs imply come last.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from ..supervision.constraints import groups_of, pair_keys
from .suspect import distance_curve

POOL = 400  # rows whose pairs are looked at; more where more pairs are wanted
LARGEST_POOL = 2_000
LEAST_SAME, MOST_SAME = 0.35, 0.65  # a fair share of "same" among all labelled pairs
NEAR = 0.25  # near pairs that are left out where it is rare: those with this share of all "same"
HEADS, HEARD = (
    50,
    8,
)  # groups that new rows are compared with, and members of each that are measured
LOOKED_AT = 4  # new rows per question where "same" is rare

Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]


def linked(
    n: int,
    n_rows: int,
    pairs: np.ndarray,
    labels: np.ndarray,
    measure: Measure,
    rng: np.random.Generator,
) -> np.ndarray:
    """Up to n pairs of rows whose labels imply many others; none that is labelled or implied already."""
    labelled = np.unique(pairs)
    group = groups_of(n_rows, pairs, labels)
    size = np.bincount(group[labelled], minlength=n_rows)
    by_size = np.lexsort((rng.permutation(n_rows), -size))[: np.count_nonzero(size)]
    members = {g: labelled[group[labelled] == g] for g in by_size[:HEADS]}
    heads = list(members)
    apart = {frozenset(ends) for ends in group[pairs[labels == -1]].tolist()}
    chosen: list[list[int]] = []

    share = np.mean(labels == 1) if len(labels) else 0.0
    rare, usual = share < LEAST_SAME, share > MOST_SAME
    unsettled = [
        (size[a] * size[b], a, b)
        for a, b in combinations(heads[::-1], 2)
        if size[a] * size[b] >= 4 and frozenset((a, b)) not in apart
    ]
    asked: set[int] = set()
    for _, a, b in sorted(unsettled, reverse=True) if not usual else ():
        if len(chosen) < n // 2 and not asked & {a, b}:  # one answer may settle the next question
            asked |= {a, b}
            chosen.append([rng.choice(members[a]), rng.choice(members[b])])

    grown = [g for g in heads if size[g] >= 2]
    heads = grown if len(grown) >= 2 and not usual else heads
    new = rng.permutation(np.setdiff1d(np.arange(n_rows), labelled))
    wanted = min(n - len(chosen), len(new))
    if heads and wanted:
        width = min(LOOKED_AT, len(new) // wanted) if rare else 1
        new = new[: width * wanted]
        heard = [rng.permutation(members[g])[:HEARD] for g in heads]
        far = np.add.reduceat(
            measure(new, np.concatenate(heard)), np.cumsum([0, *map(len, heard)])[:-1], axis=1
        ) / [len(rows) for rows in heard]
        weight = size[heads] / size[heads].sum()
        for low in range(0, len(new), width):
            row = low + int(far[low : low + width].min(axis=1).argmin())
            if usual:
                head = int(far[row].argmax())
            elif rare or rng.uniform() < 0.5:
                head = int(far[row].argmin())
            else:
                head = rng.choice(len(heads), p=weight)
            chosen.append([new[row], rng.choice(members[heads[head]])])
    return np.sort(np.array(chosen, np.int64).reshape(-1, 2), axis=1)


def mixed(
    n: int,
    n_rows: int,
    pairs: np.ndarray,
    labels: np.ndarray,
    labelled: tuple[np.ndarray, np.ndarray],
    measure: Measure,
    rng: np.random.Generator,
    other: np.ndarray,
) -> np.ndarray:
    """n pairs of rows (n, 2), distinct and not among `pairs` or `other`; fewer where there are no more.

    `measure(a, b)` gives the distances of all rows a to all rows b; `labelled` are the distances of
    some labelled pairs, and whether they are the same.
    """
    n_taken = len(pairs) + len(other)
    room = int(2 * np.sqrt(n_taken + n)) + 2  # for n pairs even if all those are among these rows
    size = min(n_rows, LARGEST_POOL, max(POOL, room, 4 * n))
    rows = np.sort(rng.permutation(n_rows)[:size])
    first, second = np.triu_indices(size, 1)
    asked = np.column_stack([rows[first], rows[second]])
    far = measure(rows, rows)[first, second]
    same = chance_of_same(far, *labelled)

    late = 2.0 * settled(asked, n_rows, pairs, labels)
    total, n_must = len(labels) + n, int((labels == 1).sum())
    if LEAST_SAME * len(labels) <= n_must <= MOST_SAME * len(labels):
        same = np.full(len(far), 0.5)
    elif n_must < LEAST_SAME * len(labels):
        order = np.argsort(far, kind="stable")
        late[order] += np.cumsum(same[order]) < NEAR * same.sum()
    bounds = LEAST_SAME * total - n_must, MOST_SAME * total - n_must
    n_same = number_of_draws(same[late % 2 == 0], n, *bounds)
    ticket = -np.log(-np.log(rng.uniform(1e-300, 1.0, len(asked))))  # Gumbel: see `drawn`
    used = np.zeros(n_rows, np.int64)
    taken = is_among(asked, np.concatenate([pairs, other]), n_rows)
    chosen = drawn(asked, np.log(same) + ticket, late, n_same, used, taken)
    chosen += drawn(asked, np.log1p(-same) + ticket, late, n - len(chosen), used, taken)
    return asked[rng.permutation(np.array(chosen, np.int64))]


def chance_of_same(far: np.ndarray, labelled: np.ndarray, same: np.ndarray) -> np.ndarray:
    """The chance that pairs so far apart are the same, from those of labelled pairs."""
    if len(labelled) == 0:  # then the nearer, the likelier
        labelled, same = far, np.ones(len(far), bool)
    return np.clip(distance_curve(labelled, same)(far), 0.01, 0.99)


def number_of_draws(same: np.ndarray, n: int, least: float, most: float) -> int:
    """How many of n draws should be by the chance of "same" for as many "same" as are wanted.

    With n * mean(same) of them, the mixture of both kinds of draws is a uniform one.
    """
    if len(same) == 0:
        return n
    wanted = np.clip(n * same.mean(), least, most)
    if_same, if_not = (np.average(same, weights=weight) for weight in (same, 1.0 - same))
    return int(np.clip(np.round((wanted - n * if_not) / max(if_same - if_not, 1e-9)), 0, n))


def is_among(asked: np.ndarray, pairs: np.ndarray, n_rows: int) -> np.ndarray:
    """Which of the pairs are among others."""
    return np.isin(pair_keys(asked, n_rows), pair_keys(pairs, n_rows))


def settled(asked: np.ndarray, n_rows: int, pairs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which pairs follow from labelled pairs: a chain of "same" joins them, or all but one link of it."""
    group, cannot = groups_of(n_rows, pairs, labels), pairs[labels == -1]
    joined = group[asked[:, 0]] == group[asked[:, 1]]
    return joined | is_among(group[asked], group[cannot], n_rows)


def drawn(
    asked: np.ndarray,
    score: np.ndarray,
    late: np.ndarray,
    n: int,
    used: np.ndarray,
    taken: np.ndarray,
) -> list[int]:
    """Positions of the n best pairs that are not taken; `used` and `taken` are brought up to date.

    With a Gumbel-distributed ticket added to the logarithm of a weight, the best are a draw by
    weight. Pairs that are `late` come after all others. A row comes twice when every pair left
    would bring one twice.
    """
    chosen: list[int] = []
    order = np.lexsort((-score, late))
    times = 1
    while len(chosen) < n:
        left = order[~taken[order]]
        if len(left) == 0:
            break
        for i in left:
            a, b = asked[i]
            if used[a] < times and used[b] < times:
                used[a] += 1
                used[b] += 1
                taken[i] = True
                chosen.append(int(i))
                if len(chosen) == n:
                    break
        times *= 2
    return chosen
