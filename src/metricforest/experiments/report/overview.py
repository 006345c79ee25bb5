"""What is reached, how long it took, and with which settings, machine and code."""

from __future__ import annotations

from .. import protocol
from ..catalogue import EXPERIMENTS
from ..runner import duration
from .results import Claim, Parts, Results, title_of
from .tables import Section, Table

LONGEST = 45 * 60  # seconds that a unit of work should take at most
CORES, HOURS = 2, 5  # a full run on so many cores should take at most so long


def summary(results: Results, claims: dict[str, list[Claim]]) -> Section:
    """What the paper claims, whether it was reached, and what was found, experiment by experiment."""
    table = Table(["what the paper shows", "reached", "what is found here"], [])
    for name, own in claims.items():
        so_far = " so far" * bool(results.n_missing(name))
        for claim in own:
            verdict = {True: "yes", False: "no", None: "in part"}[claim.reached]
            table.rows.append([claim.claim, verdict + so_far, claim.found])
        if not own:
            table.rows.append([EXPERIMENTS[name].TITLE, "", "not run, or not completely"])
    parts: Parts = []
    if results.quick:
        parts.append(
            "This is a quick run: small data sets, few trees, few repetitions. It shows that everything "
            "works, not how good it is."
        )
    parts += [table, time_taken(results)]
    if results.stale:
        parts.append(
            f"{results.stale} stored results were made with other settings and are left out."
        )
    return Section("Summary", parts)


def time_taken(results: Results) -> str:
    """How much is done, and what it took beside what it should."""
    finished = len(results.lines)
    used = {line["unit"]: line["seconds"]["unit_processor"] for line in results.lines}
    longest = max(used, key=lambda unit: used[unit])
    said = (
        f"{finished} of {finished + len(results.missing)} units of work are done. They took "
        f"{duration(sum(used.values()))} of processor time, the longest ({longest}) "
        f"{duration(used[longest])}."
    )
    if not results.quick:
        hours = sum(used.values()) / 3600 / CORES
        kept = hours <= HOURS and used[longest] <= LONGEST
        verdict = ("kept" if kept else "not kept") + " so far" * bool(results.missing)
        said += (
            f" That is at least {hours:.1f} h on {CORES} idle cores (limits: {HOURS} h, "
            f"{LONGEST // 60} minutes a unit; {verdict}). Wall-clock times, also stored, are longer: the "
            "machine had other work too."
        )
    return said


def settings(results: Results) -> Section:
    parts: Parts = [
        "What the paper fixes, what it leaves open, and what was chosen. All of it is in "
        "`metricforest.experiments`, where it can be changed."
    ]
    for name, module in EXPERIMENTS.items():
        settings = results.settings[name]
        used = {key for unit in module.units(settings) for key in protocol.relevant(unit, settings)}
        table = Table(["setting", "value", "why"], [], caption=name)
        for key, setting in module.SETTINGS.items():
            if key in used or key in protocol.LISTS:
                full = f" (a full run has {setting.value})" * (settings[key] != setting.value)
                table.rows.append([key, f"{settings[key]}{full}", setting.why])
        parts.append(table)
    table = Table(["metric", "parameters"], [], caption="Parameters of the metrics")
    for metric in protocol.METRICS:
        made = protocol.make(metric, "sonar", results.settings["classification"], 0, 1)
        table.rows.append(
            [
                metric,
                ", ".join(
                    f"{key} {value}"
                    for key, value in sorted(made.get_params(deep=False).items())
                    if key not in ("n_jobs", "random_state", "verbose")
                ),
            ]
        )
    parts += [
        table,
        "HFD's are the paper's, except the solver: it minimises the same objective as the paper's Algorithm "
        "1 (docs/paper.md). The rivals' are those of their papers where these state them. Rows "
        "are standardised by the training part's means and deviations (CIFAR: see scaling). Of equally "
        "frequent labels the nearest neighbour's wins. More noise corrupts more of the same labels.",
    ]
    return Section("Settings", parts)


def machine(results: Results) -> Section:
    table = Table(["", ""], [[k, str(v)] for k, v in results.machine.items() if k != "quick"])
    data = sorted({(title_of(line["dataset"]), line["data"]) for line in results.lines})
    when = sorted(line["when"] for line in results.lines)
    parts: Parts = [table]
    if data:
        parts.append(Table(["data set", "version used"], [list(row) for row in data]))
        parts.append(f"Run between {when[0]} and {when[-1]} UTC.")
    old = [line for line in results.lines if not results.same_code.is_present(line)]
    parts += [
        f"{len(results.lines) - len(old)} of {len(results.lines)} units are of one state of the code: that "
        "of now, or one that gives the same to the last bit. The states and the comparisons:",
        *states(results),
    ]
    if old:
        places: dict[str, dict[str, None]] = {}
        for line in old:
            place = f"{line['experiment']} of {title_of(line['dataset'])}"
            places.setdefault(place, {})[line["metric"]] = None
        named = [f"{place} ({', '.join(metrics)})" for place, metrics in places.items()]
        parts.append(
            f"Made by earlier code, whose results may differ: {'; '.join(named)}. "
            "`metricforest reproduce --again` runs them again."
        )
    return Section("Machine, versions, data", parts)


def states(results: Results) -> Parts:
    """The commits that made the results, and the comparisons of commits."""
    same_code = results.same_code
    made: dict[tuple[str, str], int] = {}
    for line in results.lines:
        state = (same_code.commit_of(line), "yes" if same_code.is_present(line) else "no")
        made[state] = made.get(state, 0) + 1
    rows = [[commit, same, f"{n:,}"] for (commit, same), n in sorted(made.items())]
    parts: Parts = [Table(["made at commit", "same as the code now", "units"], rows)]
    if same_code.comparisons:
        parts.append(
            Table(
                ["commit", "gives the same as", "equal checksums", "but for", "compared (UTC)"],
                [
                    [
                        *(c["before"][:12], c["after"][:12], f"{c['equal']} of {c['checksums']}"),
                        *(", ".join(c["differing"]), c["when"]),
                    ]
                    for c in same_code.comparisons
                ],
            )
        )
    return parts
