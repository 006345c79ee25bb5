"""Where commands put what they make: never over an input, a pipe, or work of the user's."""

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from metricforest import PairModel, TableMetric
from metricforest.cli import main
from metricforest.rivals import Euclidean

SHOP = Path(__file__).parents[2] / "examples" / "shop"
PRODUCTS, LABELLED = SHOP / "products.csv", SHOP / "labelled.csv"
needs_nodes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(*arguments) -> str:
    """The one line of a command that must do nothing."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("metricforest: error: ")
    return line


def learn(output, *more):
    return "fit", PRODUCTS, "--labels", "type", "--trees", 3, "--folds", 0, "-o", output, *more


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "shop.mf"
    given = "--id", "sku", "--pairs", LABELLED, "--trees", 5, "--folds", 2
    assert run("fit", PRODUCTS, *given, "-o", path).exit_code == 0
    return path


@pytest.fixture
def copy(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(PRODUCTS.read_bytes())
    return path


def test_an_output_is_never_an_input(shop, copy, tmp_path):
    table, model = copy.read_bytes(), shop.read_bytes()
    pairs = tmp_path / "p.csv"
    pairs.write_bytes(LABELLED.read_bytes())
    given = "--id", "sku", "--pairs", pairs
    for arguments in (
        ("fit", copy, "--labels", "type", "-o", copy),
        ("fit", copy, *given, "-o", pairs),
        ("neighbors", shop, copy, "-o", shop, "--format", "csv"),
        ("neighbors", shop, copy, "-o", copy),
        ("match", shop, PRODUCTS, copy, "-o", copy),
        ("cluster", shop, copy, "-o", shop, "--json"),
        ("suggest", shop, "-o", shop, "--json"),
        ("suspects", shop, "-o", shop, "--json"),
    ):
        assert "it is one of the inputs" in refused(*arguments)
        assert "it is one of the inputs" in refused(*arguments, "--force")
    assert (copy.read_bytes(), shop.read_bytes()) == (table, model)
    assert pairs.read_bytes() == LABELLED.read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "parquet"])
def test_answers_that_were_filled_in_are_not_overwritten(shop, tmp_path, suffix):
    path = tmp_path / f"questions.{suffix}"
    ask = "suggest", shop, "-n", 5, "-o", path
    assert run(*ask).exit_code == 0
    assert run(*ask).exit_code == 0  # nothing was filled in
    if suffix == "json":
        rows = json.loads(path.read_text())
        rows[3]["answer"] = "same"
        path.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    elif suffix == "parquet":
        frame = pd.read_parquet(path)
        frame.loc[3, "answer"] = "same"
        frame.to_parquet(path, index=False)
    else:
        sep = "," if suffix == "csv" else "\t"
        frame = pd.read_csv(path, sep=sep, dtype=str, keep_default_na=False)
        frame.loc[3, "answer"] = "same"
        frame.to_csv(path, sep=sep, index=False)
    before = path.read_bytes()
    for more in ((), ("--force",)):
        said = refused(*ask, *more)
        assert "1 of its rows have an answer, which is not overwritten: name another file" in said
        assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_a_result_takes_the_place_of_an_earlier_one_only(shop, tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    ask = "neighbors", shop, "-k", 1, "-o", path
    assert run(*ask).exit_code == 0
    first = path.read_bytes()
    assert run(*ask).exit_code == 0
    assert path.read_bytes() == first
    path.write_text("sku,price\n1,2\n")
    assert "what is there is not an earlier result" in refused(*ask)
    assert path.read_text() == "sku,price\n1,2\n"
    assert run(*ask, "--force").exit_code == 0
    assert path.read_bytes() == first


def test_a_model_and_a_picture_take_the_place_of_their_kind_only(shop, tmp_path):
    path, picture = tmp_path / "notes.txt", tmp_path / "map.png"
    path.write_text("notes")
    assert "what is there is not a model; name another file, or --force" in refused(*learn(path))
    assert path.read_text() == "notes"
    assert run(*learn(path, "--force")).exit_code == 0
    assert run(*learn(path)).exit_code == 0
    picture.write_bytes(b"\x89PNG\r\n\x1a\n a photograph")
    assert "is not a picture drawn before" in refused("map", shop, "-o", picture)
    for more in (["--force"], []):
        assert run("map", shop, "-o", picture, *more).exit_code == 0


@needs_nodes
def test_fit_leaves_a_pipe_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "f.mf")
    assert "f.mf: it is a pipe, not a file" in refused(*learn(tmp_path / "f.mf"))
    assert "f.mf: it is a pipe, not a file" in refused(*learn(tmp_path / "f.mf", "--force"))
    assert stat.S_ISFIFO(os.lstat(tmp_path / "f.mf").st_mode)
    assert os.listdir(tmp_path) == ["f.mf"]


def test_a_read_only_result_stays(shop, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("a,b,distance\n")
    path.chmod(0o444)
    assert "out.csv: it is read-only" in refused("match", shop, "-o", path, "--force")
    assert path.read_text() == "a,b,distance\n"


@needs_nodes
@pytest.mark.parametrize("which", ["table", "model", "pairs", "queries"])
def test_a_pipe_with_a_name_is_not_waited_for(shop, tmp_path, which):
    """In a process of its own: what hangs is ended."""
    os.mkfifo(tmp_path / "pipe")
    pipe, output = str(tmp_path / "pipe"), str(tmp_path / "out")
    given = ["--id", "sku", "-o", output]
    command = {
        "table": ["fit", pipe, "--pairs", str(LABELLED), *given],
        "pairs": ["fit", str(PRODUCTS), "--pairs", pipe, *given],
        "model": ["neighbors", pipe],
        "queries": ["neighbors", str(shop), pipe],
    }[which]
    done = subprocess.run(
        [sys.executable, "-m", "metricforest.cli", *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{pipe}: it is a pipe with a name" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_standard_output_by_a_dash(shop):
    result = run("neighbors", shop, "-k", 1, "-o", "-")
    assert result.exit_code == 0
    assert pd.read_csv(io.StringIO(result.stdout)).columns[0] == "query"


def test_names_do_not_command_the_terminal(tmp_path):
    table, model = tmp_path / "t.csv", tmp_path / "m.mf"
    rows = "".join(f"{i % 7},{i},{'ab'[i % 2]}\n" for i in range(40))
    table.write_text("x\x1b[2J,y\x07,kind\n" + rows)
    result = run("fit", table, "--labels", "kind", "--trees", 2, "--folds", 0, "-o", model)
    assert result.exit_code == 0, result.output
    for said in (result.output, run("info", model).output, run("fit", table, "-o", model).output):
        assert not {"\x1b", "\x07"} & set(said)
    assert "x\\x1b[2J" in result.output


@pytest.mark.parametrize("header", [b"{'descr': '<f8', 'shape': (", b"{[", b"(" * 90])
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, header):
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    line = refused("fit", path, "--labels", "x0", "-o", tmp_path / "m.mf")
    assert "a.npy: cannot be read as npy" in line


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A small table with labelled pairs, for `dedupe`."""
    folder = tmp_path_factory.mktemp("people")
    names = [f"{word} {i // 2}" for i, word in enumerate(["Echo", "Dorn", "Sol", "Rio"] * 10)]
    rows = "".join(f"k{i},{name}\n" for i, name in enumerate(names))
    (folder / "t.csv").write_text("id,na\x1b[2Jme\n" + rows)
    pairs = "".join(f"k{i},k{i + 1},{i % 3 % 2}\n" for i in range(0, 38, 2))
    (folder / "p.csv").write_text("a,b,same\n" + pairs)
    return folder


