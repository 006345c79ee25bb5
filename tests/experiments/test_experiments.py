"""The reproduction of the paper: protocols against plain loops, interrupted runs, the report."""

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricforest import experiments
from metricforest.experiments import (
    ablations,
    classification,
    clustering,
    neighbours,
    noise,
    paper,
    protocol,
    report,
    retrieval,
    runner,
    sources,
)
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.protocol import Setting, Unit


@pytest.fixture
def tiny(monkeypatch):
    """Experiments on the balance scale that take seconds."""
    monkeypatch.setattr(protocol, "METRICS", ("Euclidean", "DCA", "ITML", "LMNN", "HFD"))
    monkeypatch.setattr(clustering, "METRICS", ("Euclidean", "ITML", "HFD"))
    few = {"trees": 4, "gblmnn_trees": 3, "itml_gammas": (1.0, 10.0), "constraints_per_class": 30}
    own = {
        classification: {"datasets": ("balance",), "repeats": {}, "folds": 2},
        noise: {"dataset": "balance", "levels": (0, 20), "repeats": 1, "folds": 2},
        clustering: {
            "datasets": ("balance",), "draws": 1, "neighbours": (5, 10), "sigmas": (1.0, 10.0),
            "fixed": 5, "kmeans_starts": 1,
        },
        neighbours: {
            "datasets": (), "repeats": {}, "solvers": ("lbfgs",),
        },
        ablations: {
            "datasets": ("balance",), "parameters": {"alpha": (0.5, 2.0), "hard": (False, True)},
            "repeats": 1, "folds": 2, "judged_pairs": 100,
        },
        retrieval: {"datasets": ()},
    }  # fmt: skip
    for module, changes in own.items():
        settings = {
            name: Setting((few | changes).get(name, s.value), s.why)
            for name, s in module.SETTINGS.items()
        }
        monkeypatch.setattr(module, "SETTINGS", settings)


@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=6))
def test_vote(rows):
    near = np.array(rows)
    for row, voted in zip(rows, protocol.vote(near), strict=True):
        count = Counter(row)
        winners = [label for label in row if count[label] == max(count.values())]
        assert voted == winners[0]


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5))
def test_mean_average_precision(rows):
    total = []
    for cut in (2, 4, 6):
        for row in rows:
            total.append(sum(sum(row[: i + 1]) / (i + 1) for i in range(cut) if row[i]) / cut)
    found = neighbours.mean_average_precision(np.array(rows), (2, 4, 6))
    assert found == pytest.approx(np.mean(total))


@pytest.mark.parametrize("n", [2, 3, 7, 50])
def test_random_pairs_are_all_pairs(n):
    every = n * (n - 1) // 2
    pairs = clustering.random_pairs(n, every, np.random.default_rng(0))
    assert {tuple(sorted(p)) for p in pairs.tolist()} == set(itertools.combinations(range(n), 2))
    large = clustering.random_pairs(11_000, 10_000, np.random.default_rng(0))
    assert (large[:, 0] > large[:, 1]).all()
    assert large.min() >= 0
    assert large.max() < 11_000
    assert len({tuple(p) for p in large.tolist()}) == 10_000


@given(st.integers(1, 60), st.floats(0, 1), st.integers(2, 4), st.integers(0, 9))
def test_corrupted_labels(n, share, n_classes, seed):
    y = np.arange(n + n_classes) % n_classes
    noisy = noise.corrupt(y, share, np.random.default_rng(seed))
    assert (noisy != y).sum() == round(share * len(y))
    assert set(noisy) <= set(range(n_classes))
    less = noise.corrupt(y, share / 2, np.random.default_rng(seed))
    assert set(np.flatnonzero(less != y)) <= set(np.flatnonzero(noisy != y))


def test_all_metrics_see_the_same_pairs():
    first, second = (Unit("noise", "sonar", metric, 3) for metric in ("HFD", "RFD"))
    assert first.rng(1).integers(1 << 60) == second.rng(1).integers(1 << 60)
    other = Unit("noise", "sonar", "HFD", 4)
    assert first.rng(1).integers(1 << 60) != other.rng(1).integers(1 << 60)
    assert first.rng(1).integers(1 << 60) != first.rng(2).integers(1 << 60)


@pytest.mark.parametrize("quick", [False, True])
def test_units_are_distinct(quick):
    keys = [unit.key for unit in runner.units(EXPERIMENTS, quick)]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[\w./=, -]+", key) for key in keys)


