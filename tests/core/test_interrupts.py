"""Ctrl-C while compiled code runs: it ends soon, as KeyboardInterrupt, and leaves the old state.

Real signals in processes of their own. Every call here takes many seconds if nobody interrupts it.
"""

import json
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
SOON = 2.0  # seconds; half a second is promised, beside nothing else

SCRIPT = """
import json, os, signal, sys, threading, time
import numpy as np
from metricforest import HierarchyForest
jobs = int(sys.argv[1])
rng = np.random.default_rng(0)
few = rng.normal(size=(300, 6))
metric = HierarchyForest(3, random_state=0, n_jobs=jobs).fit(few)
metric.kneighbors(few, 2), metric.kneighbors(few, 2, n_candidates=None)
want = metric.pairwise_distances(few), metric.pair_distance(few, few[::-1])
many, other = np.repeat(few, 20_000, axis=0), rng.normal(size=(60_000, 6))
state = dict(vars(metric))
calls = {
    "fit": lambda: metric.set_params(n_estimators=3000).fit(other),
    "exact": lambda: metric.kneighbors(many, 5, n_candidates=None),
    "approximate": lambda: metric.kneighbors(many, 5),
    "pairs": lambda: [metric.pair_distance(many[:10**6], many[-10**6:]) for _ in range(100)],
    "all pairs": lambda: [metric.pairwise_distances(few.repeat(10, axis=0)) for _ in range(500)],
    "add": lambda: [metric.add(many) for _ in range(100)],
}
late = {}
for name, call in calls.items():
    sent = []
    def strike():
        time.sleep(0.5)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=strike, daemon=True).start()
    try:
        call()
        time.sleep(60)
        late[name] = "it ended before"
    except KeyboardInterrupt:
        late[name] = time.perf_counter() - sent[0]
    metric.set_params(n_estimators=3)
    assert vars(metric) == state, name
    assert (metric.pairwise_distances(few) == want[0]).all()
    assert (metric.pair_distance(few, few[::-1]) == want[1]).all()
print(json.dumps(late), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_a_call_soon(jobs):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(jobs)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    late = json.loads(done.stdout)
    assert len(late) == 6
    assert all(isinstance(seconds, float) and seconds < SOON for seconds in late.values()), late


def test_a_script_that_is_interrupted_ends_as_scripts_do():
    """Python ends while a helper still computes: by the signal, not by a crash."""
    code = (
        "import numpy as np\nfrom metricforest import HierarchyForest\n"
        "X = np.random.default_rng(0).normal(size=(40_000, 6))\n"
        "HierarchyForest(2, random_state=0).fit(X[:40])\nprint('go', flush=True)\n"
        "HierarchyForest(3000, random_state=0).fit(X)\n"
    )
    for wait in (0.2, 0.5, 1.0):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT, said
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert "SystemError" not in said
