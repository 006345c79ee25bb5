"""How the core is compiled: one place for the flags.

Kernels release Python's lock, are cached on disk and divide as NumPy does. Arithmetic is not relaxed
(no fastmath): the compiler may lay a kernel out differently in every caller, and a sum that may be
reordered would then depend on that, so that a first run and a later one from the cache would differ.
"""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
