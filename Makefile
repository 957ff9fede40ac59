# Everything runs from here. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests start hundreds of processes: where this is set, each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# Most tests wait for a server, a deadline or a process, so three of them share two cores well.
PARALLEL ?= -n 3 --dist worksteal
# These start message brokers and a database; a file stays with one process, so that each is started once or twice.
BY_FILE  ?= -n 2 --dist loadfile

SEEDS ?= 2000

.DEFAULT_GOAL := help
.PHONY: help serve schemas test test-all check fix simulate bench types lock clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps -e .
	@touch $(STAMP)

serve: $(STAMP) ## Run the document service with a demo team, and say how to sign in.
	$(BIN)/leasehold serve --demo

schemas: $(STAMP) ## Write the schemas of the document protocol, from the server's own types.
	$(BIN)/python -m leasehold.documents.schemas > docs/protocol.schema.json

test: $(STAMP) brokers postgres check ## Set up, check and test everything, with reduced counts.
	$(BIN)/python -m pytest $(PARALLEL) --ignore tests/operations
	$(BIN)/python -m pytest $(BY_FILE) tests/operations

test-all: $(STAMP) brokers postgres check ## The same with the full counts (long).
	$(BIN)/python -m pytest $(PARALLEL) --ignore tests/operations --full
	$(BIN)/python -m pytest $(BY_FILE) tests/operations --full

check: $(STAMP) types ## Lint, format, types and layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## Type-check the library, strictly.
	$(BIN)/pyright

fix: $(STAMP) ## Format and mend what can be mended.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

simulate: $(STAMP) ## Look for a seed that breaks a promise: many clients and faults, in virtual time (SEEDS=2000).
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

bench: $(STAMP) ## Measure against the limit and the peers; table, plots and bench/results.json.
	$(BIN)/python -m bench

.PHONY: postgres
postgres: ## Install PostgreSQL, which the tests start for themselves, where it is missing (Debian, as root).
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql; }

.PHONY: brokers
brokers: ## Install RabbitMQ and NATS, which the tests start for themselves, where they are missing (Debian, as root).
	@PATH=$$PATH:/usr/sbin; { command -v rabbitmq-server && command -v nats-server; } >/dev/null \
	  || { apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rabbitmq-server nats-server; } \
	  || echo "RabbitMQ or NATS is missing and could not be installed: their tests are skipped"

.PHONY: escrow
escrow: $(STAMP) ## Run the escrow example under load, with and without fence guards (2 minutes).
	$(BIN)/python -m examples.escrow $(ESCROW)

lock: $(STAMP) ## Pin the newest versions: names, versions and hashes, no addresses.
	$(BIN)/uv pip compile --quiet --universal --all-extras --group dev --group peers --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --upgrade --output-file requirements.lock pyproject.toml

clean: ## Remove what the targets made.
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist
