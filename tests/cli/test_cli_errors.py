"""The command line: bad input is one line and exit code 2, and what was there stays."""

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import metricforest
from metricforest import HierarchyForest
from metricforest.storage.format import MAGIC
from shop_commands import (
    LABELLED,
    NEW,
    PRODUCTS,
    fit,
    run,
    write,
)

BAD = {
    "no such table": ("fit nope.csv --pairs {labelled} -o m.mf", "nope.csv: no such file"),
    "no such pairs": ("fit {table} --id sku --pairs nope.csv -o m.mf", "nope.csv: no such file"),
    "a folder": ("fit . --pairs {labelled} -o m.mf", "not .* a folder|a folder, not a file"),
    "wrong separator": (
        "fit semicolons.csv --id sku --pairs {labelled} -o m.mf",
        r"semicolons.csv: no column 'sku'|semicolons.csv: cut at ',' .* separated by ';'",
    ),
    "separator of two": (
        "fit {table} --sep ab --pairs {labelled} -o m.mf",
        "must be one character",
    ),
    "no such id": (
        "fit {table} --id nope --pairs {labelled} -o m.mf",
        "products.csv: no column 'nope'; it has sku, type",
    ),
    "no such labels": (
        "fit {table} --labels nope -o m.mf",
        "products.csv: no column 'nope'; it has sku, type",
    ),
    "no such category": (
        "fit {table} --labels type --category nope -o m.mf",
        "products.csv: no column 'nope'",
    ),
    "empty table": ("fit empty.csv --pairs {labelled} -o m.mf", "empty.csv: it is empty"),
    "header only": (
        "fit header.csv --pairs {labelled} -o m.mf",
        "header.csv: it has a header and no",
    ),
    "empty pairs": (
        "fit {table} --id sku --pairs header.csv -o m.mf",
        "header.csv: it has a header",
    ),
    "two columns of pairs": (
        "fit {table} --id sku --pairs two.csv -o m.mf",
        "two.csv: labelled pairs need three columns, two ids and a label, but it has 'a', 'b'",
    ),
    "which answer": ("fit {table} --id sku --pairs five.csv -o m.mf", "five.csv: which of its 5"),
    "strange answer": (
        "fit {table} --id sku --pairs strange.csv -o m.mf",
        "the label of pair 1 is 'perhaps'; labels are same or different",
    ),
    "ids that do not match": (
        "fit {table} --id remark --pairs {labelled} -o m.mf",
        "labelled.csv: no pair names two ids in column 'remark' .* column 'sku' holds them: pass --id",
    ),
    "ids that are not there": (
        "fit {table} --id sku --pairs foreign.csv -o m.mf",
        "foreign.csv: no pair names two ids",
    ),
    "no id": ("fit {table} --pairs {labelled} -o m.mf", "row numbers of .*pass --id sku"),
    "ids twice": (
        "fit {table} --id type --pairs types.csv -o m.mf",
        "products.csv: ids must differ, but 'chair'",
    ),
    "an id is missing": (
        "fit gap.csv --id a --labels b -o m.mf",
        "gap.csv: row 2 has no id in column 'a'",
    ),
    "nothing given": (
        "fit {table} -o m.mf",
        "nothing to learn from: give --pairs, --labels or both",
    ),
    "unknown option": ("fit {table} --frob", "No such option '?--frob"),
    "unknown command": ("frob", "No such command 'frob'"),
    "not a number": (
        "fit {table} --trees many -o m.mf",
        "'--trees': 'many' is not a valid integer",
    ),
    "one fold": ("fit {table} --labels type --folds 1 -o m.mf", "--folds must be 0 or at least 2"),
    "no jobs": ("fit {table} --labels type --jobs 0 -o m.mf", "--jobs must not be 0"),
    "not UTF-8": ("fit latin.csv --labels a -o m.mf", "latin.csv: it is not UTF-8 text"),
    "ragged": (
        "fit ragged.csv --labels a -o m.mf",
        "ragged.csv: Expected 2 fields in line 3, saw 4",
    ),
    "too many values": (
        "fit wide.csv --labels a -o m.mf",
        "its rows have more values than its head",
    ),
    "another kind": (
        "fit {table}.docx --labels a -o m.mf",
        "a table is a .csv, .tsv, .xlsx, .parquet",
    ),
    "no sheet": (
        "fit fake.xlsx --labels a -o m.mf",
        "fake.xlsx: (cannot be read as xlsx|needs open)",
    ),
    "no parquet": ("fit fake.parquet --labels a -o m.mf", "fake.parquet: "),
    "no array": ("fit fake.npy --labels a -o m.mf", "fake.npy: cannot be read as npy"),
    "a flat array": ("fit flat.npy --labels x0 -o m.mf", r"flat.npy: .* this has shape \(3,\)"),
    "many arrays": ("fit many.npz --labels x0 -o m.mf", "many.npz: .* it has a, b"),
    "no folder": ("fit {table} --labels type -o nowhere/m.mf", "nowhere/m.mf: there is no folder"),
    "output is a folder": ("fit {table} --labels type -o folder", "folder: it is a folder"),
    "no model": ("neighbors nope.mf {table}", "nope.mf: no such file"),
    "not a model": ("neighbors {table} {table}", "cannot load .*products.csv: not a metricforest"),
    "another version": ("info newer.mf", "newer.mf: its format has version 9, .* reads version 1"),
    "a damaged model": ("neighbors cut.mf {table}", "cannot load cut.mf: truncated"),
    "no table": (
        "neighbors plain.mf {table}",
        "plain.mf: it holds a HierarchyForest without a table",
    ),
    "map of no table": ("map plain.mf -o m.png", "plain.mf: it holds a HierarchyForest without"),
    "a column lacking": ("neighbors {model} two.csv", "two.csv: the table has no column 'type'"),
    "queries lacking": ("neighbors {model} nope.csv", "nope.csv: no such file"),
    "too many neighbours": (
        "neighbors {model} -k 99999",
        "n_neighbors must be at least 1 and at m",
    ),
    "strange format": ("neighbors {model} -o out.xyz", "out.xyz: results are written as .csv"),
    "precision beyond 1": ("match {model} --precision 2", "2.0 is not in the range 0<=x<=1"),
    "precision of what": (
        "match {model} --precision 0.9",
        "not known for these tables: `metricforest",
    ),
    "best and one to one": ("match {model} --best --one-to-one", "exclude each other"),
    "answers to nothing": (
        "match {model} --answers few.csv",
        "few.csv: it has no column 'probability'",
    ),
    "two tables and labels": (
        "fit {table} {new} --labels type -o m.mf",
        "two tables are learned from --pairs alone",
    ),
    "two tables in a forest": (
        "fit {table} {new} --pairs {labelled} --metric forest -o m.mf",
        "--metric forest learns from one table: of two",
    ),
    "tables the other way": (
        "fit {new} {table} --id sku --pairs across.csv -o m.mf",
        "across.csv: no pair names two .*name the tables the other way round",
    ),
    "tables of other columns": (
        "fit {table} other.csv --id sku --pairs across.csv -o m.mf",
        "the tables have no column in common to compare by: .*other.csv has sku, z",
    ),
    "kinds that exclude": (
        "fit {table} --labels type --text brand --category brand,colour -o m.mf",
        "column 'brand' cannot be text and category",
    ),
    "one row": ("distance {model} S0001", "give the ids of two rows, or --pairs"),
    "a table of nothing": ("suggest header.csv", "header.csv: it has a header and no rows"),
    "a model and a table": ("suggest {model} {new}", "a model knows its tables"),
    "both cuts": ("match {model} --precision 1 --threshold 1", "exclude each other"),
    "no threshold": ("match untold.mf", "untold.mf: .*label more pairs, or name a threshold"),
    "too many clusters": ("cluster {model} -n 9999", "586 rows are too few for 9999 clusters"),
    "no such row": ("distance {model} S0001 S9999", "no row .*is called 'S9999'; there are 586"),
    "no such row there": (
        "distance {model} N01 N99 --table {new}",
        "new.csv: .*no row .*is called 'N99'",
    ),
    "a strange picture": ("map {model} -o map.gif", "a picture is a .png, .svg or .pdf file"),
    "labels of others": ("map {model} --labels two.csv -o map.png", "two.csv: none of its ids"),
}


