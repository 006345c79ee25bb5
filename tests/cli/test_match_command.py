"""Matching on the command line: which rows are the same, how right that is, and the page's story."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import metricforest
from metricforest.cli.match import called_so_far
from shop_commands import (
    LABELLED,
    NEW,
    PRODUCTS,
    ROOT,
    SHOP,
    TREES,
    good,
    run,
    table_of,
    write,
)


def test_matches_are_the_likeliest_pairs(shop, tmp_path):
    """By the pair model; by the distance where there are no labelled pairs."""
    metric = metricforest.load(shop)
    found = table_of(good("match", shop, PRODUCTS))
    assert found.columns.tolist() == ["a", "b", "probability"]
    assert (found["probability"].diff().dropna() <= 1e-6).all()
    assert found["probability"].min() >= metric.pair_model_.threshold_ - 1e-6
    article = pd.read_csv(SHOP / "articles.csv").set_index("sku")["article"]
    right = article[found["a"]].to_numpy() == article[found["b"]].to_numpy()
    assert right.mean() > 0.6  # of all pairs, one in 400 is the same
    sure = table_of(good("match", shop, PRODUCTS, "--threshold", 0.9))
    assert 0 < len(sure) < len(found)
    across = table_of(good("match", shop, NEW, PRODUCTS, "--best"))
    assert across["a"].str.startswith("N").all()
    assert across["b"].str.startswith("S").all()
    assert across["a"].is_unique
    result = good("match", shop, "--one-to-one", "-o", tmp_path / "own.csv")
    own = pd.read_csv(tmp_path / "own.csv")
    assert pd.concat([own["a"], own["b"]]).is_unique
    assert f"{len(own)} matches, called the same from probability 0." in result.stderr
    assert f"not known: .* match {shop} --ask 60 -o" in result.stderr or re.search(
        "how right they are is not known", result.stderr
    )


def test_matches_by_distance(tmp_path):
    path = tmp_path / "types.mf"
    good("fit", PRODUCTS, "--id", "sku", "--labels", "type", "--trees", 10, "-o", path)
    found = table_of(good("match", path, PRODUCTS, "--precision", 0.9))
    assert found.columns.tolist() == ["a", "b", "distance", "probability"]
    loose = table_of(good("match", path, PRODUCTS, "--threshold", 0.4))
    assert loose["distance"].max() <= 0.4
    across = good("match", path, NEW, PRODUCTS, "-o", tmp_path / "m.csv")
    pieces = pd.read_csv(tmp_path / "m.csv")
    assert pieces["a"].str.startswith("N").all()
    said = re.search(
        r"of ([\d,]+) held-out pairs (\d+) are called the same, (\d+) of them correctly",
        across.stderr,
    )
    n_pairs, n_near, n_right = (int(text.replace(",", "")) for text in said.groups())
    assert 0 < n_right <= n_near < n_pairs
    best = table_of(good("match", path, NEW, PRODUCTS, "--best"))
    assert best["a"].is_unique
    assert set(best["a"]) == set(pieces["a"])
    assert "without labelled pairs of both kinds" in run("match", path, "--ask", 20).stderr
    asked = SimpleNamespace(held_out_distance_=np.array([0.5]), held_out_same_=np.array([True]))
    assert called_so_far(asked, 0.4) == "; none of 1 held-out pairs is called the same"


def test_a_file_of_pairs_is_answered(shop, tmp_path):
    labelled = pd.read_csv(LABELLED, dtype=str)
    known = set(pd.read_csv(PRODUCTS)["sku"])
    labelled = labelled[labelled["left"].isin(known) & labelled["right"].isin(known)]
    labelled.to_csv(tmp_path / "test.csv", index=False)
    result = good("distance", shop, "--pairs", tmp_path / "test.csv", "-o", tmp_path / "d.csv")
    found = pd.read_csv(tmp_path / "d.csv")
    assert found.columns.tolist() == ["a", "b", "distance", "probability", "same"]
    assert found["a"].tolist() == labelled["left"].tolist()
    told = labelled["answer"].isin(["same", "different"]).to_numpy()
    right = (found["same"] == (labelled["answer"] == "same").to_numpy())[told]
    assert f"{told.sum()} pairs have answers, the model agrees with {right.sum()}" in result.stderr
    ids = labelled[["left", "right"]][:5]
    ids.to_csv(tmp_path / "ids.csv", index=False)
    unknown = good("distance", shop, "--pairs", tmp_path / "ids.csv")
    assert len(table_of(unknown)) == 5
    assert unknown.stderr == ""
    moved = good("distance", shop, "--pairs", tmp_path / "ids.csv", "--table", PRODUCTS)
    pd.testing.assert_frame_equal(table_of(moved), table_of(unknown), atol=1e-5)
    assert "give the ids of two rows, or --pairs" in run("distance", shop, "S0001").stderr


def restaurants(folder: Path) -> None:
    """Made tables with the names and columns of the page's: row i of one is row i + 185 of the other."""
    rng = np.random.default_rng(0)
    words = np.array(
        ["cafe", "sol", "rio", "luna", "palm", "grill", "blue", "old", "house", "corner"]
    )
    name = [" ".join(rng.choice(words, 3, replace=False)) + f" {i // 2}" for i in range(300)]
    street = rng.choice(["oak", "elm", "main", "hill", "lake"], 300)
    left = {
        "id": np.arange(500, 800),
        "name": name,
        "addr": [
            f"{n} {road} st." for n, road in zip(rng.integers(1, 999, 300), street, strict=True)
        ],
        "city": rng.choice(["new york", "los angeles", "atlanta"], 300),
        "phone": [f"{n // 10000}/{n % 10000:04d}" for n in rng.integers(10**6, 10**7, 300)],
        "type": rng.choice(["american", "french", "thai"], 300),
    }
    frame = pd.DataFrame(left)
    other = frame.assign(
        id=(np.arange(300) + 185) % 300,
        addr=frame["addr"].str.replace("st.", "street"),
        phone=frame["phone"].str.replace("/", "-"),
        type=rng.permutation(frame["type"]),
    )
    frame.to_csv(folder / "fodors.csv", index=False)
    other[::-1].to_csv(folder / "zagats.csv", index=False)
    a, b = rng.integers(0, 300, (2, 450))
    b = np.where(np.arange(450) % 4 == 0, a, b)
    told = np.where(a == b, "same", "different")
    labelled = {"left": a + 500, "right": (b + 185) % 300, "answer": told}
    pd.DataFrame(labelled).to_csv(folder / "labelled.csv", index=False)


