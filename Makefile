# `make` lists the targets. Each one sets up what it needs.
# A variable can be given on the command line: make test PYTEST_ARGS="-x tests/unit"

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.set-up
PIP_ARGS := -qq --disable-pip-version-check --constraint constraints.txt uv

# The interpreters .venv may be made with: the first that runs and is new enough. Version managers leave names on
# the PATH that do not run.
PYTHON ?= python3.13 python3.12 python3.11 python3

PYTEST_ARGS ?= -n 2 --dist worksteal
BENCH_ARGS ?=
SEEDS ?= 20000
ROUNDS ?= 50

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything in it (needs Python 3.11+; PYTHON=... chooses one)

$(STAMP): pyproject.toml constraints.txt | $(VENV)/bin/uv
	@echo "setup: installing uns and its tools into $(VENV)"
	@$(VENV)/bin/uv pip install --quiet --compile-bytecode --python $(PY) --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Some systems ship Python without ensurepip, which an ordinary venv needs: the outer pip can do its work.
$(VENV)/bin/uv:
	@for python in $(PYTHON); do \
		$$python -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
		python=; \
	done; \
	if [ -z "$$python" ]; then \
		echo "setup: none of these is Python 3.11 or newer: $(PYTHON). Name one: make setup PYTHON=..." >&2; \
		exit 1; \
	fi; \
	echo "setup: making $(VENV) with $$python"; \
	if $$python -c 'import ensurepip' 2>/dev/null; then \
		$$python -m venv --clear $(VENV) && $(PY) -m pip install $(PIP_ARGS); \
	else \
		$$python -m venv --clear --without-pip $(VENV) && $$python -m pip --python $(PY) install $(PIP_ARGS); \
	fi

.PHONY: test
test: setup ## Run the whole test suite (PYTEST_ARGS=...)
	@$(PY) -m pytest $(PYTEST_ARGS)

.PHONY: check
check: setup ## Lint, format, types and import contracts; changes nothing
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-logo

.PHONY: format
format: setup ## Format, and apply the fixes that are safe
	@$(VENV)/bin/ruff check --fix --exit-zero --quiet
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/ruff check

.PHONY: bench
bench: setup ## Run the benchmarks (BENCH_ARGS=...)
	@$(PY) -m pytest benchmarks --benchmark-enable --benchmark-only --timeout=0 $(BENCH_ARGS)

.PHONY: simulate
simulate: setup ## Run the simulation over many seeds (SEEDS=20000)
	@$(PY) -m pytest tests/simulation --seeds=$(SEEDS) --timeout=0

.PHONY: crash
crash: setup ## Kill the service under load, again and again, and look what is left (ROUNDS=50)
	@$(PY) -m pytest tests/crash --rounds=$(ROUNDS) --timeout=0

.PHONY: run
run: setup ## Serve the HTTP API on http://127.0.0.1:8000, with keys for development
	@$(PY) -m uns serve --dev

.PHONY: constraints
constraints: setup ## Resolve the newest versions that pyproject.toml allows into constraints.txt
	@rm -f uv.lock
	@$(VENV)/bin/uv export --quiet --format requirements.txt --all-groups --all-extras --no-emit-project \
		--no-header --no-annotate --no-hashes --output-file constraints.txt

.PHONY: clean
clean: ## Remove .venv and everything else that is generated
	@rm -rf $(VENV) uv.lock build dist htmlcov .coverage .coverage.* .benchmarks .hypothesis
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
