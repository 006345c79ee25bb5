"""Where commands put what they make: never over an input, a pipe, or work of the user's."""

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from metricforest.cli import main

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
    assert "1 of its rows have an answer; name another file, or --force" in refused(*ask)
    assert path.read_bytes() == before
    assert run(*ask, "--force").exit_code == 0
    assert path.read_bytes() != before


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
