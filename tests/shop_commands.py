"""The commands on the example of a shop, as tests run them."""

import io
from pathlib import Path

import pandas as pd
from click.testing import CliRunner

from metricforest.cli import main

ROOT = Path(__file__).parents[1]
SHOP = ROOT / "examples" / "shop"
PRODUCTS, LABELLED, NEW = (SHOP / f"{name}.csv" for name in ("products", "labelled", "new"))
TREES = "20"


def run(*arguments, input=None):
    return CliRunner().invoke(main, [str(a) for a in arguments], input=input)


def good(*arguments, input=None):
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


def fit(*arguments):
    return good("fit", *arguments, "--trees", TREES, "--jobs", 1)


def table_of(result) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(result.stdout))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
