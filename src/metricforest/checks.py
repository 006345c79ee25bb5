"""What refuses parameters: every message shows the value and the bound."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def check_whole(estimator: BaseEstimator, name: str, low: int) -> None:
    """Raise unless the parameter is an int of at least `low`."""
    check_count(name, getattr(estimator, name), low)


def check_count(name: str, value: Any, low: int) -> int:
    """The value as an int of at least `low`, or an error."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def check_real(
    estimator: BaseEstimator,
    name: str,
    low: float,
    high: float,
    *,
    open_low: bool,
    open_high: bool = False,
) -> None:
    """Raise unless the parameter is a finite number from `low` to `high`, open ends left out."""
    value: Any = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    value = float(value)
    open_high = open_high or high == np.inf
    above = low < value if open_low else low <= value
    if not (above and (value < high if open_high else value <= high)):
        bounds = f"{'(' if open_low else '['}{low}, {high}{')' if open_high else ']'}"
        raise ValueError(f"{name} must be in {bounds}, got {value}")


def check_n_jobs(estimator: BaseEstimator) -> None:
    """Raise unless the parameter, where there is one, is None or an int other than 0."""
    value: Any = getattr(estimator, "n_jobs", None)
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, Integral) or value == 0
    ):
        raise ValueError(f"n_jobs must be None or an int other than 0, got {value!r}")


def check_seed(estimator: BaseEstimator) -> None:
    """Raise unless the parameter random_state, where there is one, can seed what is drawn."""
    value: Any = getattr(estimator, "random_state", None)
    if value is None or isinstance(value, np.random.RandomState):
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"random_state must be None, an int or a RandomState, got {value!r}")
    if not 0 <= int(value) < 1 << 32:
        raise ValueError(f"random_state must be from 0 to {(1 << 32) - 1}, got {value}")


def check_verbose(estimator: BaseEstimator) -> None:
    """Raise unless the parameter verbose, where there is one, is an int of at least 0 or True or False."""
    value: Any = getattr(estimator, "verbose", 0)
    if not isinstance(value, bool | np.bool_):
        check_count("verbose", value, 0)


def check_choice(estimator: BaseEstimator, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless the parameter is one of the words."""
    value = getattr(estimator, name)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_auto(estimator: BaseEstimator, name: str, low: int) -> None:
    """Raise unless the parameter is "auto" or an int of at least `low`."""
    if isinstance(getattr(estimator, name), str):
        check_choice(estimator, name, ("auto",))
    else:
        check_whole(estimator, name, low)


def check_max_features(estimator: Any) -> None:
    """Raise unless the parameter is a count, a share, 'sqrt', 'log2' or None."""
    value = estimator.max_features
    if isinstance(value, str):
        if value not in ("sqrt", "log2"):
            raise ValueError(
                f"max_features must be a number, 'sqrt', 'log2' or None, got {value!r}"
            )
    elif isinstance(value, Integral) and not isinstance(value, bool):
        check_whole(estimator, "max_features", 1)
    elif value is not None:
        check_real(estimator, "max_features", 0.0, 1.0, open_low=True)


def check_flag(estimator: BaseEstimator, name: str) -> None:
    """Raise unless the parameter is True or False: any text, "no" too, would count as True."""
    value = getattr(estimator, name)
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_radius(radius: Any) -> float:
    if isinstance(radius, bool) or not isinstance(radius, Real):
        raise TypeError(f"radius must be a number, got {radius!r}")
    if not float(radius) >= 0.0:
        raise ValueError(f"radius must be at least 0, got {radius}")
    return float(radius)


def check_mode(mode: str) -> None:
    if mode not in ("connectivity", "distance"):
        raise ValueError(f"mode must be 'connectivity' or 'distance', got {mode!r}")
