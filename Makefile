# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

# The datasets of the tests and the study, where a folder of them lies beside the project.
ifneq ($(wildcard ../shared/uci/manifest.json),)
export OFFMAP_DATA ?= $(abspath ../shared/uci)
endif

.PHONY: install demo test test-slow clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

demo: install
	$(BIN)/offmap demo --out offmap-demo

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -m "not slow" --durations=10

test-slow: install
	$(BIN)/pytest -m slow --durations=0

clean:
	rm -rf .venv offmap-demo
