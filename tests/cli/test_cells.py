"""Cells of a CSV on the command line are taken for what they say: NA, codes, ids like 1.1, column names."""

import json
from itertools import pairwise

import pandas as pd
import pytest
from click.testing import CliRunner

from metricforest import load
from metricforest.cli import main


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def learned(folder, *arguments):
    """The report of `fit` as JSON, and the model."""
    told = "--trees", 2, "--folds", 0, "-o", folder / "m.mf", "--json"
    result = run("fit", *arguments, *told)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), load(folder / "m.mf")


def test_na_is_a_country_and_an_id(tmp_path):
    names = ["NA", "null", "None", "nan", *(f"k{i}" for i in range(36))]
    rows = [
        f"{name},{'NA' if i % 2 else 'DE'},{i % 2 * 5 + i / 100}" for i, name in enumerate(names)
    ]
    table, pairs = tmp_path / "t.csv", tmp_path / "p.csv"
    table.write_text("id,country,x\n" + "\n".join(rows) + "\n")
    told = [f"{a},{b},same" for a, b in zip(names, names[2:], strict=False)]
    told += [f"{a},{b},different" for a, b in pairwise(names)]
    pairs.write_text("a,b,same\n" + "\n".join(told) + "\n")
    said, model = learned(tmp_path, table, "--id", "id", "--pairs", pairs)
    assert said["pairs"]["left_out"] == 0
    (country,) = (c for c in model.preparation_.columns_ if c.name == "country")
    assert (country.levels, country.indicator) == (("DE", "NA"), False)
    assert model.ids_[:4].tolist() == ["NA", "null", "None", "nan"]
    found = run("neighbors", tmp_path / "m.mf", table, "-k", 1, "--not-self")
    assert found.stdout.splitlines()[1].startswith("NA,1,")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_pairs_in_a_csv_name_the_id_na_of_any_table(tmp_path, suffix):
    frame = pd.DataFrame({"id": ["NA", *map(str, range(29))], "x": [i % 3 for i in range(30)]})
    table, pairs = tmp_path / f"t.{suffix}", tmp_path / "p.csv"
    getattr(frame, f"to_{suffix}")(table, index=False)
    pairs.write_text("a,b,same\nNA,2,1\nNA,0,0\n3,6,1\n")
    said, _ = learned(tmp_path, table, "--id", "id", "--pairs", pairs)
    assert (said["pairs"]["given"], said["pairs"]["left_out"]) == (3, 0)


def test_na_among_numbers_is_missing(tmp_path):
    table = tmp_path / "t.csv"
    cells = ["NA", "nan", "null", "1.5", "1e-3", "+2", "7.", ".5", "1.2E4", "inf"] * 4
    table.write_text("x,y\n" + "".join(f"{c},{i % 2}\n" for i, c in enumerate(cells)))
    _, model = learned(tmp_path, table, "--labels", "y")
    (x,) = model.preparation_.columns_
    assert (x.kind, x.indicator, model.preparation_.notes_) == ("number", True, [])
    asked = run("neighbors", tmp_path / "m.mf", table, "-k", 1)
    assert (asked.exit_code, asked.stderr) == (0, "")


@pytest.mark.parametrize("codes", [["1_0", "2_0", "1_1"], ["12E3", "1E4", "7e2"]])
def test_codes_are_no_numbers(tmp_path, codes):
    table = tmp_path / "t.csv"
    table.write_text("code,y\n" + "".join(f"{codes[i % 3]},{i % 3}\n" for i in range(30)))
    said, model = learned(tmp_path, table, "--labels", "y")
    assert said["columns"] == {"code": "category"}
    assert sorted(model.preparation_.columns_[0].levels) == sorted(codes)


def test_a_code_among_numbers_is_said_to_be_none(tmp_path):
    table = tmp_path / "t.csv"
    cells = [f"{i % 3}" for i in range(60)]
    cells[30] = "1_0"
    table.write_text("x,y\n" + "".join(f"{c},{i % 3}\n" for i, c in enumerate(cells)))
    said, _ = learned(tmp_path, table, "--labels", "y")
    assert "1 values are no number, such as '1_0'" in said["notes"][0]
    asked = run("neighbors", tmp_path / "m.mf", table, "-k", 1)
    assert "1 values are no number, such as '1_0'" in asked.stderr


def test_rows_are_asked_about_as_they_were_learned(tmp_path):
    """To the bit, whatever stands in the other rows of a piece."""
    rows = [f"{(7 * i % 13) / 7!r},{'NA' if i % 5 == 0 else i % 4},{i % 2}" for i in range(60)]
    table = tmp_path / "t.csv"
    table.write_text("x,z,y\n" + "\n".join(rows) + "\n")
    learned(tmp_path, table, "--labels", "y")
    found = pd.read_csv(run_out("neighbors", tmp_path / "m.mf", table, "-k", 1, "--not-self"))
    own = pd.read_csv(run_out("neighbors", tmp_path / "m.mf", "-k", 1))
    assert (found["distance"] == own["distance"]).all()


def run_out(*arguments):
    import io

    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return io.StringIO(result.stdout)


def test_a_first_pair_is_taken_as_it_stands(tmp_path):
    """1 and 1.1 are two ids, and no renamed column; 1,1,... is a row with itself."""
    table, pairs = tmp_path / "t.csv", tmp_path / "p.csv"
    ids = ["1.1", *range(1, 30)]
    table.write_text("id,x\n" + "".join(f"{name},{i % 3}\n" for i, name in enumerate(ids)))
    rest = "".join(f"{i},{i + 3},same\n" for i in range(2, 20))
    for first, selves, used in (("1,1.1,different", 0, 19), ("1,1,different", 1, 18)):
        pairs.write_text(f"{first}\n{rest}")
        said, _ = learned(tmp_path, table, "--id", "id", "--pairs", pairs)
        said = said["pairs"]
        assert (said["given"], said["left_out"], said["same"] + said["different"]) == (
            19,
            selves,
            used,
        )


def test_a_table_with_a_name_twice_is_refused(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,b,a\n" + "1,2,3\n2,3,4\n" * 9)
    result = run("fit", table, "--labels", "b", "-o", tmp_path / "m.mf")
    assert result.exit_code == 2
    assert result.stderr == f"metricforest: error: {table}: it has the column 'a' twice\n"


def test_labels_that_say_nothing_are_a_class_and_it_is_said(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "".join(f"{i % 3},{['NA', 'a', 'b'][i % 3]}\n" for i in range(30)))
    result = run("fit", table, "--labels", "y", "--trees", 2, "--folds", 0, "-o", tmp_path / "m.mf")
    assert result.exit_code == 0
    assert "10 labels are 'NA', which counts as a class" in result.stderr
