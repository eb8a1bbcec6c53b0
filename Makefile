# The commands of the project; `make` alone lists them.
BIN := .venv/bin
PORT ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help start setup lock fmt lint types arch check test test-tools test-all explore mutations conformance requirements reference bench walk shape clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

start: ## Install what is missing, then run the gateway (PORT=18790 moves it)
	@scripts/setup.sh user && exec $(BIN)/skerry gateway run $(if $(PORT),--port $(PORT))

setup: ## Make the developer's environment in .venv
	@scripts/setup.sh dev

lock: setup ## Lock what pyproject.toml asks for (UPGRADE=all, or the name of a package, raises versions)
	@scripts/lock.sh $(if $(UPGRADE),$(if $(filter all,$(UPGRADE)),--upgrade,--upgrade-package $(UPGRADE)))

fmt: setup ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix-only --quiet .

lint: setup ## Check style and format
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: setup ## Check the types
	@$(BIN)/mypy

arch: setup ## Check which package may import which
	@$(BIN)/lint-imports

check: lint types arch ## Everything that needs no running: lint, types, arch

test: setup ## Run the tests of units, ports and documents: 3 minutes on two cores (ARGS=tests/e2e runs those)
	@$(BIN)/pytest --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 3)) --dist loadfile --no-loadscope-reorder $(or $(ARGS),--ignore tests/e2e --ignore tests/property)

test-tools: setup ## Install what the tests with programs of others need: Chromium, Node packages, servers
	@scripts/test-tools.sh

test-all: test-tools ## Run every test, also end to end, properties, and those with programs of others
	@scripts/test-all.sh

explore: setup ## Look for new examples that break a property, ten times as many, others each time
	@SKERRY_EXPLORE=1 $(BIN)/pytest $$(git grep -l '^from hypothesis import' -- 'tests/**/test_*.py') $(ARGS)

mutations: setup ## Spoil the source line by line and see that the tests of each line fail (ONLY=words)
	@$(BIN)/python -m scripts.mutate $(ONLY)

conformance: setup ## Install OpenClaw 2026.2 and 2026.9 (2 GB) and run their programs against us
	@scripts/conformance.sh

requirements: setup ## Write into tests/requirements.toml which test proves which rule
	@$(BIN)/python scripts/requirements.py --update

reference: setup ## Write the pages of docs/reference from the source
	@$(BIN)/python -m scripts.reference && $(BIN)/python -m scripts.protocol && $(BIN)/python -m scripts.hooks

bench: setup ## Print figures beside budgets (ONLY=chunk; ONLY=soak MINUTES=9; SAVE=1 writes the table; TIMES=3)
	@$(BIN)/python -m bench $(ONLY) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SAVE),--save) $(if $(TIMES),--times $(TIMES))

walk: setup ## Print the way of a message through the source, file by file
	@$(BIN)/python -m scripts.walk

shape: setup ## Print lines, names, imports and docstrings beside those of before issue 12 (ARGS=--write)
	@$(BIN)/python -m scripts.shape $(ARGS)

clean: ## Remove what the other targets made
	@rm -rf .venv .venv-* tests/conformance/*/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