@pytest.fixture(scope="module")
def bad_folder(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("bad")
    frame = pd.read_csv(PRODUCTS, dtype=str)
    frame.to_csv(folder / "semicolons.csv", sep=";", index=False)
    for name, text in {
        "empty.csv": "",
        "header.csv": "a,b,c\n",
        "two.csv": "a,b\n1,2\n",
        "five.csv": "a,b,c,d,e\n1,2,3,4,5\n",
        "strange.csv": "a,b,c\nS0001,S0002,perhaps\n",
        "foreign.csv": "a,b,c\nQ1,Q2,same\n",
        "types.csv": "a,b,c\nlamp,sofa,same\n",
        "ragged.csv": "a,b\n1,2\n1,2,3,4\n",
        "gap.csv": "a,b\n1,2\n,3\n",
        "wide.csv": "a,b\n1,2,3\n1,2,3\n",
        "fake.parquet": "not parquet",
        "fake.xlsx": "not a sheet",
        "across.csv": "a,b,c\nS0001,N01,same\nS0002,N02,different\n",
        "other.csv": "sku,z\nN01,1\nN02,2\n",
        "fake.npy": "not an array",
    }.items():
        write(folder / name, text)
    (folder / "latin.csv").write_bytes("a,b\nköln,1\n".encode("latin-1"))
    (folder / "folder").mkdir()
    np.save(folder / "flat.npy", np.arange(3))
    np.savez(folder / "many.npz", a=np.eye(2), b=np.eye(2))
    raw = model[0].read_bytes()
    (folder / "newer.mf").write_bytes(raw[:8] + (9).to_bytes(4, "little") + raw[12:])
    (folder / "cut.mf").write_bytes(raw[: len(raw) // 2])
    HierarchyForest(2).fit(np.random.default_rng(0).normal(size=(9, 2))).save(folder / "plain.mf")
    few = "left,right,answer\nS0001,S0002,same\nS0001,S0003,different\n"
    write(folder / "few.csv", few)
    fit(PRODUCTS, "--id", "sku", "--pairs", folder / "few.csv", "-o", folder / "untold.mf")
    return folder


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line_and_exit_code_2(case, bad_folder, shop, monkeypatch):
    command, message = BAD[case]
    monkeypatch.chdir(bad_folder)
    before = sorted(os.listdir("."))
    command = command.format(table=PRODUCTS, labelled=LABELLED, new=NEW, model=shop)
    result = run(*shlex.split(command))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if "note:" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("metricforest: error: ")
    assert re.search(message, lines[0])
    assert sorted(os.listdir(".")) == before


def test_debug_shows_where(tmp_path):
    result = run("info", tmp_path / "nope.mf", "--debug")
    assert isinstance(result.exception, ValueError)
    assert run("--debug", "info", tmp_path / "nope.mf").exit_code == 1


def test_a_folder_that_takes_no_files(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = run("neighbors", shop, "-k", 1, "-o", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert f"out.csv: no permission to write into {tmp_path}" in result.stderr


@pytest.mark.parametrize("command", ["fit", "neighbors"])
def test_a_full_disk_leaves_what_was_there(command, shop, tmp_path, monkeypatch):
    output = tmp_path / "out.csv"
    earlier = MAGIC if command == "fit" else b"query,rank,neighbor,distance,probability\n"
    output.write_bytes(earlier)
    arguments = ["neighbors", shop, PRODUCTS, "-k", 1]
    if command == "fit":
        arguments = ["fit", PRODUCTS, "--labels", "type", "--trees", 2, "--folds", 0]

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run(*arguments, "-o", output)
    assert result.exit_code == 2
    assert "out.csv: No space left on device; what was there before is unchanged" in result.stderr
    assert os.listdir(tmp_path) == ["out.csv"]
    assert output.read_bytes() == earlier


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_device(shop):
    result = run("neighbors", shop, "-k", 1, "-o", "/dev/full")
    assert result.exit_code == 2
    assert "cannot write to /dev/full: No space left on device" in result.stderr


def test_an_unforeseen_error_is_one_line_too(shop, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(metricforest.TableMetric, "neighbors", broken)
    result = run("neighbors", shop)
    assert (result.exit_code, result.stderr) == (
        1,
        "metricforest: error: ZeroDivisionError: oh (a bug? --debug shows where)\n",
    )


def test_without_pandas_one_line_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = run("fit", PRODUCTS, "--labels", "type", "-o", tmp_path / "m.mf")
    assert result.exit_code == 2
    assert "pip install pandas" in result.stderr


def test_the_real_script_and_an_interrupt(tmp_path):
    script = [sys.executable, "-m", "metricforest.cli"]
    output = tmp_path / "m.mf"
    given = ["--id", "sku", "--pairs", str(LABELLED), "-o", str(output)]
    process = subprocess.Popen(
        [*script, "fit", str(PRODUCTS), *given, "--trees", "100000", "--folds", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline()  # it has read everything and begins to learn
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == b"metricforest: interrupted; nothing was written"
    assert os.listdir(tmp_path) == []
    result = subprocess.run([*script, "info", "nope.mf"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "metricforest: error: nope.mf: no such file or directory\n"
