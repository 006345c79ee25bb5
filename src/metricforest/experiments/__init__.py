"""Section 6 of the paper, reproduced: one module per experiment, a runner, a report.

An experiment is cut into units of work. `units` lists them, `answer` does one (raw answers, such as
the labels of neighbours found, and what it cost), `score` turns raw answers into scores. The runner
stores each finished unit at once, so that a run can be interrupted at any moment; the report is made
from what is stored. Everything the paper leaves open is a `Setting`, with its reason.
"""
