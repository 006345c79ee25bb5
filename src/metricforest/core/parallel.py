"""Running compiled calls on helper threads: ranges of rows, calls over them, and how Ctrl-C ends them.

Every output row has one writer, so the bits do not depend on the number of threads.

Python handles Ctrl-C in the main thread, between two of its own instructions. A compiled call that
runs there holds it up until it returns, and then fails in a strange way. So the main thread never
computes: it waits, and helpers compute. Interrupted, it leaves at once; what has not begun never does,
and a helper ends with the call it is in, whose result is dropped.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
LOOK = 0.1  # seconds after which a waiting thread looks up: on Windows a lock is deaf to Ctrl-C


class Interrupted(Exception):
    """Raised in a helper where nobody waits for its work any more."""


class Work:
    """Calls that helpers take one after the other, until there are none or one has failed."""

    def __init__(self, calls: Iterable[tuple], n_helpers: int) -> None:
        self.calls = deque(enumerate(calls))
        self.stopped = False
        self.errors: dict[int, BaseException] = {}
        self._left = n_helpers
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()

    def do(self) -> None:
        """A helper's share."""
        while not self.stopped:
            try:
                number, (function, *arguments) = self.calls.popleft()
            except IndexError:
                break
            try:
                function(*arguments)
            except BaseException as error:
                self.errors[number] = error
                self.stopped = True
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done.release()

    def wait(self) -> None:
        """Until all is done; the error of the first call that failed is raised."""
        outer = getattr(own, "work", None)
        while not self._done.acquire(timeout=LOOK):
            if outer is not None and outer.stopped:
                raise Interrupted
        if self.errors:
            raise self.errors[min(self.errors)]


class Helper(threading.Thread):
    """A thread that does one work after the other. It does not keep Python from ending."""

    def __init__(self) -> None:
        super().__init__(name="metricforest", daemon=True)
        self.inbox: SimpleQueue[Work] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            work = own.work = self.inbox.get()
            at_work.add(self)
            work.do()
            at_work.discard(self)
            own.work = work = None
            idle.append(self)


own = threading.local()  # .work: what this thread is doing as a helper
idle: deque[Helper] = deque()
at_work: set[Helper] = set()


def forget_helpers() -> None:
    """In a forked process no other thread lives on."""
    idle.clear()
    at_work.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, as Python reports it when it came during a compiled call."""
    return isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt)


def is_at_work() -> bool:
    """Whether a helper is still in a call, as it may be after an interrupt."""
    return bool(at_work)


def row_ranges(n: int, n_threads: int, most: int) -> list[tuple[int, int]]:
    """Ranges (low, high) that cover n rows: at least one per thread, none longer than `most`."""
    size = max(1, min(most, -(-n // n_threads)))
    return [(low, min(low + size, n)) for low in range(0, n, size)]


def in_parallel(n_threads: int, calls: Iterable[tuple]) -> None:
    """Run (function, argument, ...) calls on so many threads; an error ends them and is raised."""
    calls = list(calls)
    n_helpers = min(n_threads, len(calls))
    if n_helpers <= 1 and threading.current_thread() is not threading.main_thread():
        outer = getattr(own, "work", None)
        for function, *arguments in calls:
            if outer is not None and outer.stopped:
                raise Interrupted
            function(*arguments)
        return
    if not calls:
        return
    work = Work(calls, n_helpers)
    try:
        for _ in range(n_helpers):
            try:
                helper = idle.pop()
            except IndexError:
                helper = Helper()
            helper.inbox.put(work)
        work.wait()
    except BaseException:
        work.stopped = True
        work.calls.clear()
        raise


def aside(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function returns. The main thread has a helper call it, and can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments, **named)
    answer: list[Any] = []
    in_parallel(1, [(lambda: answer.append(function(*arguments, **named)),)])
    return answer[0]


def interruptible(function: Callable[P, R]) -> Callable[P, R]:
    """A function that computes for long, called `aside`."""

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        return aside(function, *arguments, **named)

    return called
