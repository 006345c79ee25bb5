"""Runs: interrupted, repeated, failing, killed."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from metricforest.experiments import classification, protocol, report, runner, same_code, sources
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.protocol import Unit
from metricforest.experiments.stored import KINDS, SCORES, read_lines
from metricforest.storage.outputs import append_line


@pytest.mark.parametrize("quick", [False, True])
def test_units_are_distinct(quick):
    keys = [unit.key for unit in runner.units(EXPERIMENTS, quick)]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[\w./=, -]+", key) for key in keys)


def test_run_resume_rescore_report(tiny, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with open(os.devnull, "w") as quiet:
        assert runner.run(out, ["classification", "noise"], jobs=1, out=quiet) == []
        text = (out / "scores.jsonl").read_text()
        # A kill in the middle of a write: half a line at the end.
        (out / "scores.jsonl").write_text(text[: -len(text.splitlines()[-1]) // 2 - 1])
        ran = []
        perform = runner.perform
        monkeypatch.setattr(
            runner, "perform", lambda unit, *rest: ran.append(unit) or perform(unit, *rest)
        )
        assert runner.run(out, ["classification", "noise"], jobs=1, out=quiet) == []
        assert len(ran) == 1
        assert runner.run(out, EXPERIMENTS, jobs=1, out=quiet) == []
    lines = read_lines(out)
    assert len(lines) == len(runner.units(EXPERIMENTS, False))
    first = {json.loads(line)["unit"]: json.loads(line) for line in text.splitlines()}
    for line in lines:  # the unit that ran twice found the same
        if line["unit"] in first:
            assert line["scores"] == first[line["unit"]]["scores"]
    stored, computed = report.Results(out), report.Results(out, rescore=True)
    assert stored.lines == computed.lines
    assert not stored.missing
    assert report.write(report.Results(out), out) == [out / "report.html", out / "report.md"]
    text = (out / "report.md").read_text()
    assert "| HFD | 45 | 0.306 | " in text
    assert re.search(r"\| Table 3: .* \| (yes|no|in part) \| reached in \d of 3", text)
    assert re.search(
        r"\| 5-NN classification: .* \| (yes|no) \| .* on [01] of 1\. Balance: HFD", text
    )
    page = (out / "report.html").read_text()
    assert page.count("<svg") >= 4
    named = set(re.findall(r"https?://([^/\"' <]*)", page))
    assert named <= {"www.w3.org", "purl.org", "creativecommons.org", "matplotlib.org"}  # of SVG
    assert not re.search(r"""(src|href)=["']https?:|@import|url\(http""", page)
    assert not [p for p in out.rglob(".*")]
    accuracy = [line["scores"]["accuracy"] for line in stored.of("classification", metric="HFD")]
    mean = 100 * np.mean(accuracy)
    assert f"{mean:.1f} ±" in text


def test_quick_and_full_results_stay_apart(tiny, tmp_path):
    with open(os.devnull, "w") as quiet:
        line = {key: "x" if kind is str else kind() for key, kind in KINDS.items()}
        append_line(tmp_path / "scores.jsonl", json.dumps(line))
        with pytest.raises(ValueError, match="holds the results of a full run; give a quick one"):
            runner.run(tmp_path, ["noise"], quick=True, out=quiet)


