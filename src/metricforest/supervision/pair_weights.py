"""How much distances count: weights that labelled pairs teach, for the log-odds that two rows differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

EVEN = 1.0  # how strongly weights are drawn to their mean, in units of one pair's logarithmic loss
SMALL = 0.01  # how strongly they are drawn to 0, so that they stay finite


class Weights(NamedTuple):
    """Log-odds that two rows differ: distances of the members @ each + intercept."""

    each: np.ndarray  # float64 [k], none negative
    intercept: float


def equal_weights(distance: np.ndarray) -> Weights:
    """One over each member's standard deviation over pairs (m, k); 0 for one that is constant."""
    spread = distance.std(axis=0)
    each = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0.0) / len(spread)
    return Weights(each, -float(distance.mean(axis=0) @ each))


def learned_weights(distance: np.ndarray, differ: np.ndarray) -> Weights:
    """Logistic regression of `differ` on standardised distances (m, k), no weight below 0.

    Weights are drawn to each other (EVEN), so that few pairs leave them nearly equal, and a little
    to 0 (SMALL), so that they stay finite where no pair is on the wrong side.
    """
    mean, spread = distance.mean(axis=0), distance.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    Z = (distance - mean) / scale
    sign = np.where(differ, 1.0, -1.0)
    k = Z.shape[1]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = parameters[:k], parameters[k]
        margin = sign * (Z @ w + b)
        wrong = sign * expit(-margin)
        apart = w - w.mean()
        value = np.logaddexp(0.0, -margin).sum() + EVEN * apart @ apart + SMALL * w @ w
        slope = -Z.T @ wrong + 2.0 * EVEN * apart + 2.0 * SMALL * w
        return float(value), np.append(slope, -wrong.sum())

    start = np.append(np.full(k, 1.0 / k), 0.0)
    bounds = [(0.0, None)] * k + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    each = np.where(spread > 0.0, found[:k], 0.0) / scale
    return Weights(each, float(found[k] - mean @ each))
