"""What the report says of stored results, against results made by hand."""

import io
import json
import re

import numpy as np
import pytest

from metricforest.experiments import ablations, clustering, noise, report, runner
from metricforest.experiments.report.tables import Section, Table, html, markdown


def stored(lines, **settings):
    """Results as if these lines were all there is."""
    results = report.Results.__new__(report.Results)
    results.settings, results.lines, results.missing = settings, lines, []
    return results


def noise_line(metric, level, seed, corrupted, clean=0.8):
    scores = {"corrupted": [corrupted], "clean": [clean]}
    return {"experiment": "noise", "metric": metric, "noise": level, "seed": seed, "scores": scores}


def test_losses_are_paired_by_seed(tmp_path):
    """Units finish in any order; the loss of a repetition is that of its own seed."""
    lines = [
        noise_line("HFD", level, seed, 0.5 + seed / 10 - (0.1 if level else 0.0))
        for level, seeds in ((0, (0, 1, 2, 3)), (20, (3, 0, 2)))
        for seed in seeds
    ]
    losses = report.noise.losses_of(stored(lines, noise={"levels": (0, 20)}), "corrupted")
    np.testing.assert_allclose(losses["HFD"], [10, 10, 10])


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
    table, gammas = report.noise.loss_by_cause(results)
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


def test_texts_are_shown_as_they_are():
    """No HTML, no second line and no further cell comes out of a note, a name or a version."""
    hostile = "<img src=x onerror=alert(1)> & a|b\n| c"
    table = Table([hostile], [[hostile], [hostile]], {(1, 0)}, caption=hostile)
    content = [Section(hostile, [hostile, f"- {hostile}", table])]
    text, page = markdown("Heading", content), html("Heading", content, {})
    assert "<img" not in text + page
    assert len(re.findall(r"&lt;img src=x onerror=alert\(1\)> &amp; a\\\|b \\\| c", text)) == 7
    rows = [line for line in text.splitlines() if line.startswith("|") and "img" in line]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [2, 2, 2]
