"""States of the code that were shown to give the same results, so that none need be run again.

    OUT/same_code.jsonl   one line per comparison: both commits, how many checksums were compared and were
                          equal, and how either state names the code of every metric and experiment

`benchmarks/same_code.py` compares two states and adds a line, for the metrics of which all checksums are
equal. Chains count: what is the same as something that is the same is the same.
"""

from __future__ import annotations

from pathlib import Path

from .sources import code
from .stored import Line, json_lines

SAME = "same_code.jsonl"
KINDS = {
    **{"before": str, "after": str, "checksums": int, "equal": int, "differing": list},
    **{"together": str, "when": str, "codes": dict},
}


class SameCode:
    """The comparisons that a folder of results holds."""

    def __init__(self, folder: Path):
        self.comparisons: list[Line] = json_lines(folder / SAME, KINDS)
        self._alike: dict[tuple[str, str], set[str]] = {}

    def is_present(self, line: Line) -> bool:
        """Whether a result is of the code as it is now, or of one shown to give the same."""
        of = (line["metric"], line["experiment"])
        if of not in self._alike:
            self._alike[of] = self._alike_now(*of)
        return line.get("code") in self._alike[of]

    def _alike_now(self, metric: str, experiment: str) -> set[str]:
        """All names of code that gives what the present code gives."""
        found, size = {code(metric, experiment)}, 0
        while len(found) > size:
            size = len(found)
            for comparison in self.comparisons:
                names = comparison["codes"].get(f"{metric}/{experiment}", [])
                found.update(names if found.intersection(names) else [])
        return found

    def commit_of(self, line: Line) -> str:
        """The commit that made a result: as it says, or one whose code it names."""
        if line.get("commit"):
            return line["commit"]
        key = f"{line['metric']}/{line['experiment']}"
        for comparison in self.comparisons:
            for side, commit in enumerate((comparison["before"], comparison["after"])):
                names = comparison["codes"].get(key, [])
                if len(names) == 2 and names[side] == line.get("code"):
                    return f"unknown, same as {commit[:12]}"
        return "unknown"
