"""How the core is compiled: one place for the flags.

Kernels release Python's lock, are cached on disk and divide as NumPy does. Arithmetic is not relaxed
(no fastmath): the compiler may lay a kernel out differently in every caller, and a sum that may be
reordered would then depend on that, so that a first run and a later one from the cache would differ.

Every kernel is optimised on its own and again, with all that it calls, in each kernel that calls it:
a tall tower of calls takes long to compile. So the few large kernels with one caller each are
`inlined` into it before types are inferred (for others that takes longer than it saves). And a count
that is handed on begins as ``np.int64(0)``: else Numba compiles what is called for a literal 0 first.
Much of what Numba writes for LLVM is counting references to arrays, at every name that is given to
one: so the large kernels fill arrays they are handed rather than return new ones.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")


@contextmanager
def collector_resting(function: Any) -> Iterator[None]:
    """Python's search for cycles of garbage rests in this block, the first time in a process.

    The first call of `function` compiles it (or loads it), then runs. Compiling makes millions of
    objects that stay for a while: a tenth of its time would go into looking through them again and again.
    """
    if function.signatures or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
