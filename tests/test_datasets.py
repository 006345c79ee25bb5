"""Finding, fetching and checking the paper's data sets."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

import conftest
from metricforest import datasets


def frame_of(counts, n_features, names=None):
    """A made-up bunch as `fetch_openml` returns it."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    columns = names or [f"f{i}" for i in range(n_features)]
    data = pd.DataFrame(rng.normal(size=(len(y), len(columns))), columns=columns)
    labels = np.array([f"class {i}" for i in range(len(counts))])[y]
    return sklearn.utils.Bunch(data=data, target=pd.Series(labels, dtype="category"))


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A machine that has no data, and a cache to put them into."""
    monkeypatch.delenv("METRICFOREST_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(datasets, "__file__", str(tmp_path / "a" / "b" / "c" / "datasets.py"))
    return tmp_path


def serve(monkeypatch, bunch):
    asked = []

    def fetch_openml(**options):
        asked.append(options["data_id"])
        if isinstance(bunch, Exception):
            raise bunch
        return bunch

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return asked


def test_the_balance_scale_follows_its_rule(nowhere):
    data = datasets.load("balance")
    for row, label in zip(data.X, data.y, strict=True):
        torque = row[0] * row[1] - row[2] * row[3]
        assert data.class_names[label] == (
            "left" if torque > 0 else "right" if torque < 0 else "balanced"
        )
    assert np.bincount(data.y).tolist() == [288, 49, 288]
    assert data.found == "its rule"
    assert len(np.unique(data.X, axis=0)) == 625


@pytest.mark.parametrize("name", datasets.NAMES)
def test_stored_sets_are_as_published(name):
    if name != "balance":
        conftest.stored(name)  # skips where there is no folder of them
    data = datasets.load(name)
    assert data.X.shape[1] == len(data.feature_names)
    assert len(data.X) == len(data.y)
    assert set(data.y) == set(range(len(data.class_names)))
    assert np.isfinite(data.X).all()
    assert data.licence
    assert data.source
    assert (data.X_test is None) == (not name.startswith("cifar"))


def test_superclasses_of_cifar100():
    conftest.stored("cifar100")
    fine, coarse = datasets.load("cifar100"), datasets.load("cifar100", labels="coarse")
    assert len(coarse.class_names) == 20
    assert np.bincount(coarse.y).tolist() == [2_500] * 20
    parent = {
        fine.class_names[a]: coarse.class_names[b] for a, b in zip(fine.y, coarse.y, strict=True)
    }
    assert parent["maple_tree"] == "trees"
    assert parent["bicycle"] == "vehicles_1"
    assert parent["apple"] == "fruit_and_vegetables"


def test_what_openml_sends_is_cached(nowhere, monkeypatch):
    asked = serve(monkeypatch, frame_of((97, 111), 60))
    data = datasets.load("sonar")
    assert data.found == "OpenML"
    assert data.version == "208 rows"
    again = datasets.load("sonar")
    assert asked == [40]
    assert again.found == str(nowhere / "metricforest" / "sonar.npz")
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    assert [p.name for p in (nowhere / "metricforest").iterdir()] == ["sonar.npz"]


def test_the_version_of_usps_is_named(nowhere, monkeypatch):
    bunch = frame_of(datasets.USPS_9298, 256)
    bunch.target = bunch.target.str.replace("class ", "").astype(int) + 1  # labels 1 to 10
    serve(monkeypatch, bunch)
    data = datasets.load("usps")
    assert data.version.startswith("9,298 images")
    assert data.class_names == tuple(map(str, range(1, 11)))  # by number, not by letter
    assert sum(datasets.USPS_9298) == 9_298


def test_a_column_the_paper_leaves_out(nowhere, monkeypatch):
    names = ["a", "region-pixel-count", *[f"f{i}" for i in range(17)]]
    serve(monkeypatch, frame_of((330,) * 7, 19, names))
    data = datasets.load("segmentation")
    assert data.X.shape == (2_310, 18)
    assert "region-pixel-count" not in data.feature_names


def test_wrong_data_never_reach_the_cache(nowhere, monkeypatch):
    serve(monkeypatch, frame_of((97, 110), 60))
    with pytest.raises(
        ValueError, match="sonar from OpenML is 207 x 60 with 97, 110 rows per class, "
    ):
        datasets.load("sonar")
    assert not (nowhere / "metricforest").exists()


def test_offline(nowhere, monkeypatch):
    from urllib.error import URLError

    serve(monkeypatch, URLError("no route to host"))
    with pytest.raises(
        FileNotFoundError, match=r"sonar is not on this machine: put sonar\.npz into"
    ):
        datasets.load("sonar")
    with pytest.raises(FileNotFoundError, match="METRICFOREST_DATA"):
        datasets.load("sonar", download=False)


def test_refused(nowhere, monkeypatch):
    with pytest.raises(
        ValueError, match="there is no data set 'iris'; there are sonar, ionosphere"
    ):
        datasets.load("iris")
    with pytest.raises(ValueError, match="got 'coarse' for sonar"):
        datasets.load("sonar", labels="coarse")
    monkeypatch.setenv("METRICFOREST_DATA", str(nowhere))
    (nowhere / "sonar.npz").write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match=r"cannot read .*sonar\.npz"):
        datasets.load("sonar")
    np.savez(nowhere / "sonar.npz", X=np.zeros((208, 60)))
    with pytest.raises(ValueError, match="lacks the arrays y, class_names, feature_names"):
        datasets.load("sonar")


def test_principal_components_of_images(monkeypatch):
    """Against the plain definition, on small images."""
    monkeypatch.setattr(datasets, "CIFAR_TRAIN", 40)
    monkeypatch.setattr(datasets, "COMPONENTS", 3)
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (50, 6)).astype(np.float32)
    arrays = {"X": pixels, "y": np.arange(50), "class_names": np.array(["x"])}
    found = datasets.principal_components(arrays)
    train = pixels[:40].astype(float) / 255
    variance, vectors = np.linalg.eigh(np.cov(train.T))
    for i in range(3):
        v = vectors[:, -1 - i]
        v = v * np.sign(v[np.abs(v).argmax()])
        np.testing.assert_allclose(found["X"][:, i], (train - train.mean(axis=0)) @ v, atol=1e-3)
        test = pixels[40:] / 255 - train.mean(axis=0)
        np.testing.assert_allclose(found["X_test"][:, i], test @ v, atol=1e-3)
    np.testing.assert_allclose(found["explained_variance"], variance[:-4:-1], rtol=1e-5)
    assert found["y_test"].tolist() == list(range(40, 50))
