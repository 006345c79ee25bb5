"""The command line: what it says and writes, and that bad input is one line and exit code 2."""

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import metricforest
from metricforest.cli import main
from metricforest.tables import files
from shop_commands import (
    LABELLED,
    NEW,
    PRODUCTS,
    ROOT,
    SHOP,
    TREES,
    fit,
    good,
    run,
    table_of,
    write,
)

# ---------------------------------------------------------------------------------------- good use


def test_fit_says_what_it_read_and_what_it_learned(model):
    said = model[1].stdout
    for line in (
        "586 rows, 10 columns",
        "  used as category: type (5 levels), brand* (7 levels), colour (5 levels)",
        "  used as number: weight*, price*",
        "  used as date: listed",
        "  used as boolean: in_stock",
        "  not used: sku (holds the ids)",
        "  used as text: remark",
        "  not used: region (constant: 'EU' in every row)",
        "values are no number, such as 'ask us', and count as missing",
        "857 labelled pairs; used are",
        "  contradictions: 1 labelled both ways, both stay (",
        "  left out: 3 with ids that are not in the table (3: 'S9999', 'X12', 'X13')",
        "  left out: 1 of a row with itself",
        "  left out: 1 without a label",
        "suggested threshold 0.",
        "comparing pairs: pair AUC 0.",
        "  called the same from probability 0.",
        "shop.mf: written,",
    ):
        assert line in said
    assert re.search(r"merged: \d+ that had been given before", said)
    assert float(re.search(r"pair AUC (\d\.\d+) on \d+ held-out pairs", said)[1]) > 0.85
    assert model[1].stderr == ""


def test_fit_reports_to_machines(tmp_path):
    result = fit(PRODUCTS, "--id", "sku", "--pairs", LABELLED, "-o", tmp_path / "m.mf", "--json")
    report = json.loads(result.stdout)
    assert report["rows"] == report["rows_learned"] == 586
    assert report["columns"]["listed"] == "date"
    assert report["not_used"]["region"] == "constant: 'EU' in every row"
    assert report["pairs"]["unknown_ids"] == ["S9999", "X12", "X13"]
    assert 0.8 < report["pair_auc"] <= 1.0
    assert 0.0 < report["threshold"] < 1.0
    assert (
        report["comparing_pairs"]["held_out_pairs"]
        == report["pairs"]["same"] + report["pairs"]["different"]
    )


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name in ("a.mf", "b.mf"):
        fit(PRODUCTS, "--id", "sku", "--pairs", LABELLED, "-o", tmp_path / name, "--folds", 0)
    assert (tmp_path / "a.mf").read_bytes() == (tmp_path / "b.mf").read_bytes()


def test_a_sample_keeps_the_labelled_rows(tmp_path):
    pairs = pd.read_csv(LABELLED)[:60]
    pairs.to_csv(tmp_path / "few.csv", index=False)
    result = fit(PRODUCTS, "--id", "sku", "--pairs", tmp_path / "few.csv", "--max-rows", 150,
                 "-o", tmp_path / "m.mf")  # fmt: skip
    assert "learning from 150 of the rows" in result.stdout
    ids = set(metricforest.load(tmp_path / "m.mf").ids_)
    assert set(pairs["left"]) | set(pairs["right"]) <= ids


def test_a_large_table_is_read_in_pieces(tmp_path, monkeypatch, shop):
    whole = table_of(good("neighbors", shop, PRODUCTS, "-k", 2))
    monkeypatch.setattr(files, "CHUNK", 100)
    monkeypatch.setattr(
        files.read_chunks, "__kwdefaults__", {**files.read_chunks.__kwdefaults__, "rows": 100}
    )
    pd.testing.assert_frame_equal(table_of(good("neighbors", shop, PRODUCTS, "-k", 2)), whole)
    for suffix, read in (("parquet", pd.read_parquet), ("json", pd.read_json)):
        output = tmp_path / f"found.{suffix}"
        good("neighbors", shop, PRODUCTS, "-k", 2, "-o", output)
        pd.testing.assert_frame_equal(read(output).round(5), whole.round(5), check_dtype=False,
                                      atol=1e-4)  # fmt: skip
    sampled, total = files.read_sample(str(PRODUCTS), 50, lambda f: f["sku"] == "S0500", seed=3)
    assert (len(sampled), total) == (50, 586)
    assert "S0500" in set(sampled["sku"])
    again, _ = files.read_sample(str(PRODUCTS), 50, lambda f: f["sku"] == "S0500", seed=3)
    assert sampled.equals(again)


