"""Which results count as those of the present code."""

import json

from metricforest.experiments import report, same_code
from metricforest.experiments.same_code import SAME, SameCode
from metricforest.experiments.stored import Line


def compared(before, after, names):
    line = {"before": before * 20, "after": after * 20, "checksums": 9, "equal": 7, "together": "1"}
    return json.dumps(line | {"differing": ["DCA"], "when": "now", "codes": {"HFD/noise": names}})


def result(code, **more):
    return Line({"metric": "HFD", "experiment": "noise", "code": code, **more})


def test_chains_of_comparisons(tmp_path, monkeypatch):
    monkeypatch.setattr(same_code, "code", lambda metric, experiment: "d")
    lines = [
        compared("1", "2", ["a", "b"]),
        compared("2", "4", ["b", "d"]),
        compared("5", "6", ["e", "f"]),
    ]
    (tmp_path / SAME).write_text("\n".join(lines))
    found = SameCode(tmp_path)
    assert [found.is_present(result(name)) for name in ("a", "b", "d", "e", "f", None)] == [
        *[True, True, True, False, False, False],
    ]
    other = Line({"metric": "DCA", "experiment": "noise", "code": "a"})
    assert not found.is_present(other)  # nothing was compared for it
    assert found.commit_of(result("a")) == "unknown, same as 111111111111"
    assert found.commit_of(result("d")) == "unknown, same as 444444444444"
    assert found.commit_of(result("a", commit="77")) == "77"
    assert found.commit_of(result("g")) == "unknown"


def test_without_comparisons_only_the_present_code_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(same_code, "code", lambda metric, experiment: "d")
    found = SameCode(tmp_path)
    assert found.is_present(result("d"))
    assert not found.is_present(result("a"))


def test_the_report_names_the_states(tmp_path, monkeypatch):
    monkeypatch.setattr(same_code, "code", lambda metric, experiment: "d")
    (tmp_path / SAME).write_text(compared("1", "4", ["a", "d"]))
    results = report.Results.__new__(report.Results)
    results.same_code = SameCode(tmp_path)
    results.lines = [result("a"), result("d", commit="444444444444+"), result("z"), result("a")]
    made, compared_with = report.overview.states(results)
    assert made.rows == [
        ["444444444444+", "yes", "1"],
        ["unknown", "no", "1"],
        ["unknown, same as 111111111111", "yes", "2"],
    ]
    assert compared_with.rows == [["1" * 12, "4" * 12, "7 of 9", "DCA", "now"]]
