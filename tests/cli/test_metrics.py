"""`fit --metric`: every metric is learned, says what it is, and leaves the run out of its file."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import metricforest
from conftest import three_clusters
from metricforest.cli import main
from metricforest.cli.metrics import METRICS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    X, _, pairs, labels = three_clusters(0, 80, 500)
    pd.DataFrame(X.round(3)).add_prefix("c").to_csv(folder / "rows.csv", index_label="id")
    told = pd.DataFrame({"a": pairs[:, 0], "b": pairs[:, 1], "same": labels})
    told.to_csv(folder / "pairs.csv", index=False)
    return folder


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def fitted(folder, metric, jobs):
    path = folder / f"{metric}-{jobs}.mf"
    result = run(
        *("fit", folder / "rows.csv", "--id", "id", "--pairs", folder / "pairs.csv", "-o", path),
        *("--metric", metric, "--trees", 6, "--folds", 0, "--jobs", jobs),
    )
    assert result.exit_code == 0, result.output + repr(result.exception)
    return path


@pytest.mark.parametrize(
    ("metric", "name"),
    [("forest", "HierarchyForest"), ("vectors", "VectorForest"), ("blend", "Blend")],
)
def test_every_metric_is_learned_and_read_again(files, metric, name):
    path = fitted(files, metric, 1)
    said = run("info", path).output
    assert f": {name}, " in said
    assert ("  chosen: " in said) == (metric != "blend")
    model = metricforest.load(path)
    table = {f"c{j}": np.zeros(2) for j in range(5)}
    distance, ids = model.kneighbors(table, 3)
    assert distance.shape == ids.shape == (2, 3)
    inner = model.metric_
    assert inner.n_jobs is None
    assert all(member.n_jobs is None for member in getattr(inner, "members_", []))


@pytest.mark.parametrize("metric", ["vectors", "blend"])
def test_the_file_is_the_same_for_any_number_of_jobs(files, metric):
    one, two = (fitted(files, metric, jobs).read_bytes() for jobs in (1, 2))
    assert one == two


def test_implied_pairs_are_for_a_forest(files):
    result = run(
        *("fit", files / "rows.csv", "--pairs", files / "pairs.csv", "-o", files / "x.mf"),
        *("--metric", "vectors", "--implied"),
    )
    assert result.exit_code == 2
    assert "--implied is for a forest" in result.output


def test_metrics_are_named_in_help():
    said = run("fit", "--help").output
    assert all(name in said for name in METRICS)