def test_neighbors_keep_ids(shop):
    found = table_of(good("neighbors", shop, NEW, "-k", 3))
    assert found.columns.tolist() == ["query", "rank", "neighbor", "distance", "probability"]
    assert found["query"].tolist() == np.repeat(pd.read_csv(NEW)["sku"], 3).tolist()
    assert (found.groupby("query")["distance"].diff().dropna() >= 0).all()
    own = table_of(good("neighbors", shop, PRODUCTS, "-k", 2, "--not-self"))
    assert (own["query"] != own["neighbor"]).all()
    assert (own.groupby("query").size() == 2).all()
    without = table_of(good("neighbors", shop, "-k", 2))
    assert len(without) == 2 * 586
    piped = table_of(good("neighbors", shop, "-", "-k", 3, input=NEW.read_bytes()))
    pd.testing.assert_frame_equal(piped, found)
    records = json.loads(good("neighbors", shop, NEW, "-k", 3, "--json").stdout)
    assert [r["neighbor"] for r in records] == found["neighbor"].tolist()


def test_questions_are_answered_and_learned_from(tmp_path):
    first, second = tmp_path / "one.mf", tmp_path / "two.mf"
    given = [PRODUCTS, "--id", "sku", "--folds", 0, "--implied", "--pairs", LABELLED]
    fit(*given, "-o", first)
    questions = tmp_path / "questions.csv"
    good("suggest", first, "-n", 12, "-o", questions)
    asked = pd.read_csv(questions, dtype=str)
    assert asked.columns.tolist() == ["left", "right", "answer"]
    assert (len(asked), asked["answer"].isna().all()) == (12, True)
    assert good("suggest", first, "-n", 12).stdout == questions.read_text()
    assert good("suggest", first, "-n", 12, "--seed", 5).stdout != questions.read_text()
    unanswered = fit(*given, "--pairs", questions, "-o", second).stdout
    assert "left out: 13 without a label" in unanswered  # one of them in labelled.csv
    article = pd.read_csv(SHOP / "articles.csv").set_index("sku")["article"]
    same = article[asked["left"]].to_numpy() == article[asked["right"]].to_numpy()
    asked.assign(answer=np.where(same, "same", "different")).to_csv(questions, index=False)
    said = fit(*given, "--pairs", questions, "-o", second).stdout
    assert f"{LABELLED} + {questions}: 869 labelled pairs" in said
    before, after = (metricforest.load(path).metric_.constraints_ for path in (first, second))
    assert len(after.kind) == len(before.kind) + 12


def test_several_files_of_pairs_keep_ids_and_names(tmp_path):
    """Ids above 2^53 stay apart though the files hold them in other types; errors name their file."""
    ids = 2**60 + np.arange(8)
    pd.DataFrame({"id": ids, "x": np.arange(8.0) ** 2}).to_csv(tmp_path / "t.csv", index=False)
    for name, dtype, low in (("a", np.int64, 0), ("b", np.uint64, 4)):
        ends = ids[low : low + 4].astype(dtype)
        frame = pd.DataFrame({"l": ends[:-1], "r": ends[1:], "same": ["same", "no", "same"]})
        frame.to_parquet(tmp_path / f"{name}.parquet")
    given = [tmp_path / "t.csv", "--id", "id", "--folds", 0, "-o", tmp_path / "m.mf"]
    files_ = ["--pairs", tmp_path / "a.parquet", "--pairs", tmp_path / "b.parquet"]
    said = fit(*given, *files_).stdout
    assert "6 labelled pairs; used are 4 same, 2 different" in said
    assert "merged" not in said
    (tmp_path / "odd.csv").write_text(f"l,r,same\n{ids[0]},{ids[5]},perhaps\n")
    result = run("fit", *given, *files_, "--pairs", tmp_path / "odd.csv")
    assert result.exit_code == 2
    assert "odd.csv: " in result.stderr
    assert "perhaps" in result.stderr


