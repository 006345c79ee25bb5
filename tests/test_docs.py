"""Every Python block of the README and the docs runs, top to bottom, as a reader would paste it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```python" in page.read_text(encoding="utf-8")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_code_on_the_page_runs(page, capsys):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    # What a block prints stands below it; the wording must still be true, digits may differ.
    printed = re.sub(r"\d", "0", capsys.readouterr().out)
    for shown in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL):
        for line in shown.strip().splitlines():
            assert re.sub(r"\d", "0", line.strip()) in printed
