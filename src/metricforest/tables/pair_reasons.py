"""Why two rows are called the same or not, in words of their columns and values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .cells import plain
from .columns import NUMBER
from .comparison import READ, WHOLE, PairComparison, Rows

SHOWN = 60  # characters of a value


class Reason(NamedTuple):
    """What one column says."""

    column: str
    words: str
    weight: float  # log-odds: above 0 it speaks for the same, below for different


class PairReasons(NamedTuple):
    """The answer for one pair and what it is made of, the weightiest column first."""

    probability: float
    same: bool
    reasons: list[Reason]

    def __str__(self) -> str:
        answer = "same" if self.same else "different"
        lines = [f"{answer}, probability {self.probability:.3f}"]
        for reason in self.reasons:
            lines.append(f"  {reason.weight:+5.1f}  {reason.column}: {reason.words}")
        return "\n".join(lines)


def reasons(
    comparison: PairComparison,
    A: Rows,
    a: int,
    B: Rows,
    b: int,
    log_odds: np.ndarray,
    threshold: float,
) -> PairReasons:
    """`log_odds`: of the pair, then with each column (the row as a whole last) left unsaid."""
    found = []
    whole = [" ".join(filter(None, (plain(c[i]) for c in rows.columns)))
             for rows, i in ((A, a), (B, b))]  # fmt: skip
    for c, name in enumerate([*comparison.names, WHOLE]):
        weight = float(log_odds[0] - log_odds[c + 1])
        if name is WHOLE:
            words = f"{shared_words(*whole)}; partners elsewhere in the tables count here too"
        else:
            words = in_words(comparison.read[c], A.columns[c][a], B.columns[c][b])
        found.append(Reason(name, words, weight))
    found.sort(key=lambda reason: -abs(reason.weight))
    probability = float(expit(log_odds[0]))
    return PairReasons(probability, probability >= threshold, found)


def in_words(read: str | None, one: str, two: str) -> str:
    if not one and not two:
        return "missing in both"
    if one == two:
        return f"{short(one)} in both"
    values = f"{short(one) or 'missing'} / {short(two) or 'missing'}"
    if not one or not two:
        return values
    if read is not None:
        apart = abs(READ[read](one) - READ[read](two))
        if np.isfinite(apart):
            return f"{values}, {apart:.6g} {'' if read == NUMBER else 'days '}apart"
    return f"{values}, {shared_words(plain(one), plain(two))}"


def shared_words(one: str, two: str) -> str:
    """For plain texts."""
    a, b = set(one.split()), set(two.split())
    return f"{len(a & b)} of {len(a | b)} words in common"


def short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
