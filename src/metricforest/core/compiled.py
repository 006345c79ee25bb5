"""How the core is compiled: one place for the flags, for what calls what, and for a word to who waits.

Kernels release Python's lock, are cached on disk and divide as NumPy does. Arithmetic is not relaxed
(no fastmath): the compiler may lay a kernel out differently in every caller, and a sum that may be
reordered would then depend on that, so that a first run and a later one from the cache would differ.

Compiling is part of a user's first impression, and most of it is work done twice. Numba optimises a
function on its own and again, with all that it calls, in each function that calls it; and it writes a
second function that takes arguments from Python, which nobody needs of a function that only compiled
code calls. So there are four kinds:

    =========== ==================== ===================================================
    `kernel`    called from Python   and copied into the kernels that call it
    `inner`     small, from kernels  copied into each of them; no form for Python, no file
    `apart`     large, from kernels  compiled once; its callers know its address alone
    `inlined`   from one kernel      its source becomes part of that kernel's
    =========== ==================== ===================================================

The address of an `apart` function has a name, which compiled code in a file refers to: so it must be
known (`Apart.known`) before a kernel that calls it is loaded, see `tree.py`. A count that is handed on
begins as ``np.int64(0)``: else Numba compiles what is called for a literal 0 first. Much of what Numba
writes for LLVM is counting references to arrays, at every name that is given to one: so the large
kernels fill arrays they are handed rather than return new ones.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import njit as numba_njit
from numba.core import cgutils, event, types
from numba.core import config as numba_config
from numba.core.imputils import impl_ret_new_ref
from numba.extending import lower_builtin, type_callable, typeof_impl

njit: Any = numba_njit
config: Any = numba_config
FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
SLOW = 1.0  # seconds of compiling after which a word is due
WORD = "metricforest: compiling, once per machine (some seconds) ..."


def checksum_of_core() -> int:
    """Of the source of this folder; 0 where there is none, as in some bundles."""
    try:
        sources = sorted(Path(__file__).parent.glob("*.py"))
        return zlib.crc32(b"".join(path.read_bytes() for path in sources))
    except OSError:
        return 0


SOURCE = checksum_of_core()


def tied(dispatcher: Any) -> Any:
    """Its compiled form in a file is out of date when any source here changes, not only its own."""
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, SOURCE)
    return dispatcher


def kernel(function: Callable) -> Any:
    return tied(njit(cache=True, **FLAGS)(function))


def inlined(function: Callable) -> Any:
    return njit(cache=True, inline="always", **FLAGS)(function)


class Called:
    """A function that kernels call. From Python, as tests do, it is called by another kernel."""

    def __init__(self, function: Callable) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    @cached_property
    def from_python(self) -> Any:
        names = ", ".join(inspect.signature(self.py_func).parameters)
        space: dict[str, Any] = {"function": self, "__name__": self.py_func.__module__}
        exec(f"def call({names}): return function({names})", space)
        return njit(**FLAGS)(space["call"])

    def __call__(self, *arguments: Any) -> Any:
        return self.from_python(*arguments)


class Inner(Called):
    """A small one, copied into its callers."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self.dispatcher: Any = njit(no_cpython_wrapper=True, **FLAGS)(function)


class Apart(Called):
    """A large one, which its callers know by the name of its address.

    What it returns for arguments of the types in `returned` is known before it is compiled, and of these
    alone the compiled form is kept in a file: so whoever has loaded all of them finds every name that
    a file refers to.
    """

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self.returned: dict[tuple, Any] = {}
        self.ready: dict[
            tuple, Any
        ] = {}  # argument types: what is returned, of those with an address
        self.kept: Any = tied(njit(cache=True, no_cpython_wrapper=True, **FLAGS)(function))
        self.other: Any = njit(no_cpython_wrapper=True, **FLAGS)(function)

        @type_callable(self)
        def type_call(_context):
            def answer(*arguments):
                return self.answer(arguments)

            vars(answer)["__signature__"] = inspect.signature(function)
            return answer

        @lower_builtin(self, types.VarArg(types.Any))
        def lower_call(context, builder, signature, arguments):
            returned, taken = signature.return_type, signature.args
            kind = context.call_conv.get_function_type(returned, taken)
            there = cgutils.get_or_insert_function(builder.module, kind, self.symbol(taken))
            status, value = context.call_conv.call_function(
                builder, there, returned, taken, arguments
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return impl_ret_new_ref(context, builder, returned, value)

    def answer(self, taken: tuple) -> Any:
        """The type it returns."""
        if taken in self.returned and self.symbol(taken) in named:
            return self.returned[taken]
        return self.load(taken)

    def symbol(self, taken: tuple) -> str:
        """The name of its address for these argument types."""
        return f"metricforest.{self.__name__}.{zlib.crc32(repr(taken).encode()):08x}"

    def load(self, taken: tuple) -> Any:
        """Compile it or load it, and name its address."""
        if taken not in self.ready:
            function = self.kept if taken in self.returned else self.other
            function.compile(taken)
            compiled = function.overloads[taken]
            found = compiled.signature.return_type
            if self.returned.get(taken, found) != found:
                raise TypeError(f"{self.__name__} returns {found}, not {self.returned[taken]}")
            address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
            name_address(self.symbol(taken), address)
            self.ready[taken] = found
        return self.ready[taken]


named: set[str] = set()  # symbols with an address


def name_address(symbol: str, address: int) -> None:
    llvm.add_symbol(symbol, address)
    named.add(symbol)


def inner(function: Callable) -> Any:
    return function if config.DISABLE_JIT else Inner(function)


def apart(function: Callable) -> Any:
    return function if config.DISABLE_JIT else Apart(function)


@typeof_impl.register(Inner)
def type_of_inner(function, _context):
    return types.Dispatcher(function.dispatcher)


@contextmanager
def collector_resting() -> Iterator[None]:
    """Python's search for cycles of garbage rests in this block.

    Compiling makes millions of objects that stay for a while: a tenth of its time would go into
    looking through them again and again.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Word(event.Listener):
    """Says once, on a terminal or in a notebook, that kernels are compiled, after SLOW seconds of it."""

    def __init__(self) -> None:
        self.depth = 0  # of kernels that are compiled for another one
        self.spent = self.since = 0.0
        self.timer: threading.Timer | None = None
        self.said = False

    def on_start(self, what: Any) -> None:
        if not self.said and self.is_ours(what):
            self.depth += 1
            if self.depth == 1:
                self.since = time.perf_counter()
                self.timer = threading.Timer(max(0.0, SLOW - self.spent), self.say)
                self.timer.daemon = True
                self.timer.start()

    def on_end(self, what: Any) -> None:
        if self.depth and self.is_ours(what):
            self.depth -= 1
            if self.depth == 0:
                self.spent += time.perf_counter() - self.since
                if self.timer is not None:
                    self.timer.cancel()

    def is_ours(self, what: Any) -> bool:
        function = getattr(what.data.get("dispatcher"), "py_func", None)
        return str(getattr(function, "__module__", "")).startswith("metricforest")

    def say(self) -> None:
        if not self.said and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            print(WORD, file=sys.stderr, flush=True)
        self.said = True


event.register("numba:compile", Word())
