"""From distances of labelled pairs to a threshold and to probabilities.

Pure functions of distances and labels. A cut calls "same" all pairs no farther than it; the cuts
to choose from are the distances seen, so every cut calls at least one pair same.

A calibration is a dictionary of a method's name and plain numbers:
``{"method": "logistic", "slope": s, "intercept": b}`` means ``P(same) = expit(s * distance + b)``;
``{"method": "isotonic", "distance": x, "probability": p}`` interpolates between the knots (x, p).
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit

from ..warn import warn

# strategy: (the rate to maximise, the rate that must reach min_rate)
RATES = {
    "max_tpr": ("true positive rate", "true negative rate"),
    "max_tnr": ("true negative rate", "true positive rate"),
    "max_recall": ("recall", "precision"),
    "max_precision": ("precision", "recall"),
}
STRATEGIES = ("accuracy", "f_beta", *RATES)
METHODS = ("logistic", "isotonic", None)


def check_strategy(strategy: Any, min_rate: Any, beta: Any, method: Any) -> None:
    """Raise an error that names the value and the bound."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if method not in METHODS:
        raise ValueError(f"method must be 'logistic', 'isotonic' or None, got {method!r}")
    if strategy not in RATES:
        if min_rate is not None:
            raise ValueError(f"strategy={strategy!r} takes no min_rate, got {min_rate!r}")
    elif isinstance(min_rate, bool) or not isinstance(min_rate, Real):
        raise TypeError(
            f"strategy={strategy!r} needs min_rate, the least {RATES[strategy][1]}, a number; "
            f"got {min_rate!r}"
        )
    elif not 0.0 <= float(min_rate) <= 1.0:
        raise ValueError(f"min_rate must be in [0, 1], got {min_rate}")
    if isinstance(beta, bool) or not isinstance(beta, Real):
        raise TypeError(f"beta must be a number, got {beta!r}")
    if not 0.0 < float(beta) < np.inf:
        raise ValueError(f"beta must be in (0, inf), got {beta}")


def choose_threshold(
    distance: np.ndarray,
    same: np.ndarray,
    strategy: str = "accuracy",
    min_rate: Any = None,
    beta: float = 1.0,
) -> float:
    """The best cut: halfway from the farthest pair it calls same to the next one.

    Among equally good cuts, the one with the better other rate, then the lowest.
    """
    n_same = int(same.sum())
    if n_same in (0, len(same)):
        raise ValueError(
            "a threshold needs pairs of both kinds, same and different, got "
            f"{n_same} and {len(same) - n_same}"
        )
    order = np.argsort(distance, kind="stable")
    ascending = distance[order]
    last = np.append(ascending[1:] > ascending[:-1], True)  # a cut keeps equal distances together
    called = np.arange(1, len(same) + 1)[last]
    hits = np.cumsum(same[order])[last]
    cuts = ascending[last]

    n_other = len(same) - n_same
    tpr = hits / n_same
    tnr = (n_other - (called - hits)) / n_other
    rates = {
        "true positive rate": tpr,
        "recall": tpr,
        "true negative rate": tnr,
        "precision": hits / called,
    }
    if strategy == "accuracy":
        ranking = (hits - (called - hits),)
    elif strategy == "f_beta":
        ranking = ((1 + beta**2) * hits / (called + beta**2 * n_same),)
    else:
        aim, bound = RATES[strategy]
        reached = rates[bound] >= min_rate
        if not reached.any():
            at = int(np.argmax(rates[bound]))
            raise ValueError(
                f"no threshold has a {bound} of at least {min_rate:g} on these {len(same)} pairs: "
                f"the best is {rates[bound][at]:.4g}, with a {aim} of {rates[aim][at]:.4g}"
            )
        ranking = (np.where(reached, rates[aim], -1.0), rates[bound])
    best = int(np.lexsort((cuts, *(-rate for rate in reversed(ranking))))[0])
    if best + 1 == len(cuts):
        return float(cuts[best])
    middle = cuts[best] + (cuts[best + 1] - cuts[best]) / 2
    return float(middle if middle < cuts[best + 1] else cuts[best])


def calibrate(distance: np.ndarray, same: np.ndarray, method: str) -> dict[str, Any]:
    """How likely a pair is the same, given its distance; never rising with it."""
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression  # only here: it takes a while to import

        curve: Any = IsotonicRegression(increasing=False, y_min=0, y_max=1).fit(distance, same)
        calibration = {
            "method": method,
            "distance": np.asarray(curve.X_thresholds_),
            "probability": np.asarray(curve.y_thresholds_),
        }
    else:
        calibration = {"method": method, **fit_logistic(distance, same)}
    nearest, farthest = probability(calibration, np.array([distance.min(), distance.max()]))
    if nearest == farthest:
        warn(
            "pairs labelled same are not nearer than those labelled different: every pair gets "
            f"the same probability, {nearest:.3g}",
            UserWarning,
        )
    return calibration


def fit_logistic(distance: np.ndarray, same: np.ndarray) -> dict[str, float]:
    """Platt's scaling: labels moved inwards a little, so that the curve stays finite."""
    from sklearn.linear_model import LogisticRegression  # only here: it takes a while to import

    n_same = same.sum()
    target = np.where(same, (n_same + 1) / (n_same + 2), 1 / (len(same) - n_same + 2))
    centre, scale = distance.mean(), distance.std() or 1.0
    column = ((distance - centre) / scale)[:, None]
    model: Any = LogisticRegression(C=1e9, tol=1e-8, max_iter=1000).fit(
        np.concatenate([column, column]),
        np.repeat([True, False], len(same)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    slope = model.coef_[0, 0] / scale
    if slope >= 0:
        share = target.mean()
        return {"slope": 0.0, "intercept": float(np.log(share / (1 - share)))}
    return {"slope": float(slope), "intercept": float(model.intercept_[0] - slope * centre)}


def check_calibration(calibration: Any) -> None:
    """Raise ValueError unless `calibrate` could have made this."""
    if type(calibration) is not dict or calibration.get("method") not in ("logistic", "isotonic"):
        raise ValueError(f"calibration_ is {str(calibration)[:80]}")
    if calibration["method"] == "logistic":
        slope: Any = calibration.get("slope")
        intercept: Any = calibration.get("intercept")
        numbers = type(slope) is float and type(intercept) is float
        if not numbers or not np.isfinite([slope, intercept]).all() or slope > 0.0:
            raise ValueError(f"calibration_ has the slope {slope!r}, the intercept {intercept!r}")
        return
    distance: Any = calibration.get("distance")
    chance: Any = calibration.get("probability")
    arrays = isinstance(distance, np.ndarray) and isinstance(chance, np.ndarray)
    if not arrays or distance.ndim != 1 or not 0 < distance.size == chance.size or chance.ndim != 1:
        raise ValueError("calibration_ is not two lists of one length")
    if distance.dtype.kind != "f" or chance.dtype.kind != "f":
        raise ValueError(f"calibration_ holds {distance.dtype} and {chance.dtype}")
    falling = np.isfinite(distance).all() and (np.diff(distance) >= 0).all()
    if not falling or not (np.diff(chance) <= 0).all() or chance.max() > 1 or chance.min() < 0:
        raise ValueError("calibration_ does not fall from 1 to 0 with the distance")


def probability(calibration: dict[str, Any], distance: np.ndarray) -> np.ndarray:
    """P(same) of pairs so far apart."""
    if calibration["method"] == "isotonic":
        return np.interp(distance, calibration["distance"], calibration["probability"])
    return expit(calibration["slope"] * distance + calibration["intercept"])
