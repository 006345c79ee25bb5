"""`python -m metricforest.cli`."""

from . import main

main()