def test_the_papers_protocol():
    """What the paper states, read off the units and settings."""
    full = runner.units(EXPERIMENTS, False)
    drawn = Counter(
        (u.dataset, u["constraints"])
        for u in full
        if u.metric == "HFD" and u.experiment == "clustering" and u["sampling"] == "per class"
    )
    assert all(count == 10 for count in drawn.values())
    assert len(drawn) == 12
    voted = {(u.dataset, u.metric) for u in full if u.experiment == "classification"}
    assert len(voted) == 48
    assert {u["noise"] for u in full if u.experiment == "noise"} == {0, 5, 10, 15, 20, 25, 30}
    for name, module in EXPERIMENTS.items():
        settings = runner.settings_of(name, False)
        if name not in ("neighbours", "ablations"):
            assert settings["trees"] == 500
        assert all(setting.why for setting in module.SETTINGS.values())
    forest = protocol.make("HFD", "balance", runner.settings_of("classification", False), 0, 1)
    assert forest.get_params()["max_features"] is None
    counts = runner.settings_of("classification", False)
    assert protocol.n_constraints("sonar", 2, counts) == 2_000
    assert protocol.n_constraints("usps", 10, counts) == 30_000


def test_a_setting_of_another_metric_changes_nothing():
    settings = runner.settings_of("classification", False)
    changed = settings | {"itml_gammas": (7.0,), "repeats": {}}
    for metric in protocol.METRICS:
        unit = Unit("classification", "sonar", metric, 0, (("fold", 0),))
        same = runner.digest(unit, settings) == runner.digest(unit, changed)
        assert same == (metric != "ITML")


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
    lines = runner.read_lines(out)
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
        line = dict.fromkeys(runner.NEEDED, "x") | {"quick": False}
        runner.append_line(tmp_path / "scores.jsonl", json.dumps(line))
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
        assert not (tmp_path / runner.SCORES).exists()
        other.kill()
    assert not runner.run(tmp_path, ["noise"], out=io.StringIO())  # the lock went with the process


def test_losses_are_paired_by_seed(tmp_path):
    """Units finish in any order; the loss of a repetition is that of its own seed."""
    lines = [
        noise_line("HFD", level, seed, 0.5 + seed / 10 - (0.1 if level else 0.0))
        for level, seeds in ((0, (0, 1, 2, 3)), (20, (3, 0, 2)))
        for seed in seeds
    ]
    losses = report.noise.losses_of(stored(lines, noise={"levels": (0, 20)}), "corrupted")
    np.testing.assert_allclose(losses["HFD"], [10, 10, 10])


def stored(lines, **settings):
    """Results as if these lines were all there is."""
    results = report.Results.__new__(report.Results)
    results.settings, results.lines, results.missing = settings, lines, []
    return results


def noise_line(metric, level, seed, corrupted, clean=0.8):
    scores = {"corrupted": [corrupted], "clean": [clean]}
    return {"experiment": "noise", "metric": metric, "noise": level, "seed": seed, "scores": scores}


def test_claim_about_noise():
    """Who loses less than HFD is named; who loses as much, to the last bit or not, is not."""
    lines = [
        noise_line(metric, level, seed, value)
        for metric, values in {
            "HFD": (0.9, 0.8),
            "LMNN": (0.8, 0.7),  # as much, but for rounding
            "RFD": (0.8, 0.75),
            "DCA": (0.9, 0.7),
        }.items()
        for level, value in zip((0, 20), values, strict=True)
        for seed in (0, 1)
    ]
    settings = {"levels": (0, 10, 20), "votes": ("corrupted", "clean")}
    (claim,) = report.noise.claims(stored(lines, noise=settings))
    assert claim.reached is None  # best at 20 %, but RFD loses less
    assert "it loses 10.0 ± 0.0 points, less: RFD 5.0 ± 0.0; at 20 % it has 80.0" in claim.found
    assert "the best other 75.0 (RFD). Where" in claim.found
    assert claim.found.endswith("it loses 0.0 ± 0.0 points, no metric less")
    rest = [line for line in lines if line["metric"] != "RFD"]
    (claim,) = report.noise.claims(stored(rest, noise=settings))
    assert claim.reached is True
    assert report.noise.claims(stored(rest[:4], noise=settings)) == []
    for line in rest:  # loses as much as LMNN, to the last bit or not, and is behind it
        if line["metric"] == "HFD":
            line["scores"]["corrupted"] = [0.3 if line["noise"] == 20 else 0.1 + 0.2 + 0.1]
    (claim,) = report.noise.claims(stored(rest, noise=settings))
    assert claim.reached is None
    assert "no metric less; at 20 % it has 30.0, the best other 70.0" in claim.found


