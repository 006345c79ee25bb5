"""Random numbers in compiled code: SplitMix64, whose whole state is one number.

The state is a uint64 array of one entry, made by the caller from a seed. Every number drawn moves it on.
"""

from __future__ import annotations

import numpy as np

from .compiled import inner

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, made odd
_UNIT = 2.0**-63


@inner
def scramble(z):
    """A bijection of 64 bits in which every bit depends on all others."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def next_random(state):
    """The next 64 random bits."""
    state[0] += _STEP
    return scramble(state[0])


@inner
def random_below(state, n):
    """A random integer in [0, n). The bias of the modulus is below n / 2^64."""
    return np.int64(next_random(state) % np.uint64(n))


@inner
def random_place(state, n):
    """A random integer in [0, n) without a division, for n < 2^32. Its bias is below n / 2^32."""
    return np.int64(((next_random(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@inner
def random_sign(state):
    """A random number in [-1, 1)."""
    return np.float64(next_random(state)) * _UNIT - 1.0
