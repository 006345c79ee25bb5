"""How the core is compiled: one place for the flags.

Kernels release Python's lock, are cached on disk and divide as NumPy does. Arithmetic is not relaxed
(no fastmath): the same kernel may be compiled differently where it is inlined, and a sum that may be
reordered would then depend on it. `inlined` kernels with one caller spare the time to compile twice.
"""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