def test_shares_of_a_loss_by_hand():
    """At each level the variant that votes best: the second without noise, the first with it."""

    def line(level, seed, corrupted, clean):
        scores = {"corrupted": corrupted, "clean": clean}
        return {
            "experiment": "noise",
            "metric": "ITML",
            "noise": level,
            "seed": seed,
            "scores": scores,
        }

    lines = [
        line(0, 0, [0.7, 0.9], [0.7, 0.9]),
        line(0, 1, [0.6, 0.8], [0.6, 0.8]),
        line(20, 1, [0.70, 0.5], [0.75, 0.6]),
        line(20, 0, [0.65, 0.5], [0.80, 0.6]),
        line(20, 2, [0.00, 0.0], [0.00, 0.0]),  # no pair without noise
    ]
    results = stored(lines, noise={"levels": (0, 20), "itml_gammas": (1.0, 10.0)})
    shares = report.noise.shares_of(results, "ITML")
    np.testing.assert_allclose(shares.metric, [10, 5])
    np.testing.assert_allclose(shares.voters, [15, 5])
    fixed = report.noise.shares_of(results, "ITML", 1)
    np.testing.assert_allclose(fixed.metric, [30, 20])
    assert report.noise.shares_of(results, "HFD") is None
    table, gammas = report.noise.why_lost(results)
    assert table.rows == [["ITML", "17.5 ± 7.5", "7.5 ± 2.5", "10.0 ± 5.0"]]
    assert "it loses -2.5 ± 7.5 with gamma 1, 35.0 ± 5.0 with gamma 10." in gammas


def test_what_was_tried_is_told_where_the_paper_is_not_reached(tmp_path):
    lines = [
        {"dataset": "usps", "constraints": 10_000, "change": change, "gains": gains, "when": "2026-11-18"}
        for change, gains in (("C 2", [0.5, 0.7]), ("C 2", [0.01, 0.03]), ("alpha 2", [-0.1, -0.3]))
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / report.clustering.TRIED).write_text(text + '{"dataset": "us')  # a torn line
    results = stored([])
    results.folder = tmp_path
    column = report.clustering.Column("usps", 10_000, -0.1, 0.0)
    (said,) = report.clustering.gains_tried(results, [column])
    assert "USPS with 10,000 gains 0.020 ± 0.010 from C 2 (2 draws, 2026-11-18); USPS with" in said
    assert "gains -0.200 ± 0.100 from alpha 2" in said
    assert report.clustering.gains_tried(results, [column._replace(count=3_000)]) == []
    results.folder = tmp_path / "nothing"
    assert report.clustering.gains_tried(results, [column]) == []


def test_claim_about_retrieval():
    """Ahead in one reading of the paper and behind in the other is reached in part."""

    def line(metric, scaling, precision):
        scores = {"precision": [precision, precision], "error": [0.0, 0.0]}
        return {
            "experiment": "retrieval", "dataset": "cifar10", "metric": metric,
            "scaling": scaling, "scores": scores,
        }  # fmt: skip

    settings = {"datasets": ("cifar10",), "scaling": ("as they are", "unit")}
    lines = [line("HFD", "as they are", 0.3), line("DCA", "as they are", 0.2)]
    (claim,) = report.retrieval.claims(stored(lines, retrieval=settings))
    assert claim.reached is True
    lines += [line("HFD", "unit", 0.1), line("DCA", "unit", 0.2)]
    (claim,) = report.retrieval.claims(stored(lines, retrieval=settings))
    assert claim.reached is None
    assert "components unit, at 50: 10.0 %, best other 20.0 (DCA)" in claim.found