def answered(path: Path) -> None:
    """What a person does with questions about these."""
    asked = pd.read_csv(path)
    same = (asked["left"] - 500 + 185) % 300 == asked["right"]
    assert same.any()
    assert asked["answer"].isna().all()
    asked.assign(answer=np.where(same, "y", "n")).to_csv(path, index=False)


@pytest.mark.slow
def test_the_commands_of_the_page_run_and_say_so(tmp_path, monkeypatch):
    """Every `$ metricforest` line of docs/command_line.md, in order; restaurants are made here."""
    text = (ROOT / "docs" / "command_line.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for path in SHOP.glob("*.csv"):
        write(tmp_path / path.name, path.read_text())
    (tmp_path / "guides").mkdir()
    restaurants(tmp_path / "guides")
    n_run = 0
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            if not line.startswith("metricforest "):
                continue
            arguments = shlex.split(line.split(" | ")[0])[1:]
            of_guides = {"both.mf", "zagats.csv", "fodors-zagats"} & {*arguments}
            monkeypatch.chdir(tmp_path / "guides" if of_guides else tmp_path)
            if arguments[0] == "records":
                if "--answer" in arguments:
                    answered(Path(arguments[-1]))
                continue
            result = run(*arguments, *["--trees", TREES] * (arguments[0] == "fit"))
            n_run += 1
            wanted = 2 if "error:" in shown else 0
            assert result.exit_code == wanted, (line, result.output)
            said = without_figures(result.stdout + result.stderr)
            for words in shown.strip().splitlines():
                pieces = without_figures(words).split("...")
                assert all(piece in said for piece in pieces), (words, result.output)
    assert n_run >= 20


def without_figures(text: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e-\d+)?|True|False", "0", text)