def dedupe(folder, *more):
    return "dedupe", folder / "t.csv", "--id", "id", "--pairs", folder / "p.csv", "--jobs", 1, *more


def test_dedupe_keeps_answers_inputs_and_its_own_two_files_apart(people, tmp_path, monkeypatch):
    groups, ask = tmp_path / "g.csv", tmp_path / "ask.csv"
    for _ in range(2):  # its own earlier results make room
        result = run(*dedupe(people, "-o", groups, "--ask", ask))
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
    assert len(pd.read_csv(groups)) == 40
    ask.write_text("left,right,answer\nk1,k2,same\n")
    assert "1 of its rows have an answer" in refused(*dedupe(people, "-o", groups, "--ask", ask))
    assert ask.read_text() == "left,right,answer\nk1,k2,same\n"
    monkeypatch.chdir(tmp_path)
    said = refused(*dedupe(people, "-o", "g.csv", "--ask", tmp_path / "." / "g.csv"))
    assert "--ask and --output name the same file" in said
    for option in ("-o", "--ask"):
        for name in ("t.csv", "p.csv"):
            said = refused(*dedupe(people, option, people / name, "--force"))
            assert "it is one of the inputs" in said
    assert "--jobs must not be 0" in refused(*dedupe(people, "--jobs", 0))
    assert os.listdir(tmp_path) in (["g.csv", "ask.csv"], ["ask.csv", "g.csv"])