def test_claim_about_classification():
    """Ahead or behind, with the error of the paired difference."""

    def lines(metric, accuracies):
        return [
            {
                "experiment": "classification", "dataset": "sonar", "metric": metric, "seed": 0,
                "fold": fold, "scores": {"accuracy": [accuracy]},
            }
            for fold, accuracy in enumerate(accuracies)
        ]  # fmt: skip

    settings = {"datasets": ("sonar",)}

    def claim(ours, theirs):
        found = stored(lines("HFD", ours) + lines("RFD", theirs), classification=settings)
        return report.classification.claims(found)[0]

    assert claim((0.9, 0.8), (0.8, 0.8)).found.endswith(
        "on 1 of 1. Sonar: HFD is 5.0 ± 5.0 points ahead of RFD."
    )
    near, far = claim((0.8, 0.8), (0.9, 0.8)), claim((0.8, 0.8), (0.9, 0.9))
    assert near.found.endswith("on 1 of 1. Sonar: HFD is 5.0 ± 5.0 points behind RFD.")
    assert far.found.endswith("on 0 of 1. Sonar: HFD is 10.0 ± 0.0 points behind RFD.")
    assert (near.reached, far.reached) == (True, False)


def test_noise_scores_by_hand():
    """Two queries of class 0 and 1, three neighbours each, one variant."""
    raw = {
        "clean": np.array([[[0, 0, 1], [1, 0, 0]]]),
        "corrupted": np.array([[[1, 0, 1], [1, 0, 1]]]),
        "truth": np.array([0, 1]),
    }
    settings = runner.settings_of("noise", False)
    scores = noise.score(Unit("noise", "sonar", "HFD", 0), raw, settings)
    assert scores == {
        "corrupted": [0.5], "clean": [0.5], "wrong": [2 / 6], "alike": [3 / 6],
    }  # fmt: skip


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
        monkeypatch.setattr(runner, "code", lambda metric, experiment: "another")
        runner.run(tmp_path, ["classification"], jobs=1, out=quiet)
        assert (tmp_path / "scores.jsonl").read_text() == before
        runner.run(tmp_path, ["classification"], again=True, jobs=1, out=quiet)
    lines = runner.read_lines(tmp_path)
    assert {line["code"] for line in lines} == {"another"}
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
    assert {line["dataset"] for line in runner.read_lines(tmp_path)} == {"balance"}
    report.write(report.Results(tmp_path), tmp_path)
    table = (tmp_path / "report.md").read_text()
    assert re.search(r"\| 5-NN classification: .* \| (yes|no) so far \|", table)
    assert re.search(r"\| Semi-supervised clustering .* \|  \| not run", table)


def test_damaged_results_are_named(tiny, tmp_path):
    with open(os.devnull, "w") as quiet:
        runner.run(tmp_path, ["classification"], jobs=1, out=quiet)
    scores = tmp_path / "scores.jsonl"
    n_lines = len(runner.read_lines(tmp_path))
    scores.write_bytes(scores.read_bytes() + b'\x96\x00\n{"unit": 3}\n[]\n')
    assert len(runner.read_lines(tmp_path)) == n_lines
    (raw, *_) = sorted((tmp_path / "raw").rglob("*.npz"))
    for damage in (b"no archive", raw.read_bytes()[:50], b""):
        raw.write_bytes(damage)
        with pytest.raises(ValueError, match=f"{re.escape(str(raw))} does not hold raw answers"):
            report.Results(tmp_path, rescore=True)
    (tmp_path / "machine.json").write_text("{")
    with pytest.raises(ValueError, match=r"machine.json cannot be read"):
        report.Results(tmp_path)
    (tmp_path / "machine.json").unlink()
    assert len(report.Results(tmp_path).lines) == n_lines


