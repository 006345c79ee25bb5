"""Outputs: what must not be replaced is not, and what is wrong is said before any work."""

import ast
import errno
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import metricforest
from metricforest import HierarchyForest, load
from metricforest.storage import outputs

SOURCE = Path(metricforest.__file__).parent
needs_nodes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


def made(path: Path, kind: str) -> Path:
    """A node of a kind in a folder of the test."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "a device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except OSError:
            pytest.skip("only root can make a device")
    else:
        path.mkdir()
    return path


@needs_nodes
@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device", "a folder"])
def test_a_model_never_takes_the_place_of_a_node(small_forest, tmp_path, kind, through_link):
    path = made(tmp_path / "node.mf", kind)
    before = os.lstat(path)
    if through_link:
        path = tmp_path / "link.mf"
        path.symlink_to("node.mf")
    names = sorted(os.listdir(tmp_path))
    for overwrite in (False, True):
        with pytest.raises(OSError, match=rf"cannot write to .*{path.name}: it is {kind}, not a"):
            small_forest.save(path, overwrite=overwrite)
    after = os.lstat(tmp_path / "node.mf")
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert sorted(os.listdir(tmp_path)) == names


@needs_nodes
def test_rows_go_through_a_pipe_that_stays_one(tmp_path):
    path = made(tmp_path / "rows", "a pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    outputs.check_output(path, stream=True)
    outputs.write_through(path, [b"one,", b"two\n"])
    reader.join(10)
    assert got == [b"one,two\n"]
    assert stat.S_ISFIFO(os.lstat(path).st_mode)


@needs_nodes
def test_a_node_that_comes_while_a_file_is_written_stays(tmp_path):
    path = tmp_path / "out.mf"

    def parts():
        yield b"half"
        os.mkfifo(path)

    with pytest.raises(OSError, match="it is a pipe"):
        outputs.replace_file(path, parts())
    assert stat.S_ISFIFO(os.lstat(path).st_mode)
    assert os.listdir(tmp_path) == ["out.mf"]


def test_a_file_that_nobody_may_write_to_stays(small_forest, tmp_path):
    """root may write to it all the same: the library asks what the owner meant."""
    path = tmp_path / "kept.mf"
    small_forest.save(path)
    before = path.read_bytes()
    path.chmod(0o444)
    for overwrite in (False, True):
        with pytest.raises(PermissionError, match=r"kept\.mf: it is read-only") as error:
            small_forest.save(path, overwrite=overwrite)
        assert error.value.errno == errno.EACCES
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_what_is_not_a_model_is_replaced_only_when_asked(small_forest, tmp_path):
    path = tmp_path / "thesis.mf"
    path.write_text("three years of work")
    with pytest.raises(FileExistsError, match=r"what is there is not a model; .*overwrite=True"):
        small_forest.save(path)
    assert path.read_text() == "three years of work"
    small_forest.save(path, overwrite=True)
    assert load(path).forest_.n_trees == 12
    small_forest.save(path)  # a model takes the place of a model
    path.write_bytes(b"")
    small_forest.save(path)  # and of nothing


def test_an_output_is_not_one_of_the_inputs(tmp_path, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("a,b\n")
    (tmp_path / "soft.csv").symlink_to(table)
    os.link(table, tmp_path / "hard.csv")
    monkeypatch.chdir(tmp_path)
    for name in (table, "t.csv", "soft.csv", "hard.csv", "./t.csv"):
        with pytest.raises(OSError, match="it is one of the inputs"):
            outputs.check_output(name, inputs=["other.csv", table])
    outputs.check_output("new.csv", inputs=[table, "missing.csv", None, "-"])
    with pytest.raises(OSError, match="it is one of the inputs"):
        outputs.check_output("missing.csv", inputs=["missing.csv"])
    with open(table) as redirected:
        monkeypatch.setattr("sys.stdin", redirected)
        with pytest.raises(OSError, match="it is one of the inputs"):
            outputs.check_output(table, inputs=["-"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_jobs": 0}, "n_jobs"),
        ({"alpha": -1}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"n_estimators": 0}, "n_estimators"),
        ({"max_features": 7.5}, "max_features"),
        ({"min_node_size": "5"}, "min_node_size"),
    ],
)
def test_what_load_would_refuse_is_not_saved_over_a_good_file(small, tmp_path, change, match):
    path = tmp_path / "good.mf"
    metric = HierarchyForest(2, random_state=0).fit(small[0])
    metric.save(path)
    before = path.read_bytes()
    metric.set_params(**change)
    with pytest.raises((ValueError, TypeError), match=match):
        metric.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["good.mf"]
    load(path)


def test_an_attribute_broken_by_hand_is_not_saved_either(small, tmp_path):
    path = tmp_path / "good.mf"
    metric = HierarchyForest(2, random_state=0).fit(small[0])
    metric.save(path)
    before = path.read_bytes()
    metric.mean_ = np.full(5, np.nan)
    with pytest.raises(ValueError, match=r"cannot save to .*good\.mf, load would refuse .* mean_"):
        metric.save(path)
    assert path.read_bytes() == before


def test_a_torn_line_is_closed_before_the_next(tmp_path):
    path = tmp_path / "lines"
    outputs.append_line(path, "one")
    with path.open("ab") as file:
        file.write(b"tor")
    outputs.append_line(path, "zwei €")
    assert path.read_text("utf-8") == "one\ntor\nzwei €\n"


WRITES = {"write_text", "write_bytes", "to_csv", "to_parquet", "tofile", "savez", "savefig"}


def opens_an_output(call: ast.Call) -> bool:
    """Whether a call opens a file to write to: by its mode, or because it does nothing else."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "open":
        modes = [a.value for a in (*call.args, *(k.value for k in call.keywords))
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        return any(set(mode) & set("wax+") and set(mode) <= set("wax+bt") for mode in modes)
    first = call.args[0] if call.args else None
    in_memory = isinstance(first, ast.Name) and first.id in ("stream", "out", "picture")
    return name in WRITES and not in_memory


def test_one_module_opens_outputs():
    """A new way to write a file would pass by all that is checked here."""
    elsewhere = {}
    for path in SOURCE.rglob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        found = [call.lineno for call in calls if opens_an_output(call)]
        if found and path.name != "outputs.py":
            elsewhere[path.relative_to(SOURCE).as_posix()] = found
    lock = elsewhere.pop("experiments/runner.py", [])
    assert len(lock) <= 1  # the lock of a folder, which holds nothing to lose
    assert elsewhere == {}
    assert opens_an_output(ast.parse('open(path, "wb")', mode="eval").body)  # the test can fail
    assert opens_an_output(ast.parse("figure.savefig(path)", mode="eval").body)