def test_suspects_are_labelled_pairs(shop):
    found = table_of(good("suspects", shop, "-n", 5))
    assert found.columns.tolist() == ["a", "b", "answer", "suspicion", "distance"]
    assert (found["suspicion"].diff().dropna() <= 0).all()
    labelled = pd.read_csv(LABELLED, dtype=str)
    known = {frozenset(pair) for pair in zip(labelled["left"], labelled["right"], strict=True)}
    assert {frozenset(pair) for pair in zip(found["a"], found["b"], strict=True)} <= known
    # The pair that is labelled both ways is one of the first to look at.
    doubtful = table_of(good("suspects", shop, "-n", 30))
    pairs = [{a, b} for a, b in zip(doubtful["a"], doubtful["b"], strict=True)]
    assert {"S0001", "S0233"} in pairs


def test_clusters_are_as_many_as_asked_for(shop, tmp_path):
    found = table_of(good("cluster", shop, "-n", 4))
    assert found["id"].tolist() == pd.read_csv(PRODUCTS)["sku"].tolist()
    assert set(found["cluster"]) == {0, 1, 2, 3}
    guessed = good("cluster", shop, NEW, "-o", tmp_path / "c.parquet")
    n = int(re.search(r"estimated number of clusters: (\d+)", guessed.stderr)[1])
    assert pd.read_parquet(tmp_path / "c.parquet")["cluster"].nunique() == n


def test_clusters_keep_labelled_pairs(shop, tmp_path):
    result = good("cluster", shop, "--pairs", LABELLED, "-o", tmp_path / "c.csv")
    found = pd.read_csv(tmp_path / "c.csv").set_index("id")
    said = re.search(r"([\d,]+) labelled pairs are kept(?:; ([\d,]+) contradict)?", result.stderr)
    pairs = pd.read_csv(LABELLED).iloc[:, :3]
    pairs.columns = ["a", "b", "answer"]
    known = pairs["a"].isin(found.index) & pairs["b"].isin(found.index)
    pairs = pairs[known & pairs["answer"].isin(["same", "different"])]
    together = found.loc[pairs["a"], "cluster"].to_numpy() == found.loc[pairs["b"], "cluster"]
    n_broken = (together.to_numpy() != (pairs["answer"] == "same")).sum()
    assert n_broken <= int(said[2] or 0)
    assert found["membership"].between(0, 1).all()
    assert "estimated number of clusters" in result.stderr
    (tmp_path / "odd.csv").write_text("a,b,answer\nx,y,1\n")
    assert "no pair names two" in run("cluster", shop, "--pairs", tmp_path / "odd.csv").stderr


def test_distances_of_two_rows(shop):
    answer = json.loads(good("distance", shop, "S0001", "S0002", "--json").stdout)
    metric, frame = metricforest.load(shop), pd.read_csv(PRODUCTS)
    with pytest.warns(UserWarning, match="count as missing"):
        want = metric.pairwise_distances(frame)[1, 2]
    assert answer["distance"] == pytest.approx(want, rel=1e-9)
    (likely,) = metric.pair_model_.probability([["S0001", "S0002"]])
    assert answer["probability"] == pytest.approx(likely)
    assert answer["same"] == (likely >= metric.pair_model_.threshold_)
    elsewhere = good("distance", shop, "N01", "N02", "--table", NEW).stdout
    assert re.search(r"^distance: 0\.\d+$", elsewhere, flags=re.MULTILINE)
    same = good("distance", shop, "S0001", "S0001").stdout
    assert "distance: 0\n" in same


