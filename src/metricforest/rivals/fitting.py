"""What the metrics that learn from labels share at the boundary of `fit`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..checks import check_whole
from ..supervision import constraints as cn


class NeedsLabels:
    """Mixin of metrics whose `fit` refuses rows without labels or labelled pairs."""

    def __sklearn_tags__(self) -> Any:
        above: Any = super()
        tags = above.__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def check_n_components(estimator: Any, n_features: int) -> None:
    """None, or from 1 to the number of features."""
    value = estimator.n_components
    if value is not None:
        check_whole(estimator, "n_components", 1)
        if value > n_features:
            raise ValueError(f"n_components={value} is more than the {n_features} features of X")


def refuse(estimator: BaseEstimator, uses: str, **given: object) -> None:
    """A TypeError where the caller gave supervision that the metric cannot use."""
    for name, value in given.items():
        if value is not None:
            kind = type(estimator).__name__
            raise TypeError(f"{kind} cannot learn from {name}: it learns from {uses}")


def labelled_classes(estimator: BaseEstimator, y: object, n_rows: int) -> np.ndarray:
    """Class codes of y, UNLABELLED (-1) for rows without; at least two classes, one with two rows."""
    kind = type(estimator).__name__
    if y is None:
        raise ValueError(f"{kind} requires y to be passed, but the target y is None")
    codes = cn.check_labels(y, n_rows)
    sizes = np.bincount(codes[codes != cn.UNLABELLED])
    if len(sizes) < 2:
        raise ValueError(
            f"{kind} learns by telling classes apart: y has {len(sizes)} class"
            f"{'' if len(sizes) == 1 else 'es'} among {sizes.sum()} labelled rows, 2 are needed"
        )
    if sizes.max() < 2:
        raise ValueError(
            f"{kind} draws rows of one class together, but each of the {len(sizes)} classes of y has "
            "a single row"
        )
    return codes


def say(verbose: int, text: str) -> None:
    """A line of progress on standard error."""
    if verbose:
        print(text, file=sys.stderr, flush=True)