def test_code_names_what_a_result_depends_on(tmp_path, monkeypatch):
    """Which names change when a file of a small package does."""
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    results = [(m, e) for m in ("HFD", "LMNN", "GB-LMNN", "DCA") for e in ("noise", "retrieval")]
    for file, text in {
        "a.py": "def f():\n    return 1\n",
        "experiments/protocol.py": "",
        "experiments/classification.py": "",
        "experiments/noise.py": "from . import classification, protocol\n",
        "experiments/retrieval.py": "from .protocol import load\n",
        "rivals/lmnn.py": "",
        "rivals/gblmnn.py": "from .lmnn import solve\n",
        "rivals/dca.py": "",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    names = {of: sources.code.__wrapped__(*of) for of in results}

    def renamed(file, text):
        (tmp_path / file).write_text(text)
        before = dict(names)
        names.update({of: sources.code.__wrapped__(*of) for of in results})
        return {of for of in results if names[of] != before[of]}

    def of(metrics=("HFD", "LMNN", "GB-LMNN", "DCA"), experiments=("noise", "retrieval")):
        return {(m, e) for m in metrics for e in experiments}

    said = '"""What it is."""\ndef f():  # why\n    """More."""\n    return (1)\n'
    assert not renamed("a.py", said)
    strict = (
        "from .warn import warn\n"
        "def check_it(x):\n    return x\n"
        "def f():\n"
        "    if 1 > 2:\n        raise ValueError('no')\n"
        "    check_it(3)\n"
        "    if 3 > 2:\n        warn('hm')\n"
        "    return 1\n"
    )
    assert not renamed("a.py", strict)
    assert renamed("a.py", strict.replace("raise ValueError('no')", "return 3")) == of()
    assert (
        renamed("a.py", strict.replace("raise ValueError('no')", "raise KeyError")) == of()
    )  # back
    assert not renamed("plots.py", "x = 1\n")
    assert not renamed("experiments/runner.py", "x = 1\n")
    assert renamed("a.py", "def f():\n    return 2\n") == of()
    assert renamed("grow.py", "x = 1\n") == of(["HFD"])
    assert renamed("rivals/lmnn.py", "x = 1\n") == of(["LMNN", "GB-LMNN"])
    assert renamed("rivals/dca.py", "x = 1\n") == of(["DCA"])
    assert renamed("experiments/classification.py", "x = 1\n") == of(experiments=["noise"])
    assert renamed("experiments/protocol.py", "def vote(): pass\n") == of()
    listing = "SETTINGS = {'trees': Setting(1, 'why')}\ndef units(settings): return []\n"
    assert not renamed("experiments/retrieval.py", "from .protocol import load\n" + listing)


def test_code_covers_the_modules_that_are_there():
    """Names in `sources` of files that were renamed or moved would leave results unnamed."""
    files = {sources.flat_name(path) for path in sources.library()}
    assert files >= sources.FOREST | sources.NO_MATTER
    for metric, experiment in (("LMNN", "noise"), ("GB-LMNN", "retrieval"), ("HFD", "clustering")):
        assert re.fullmatch("[0-9a-f]{8}", sources.code(metric, experiment))
    beside = sources.with_siblings(sources.PACKAGE / "rivals" / "gblmnn.py")
    assert {"lmnn.py", "impostors.py", "mapped.py"} <= {path.name for path in beside}


def test_an_experiment_that_was_not_begun_is_named_only(tiny, tmp_path):
    assert not runner.run(tmp_path, ["noise"], out=io.StringIO())
    said = {section.title: section.parts for section in report.sections(report.Results(tmp_path))}
    assert len(said[noise.TITLE]) > 2
    n_units = len(runner.units(["clustering"], False))
    assert said[clustering.TITLE] == [
        f"Not run: `metricforest reproduce clustering` does it ({n_units} units of work)."
    ]
    assert said[ablations.TITLE][0].startswith("Not run")


def test_nothing_to_report(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no results"):
        report.write(report.Results(tmp_path), tmp_path)


def test_table_2_is_about_the_same_answers(monkeypatch, tmp_path):
    """The search experiment end to end on the balance scale."""
    monkeypatch.setitem(paper.TABLE_1, "balance", (0.5,) * 6)
    monkeypatch.setitem(paper.TABLE_2, "balance", (0.5,) * 6)
    own = {"datasets": ("balance",), "trees": 5, "repeats": {}, "solvers": ("lbfgs",)}
    own |= {"pair_queries": 2, "clock_repeats": 1, "constraints_per_class": 30}
    settings = {k: Setting(own.get(k, s.value), s.why) for k, s in neighbours.SETTINGS.items()}
    monkeypatch.setattr(neighbours, "SETTINGS", settings)
    with open(os.devnull, "w") as quiet:
        assert runner.run(tmp_path, ["neighbours"], jobs=1, out=quiet) == []
    line, alone = runner.read_lines(tmp_path)
    assert alone["pairs"] == 0
    found = line["scores"]["map"]
    assert alone["scores"]["map"] != found
    # What is sampled inside the last node differs, so a step may fall by a few neighbours of 31,250.
    # With fewer than five from each tree, trees climb on until there are 50.
    assert np.diff(found[2:]).min() > -1e-3
    assert found[-1] == max(found)
    assert found[-1] > 0.9
    assert line["seconds"]["pair_by_pair"] > 0
    report.write(report.Results(tmp_path), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "ours (rows alone) |" in text


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
    assert len(runner.read_lines(out)) == 29


def test_the_package_is_documented():
    assert experiments.__doc__
    assert list(EXPERIMENTS) == [
        "neighbours", "clustering", "classification", "noise", "ablations", "retrieval",
    ]  # fmt: skip