def test_info_of_models_with_and_without_a_table(shop):
    said = good("info", shop).stdout
    for line in ("HierarchyForest", "586 rows", "column 'sku'", "suggested threshold", "listed"):
        assert line in said
    figures = json.loads(good("info", shop, "--json").stdout)
    assert figures["parameters"]["n_estimators"] == int(TREES)
    plain = good("info", ROOT / "tests" / "data" / "hierarchy_forest_v1.mf").stdout
    assert "12 rows, 3 features" in plain
    assert "no table" in plain


@pytest.mark.parametrize("suffix", ["tsv", "parquet", "csv.gz", "semicolon.csv"])
def test_tables_in_other_files(tmp_path, suffix):
    frame = pd.read_csv(PRODUCTS, dtype=str)
    path, extra = tmp_path / f"t.{suffix}", []
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "semicolon.csv":
        frame.to_csv(path, sep=";", index=False)
        extra = ["--sep", ";"]
    else:
        frame.to_csv(path, sep="\t" if suffix == "tsv" else ",", index=False)
    fit(path, "--id", "sku", "--pairs", LABELLED, "-o", tmp_path / "m.mf", "--folds", 0, *extra)
    found = table_of(good("neighbors", tmp_path / "m.mf", path, "-k", 1, *extra))
    assert found["query"].tolist() == frame["sku"].tolist()


def test_arrays_and_row_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X, other=np.eye(2))
    (tmp_path / "pairs.csv").write_text("0,1,same\n0,2,different\n3,4,1\n5,6,0\n")  # no header
    for name in ("x.npy", "x.npz"):
        said = fit(
            tmp_path / name, "--pairs", tmp_path / "pairs.csv", "-o", tmp_path / "m.mf"
        ).stdout
        assert "4 labelled pairs; used are 2 same, 2 different" in said
        assert "no --id: rows are called 0, 1, 2" in said
        assert "no threshold" in said
    found = table_of(good("neighbors", tmp_path / "m.mf", tmp_path / "x.npy", "-k", 1))
    assert found["neighbor"].tolist() == list(range(60))


def test_labels_teach_too(tmp_path):
    said = fit(PRODUCTS, "--id", "sku", "--labels", "type", "-o", tmp_path / "m.mf").stdout
    assert "not used: type (holds the labels)" in said
    assert "pair AUC" in said


def test_fit_says_when_little_can_be_learned(tmp_path):
    rng = np.random.default_rng(0)
    ids = pd.read_csv(PRODUCTS)["sku"].to_numpy()
    noise = pd.DataFrame(rng.choice(ids, (120, 2))).assign(answer=rng.choice([1, 0], 120))
    noise.to_csv(tmp_path / "noise.csv", index=False)
    noise.assign(answer=1).to_csv(tmp_path / "same.csv", index=False)
    given = ["--id", "sku", "-o", tmp_path / "m.mf", "--pairs"]
    assert "hardly better than guessing" in fit(PRODUCTS, *given, tmp_path / "noise.csv").stdout
    assert "same alone teaches nothing" in fit(PRODUCTS, *given, tmp_path / "same.csv").stdout


def test_options_choose_columns(tmp_path):
    said = fit(PRODUCTS, "--id", "sku", "--pairs", LABELLED, "-o", tmp_path / "m.mf", "--folds", 0,
               "--drop", "listed", "--category", "in_stock").stdout  # fmt: skip
    assert "not used: listed (as asked for)" in said
    assert "in_stock (2 levels)" in said


def test_unreadable_values_are_counted_through_all_pieces(shop, tmp_path, monkeypatch):
    frame = pd.read_csv(NEW, dtype=str)
    frame["price"] = ["what"] * 25 + ["1"] * 15
    frame.to_csv(tmp_path / "q.csv", index=False)
    monkeypatch.setattr(
        files.read_chunks, "__kwdefaults__", {**files.read_chunks.__kwdefaults__, "rows": 10}
    )
    said = good("neighbors", shop, tmp_path / "q.csv").stderr
    assert said.strip() == (
        "metricforest: note: column 'price': 25 values are no number, such as 'what', "
        "and count as missing"
    )


