# Every target works on a fresh machine with Python >= 3.11: the environment .venv is made on first use
# and brought up to date whenever pyproject.toml changes.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

.PHONY: help demo test test-full lint format docs bench bench-full clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       swiss roll and digits against Isomap; table, figures and a page in demo-output/"
	@echo "make test       the tests (minutes); make test-full adds the slow ones"
	@echo "make lint       ruff and mypy; make format rewrites"
	@echo "make docs       the documentation, with every example executed: build/docs/index.html"
	@echo "make bench      the performance suite up to 50,000 points; make bench-full everything (hours)"
	@echo "make clean      removes .venv, caches and build products"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "isoweave needs Python 3.11 or newer; try: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: $(STAMP)
	$(BIN)/isoweave demo --out demo-output

test: $(STAMP)
	$(PYTEST)

test-full: $(STAMP)
	$(PYTEST) -m "slow or not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

# Warnings are errors: a broken link, a page in no table of contents, an example that fails.
docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs
	@echo "build/docs/index.html"

# The methods isoweave is compared with; report.py --write puts the tables into docs/performance.md.
$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@

bench: $(BENCH_STAMP)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/report.py

bench-full: $(BENCH_STAMP)
	$(BIN)/python benchmarks/run.py --full
	$(BIN)/python benchmarks/report.py

clean:
	rm -rf $(VENV) build dist docs/gallery docs/api demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
