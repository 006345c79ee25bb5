"""What growing calls: compiled by two processes, loaded later; and a word to who waits for it."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from metricforest.core import compiled, tree
from metricforest.core.compiled import Apart, apart, collector_resting, inner
from metricforest.supervision.constraints import gather

HOW = tree.Growing(1, False)
HELP = """
from metricforest.core import tree
how = tree.Growing(1, False)
tree.help_compile(how)
# Nothing beyond the list was called for: a later process could not load what calls it.
print(sum(len(part.function.ready) for part in tree.parts(how)))
"""
GROW = """
import hashlib, numpy as np
from metricforest.core import tree, grow
from metricforest.supervision.constraints import gather
rng = np.random.default_rng(0)
X = rng.normal(size=(90, 4)).astype(np.float32)
pairs = rng.permutation(90).reshape(-1, 2)
table = gather(90, pairs, np.where(np.arange(45) % 2, 1, -1), [[0, 1, 2], [3, 4, 5]])
settings = grow.Settings(2, 5, 0.01, 1.0, 0.25, 0.01, 20, 100, 5)
forest, _ = tree.grow_tree(X, table.members, table.kind, 7, settings)
functions = [part.function.kept for part in tree.parts(tree.Growing(1, False))] + [grow.grow_nodes]
print(sum(sum(function.stats.cache_misses.values()) for function in functions))
print(hashlib.sha256(b"".join(part.tobytes() for part in forest)).hexdigest())
"""


def python(code: str, cache) -> list[str]:
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, env=settings, check=True, capture_output=True, text=True
    ).stdout.split()


@pytest.mark.slow
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_a_helper_compiles_all_that_another_process_calls(tmp_path, capsys):
    assert python(HELP, tmp_path) == ["0"]
    missed, checksum = python(GROW, tmp_path)
    assert missed == "0"
    exec(GROW, {})  # here, from another cache
    assert capsys.readouterr().out.split()[1] == checksum


@pytest.mark.parametrize("how", [HOW, tree.Growing(2, False), tree.Growing(4, True)])
def test_the_list_names_every_large_function_once_after_what_it_calls(how):
    listed = [part.function for part in tree.parts(how)]
    assert len({*map(id, listed)}) == len(listed)
    known = {function.__name__: at for at, function in enumerate(listed)}
    for at, function in enumerate(listed):
        called = {known[name] for name in function.py_func.__code__.co_names if name in known}
        assert all(other < at for other in called), function.__name__
    everywhere = [
        value
        for name, module in sys.modules.items()
        if name.startswith("metricforest.core")
        for value in vars(module).values()
        if isinstance(value, Apart)
    ]
    assert {f.__name__ for f in everywhere} == known.keys() | {"subgradient_descent"}


def test_an_answer_of_another_type_than_listed_is_refused():
    @apart
    def half(x):
        return 0.5 * x

    taken = (tree.typeof(1),)
    half.returned[taken] = tree.typeof(1)
    with pytest.raises(TypeError, match="half returns float64, not int64"):
        half.load(taken)


def test_functions_call_each_other_and_an_error_comes_through():
    @inner
    def third(x):
        return x // 3

    @apart
    def sliced(values, k):
        if k < 0:
            raise ValueError("below 0")
        return values[third(k) :].copy()

    @compiled.njit
    def twice(values, k):
        return sliced(values, k).sum() + sliced(values, k).size

    values = np.arange(10.0)
    assert twice(values, 6) == values[2:].sum() + 8
    assert sliced(values, 9).tolist() == values[3:].tolist()
    with pytest.raises(ValueError, match="below 0"):
        twice(values, -1)


def test_without_a_second_core_one_process_compiles(monkeypatch):
    monkeypatch.setattr(tree, "n_cores", lambda: 1)
    monkeypatch.setattr(
        tree.subprocess, "Popen", lambda *_, **__: pytest.fail("a helper was started")
    )
    with tree.helped(HOW):
        pass


def test_a_helper_that_cannot_start_does_no_harm(monkeypatch, tmp_path):
    monkeypatch.setattr(tree, "n_cores", lambda: 2)
    monkeypatch.setattr(tree.sys, "executable", str(tmp_path / "python"))
    with tree.helped(HOW):
        pass


def test_collector_rests_in_the_block_and_no_longer():
    assert gc.isenabled()
    with collector_resting():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyboardInterrupt), collector_resting():
        raise KeyboardInterrupt
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_resting():
            pass
        assert not gc.isenabled()  # as whoever turned it off left it
    finally:
        gc.enable()


WAIT = """
import sys, time
from metricforest.core import compiled
compiled.SLOW = {slow}
@compiled.njit
def plain(x):
    return x + 1
plain(1)
plain(1.0)
space = {{"__name__": "metricforest.example"}}
exec("def ours(x): return x + 2", space)
ours = compiled.njit(space["ours"])
print("-", file=sys.stderr, flush=True)
ours(1)
ours(1.0)
time.sleep(0.2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("slow", "terminal", "said"), [(0, True, 1), (0, False, 0), (60, True, 0)])
def test_a_word_to_who_waits_before_a_terminal(slow, terminal, said):
    import pty

    read, write = pty.openpty() if terminal else os.pipe()
    code = WAIT.format(slow=slow)
    subprocess.run([sys.executable, "-c", code], stderr=write, check=True)
    os.close(write)
    text = os.read(read, 4096).decode()
    os.close(read)
    before, after = text.split("-\r\n" if terminal else "-\n")
    assert "compiling" not in before  # kernels of others are theirs to speak of
    assert after.count("compiling, once per machine") == said


def test_growing_here_calls_nothing_beyond_the_list():
    table = gather(40, np.array([[0, 1], [2, 3]]), np.array([1, -1]))
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    settings = tree.Settings(2, 5, 0.01, 1.0, 0.25, 0.01, 20, 100, 5)
    for subgradient in (None, True):
        before = {id(part.function): set(part.function.ready) for part in tree.parts(HOW)}
        tree.grow_tree(X, table.members, table.kind, 3, settings, subgradient)
        for part in tree.parts(tree.Growing(1, bool(subgradient))):
            new = set(part.function.ready) - before.get(id(part.function), set())
            assert new <= part.function.returned.keys()
