# Everything lands in .venv; nothing outside the repository changes, except that a missing compiler is installed when
# run as root on Debian (it says so).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/* native/*/*)

.DEFAULT_GOAL := help
.PHONY: help setup run check test lint bench sanitize fuzz nightly mutate soak soak-relations soak-codec soak-matching soak-states soak-histories soak-cluster soak-stream soak-tables soak-processes soak-store soak-planted soak-kill soak-links soak-hostile lock stubs clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## Install Palio and all that its development needs into .venv

run: $(VENV)/.run ## Show Palio at work: a small live network on this machine; Ctrl-C ends it
	@$(BIN)/palio demo

check: $(VENV)/.dev ## Run the tests that take little time, in 90 seconds: all layers, without Spark; 20 examples a property
	HYPOTHESIS_PROFILE=check $(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow" $(CHECKED)

CHECKED := $(addprefix tests/,model codec matching routing link sim node store client server)

# Three workers keep two cores busy: tests of processes and of Spark wait a lot.
test: $(VENV)/.dev ## Run all tests, the examples in the documentation included
	$(BIN)/python -m pytest -n 3 --dist loadfile -q

lint: $(VENV)/.dev ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev ## Measure speed; docs/benchmarks.md keeps the figures
	$(BIN)/palio bench model
	$(BIN)/palio bench match
	$(BIN)/palio bench covering
	$(BIN)/palio bench routing
	$(BIN)/palio bench sim
	$(BIN)/palio bench archive
	$(BIN)/palio bench spark --quick
	$(BIN)/palio bench lab --quick
	$(BIN)/palio bench broker --quick

sanitize: $(VENV)/.dev ## Test and fuzz the compiled core under address and undefined-behaviour sanitizers
	scripts/sanitize

fuzz: ## Fuzz what reads bytes from connections, in at most 45 seconds, as CI does
	scripts/fuzz-briefly

nightly: $(VENV)/.dev ## Run sanitizers and fuzzers at length (half an hour): FUZZ_ROUNDS=200000
	FUZZ_ROUNDS=$(or $(FUZZ_ROUNDS),200000) scripts/sanitize
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q tests/codec/test_fuzz.py tests/routing/test_board.py

mutate: $(VENV)/.dev ## Plant small faults into routing, links and nodes and see that they are noticed (hours)
	$(BIN)/python -m tests.mutation

soak: soak-$(or $(SOAK),relations) ## Run a long campaign: SOAK=relations (the default, 20 minutes), codec, matching, states, histories, cluster, stream, tables, processes, store, planted, kill, links, hostile

soak-relations: $(VENV)/.dev
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q tests/model

soak-codec: $(VENV)/.dev
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q tests/codec

soak-matching: $(VENV)/.dev
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q tests/matching

soak-states: $(VENV)/.dev
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q tests/link

soak-histories: $(VENV)/.dev
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n 2 -q -k nothing_is_violated tests/sim

soak-cluster: $(VENV)/.dev
	$(BIN)/python -m tests.spark.soak_cluster

soak-stream: $(VENV)/.dev
	$(BIN)/python -m tests.spark.soak_stream

soak-tables: $(VENV)/.dev
	@$(BIN)/python -m tests.spark.soak_tables --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE))

soak-processes: $(VENV)/.dev
	$(BIN)/python -m tests.processes

soak-store: $(VENV)/.dev
	$(BIN)/python -m tests.store

soak-planted: $(VENV)/.dev
	$(BIN)/python -m tests.planted

soak-kill: $(VENV)/.dev
	@$(BIN)/python -m tests.processes.kill --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(if $(NETWORK),--network $(NETWORK))

soak-links: $(VENV)/.dev
	@$(BIN)/python -m tests.processes.links --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED)) $(if $(NETWORK),--network $(NETWORK))

soak-hostile: $(VENV)/.dev
	@$(BIN)/python -m tests.processes.hostile --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED)) $(if $(NETWORK),--network $(NETWORK)) $(if $(ATTACKS),--attacks $(ATTACKS))

lock: $(VENV)/.dev ## Pin the dependencies anew, with hashes
	$(BIN)/uv pip compile $(LOCK) --group build --extra server -o locks/run.txt
	$(BIN)/uv pip compile $(LOCK) --group build --extra server --extra archive --extra lab --extra dev -o locks/dev.txt
	$(BIN)/uv pip compile $(LOCK) --extra spark -o locks/spark.txt

LOCK := pyproject.toml --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --upgrade \
	--custom-compile-command "make lock"

stubs: $(VENV)/.dev ## Write the type stubs of the compiled modules anew
	$(BIN)/python -m nanobind.stubgen -m palio._core -o src/palio/_core.pyi
	$(BIN)/python -m nanobind.stubgen -m palio.bench._baselines -o src/palio/bench/_baselines.pyi
	$(BIN)/python -m nanobind.stubgen -m palio.bench._load -o src/palio/bench/_load.pyi

clean: ## Remove everything that was built or installed
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +

# -- how the two environments come about: .run is what running needs, .dev adds tests and tools ------------------------

$(VENV)/bin/python:
	scripts/ensure-toolchain $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: locks/run.txt $(SOURCES) | $(VENV)/bin/python
	@test -f $(VENV)/.dev || $(call install,locks/run.txt)
	@$(install_palio)
	@touch $@

$(VENV)/.dev: locks/dev.txt $(SOURCES) | $(VENV)/bin/python
	@$(call install,locks/dev.txt)
	@$(install_palio)
	@touch $@ $(VENV)/.run

install = echo "Installing what $(1) pins into $(VENV) ..." && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)
install_palio = echo "Building Palio ..." && PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet \
	--disable-pip-version-check --no-deps --no-build-isolation --editable .