def test_explanations_are_those_of_the_model(shop):
    metric = metricforest.load(shop)
    pair = "S0001", "S0002"
    reasons = metric.pair_model_.explain(pair)
    assert good("explain", shop, *pair).stdout.rstrip("\n") == str(reasons)
    assert f"{reasons.reasons[0].column}: " in good("explain", shop, *pair).stdout
    answer = json.loads(good("explain", shop, *pair, "--json").stdout)
    assert (answer["a"], answer["probability"]) == ("S0001", pytest.approx(reasons.probability))
    of_distance = good("explain", shop, *pair, "--distance").stdout.rstrip("\n")
    assert of_distance == metric.explain_pair(*pair).summary()
    answer = json.loads(good("explain", shop, *pair, "--distance", "--json").stdout)
    assert answer["distance"] == pytest.approx(
        json.loads(good("distance", shop, *pair, "--json").stdout)["distance"]
    )
    good("explain", shop, "N01", "N02", "--table", NEW)


def test_maps_are_those_of_plots(shop, tmp_path, monkeypatch):
    from metricforest import plots

    seen, plot_map = [], plots.plot_map

    def watched(metric, labels=None, **more):
        seen.append((len(metric._rows), labels))
        return plot_map(metric, labels, **more)

    monkeypatch.setattr(plots, "plot_map", watched)
    clusters = tmp_path / "clusters.csv"
    good("cluster", shop, "-n", 3, "-o", clusters)
    for suffix, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        good("map", shop, "--labels", clusters, "-o", tmp_path / f"map.{suffix}")
        assert (tmp_path / f"map.{suffix}").read_bytes().startswith(start)
    for n, labels in seen:
        assert n == len(labels) == 586
        assert set(labels) == {0, 1, 2}


def test_the_experiments_add_their_commands():
    assert "Run the experiments of the paper" in good("--help").stdout
    for command in ("reproduce", "report"):
        assert "Example" in good(command, "--help").stdout


def test_demo_runs_the_demo(monkeypatch):
    monkeypatch.setattr("metricforest.demo.main", lambda: print("learned"))
    assert good("demo").stdout == "learned\n"


@pytest.mark.parametrize("command", list(main.commands))
def test_every_command_shows_an_example(command):
    said = good(command, "--help").stdout
    assert f"metricforest {command}" in said.split("Examples:")[1]


