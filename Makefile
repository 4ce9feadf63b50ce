# trajlake: every task is a target. `make` alone lists them.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ROOT   ?= ./lake
DEMO_ARGS  ?=
BENCH_ARGS ?=
TEST_ARGS  ?=
# Tests of one file stay together, on one broker a process.
PARALLEL   ?= -n auto --maxprocesses 4 --dist loadfile

# One file says that the environment is whole. It is older than what it was made from, or nothing is done.
STAMP  := $(VENV)/.trajlake-setup
LAYERS := expectations sinks streams transforms
TYPED  := trajlake tests $(foreach part,bench examples,$(if $(wildcard $(part)/*.py),$(part)))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check unit bench chaos browser docs format constraints clean distclean

help: ## list the targets
	@echo 'trajlake: step trajectories that can be trusted. Needs Python 3.11 or newer, and make.'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with pinned packages, and fetch Kafka's jars; does nothing twice

$(STAMP): pyproject.toml setup.py constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo 'trajlake needs Python 3.11 or newer; there is no "$(PYTHON)" here. Name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "trajlake needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo '$(PYTHON) cannot make virtual environments; install its venv package (python3-venv on Debian and Ubuntu)' >&2; exit 1; }
	@echo 'setting up $(VENV) (once; one to three minutes)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# Not compiled here: Python compiles what is used at its first use, which halves the time of this step.
	@$(BIN)/python -m pip install --quiet --no-input --no-compile -c constraints.txt -e '.[local,dashboard,docs,dev]'
	@$(BIN)/trajlake broker fetch
	@touch $@

demo: setup ## run the whole flow here: Kafka, agents, tables, proof (under a minute)
	@$(BIN)/trajlake demo --root $(ROOT) $(DEMO_ARGS)

test: setup check ## check, then all tests, those on the real broker included
	@$(BIN)/python -m pytest $(PARALLEL) $(TEST_ARGS)

unit: setup ## only the tests that need no broker
	@$(BIN)/python -m pytest -m 'not integration and not chaos and not slow' $(TEST_ARGS)

check: setup typing ## ruff (lint, format) and strict types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@cd build/typing && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml $(addprefix -p ,$(TYPED))

bench: setup ## measure speed on a real Kafka; prints one JSON line a figure
	@$(BIN)/python -m bench $(BENCH_ARGS)

chaos: setup ## kill workers and the broker at every step, and prove that nothing is lost
	@$(BIN)/python -m pytest -m chaos $(TEST_ARGS)

browser: ## install Debian's Chromium, which the tests of the dashboard drive (needs root)
	@command -v chromium >/dev/null || apt-get install -y -q --no-install-recommends chromium

docs: setup ## build the site of the pages into build/site; it loads nothing from elsewhere
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'build/site/index.html'

format: setup ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

constraints: ## renew constraints.txt from what the newest allowed packages resolve to
	@rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	@build/constraints/bin/python -m pip install --quiet --no-input '.[local,dashboard,docs,dev]'
	@{ grep '^#' constraints.txt; build/constraints/bin/python -m pip freeze | grep -v '^trajlake' | grep '=='; } > build/constraints.txt
	@mv build/constraints.txt constraints.txt

# Links that give the type checker the same import root as the wheel has; `import streams` must not work anywhere.
.PHONY: typing
typing:
	@mkdir -p build/typing/trajlake
	@find build/typing -type l -delete
	@cd build/typing && ln -s $(addprefix ../../,$(filter-out trajlake,$(TYPED))) .
	@cd build/typing/trajlake && ln -s $(addprefix ../../../,$(LAYERS)) $$(ls -d ../../../trajlake/* | grep -v __pycache__) .

clean: ## remove what builds and tests leave; keep .venv and the lake
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	@rm -rf $(VENV)
