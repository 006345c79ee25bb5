"""Every Python block of the README and the docs runs, top to bottom, as a reader would paste it."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text("utf-8")], ids=lambda p: p.stem
)
def test_code_on_the_page_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    # What a block prints stands below it; the wording must still be true, digits may differ.
    printed = re.sub(r"\d", "0", capsys.readouterr().out)
    for shown in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL):
        for line in shown.strip().splitlines():
            assert re.sub(r"\d", "0", line.strip()) in printed


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