def test_two_runs_do_not_share_a_folder(tiny, tmp_path):
    child = (
        "import sys; from pathlib import Path; from metricforest.experiments.runner import only_run\n"
        "with only_run(Path(sys.argv[1])): print('here', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", child, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline().strip() == b"here"
        with pytest.raises(ValueError, match=rf"another run \(process {other.pid}\) is adding to"):
            runner.run(tmp_path, ["noise"], out=io.StringIO())
        assert not (tmp_path / SCORES).exists()
        other.kill()
    assert not runner.run(tmp_path, ["noise"], out=io.StringIO())  # the lock went with the process


def test_failures_are_named_and_the_rest_is_done(tiny, tmp_path, monkeypatch):
    answer = classification.answer

    def failing(unit, *rest):
        if unit.metric == "DCA":
            raise ValueError("no such luck")
        return answer(unit, *rest)

    monkeypatch.setattr(classification, "answer", failing)
    with open(os.devnull, "w") as quiet:
        failed = runner.run(tmp_path, ["classification"], jobs=1, out=quiet)
    assert len(failed) == 2
    assert "DCA/seed=0/fold=0: ValueError: no such luck" in failed[0]
    report.write(report.Results(tmp_path), tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| DCA |  |" in text
    assert "have not been run" in text


def die_of_dca(unit, quick, n_jobs):
    if unit.metric == "DCA":
        os._exit(9)
    return unit.key


def test_a_worker_that_dies_takes_no_other_units_along(tiny, monkeypatch):
    units = runner.units(["classification"], False)
    monkeypatch.setattr(runner, "attempt", die_of_dca)
    found = {unit: result for unit, result in runner.in_processes(units, False, 2)}
    assert set(found) == set(units)
    died = {unit for unit, result in found.items() if result != unit.key}
    assert all("a worker process died" in str(found[unit]) for unit in died)
    doomed = {unit for unit in units if unit.metric == "DCA"}
    assert doomed <= died
    assert len(died) <= 2 * len(doomed)  # at most what was in flight beside it


def test_linear_algebra_keeps_to_the_cores_given(monkeypatch):
    from threadpoolctl import threadpool_info

    def threads(unit, quick, n_jobs):
        return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    monkeypatch.setattr(runner, "perform", threads)
    assert runner.attempt(Unit("noise", "sonar", "HFD", 0), False, 1) == 1


def test_results_of_other_code_are_run_again_if_asked(tiny, tmp_path, monkeypatch):
    with open(os.devnull, "w") as quiet:
        assert runner.run(tmp_path, ["classification"], jobs=1, out=quiet) == []
        before = (tmp_path / "scores.jsonl").read_text()
        runner.run(tmp_path, ["classification"], again=True, jobs=1, out=quiet)
        assert (tmp_path / "scores.jsonl").read_text() == before
        for module in (runner, same_code):
            monkeypatch.setattr(module, "code", lambda metric, experiment: "another")
        runner.run(tmp_path, ["classification"], jobs=1, out=quiet)
        assert (tmp_path / "scores.jsonl").read_text() == before
        runner.run(tmp_path, ["classification"], again=True, jobs=1, out=quiet)
    lines = read_lines(tmp_path)
    assert {line["code"] for line in lines} == {"another"}
    assert {line["commit"] for line in lines} == {sources.commit()}
    assert len(lines) == before.count("\n")
    assert (tmp_path / "scores.jsonl").read_text().count("\n") == len(
        lines
    )  # the old ones are gone


def test_data_that_is_not_there_is_asked_for_once(tiny, tmp_path, monkeypatch):
    """One line for a data set that cannot be had, and the others are done."""
    asked = []

    def load(name, labels):
        asked.append(name)
        if name == "sonar":
            raise FileNotFoundError("the data set sonar is not on this machine")
        return protocol.load(name, labels)

    monkeypatch.setattr(runner, "load", load)
    own = classification.SETTINGS["datasets"]._replace(value=("sonar", "balance"))
    monkeypatch.setitem(classification.SETTINGS, "datasets", own)
    with io.StringIO() as said:
        failed = runner.run(tmp_path, ["classification"], jobs=1, out=said)
        text = said.getvalue()
    n = 2 * len(protocol.METRICS)
    assert failed == [f"{n} units with sonar: the data set sonar is not on this machine"]
    assert asked.count("sonar") == 1
    assert text.count("sonar is not on this machine") == 1
    assert {line["dataset"] for line in read_lines(tmp_path)} == {"balance"}
    report.write(report.Results(tmp_path), tmp_path)
    table = (tmp_path / "report.md").read_text()
    assert re.search(r"\| 5-NN classification: .* \| (yes|no) so far \|", table)
    assert re.search(r"\| Semi-supervised clustering .* \|  \| not run", table)


def children(pid):
    """Processes that this one has started."""
    return [int(pid) for pid in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at /proc")
def test_killing_a_run_loses_one_unit(tmp_path):
    """A real process, killed without warning, then run again to the end."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from metricforest.experiments import ablations, runner\n"
        "from metricforest.experiments.protocol import Setting\n"
        "own = {'datasets': ('balance',), 'trees': 3, 'constraints_per_class': 30, 'folds': 2,\n"
        "       'parameters': {'alpha': tuple(range(1, 30))}, 'repeats': 1, 'judged_pairs': 100}\n"
        "ablations.SETTINGS = {k: Setting(own.get(k, s.value), s.why)\n"
        "                      for k, s in ablations.SETTINGS.items()}\n"
        "if __name__ == '__main__':\n"
        "    runner.run(Path(sys.argv[1]), ['ablations'], jobs=2)\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, str(script), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    scores = out / "scores.jsonl"
    deadline = time.monotonic() + 120
    while not (scores.is_file() and scores.read_text().count("\n") >= 3):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = children(process.pid)
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    before = scores.read_text().count("\n")
    assert 3 <= before < 29
    stored = {*(out / "raw").rglob("*.npz")}
    assert len(stored) - before in (0, 1, 2)  # answers written whose line was not: two were in work
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(rf"29 units of work, {before} done before", done.stderr)
    assert len(read_lines(out)) == 29
