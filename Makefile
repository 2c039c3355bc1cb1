# The development commands. `make help` lists them.

# The first Python that is new enough; override with `make PYTHON=... setup`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
STAMP := .venv/.ready
SDK := tests/sdk/node_modules/.ready
# Everybody installs the same versions as CI, so that `make check` finds the same. An empty value
# installs the newest versions that pyproject.toml allows: `make clean && make test CONSTRAINTS=`.
CONSTRAINTS ?= constraints.txt
PINNED := $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

.DEFAULT_GOAL := help
.PHONY: help setup sdk demo test test-all torture fuzz coverage check fix bench load interop docs pictures build constraints clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "%-12s %s\n", $$1, $$2 }'

setup: $(STAMP) ## create .venv with rekindle and the development tools

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "Rekindle needs Python 3.11 or newer; none was found." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
		{ echo "Could not make .venv: on Debian and Ubuntu, install python3-venv first." >&2; exit 1; }
	@echo "Setting up .venv (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.3' $(PINNED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev \
		$(PINNED) $(PINNED:--constraint%=--build-constraint%)
	@touch $@

sdk: $(SDK) ## install the protocol's schemas and TypeScript SDK for tests, with npm

# Without the SDK, the tests that need it are skipped. If CI is set, they fail.
$(SDK): tests/sdk/package.json
	@echo "Installing the protocol's schemas and SDK (once) ..."
	@npm install --prefix tests/sdk --no-package-lock --no-audit --no-fund --no-update-notifier \
		--loglevel=error --fetch-retries=1 >/dev/null && touch $@ || echo "Not installed: npm is missing, or failed. Tests that need the SDK are skipped." >&2

demo: $(STAMP) ## show a conversation that survives when all processes are killed
	@$(BIN)/python examples/demo.py

test: $(STAMP) $(SDK) ## run the tests; REKINDLE_TESTS=all runs every case
	@$(BIN)/python -m pytest -n auto --dist worksteal

test-all: $(SDK) ## run the tests on every Python from 3.11 to 3.14 that is found
	@CONSTRAINTS="$(CONSTRAINTS)" sh tests/every_python.sh

torture: $(STAMP) ## inject faults for SECONDS, from SEED; SECONDS=600 SEED="1 2 3" writes docs/explanation/reliability.md
	@PYTHONPATH=tests:tests/support $(BIN)/python -m faults $(if $(SEED),--seed $(SEED)) \
		$(if $(EPISODE),--episode $(EPISODE),--seconds $(or $(SECONDS),60)) $(if $(WRITE),--write)

coverage: $(STAMP) $(SDK) ## check that tests cover every branch of the pure packages
	@$(BIN)/coverage run -m pytest -q tests/acp tests/text tests/transcript tests/proxy tests/export \
		tests/test_model.py tests/test_jsonvalue.py
	@$(BIN)/python tests/check_coverage_data.py
	@$(BIN)/coverage report

check: $(STAMP) ## check style, types and spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/pyright

fix: $(STAMP) ## format, and apply the fixes of the linter
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## measure, and write bench/RESULTS.md
	@$(BIN)/python bench/measure.py

load: $(STAMP) ## measure under load for an hour, and write the rest of bench/RESULTS.md
	@$(BIN)/python bench/load.py

interop: $(STAMP) ## run real agents with a fake model; AGENT=name, SCENARIO=memory run one, REPORT=1 none
	@$(BIN)/python -m interop $(if $(REPORT),--report) $(if $(SCENARIO),--scenario "$(SCENARIO)") \
		$(if $(AGENT),"$(AGENT)")

# MkDocs is only needed here, so `make setup` does not install it. The variable silences an advertisement.
docs: $(STAMP) ## write the command reference, and build the documents in site/
	@$(BIN)/python -c 'import material' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs $(PINNED)
	@$(BIN)/python -m tools.command_reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

pictures: $(STAMP) ## record real runs again, and draw docs/pictures; DRAW=1 only draws, SCENE=name does one
	@$(BIN)/python -m tools.pictures $(if $(DRAW),--draw) $(SCENE)

# atheris has wheels only for some Pythons and systems, so `make setup` does not install it.
fuzz: $(STAMP) ## feed random bytes to every reader, for SECONDS; TARGET=name, FILE=path repeat one
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	@PYTHONPATH=tests:tests/support $(BIN)/python -m fuzz \
		$(if $(FILE),"$(TARGET)" "$(FILE)",$(or $(SECONDS),300) $(if $(TARGET),"$(TARGET)"))

build: $(STAMP) ## build the wheel and the source distribution in dist/
	@rm -rf dist
	@$(if $(CONSTRAINTS),PIP_CONSTRAINT=$(abspath $(CONSTRAINTS))) $(BIN)/python -m build

constraints: $(STAMP) ## write constraints.txt: the newest versions that pyproject.toml allows
	@$(BIN)/python packaging/make_constraints.py

clean: ## remove all generated files
	@rm -rf .venv .venvs dist site .interop .fuzz tests/sdk/node_modules .pytest_cache .ruff_cache .hypothesis .coverage*
