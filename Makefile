# Two commands for a newcomer: `make demo` and `make test`. Needs Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DATA := $(if $(KAUCUS_DATA),$(KAUCUS_DATA),$(abspath $(wildcard ../shared/data)))

# One test process for each core, and one BLAS thread for each process.
PYTEST := $(if $(DATA),KAUCUS_DATA=$(DATA)) OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

.PHONY: help demo test test-all test-poor house lint format docs bench clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras, renewed when the dependencies change.
$(VENV)/.installed-%: pyproject.toml papers/requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]" \
		$(if $(filter test bench,$*),--requirement papers/requirements.txt)
	@touch $@

demo: $(VENV)/.installed-demo ## a table, digits and clusters beside scikit-learn, and a picture
	$(BIN)/kaucus demo

test: $(VENV)/.installed-test ## run the test suite, 140 s on two quiet cores
	$(PYTEST)

test-all: $(VENV)/.installed-test ## the same, and the long tests
	$(PYTEST) -m ""

test-poor: $(VENV)/.installed-test ## the suite with a poor processor's instructions alone
	OPENBLAS_CORETYPE=Sandybridge \
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python tests/cpu_features.py)" $(PYTEST)

lint: $(VENV)/.installed-lint ## ruff, import-linter, types, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright
	$(BIN)/codespell src tests papers benchmarks docs examples README.md CHANGELOG.md CONTRIBUTING.md

house: $(VENV)/.installed-test ## print how large the package is, beside its ceilings
	$(BIN)/python -m tests.house

format: $(VENV)/.installed-lint ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs ## build the site into docs/_build/html
	rm -rf docs/reference/kaucus*.rst docs/gallery docs/_build
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg \
	$(BIN)/python -m sphinx --builder html --fresh-env --jobs auto --fail-on-warning --nitpicky \
		--doctree-dir docs/_build/doctrees docs docs/_build/html

bench: $(VENV)/.installed-bench ## speed and memory against other libraries
	$(if $(DATA),KAUCUS_DATA=$(DATA)) $(BIN)/python -m benchmarks lssvm

clean: ## remove what the commands above made
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/reference/kaucus*.rst .pytest_cache .ruff_cache .hypothesis .import_linter_cache