def test_dedupe_leaves_folders_and_read_only_files(people, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "kept.csv").write_text("id,group\n")
    (tmp_path / "kept.csv").chmod(0o444)
    for option in ("-o", "--ask"):
        assert "it is a folder" in refused(*dedupe(people, option, tmp_path / "folder"))
        assert "it is read-only" in refused(*dedupe(people, option, tmp_path / "kept.csv"))


@pytest.mark.parametrize(
    "there",
    [b"", b"PK\x03\x04 an archive", b"\x93NUMPY\x01\x00\xff\xff{(", b"\x93NUMPY\x01\x00", b"text"],
)
def test_vectors_take_the_place_of_vectors_only(shop, tmp_path, there):
    path = tmp_path / "v.npy"
    path.write_bytes(there)
    ask = "vectors", shop, PRODUCTS, "-o", path
    if there:
        assert "is not an earlier result of this command" in refused(*ask)
        assert path.read_bytes() == there
    assert run(*ask, "--force").exit_code == 0
    assert run(*ask).exit_code == 0


def test_an_array_of_the_users_own_stays(shop, tmp_path):
    """It looks like vectors: rows of float32."""
    path = tmp_path / "v.npy"
    mine = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.save(path, mine)
    assert "is not an earlier result" in refused("vectors", shop, PRODUCTS, "-o", path)
    np.testing.assert_array_equal(np.load(path), mine)


def test_a_result_with_a_column_of_the_users_own_stays(shop, tmp_path):
    path = tmp_path / "clusters.csv"
    ask = "cluster", shop, "-n", 2, "-o", path
    assert run(*ask).exit_code == run(*ask).exit_code == 0
    pd.read_csv(path).assign(remark="mine").to_csv(path, index=False)
    assert "has a column 'remark', which this command does not write" in refused(*ask)


@needs_nodes
def test_vectors_leave_nodes_and_inputs(shop, copy, tmp_path):
    os.mkfifo(tmp_path / "table.csv")
    os.mkfifo(tmp_path / "model.mf")
    (tmp_path / "kept.npy").write_bytes(b"")
    (tmp_path / "kept.npy").chmod(0o444)
    (tmp_path / "folder.npy").mkdir()
    out = "-o", tmp_path / "v.npy"
    assert "it is a pipe with a name" in refused("vectors", shop, tmp_path / "table.csv", *out)
    assert "it is a pipe with a name" in refused("vectors", tmp_path / "model.mf", copy, *out)
    assert "it is one of the inputs" in refused("vectors", shop, copy, "-o", copy, "--force")
    assert "it is read-only" in refused("vectors", shop, copy, "-o", tmp_path / "kept.npy")
    assert "it is a folder" in refused("vectors", shop, copy, "-o", tmp_path / "folder.npy")


def test_a_pair_model_is_described_and_refused_in_one_line(tmp_path):
    path = tmp_path / "m.mf"
    names = {"na\x1bme": [f"Echo {i // 2}" for i in range(20)]}
    pairs = [(i, i + 1, i % 3 % 2) for i in range(0, 18, 2)]
    PairModel(n_estimators=2, random_state=0).fit(names, pairs=pairs).save(path)
    result = run("info", path)
    assert result.exit_code == 0, result.output
    assert "compares na\\x1bme; threshold: 0.5" in result.stdout
    assert json.loads(run("info", path, "--json").stdout)["rows"] == 20
    assert run("match", path).stdout.startswith("a,b,probability\n")
    for command in (
        ("neighbors", path),
        ("cluster", path),
        ("map", path, "-o", tmp_path / "m.png"),
    ):
        assert "m.mf: it only compares pairs of rows, for match, suggest" in refused(*command)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_vectors_that_a_metric_has_not_are_refused(tmp_path, dtype):
    table, path = tmp_path / "t.csv", tmp_path / "m.mf"
    frame = pd.DataFrame({"x": [i % 5 for i in range(30)], "y": [i % 7 for i in range(30)]})
    frame.to_csv(table, index=False)
    TableMetric(Euclidean(), cv=0).fit(frame, [i % 2 for i in range(30)]).save(path)
    said = refused("vectors", path, table, "-o", tmp_path / "v.npy", "--dtype", dtype)
    assert f"Euclidean gives vectors of float64, not of '{dtype}'" in said
