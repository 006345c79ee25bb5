# Everything a fresh machine needs is Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test matrix lint bench docs clean

$(VENV)/.installed-%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

demo: $(VENV)/.installed-plot  ## learn from a few hundred labelled pairs, print a table, write demo.png
	$(BIN)/python -m metricforest.demo

test: $(VENV)/.installed-test  ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist loadfile
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/boundscheck $(BIN)/python -m pytest -q tests/core/test_bounds.py

matrix: $(VENV)/.installed-test  ## the suite on other processors, versions and Pythons: hours (LEGS="generic oldest")
	$(BIN)/python tests/matrix.py $(LEGS)

lint: $(VENV)/.installed-lint  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/basedpyright
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench  ## speed and memory beside scikit-learn's forest (ARGS=--large for CIFAR-10)
	$(BIN)/python benchmarks/bench.py $(ARGS)
	$(BIN)/python benchmarks/search.py

docs: $(VENV)/.installed-docs  ## the documentation site, into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist
