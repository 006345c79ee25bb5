"""A map of a neighbour graph: points in the plane, neighbours near each other and others apart.

Every row starts where its distances to some landmarks put it (landmark MDS), so that pieces of the graph
that no edge joins still lie at their distance. Then neighbours draw each other near and random
rows push each other away, under the likelihood of a graph whose edges have the chance
1 / (1 + A r^2), as in LargeVis and UMAP. One loop in one order: a seed fixes the picture.
"""

from __future__ import annotations

import numpy as np

from ..core import aside, kernel

A = 0.2  # how soon the chance of an edge falls with the distance in the plane
EPOCHS = 200
PUSHES = 5  # random rows that a drawn row is pushed away from
LONGEST = 4.0  # step in the plane, at most
SIZE = 10.0  # extent of the start


def start(to_landmarks: np.ndarray, among_landmarks: np.ndarray) -> np.ndarray:
    """Landmark MDS: points (n, 2) from distances (n, m) to landmarks and (m, m) among them."""
    squares = among_landmarks**2
    mean = squares.mean(axis=0)
    inner = -0.5 * (squares - mean - mean[:, None] + mean.mean())
    value, vector = np.linalg.eigh(inner)
    value, vector = value[:-3:-1], vector[:, :-3:-1]
    shrink = np.where(value > 1e-9 * value[0], 1.0 / np.sqrt(value.clip(min=1e-300)), 0.0)
    vector *= np.where(vector[np.abs(vector).argmax(axis=0), np.arange(vector.shape[1])] < 0, -1, 1)
    points = -0.5 * (to_landmarks**2 - mean) @ (vector * shrink)
    if points.shape[1] < 2:
        points = np.column_stack([points, np.zeros(len(points))])
    points -= points.mean(axis=0)
    return SIZE * points / (np.abs(points).max() or 1.0)


def edge_weights(distance: np.ndarray) -> np.ndarray:
    """Weights (n, k) of the edges to neighbours: the nearest has 1, those farther away less."""
    beyond = distance - distance[:, :1]
    scale = beyond.mean(axis=1, keepdims=True)
    return np.exp(-beyond / np.where(scale > 0.0, scale, 1.0))


def arrange(
    points: np.ndarray, distance: np.ndarray, index: np.ndarray, seed: int, epochs: int = EPOCHS
) -> np.ndarray:
    """The points moved: neighbours (n, k) drawn near, random rows pushed away."""
    rng = np.random.default_rng(seed)
    points = points + rng.normal(
        scale=1e-3, size=points.shape
    )  # equal rows must be able to move apart
    weight = edge_weights(distance)
    for epoch in range(epochs):
        rate = 1.0 - epoch / epochs
        drawn = np.flatnonzero(rng.random(weight.size) < weight.ravel())
        rng.shuffle(drawn)
        others = rng.integers(len(points), size=(len(drawn), PUSHES))
        aside(move, points, drawn, index, others, rate)
    return points


@kernel
def move(points, drawn, index, others, rate):
    """One pass over the edges `drawn` (positions in `index`), each with its random rows."""
    k = index.shape[1]
    for e in range(drawn.size):
        i = drawn[e] // k
        for turn in range(others.shape[1] + 1):
            j = index[i, drawn[e] % k] if turn == 0 else others[e, turn - 1]
            if j == i:
                continue
            x = points[i, 0] - points[j, 0]
            y = points[i, 1] - points[j, 1]
            square = x * x + y * y
            if turn == 0:
                pull = -2.0 * A / (1.0 + A * square)
            else:
                pull = 2.0 / ((0.001 + square) * (1.0 + A * square))
            dx = rate * min(LONGEST, max(-LONGEST, pull * x))
            dy = rate * min(LONGEST, max(-LONGEST, pull * y))
            points[i, 0] += dx
            points[i, 1] += dy
            if turn == 0:
                points[j, 0] -= dx
                points[j, 1] -= dy
