"""Set the printed figures of the documentation anew.

Runs the Python blocks of every page and puts what they print now in place of what the blocks of text
below them show. Wording that has changed is left to a person: tests/test_docs.py fails on it.

    python docs/refresh.py [PAGE ...]
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```(python|text)\n(.*?)```", flags=re.DOTALL)


def without_figures(text: str) -> str:
    return re.sub(r"\d", "0", text)


class Printed:
    """What has been printed so far, read from top to bottom."""

    def __init__(self) -> None:
        self.text, self.place = "", 0

    def like(self, line: str) -> str:
        """The next stretch that differs from a line in digits only, or the line."""
        at = without_figures(self.text).find(without_figures(line), self.place)
        if at < 0 or not line.strip():
            return line
        self.place = at + len(line)
        return self.text[at : self.place]


def refreshed(text: str, name: str) -> str:
    names: dict = {}
    printed = Printed()

    def renew(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                try:
                    exec(compile(body, name, "exec"), names)
                except ModuleNotFoundError as error:  # a tool that a reader may not have either
                    print(f"{name}: {error}", file=sys.stderr)
            printed.text += out.getvalue()
            return match.group(0)
        lines = [printed.like(line) for line in body.splitlines()]
        return "```text\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(renew, text)


def main() -> None:
    pages = [Path(page).resolve() for page in sys.argv[1:]]
    for page in pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = page.read_text(encoding="utf-8")
        if "```text" not in before or "```python" not in before:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            after = refreshed(before, page.name)
            os.chdir(ROOT)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
