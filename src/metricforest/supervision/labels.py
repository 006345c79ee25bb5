"""Class labels as they are given: numbers or texts, with or without gaps."""

from __future__ import annotations

from numbers import Real

import numpy as np

UNLABELLED = -1
BLANK = ""  # a text that is no label either


def plain_labels(y: object) -> np.ndarray:
    """y as numbers or as texts; a row without a label (see `is_missing`) holds -1 or "-1"."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "OU":
        return labels
    values = np.asarray(y, dtype=object)
    flat = values.ravel().tolist()
    known = [not is_missing(value) for value in flat]
    rest = [value for value, there in zip(flat, known, strict=True) if there]
    if not rest:
        return np.full(values.shape, UNLABELLED)
    if all(isinstance(value, str) for value in rest):
        none: str | int = str(UNLABELLED)
    elif all(isinstance(value, Real | np.bool_) for value in rest):
        none = UNLABELLED
    else:
        kinds = {type(value).__name__: value for value in reversed(rest)}
        said = " and ".join(map(repr, [*kinds.values()][:2]))
        raise ValueError(f"y holds {said}: class labels must be all numbers or all texts")
    filled = [value if there else none for value, there in zip(flat, known, strict=True)]
    return np.array(filled).reshape(values.shape)


def is_missing(value: object) -> bool:
    """Whether it stands for no label: None, NaN, pandas' NA, a blank text, or -1."""
    return is_gap(value) or value in (UNLABELLED, str(UNLABELLED))


def is_gap(value: object) -> bool:
    """Whether it stands for no label whatever -1 means: None, NaN, pandas' NA or a blank text."""
    if isinstance(value, str):
        return value.strip() == BLANK
    return value is None or type(value).__name__ == "NAType" or value != value


def has_gaps(y: object) -> bool:
    """Whether a label is a gap beside others: such a row has no class, whatever -1 means."""
    if np.asarray(y).dtype.kind not in "OU":
        return False
    return any(map(is_gap, np.asarray(y, dtype=object).ravel().tolist()))


def unlabelled_among(labels: np.ndarray) -> int | str:
    """What marks rows without a label in an array of `plain_labels`."""
    return str(UNLABELLED) if labels.dtype.kind == "U" else UNLABELLED
