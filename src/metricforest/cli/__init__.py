"""The command line: from a table and a few labelled pairs to neighbours, matches and clusters.

A command reads its arguments, calls the library and writes one result. Results go to standard output or
whole to a file; what is worth knowing beside them goes to standard error. Whatever goes wrong that
a user can mend is one line there and exit code 2; `--debug` shows where it came from. Nothing heavy
is imported before a command runs.

`common` is what the commands stand on; they are listed in the order in which they are imported here.
`reproduce` and `report` are in `metricforest.experiments.cli`.
"""

from . import fit, match, query, cluster, dedupe, vectors, inspect, records  # noqa: F401, I001  every command adds itself
from .common import main

__all__ = ["main"]