def test_help_takes_no_time_and_needs_nothing():
    code = (
        "import sys; from metricforest.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'numba') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_not_self_goes_by_rows(shop, tmp_path):
    """Two queries of one id keep their own neighbours; queries without ids are refused."""
    frame = pd.read_csv(NEW, dtype=str)[:2]
    frame["sku"] = "twice"
    frame.to_csv(tmp_path / "twice.csv", index=False)
    found = pd.read_csv(
        io.StringIO(good("neighbors", shop, tmp_path / "twice.csv", "-k", 2, "--not-self").stdout)
    )
    assert found["rank"].tolist() == [1, 2, 1, 2]
    frame.drop(columns="sku").to_csv(tmp_path / "without.csv", index=False)
    result = run("neighbors", shop, tmp_path / "without.csv", "--not-self")
    assert result.exit_code == 2
    assert "there is no column 'sku'" in result.stderr


def test_a_pairs_file_without_header(tmp_path):
    rng = np.random.default_rng(0)
    write(
        tmp_path / "t.csv",
        "x,z\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in rng.normal(size=(40, 2))),
    )
    lines = [
        "0,1,1",
        *[f"{a},{b},{int((a + b) % 2 == 0)}" for a in range(2, 20) for b in range(20, 30)],
    ]
    write(tmp_path / "p.csv", "\n".join(lines) + "\n")
    said = good(
        "fit",
        tmp_path / "t.csv",
        "--pairs",
        tmp_path / "p.csv",
        "-o",
        tmp_path / "m.mf",
        "--trees",
        5,
    )
    assert "p.csv: 181 labelled pairs" in said.stdout


def test_the_file_does_not_depend_on_the_cores(tmp_path):
    for jobs in (1, 2):
        good(
            "fit",
            PRODUCTS,
            "--id",
            "sku",
            "--pairs",
            LABELLED,
            "-o",
            tmp_path / f"{jobs}.mf",
            "--trees",
            5,
            "--jobs",
            jobs,
        )
    assert (tmp_path / "1.mf").read_bytes() == (tmp_path / "2.mf").read_bytes()


@pytest.mark.parametrize("at", [None, 0, 6, 8, 10])
def test_a_broken_archive_is_named(shop, tmp_path, at):
    """Nonsense, or an archive with a wrong mark, version, flag or way of packing."""
    path = tmp_path / "bad.npz"
    np.savez(path, X=np.ones((3, 2)))
    raw = bytearray(path.read_bytes())
    if at is None:
        raw = b"PK\x03\x04 no archive"
    else:
        place = raw.index(b"PK\x01\x02") + at  # in the list of members
        raw[place : place + 2] = b"\xff\xff"
    path.write_bytes(raw)
    result = run("neighbors", shop, path)
    assert result.exit_code == 2, result.stderr
    assert "bad.npz: cannot be read as npz" in result.stderr


@pytest.mark.parametrize(
    ("in_table", "in_pairs"), [("{}.0", "{}.0"), ("{}", "{}.0"), ("{}.0", " {}")]
)
def test_an_id_reads_alike_wherever_it_stands(tmp_path, in_table, in_pairs):
    """pandas writes whole numbers with gaps as 7.0; such an id is still 7."""
    rng = np.random.default_rng(0)
    rows = [
        f"{in_table.format(i)},{a:.3f},{b:.3f}" for i, (a, b) in enumerate(rng.normal(size=(40, 2)))
    ]
    write(tmp_path / "t.csv", "id,x,z\n" + "\n".join(rows) + "\n")
    ends = [(a, b) for a in range(2, 20) for b in range(20, 30)]
    lines = [f"{in_pairs.format(a)},{in_pairs.format(b)},{(a + b) % 2}" for a, b in ends]
    write(tmp_path / "p.csv", "left,right,same\n" + "\n".join(lines) + "\n")
    model = tmp_path / "m.mf"
    said = good(
        "fit", tmp_path / "t.csv", "--id", "id", "--pairs", tmp_path / "p.csv", "-o", model,
        "--trees", 5, "--max-rows", 30,
    )  # fmt: skip
    assert "used are 90 same, 90 different" in said.stdout
    asked = in_pairs.format(3).strip(), in_pairs.format(21).strip()
    far = [json.loads(good("distance", model, *asked, *more, "--json").stdout)["distance"]
           for more in ((), ("--table", tmp_path / "t.csv"))]  # fmt: skip
    assert far[0] == far[1]


@pytest.mark.parametrize("where", ["metricforest.tables.files.write_through", "match.say"])
def test_a_reader_that_has_gone(shop, tmp_path, where):
    """`metricforest ... | head` is no bug, whichever stream the reader had."""
    script = (
        "import metricforest.tables.files, metricforest.cli.match as match\n"
        "def gone(*given): raise BrokenPipeError(32, 'Broken pipe')\n"
        f"{where} = gone\n"
        "metricforest.cli.main()\n"
    )
    command = ["match", str(shop), "-o", str(tmp_path / "matches.csv")]
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("asked", [["--help"], ["fit", "--help"], ["--version"]])
def test_a_reader_that_wants_no_help(asked):
    read, write = os.pipe()
    os.close(read)
    script = "from metricforest.cli import main; main()"
    with open(write, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-c", script, *asked],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")
