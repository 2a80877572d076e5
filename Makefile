# Every target works on a fresh machine with Python >= 3.11: the environment .venv is made on first use
# and brought up to date whenever pyproject.toml changes.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs
FULL_STAMP := $(VENV)/.installed-full
PARAMETRIC_STAMP := $(VENV)/.installed-parametric
MIN_VENV := .venv-min
MIN_BIN := $(MIN_VENV)/bin
MIN_STAMP := $(MIN_VENV)/.installed
MIN_PYTHON ?= $(PYTHON)
CLUSTER_VENV := .venv-cluster
CLUSTER_STAMP := $(CLUSTER_VENV)/.installed
CLUSTER_RANKS ?= 1 2 3 4
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
# Where it is set, every worker and every process of a test compiles all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-full test-min test-parametric test-cluster lint format docs bench bench-full clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       swiss roll and digits against Isomap; table, figures and a page in demo-output/"
	@echo "make test       the tests (minutes); make test-full adds the slow ones"
	@echo "make test-min   the tests with the oldest versions of everything (requirements/minimum.txt)"
	@echo "make test-parametric  the tests of ParametricIsometry (installs torch, 3 GB)"
	@echo "make test-cluster     the tests of the PETSc engine, under mpiexec (root installs Debian's packages)"
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

# Atheris, where it has wheels, and a notebook kernel.
$(FULL_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[full-tests]"
	@touch $@

test-full: $(FULL_STAMP)
	$(PYTEST) -m "slow or not slow"

# An environment of its own, with every dependency at the lower bound that pyproject.toml gives it.
$(MIN_STAMP): pyproject.toml requirements/minimum.txt
	@$(MIN_PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
	  || { echo "the oldest versions have wheels for Python 3.11 and 3.12; try: make MIN_PYTHON=python3.11 test-min" >&2; exit 1; }
	$(MIN_PYTHON) -m venv $(MIN_VENV)
	$(MIN_BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements/minimum.txt \
	  --editable ".[dev]"
	@touch $@

# Kernels of two versions of numba would push each other out of one cache.
test-min: export NUMBA_CACHE_DIR = $(abspath $(MIN_VENV))/kernels
test-min: $(MIN_STAMP)
	$(MIN_BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

$(PARAMETRIC_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[parametric]" onnxruntime
	if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix build/web onnxruntime-web; fi
	@touch $@

test-parametric: $(PARAMETRIC_STAMP)
	$(PYTEST) tests/parametric

# An environment of Debian's own Python beside its PETSc. Where that cannot be had the tests are skipped, but
# never where CI is set.
$(CLUSTER_STAMP): pyproject.toml tests/cluster/environment
	@code=0; tests/cluster/environment $(CLUSTER_VENV) || code=$$?; \
	  if [ $$code -eq 0 ]; then touch $@; \
	  elif [ $$code -eq 77 ] && [ -z "$$CI" ]; then echo "test-cluster is skipped for the reason above"; \
	  else exit $$code; fi

test-cluster: export NUMBA_CACHE_DIR = $(abspath $(CLUSTER_VENV))/kernels
test-cluster: export OMP_NUM_THREADS = 1
test-cluster: export OMPI_ALLOW_RUN_AS_ROOT = 1
test-cluster: export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
test-cluster: $(CLUSTER_STAMP)
	@test -e $(CLUSTER_STAMP) || exit 0; for ranks in $(CLUSTER_RANKS); do \
	  run="mpiexec --oversubscribe -n $$ranks"; if [ $$ranks -eq 1 ]; then run=""; fi; \
	  echo "tests/cluster on $$ranks ranks"; \
	  $$run $(CLUSTER_VENV)/bin/python -m pytest -q -m "slow or not slow" -p no:cacheprovider tests/cluster || exit 1; done

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
	rm -rf $(VENV) $(MIN_VENV) $(CLUSTER_VENV) build dist docs/gallery docs/api demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks fuzz examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
