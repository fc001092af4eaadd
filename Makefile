# Two commands for a newcomer: `make demo` and `make test`. Needs Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DATA := $(if $(KAUCUS_DATA),$(KAUCUS_DATA),$(wildcard ../shared/data))

.PHONY: help demo test lint format bench clean
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras, renewed when the dependencies change.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

demo: $(VENV)/.installed-demo ## fit a model, compare it with SVC, draw a picture
	$(BIN)/kaucus demo

test: $(VENV)/.installed-test ## run the whole test suite
	$(if $(DATA),KAUCUS_DATA=$(DATA)) $(BIN)/python -m pytest

lint: $(VENV)/.installed-lint ## ruff, import-linter, types, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright
	$(BIN)/codespell src tests benchmarks docs examples README.md CHANGELOG.md CONTRIBUTING.md

format: $(VENV)/.installed-lint ## let ruff rewrite the files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench ## speed and memory against other libraries
	$(if $(DATA),KAUCUS_DATA=$(DATA)) $(BIN)/kaucus bench lssvm

clean: ## remove what the commands above made
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
