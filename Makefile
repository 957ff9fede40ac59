# Everything runs from here. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# Tests start hundreds of processes: where this is set, each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# RUNLEVEL=1 keeps Debian from starting what it installs as a service.
INSTALL := apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq
SEEDS ?= 2000

.DEFAULT_GOAL := help
# The web page, built into the Python package. Tests of the page and what is made are none of its sources.
PAGE        := src/leasehold/server/page/index.html
WEB_STAMP   := web/node_modules/.installed
WEB_SOURCES := $(shell find web/app web/packages -type f -not -path '*/node_modules/*' -not -path '*/tests/*' -not -path '*/dist/*' 2>/dev/null)
HAS_NODE    := command -v npm >/dev/null 2>&1 && node -e "const [a, b] = process.versions.node.split('.'); process.exit(a * 100 + +b >= 2019 ? 0 : 1)"

.PHONY: help web web-check web-test serve schemas test test-all check fix simulate bench types lock clean

help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml Makefile
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps -e .
	@touch $(STAMP)

# The test modules are compiled once, not by each of pytest's processes at the same time.
$(COMPILED): $(STAMP)
	$(BIN)/python -m pytest --collect-only -qq
	@touch $(COMPILED)

$(WEB_STAMP): web/package-lock.json web/.npmrc
	cd web && npm ci --no-fund --no-audit --loglevel=error
	@touch $(WEB_STAMP)

$(PAGE): $(WEB_STAMP) $(WEB_SOURCES)
	cd web && npm run --silent build

web: $(PAGE) ## Build the web page into the package, where its sources are newer.

web-check: $(STAMP) $(WEB_STAMP) ## Lint, types and layers of the web page; its generated types are those of the server.
	cd web && npm run --silent check

web-test: $(PAGE) ## Test the web page's own logic; the build is within its budget.
	cd web && npm run --silent test

.PHONY: e2e chromium
e2e: $(STAMP) $(PAGE) system ## Use the web page as people do, in a real browser against the real server.
	cd web && npm run --silent test --workspace e2e

serve: $(STAMP) ## Run the document service and its web page with a demo team, and say how to sign in. Data: .data
	@if $(HAS_NODE); then $(MAKE) --no-print-directory web; \
	  else echo "Node 20.19 or newer, with npm, is missing: the web page is not built, and only the API is served."; fi
	$(BIN)/leasehold serve --demo --data-dir .data

schemas: $(STAMP) ## Write the schemas of the document protocol, from the server's own types.
	$(BIN)/python -m leasehold.documents.json_schema > docs/protocol.schema.json

.PHONY: test-quick setup setup-quick
test: ## Set up, check and test everything, with reduced counts; then a table of stages and the slowest tests.
	@$(PYTHON) -m tests.run

test-all: ## The same with the full counts and a third server, Redis 7 (long).
	@$(PYTHON) -m tests.run --full

test-quick: ## While you work: unit tests, the contract on one server, the web page's logic (under 2 minutes).
	@$(PYTHON) -m tests.run --quick

setup: setup-quick system $(COMPILED)

setup-quick: $(STAMP) $(PAGE)

check: $(STAMP) types web-check ## Lint, format, types and layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## Type-check the library, strictly.
	$(BIN)/pyright

fix: $(STAMP) ## Format, fix what can be fixed automatically, and write the source tree into docs/architecture.md.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tests.support.source_tree
	@if $(HAS_NODE); then $(MAKE) --no-print-directory $(WEB_STAMP) && cd web && npm run --silent fix; fi

simulate: $(STAMP) ## Look for a seed that breaks a promise: many clients and faults, in virtual time (SEEDS=2000).
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

bench: $(STAMP) ## Measure against the limit and the peers; table, plots and bench/results.json.
	$(BIN)/python -m bench

.PHONY: system redis7
system: ## Install what the tests start for themselves, where it is missing: PostgreSQL, Chromium, RabbitMQ, NATS (Debian, as root).
	@PATH=$$PATH:/usr/sbin; missing=; \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing="$$missing postgresql"; \
	  command -v chromium >/dev/null || test -n "$$CHROMIUM" || missing="$$missing chromium"; \
	  command -v rabbitmq-server >/dev/null || missing="$$missing rabbitmq-server"; \
	  command -v nats-server >/dev/null || missing="$$missing nats-server"; \
	  test -z "$$missing" || { echo "installing$$missing"; $(INSTALL) $$missing; } \
	  || { echo "Could not install$$missing, which the tests need: install them by hand, then run make again."; exit 1; }

redis7: ## Install Redis 7, which takes part in test-all, where it is missing (Debian, as root).
	@command -v redis-server >/dev/null || { $(INSTALL) redis-server; }

.PHONY: escrow
escrow: $(STAMP) ## Run the escrow example under load, with and without fence guards (2 minutes).
	$(BIN)/python -m examples.escrow $(ESCROW)

lock: $(STAMP) ## Pin the newest versions: names, versions and hashes, no addresses.
	$(BIN)/uv pip compile --quiet --universal --all-extras --group dev --group peers --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --upgrade --output-file requirements.lock pyproject.toml

clean: ## Remove what the targets made.
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist web/node_modules $(dir $(PAGE))
