"""What the results of this library's experiments depend on."""

import re
import subprocess

import pytest

from metricforest.experiments import sources
from metricforest.experiments.catalogue import EXPERIMENTS
from metricforest.experiments.definitions import Bound, Package, reached
from metricforest.experiments.protocol import CLASSES, METRICS


def modules(metric, experiment):
    """Modules that results of a metric in an experiment depend on."""
    package = sources.PACKAGE
    roots = [
        Bound(f"{package.name}.experiments.{experiment}", name) for name in ("answer", "score")
    ]
    roots.append(Bound(CLASSES[metric].__module__, CLASSES[metric].__name__))
    cut = {package.follow(Bound(f"{package.name}.{module}", name)) for module, name in sources.CUT}
    found = reached(package, [package.follow(root) for root in roots], cut.__contains__)
    return {place.module.partition(".")[2] for place in found}


def test_every_metric_and_experiment_has_a_name_of_its_own():
    names = {sources.code(metric, name) for metric in METRICS for name in EXPERIMENTS}
    assert len(names) == len(METRICS) * len(EXPERIMENTS)
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in names)


def test_results_depend_on_their_metric_and_experiment_only():
    forest = modules("HFD", "clustering")
    assert {"hierarchy", "estimators.graph_cut", "experiments.clustering"} <= forest
    assert any(name.startswith("core.") for name in forest)
    assert not any(
        name.startswith(("rivals", "plots", "cli", "tables", "experiments.report"))
        for name in forest
    )
    assert "experiments.noise" not in forest
    assert {"rivals.gblmnn", "rivals.impostors"} <= modules("GB-LMNN", "noise")
    assert {"experiments.classification"} <= modules("GB-LMNN", "noise")
    assert not modules("GB-LMNN", "noise") & {"hierarchy", "rivals.itml", "experiments.retrieval"}


def test_names_do_not_depend_on_where_the_library_lies(tmp_path):
    """Another folder, other order of reading: the same name."""
    package = sources.PACKAGE
    for path in package.folder.rglob("*.py"):
        place = tmp_path / package.name / path.relative_to(package.folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    roots = [Bound("metricforest.experiments.noise", name) for name in ("score", "answer")]
    roots.insert(0, Bound(CLASSES["DCA"].__module__, "DCA"))
    assert sources.code_of(Package(tmp_path / package.name), roots) == sources.code("DCA", "noise")


def test_the_commit_of_a_checkout(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    monkeypatch.setattr(sources, "PACKAGE", Package(tmp_path, "metricforest"))
    assert sources.commit.__wrapped__() == ""
    (tmp_path / "__init__.py").write_text("")
    try:
        git("init", "-q")
    except OSError:
        pytest.skip("git is not there")
    assert sources.commit.__wrapped__() == ""  # somebody else's repository
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "one")
    assert re.fullmatch("[0-9a-f]{12}", sources.commit.__wrapped__())
    (tmp_path / "__init__.py").write_text("x = 1\n")
    assert re.fullmatch(r"[0-9a-f]{12}\+", sources.commit.__wrapped__())
