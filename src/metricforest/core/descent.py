"""The way of a row down a tree: its projection P and certainty s at every split (paper 2.1, eq. 1).

    P_l(x)  = w_l . [x^K, 1]                                 <= 0 goes left
    s_l(x)  = sigma(alpha P_l(x)), rounded to float32

s is rounded so that an index can keep it and still measure the same bits. Rows are float32 and
already prepared (standardised); nobody checks them again here. Every descent through a tree
uses these functions: `next_node` is one step, `descend` goes from the root to the leaf.
"""

from __future__ import annotations

import numpy as np

from .compiled import inlined, inner, kernel
from .forest import LEAF


@inner
def project(x, gaps, weights):
    """P(x), summed in float64 in one fixed order: its sign must not depend on who asks."""
    d_k = gaps.size
    s0 = np.float64(weights[d_k])
    s1 = s2 = s3 = 0.0
    last = k = 0
    while k + 4 <= d_k:
        f0 = last + np.int64(gaps[k])
        f1 = f0 + np.int64(gaps[k + 1])
        f2 = f1 + np.int64(gaps[k + 2])
        last = f2 + np.int64(gaps[k + 3])
        s0 += np.float64(weights[k]) * np.float64(x[f0])
        s1 += np.float64(weights[k + 1]) * np.float64(x[f1])
        s2 += np.float64(weights[k + 2]) * np.float64(x[f2])
        s3 += np.float64(weights[k + 3]) * np.float64(x[last])
        k += 4
    while k < d_k:
        last += np.int64(gaps[k])
        s0 += np.float64(weights[k]) * np.float64(x[last])
        k += 1
    return (s0 + s1) + (s2 + s3)


@inner
def logistic(x):
    """sigma(x) = 1 / (1 + exp(-x)), as precise on either side of 0."""
    return 1.0 / (1.0 + np.exp(-x)) if x >= 0.0 else 1.0 - 1.0 / (1.0 + np.exp(x))


@inner
def sigmoid(p, alpha):
    """s_l(x) of a projection p."""
    return np.float32(logistic(alpha * p))


@inlined
def next_node(forest, node, x):
    """(child, P(x)): one step of row x, from the split `node` to the child it belongs to."""
    split = forest.split[node]
    p = project(x, forest.gaps[split], forest.weights[split])
    return (forest.right[node] if p > 0.0 else forest.left[node]), p


@kernel
def descend(forest, t, x, alpha, s):
    """(leaf, n_splits): row x goes down tree t, past n_splits splits, to a leaf.

    s[k] becomes s_l(x) at the k-th split of its path, k = 0 at the root; `s` needs as much room as the
    tree has levels, and what is beyond n_splits is left alone. With None nothing is written (and
    `alpha` is not looked at): that is decided when compiling. The nodes of the path are the parents
    of the leaf.
    """
    left, right, split = forest.left, forest.right, forest.split
    node = forest.root[t]
    k = 0
    while left[node] != LEAF:
        p = project(x, forest.gaps[split[node]], forest.weights[split[node]])
        if s is not None:
            s[k] = sigmoid(p, alpha)
        node = right[node] if p > 0.0 else left[node]
        k += 1
    return node, k


@kernel
def leaves_of(forest, t, rows, leaf):
    """leaf[i] = the leaf of row i in tree t."""
    for i in range(len(rows)):
        leaf[i], _ = descend(forest, t, rows[i], 0.0, None)
