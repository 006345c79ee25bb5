"""`metricforest vectors`: files of vectors, and what is refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from metricforest import HierarchyForest, TableMetric
from metricforest.cli import main
from metricforest.rivals import RandomForestDistance


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sku": [f"s{i}" for i in range(120)], "kind": list("abcd") * 30})
    table["price"] = rng.normal(size=120) + np.arange(120) % 4
    table.to_csv(folder / "rows.csv", index=False)
    metric = HierarchyForest(10, n_components=6, random_state=0)
    metric = TableMetric(metric, id="sku", cv=0).fit(table, np.arange(120) % 4)
    metric.save(folder / "shop.mf")
    return folder, metric, table


def run(*arguments):
    return CliRunner().invoke(main, ["vectors", *map(str, arguments)])


def test_vectors_go_to_files(shop):
    folder, metric, table = shop
    Z = metric.transform(table)
    assert Z.shape == (120, 6)
    for name in ("v.parquet", "v.npy", "v.csv"):
        result = run(folder / "shop.mf", folder / "rows.csv", "-o", folder / name, "--at-once", 50)
        assert result.exit_code == 0, result.output
        assert "120 vectors of 6 numbers (float32)" in result.output
    assert pq.ParquetFile(folder / "v.parquet").num_row_groups == 3
    found = pq.read_table(folder / "v.parquet")
    assert found.schema.field("vector").type == pa.list_(pa.float32(), 6)
    assert found["id"].to_pylist() == table["sku"].tolist()
    np.testing.assert_array_equal(np.stack(found["vector"].to_numpy()), Z)
    np.testing.assert_array_equal(np.load(folder / "v.npy"), Z)
    plain = pd.read_csv(folder / "v.csv")
    np.testing.assert_allclose(plain.filter(like="v").to_numpy(), Z, rtol=1e-5)
    run(folder / "shop.mf", folder / "rows.csv", "-o", folder / "v.npy", "--dtype", "int8")
    np.testing.assert_array_equal(np.load(folder / "v.npy"), metric.transform(table, dtype="int8"))


def test_a_failure_writes_nothing(shop, tmp_path):
    folder, _, table = shop
    table.drop(columns="price").to_csv(tmp_path / "short.csv", index=False)
    result = run(folder / "shop.mf", tmp_path / "short.csv", "-o", tmp_path / "v.parquet")
    assert result.exit_code == 2
    assert "price" in result.output
    assert not (tmp_path / "v.parquet").exists()
    np.save(tmp_path / "mine.npy", np.arange(3))
    result = run(folder / "shop.mf", folder / "rows.csv", "-o", tmp_path / "mine.npy")
    assert result.exit_code == 2
    assert "--force replaces it" in result.output
    assert np.load(tmp_path / "mine.npy").tolist() == [0, 1, 2]
    for output, table_, match in [
        ("v.txt", "rows.csv", "vectors are written as"),
        ("v.npy", "-", "cannot be counted"),
    ]:
        result = run(folder / "shop.mf", table_ if table_ == "-" else folder / table_, "-o", output)
        assert result.exit_code == 2
        assert match in result.output


def test_a_metric_without_vectors_says_so(shop):
    table = shop[2]
    metric = TableMetric(RandomForestDistance(10, random_state=0), id="sku", cv=0)
    metric.fit(table, np.arange(120) % 4)
    with pytest.raises(TypeError, match="RandomForestDistance has no vectors"):
        metric.transform(table)
