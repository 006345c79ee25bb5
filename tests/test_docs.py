"""Every Python block of the README and the docs runs, top to bottom, as a reader would paste it."""

import itertools
import re
import runpy
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```(python|text)\n(.*?)```", flags=re.DOTALL)
TOOLS = ("duckdb", "faiss", "umap", "usearch")  # blocks that need one of them may be left out
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text("utf-8")], ids=lambda p: p.stem
)
def test_code_on_the_page_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    shown, there = "", True
    for kind, body in BLOCK.findall(page.read_text("utf-8")):
        if kind == "python":
            there = run(body, page, names)
        elif there:
            shown += body
    compare(shown, capsys.readouterr().out)


def run(block: str, page: Path, names: dict) -> bool:
    """Run a block; False where it begins with a tool that is not installed."""
    with warnings.catch_warnings():
        if any(f"import {tool}" in block or f"from {tool}" in block for tool in TOOLS):
            warnings.simplefilter("ignore")  # theirs, not ours
        try:
            exec(compile(block, str(page), "exec"), names)
        except ModuleNotFoundError as error:
            if error.name not in TOOLS:
                raise
            return False
    return True


NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+")


def compare(shown: str, printed: str) -> None:
    """Every line shown is printed, in this order, and four of five of its page's numbers are right.

    Right is within 5 per cent, or a last digit: other processors round otherwise, and a near tie may
    then end otherwise. `docs/refresh.py` sets the numbers anew.
    """
    lines, place, far, n_numbers = printed.splitlines(), 0, [], 0
    for line in filter(str.strip, shown.splitlines()):
        words = NUMBER.sub("0", line.strip())
        while place < len(lines) and words not in NUMBER.sub("0", lines[place]):
            place += 1
        assert place < len(lines), f"not printed, or not in this order: {line.strip()}"
        first = len(NUMBER.findall(NUMBER.sub("0", lines[place]).partition(words)[0]))
        place += 1
        for old, new in zip(
            NUMBER.findall(line), NUMBER.findall(lines[place - 1])[first:], strict=False
        ):
            n_numbers += 1
            step = 10.0 ** -len(old.partition(".")[2])
            ours, theirs = (float(number.replace(",", "")) for number in (old, new))
            if abs(ours - theirs) > max(1.5 * step, 0.05 * abs(ours)):
                far.append(f"{old} is {new} in: {line.strip()}")
    assert 5 * len(far) <= n_numbers, "\n".join(["python docs/refresh.py sets these anew:", *far])


def test_pages_are_compared_with_what_is_printed():
    """The comparison fails where words, their order or the numbers are others."""
    printed = "rows 100, AUC 0.912\nnear: 3 of 10\nnear: 4 of 10\n"
    compare("rows 100, AUC 0.91\nnear: 4 of 10\n", printed)
    compare("rows 100, AUC 0.911\n", printed)
    for wrong in ("AUC 0.912\nrows 100", "near: 3 of 10\nrows 100", "far: 3 of 10"):
        with pytest.raises(AssertionError, match="not printed"):
            compare(wrong, printed)
    for wrong in ("rows 200, AUC 0.912", "rows 100, AUC 0.512", "near: 9 of 10"):
        with pytest.raises(AssertionError, match="sets these anew"):
            compare(wrong, printed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda p: p.stem
)
def test_the_gallery_runs(script, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    plt.close("all")
    runpy.run_path(str(script))
    assert plt.get_fignums()  # it has drawn something
    plt.close("all")


def test_every_page_is_on_the_site():
    """Pages that no table of contents names would be lost."""
    docs = ROOT / "docs"
    listed = set()
    for page in docs.glob("*.md"):
        for block in re.findall(
            r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL
        ):
            listed |= {line for line in block.splitlines() if line and not line.startswith(":")}
    pages = {page.stem for page in docs.glob("*.md")} | {"api", "gallery/index"}
    assert pages - {"index"} == listed


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def table_below(text: str, heading: str) -> dict[str, list[str]]:
    """The cells of the first table after a heading, by the first cell of each row; nothing bold."""
    lines = text[text.index(heading) :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    cells = [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]
    return {name: rest for name, *rest in cells if name != "---"}


def test_figures_from_the_report_are_those_of_the_report():
    report = (ROOT / "results" / "report.md").read_text("utf-8")
    results = (ROOT / "docs" / "results.md").read_text("utf-8")
    there = table_below(report, "**5-NN accuracy, %**")
    here = table_below(results, "## The paper, reproduced")
    names = {"ITML, best gamma": "ITML", "RandomForestDistance": "RFD", "HierarchyForest": "HFD"}
    compared = [name for name in here if names.get(name, name) in there]
    assert len(compared) == 8
    for name in compared:
        assert here[name] == there[names.get(name, name)], name

    precision = {}
    table = report[report.index("**Precision, %") :].split("\n\n")[1]
    for line in table.splitlines():
        metric, scaling, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        precision[metric, scaling] = [cell.partition(" ")[0] for cell in cells]
    order = ("HFD", "DCA", "GB-LMNN", "ITML", "Euclidean")
    retrieved = results[results.index("Of the 50 images found nearest") :].partition("\n\n")[0]
    assert re.findall(r"\d+\.\d", retrieved) == [
        *[precision[metric, "as they are"][place] for place in (1, 3, 5) for metric in order],
        *[precision[metric, "unit"][1] for metric in ("HFD", "DCA")],
    ]

    ablated = table_below(report, "| alpha | Sonar")
    hard = table_below(report, "| hard | Sonar")
    parameters = (ROOT / "docs" / "parameters.md").read_text("utf-8")
    shown = table_below(parameters, "| `alpha` | sonar")
    shown.pop("`alpha`")
    assert len(shown) == 5
    for alpha, cells in shown.items():
        row = hard["True"] if alpha.startswith("endless") else ablated[str(float(alpha))]
        vote, auc = row[::2], row[1::2]
        assert cells == [f"{a}, {v}" for a, v in zip(auc, vote, strict=True)], alpha


def test_pages_name_tests_that_there_are():
    files = [*(ROOT / "tests").rglob("test_*.py")]
    known = {path.stem for path in files}
    for path in files:
        known.update(re.findall(r"(?m)^def (test_\w+)", path.read_text("utf-8")))
    named = {
        name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    }
    assert len(named) > 50
    assert named <= known, sorted(named - known)
