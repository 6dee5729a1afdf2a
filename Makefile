# Every task of the project. `make` or `make help` lists them.
# Any target works as the first command in a fresh clone: those that need the environment build it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup check test test-all campaign simulate sites kills kills-deploy kills-sites fuzz soak soak-spark fixture lint format cases demo replay-demo bench forks clean

BIN := .venv/bin
SCENARIO ?= examples/demo/scenario.toml
SECONDS ?= 45
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready-dev ## Build .venv with the tested versions, and look for Java

check: lint .venv/.ready-dev ## Format, lint, types, and the tests that are neither `spark` nor `slow`
	@$(BIN)/pytest -q -n 2 -m "not spark and not slow"

test: lint .venv/.ready-spark ## Linters and all tests, Spark included, with the part of the seeds whose turn it is
	@JAVA_HOME="$$(tools/ensure-java --home)" tools/run-tests

test-all: lint .venv/.ready-spark ## The same with every seed: takes hours rather than minutes
	@MIDSTREAM_SEEDS=all JAVA_HOME="$$(tools/ensure-java --home)" tools/run-tests

campaign: .venv/.ready-dev ## Thousands of drawn scripts in which changes, migrations, controls and kills meet: half an hour
	@MIDSTREAM_SEEDS=$(or $(PART),all) $(BIN)/pytest -q -n 2 tests/oracle/test_campaign.py

kills: .venv/.ready-spark ## Live queries on Spark, killed at named points (SEEDS=0:20, RESUME=build/kills.jsonl)
	@JAVA_HOME="$$(tools/ensure-java --home)" PYTHONPATH=tests $(BIN)/python tests/spark/kill_campaign.py \
	  --seeds $(or $(SEEDS),0:20) --resume $(or $(RESUME),build/kills.jsonl)

kills-deploy: .venv/.ready-spark ## Adopted programs on Spark, their driver killed at 25 points of a deployment
	@JAVA_HOME="$$(tools/ensure-java --home)" PYTHONPATH=src:tests:. $(BIN)/python tests/spark/adopted_kills.py

kills-sites: .venv/.ready-spark ## Joins over sites on Spark, workers and drivers killed in every phase of a migration
	@JAVA_HOME="$$(tools/ensure-java --home)" PYTHONPATH=src:tests:. $(BIN)/python tests/spark/sites_kills.py

fuzz: .venv/.ready-dev ## Tear and splice query texts until SECONDS are up; print those that bring a traceback (SECONDS=3600)
	@PYTHONPATH=tests $(BIN)/python tests/lang/fuzz.py --seconds $(SECONDS)

sites: .venv/.ready-dev ## Drawn joins over sites on a simulated network, compared with recomputing; goes on where it was interrupted (SEEDS=0:1000)
	@mkdir -p build
	@PYTHONPATH=src:tests:. $(BIN)/python -m oracle.sites_campaign --seeds $(or $(SEEDS),0:1000) --resume build/sites.txt

simulate: .venv/.ready-dev ## The live path on a simulated machine, 10,000 seeds; goes on where it was interrupted (SEEDS=0:10000)
	@mkdir -p build
	@PYTHONPATH=tests:. $(BIN)/python -m simulation --seeds $(or $(SEEDS),0:10000) --resume build/simulation.txt

soak: .venv/.ready-dev ## Tiny micro-batches through the live path in memory; prints what grows (BATCHES=1000000)
	@PYTHONPATH=tests $(BIN)/python tests/engine/soak.py --batches $(or $(BATCHES),1000000)

soak-spark: .venv/.ready-spark ## One live query on Spark as fast as it goes, an hour; prints what grows (SECONDS=3600)
	@JAVA_HOME="$$(tools/ensure-java --home)" PYTHONPATH=tests $(BIN)/python tests/spark/soak_spark.py \
	  --seconds $(if $(filter file,$(origin SECONDS)),3600,$(SECONDS))

fixture: .venv/.ready-spark ## Keep checkpoints of this release for later ones to open, in tests/fixtures
	@JAVA_HOME="$$(tools/ensure-java --home)" PYTHONPATH=tests $(BIN)/python tests/fixtures/kept_checkpoints.py

lint: .venv/.ready-dev ## Format check, lint and types only
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

format: .venv/.ready-dev ## Rewrite the code in the house format, and fix what ruff can fix
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format .

cases: .venv/.ready-dev ## Rewrite the expectations of the golden cases in tests/cases; then read the diff
	@REWRITE_CASES=1 $(BIN)/pytest -q tests/test_cases.py

demo: .venv/.ready-spark ## Run a live 4-way join on local Spark whose plan follows its data, then check it (SECONDS=45)
	@JAVA_HOME="$$(tools/ensure-java --home)" $(BIN)/midstream demo --seconds $(SECONDS)

replay-demo: .venv/.ready-dev ## Replay a recorded scenario (SCENARIO=path), output in build/
	@mkdir -p build
	$(BIN)/midstream replay $(SCENARIO) --out build/demo.parquet --report build/demo.json

bench: .venv/.ready-dev ## Measure the four-way join, numbers in build/join4.json
	@mkdir -p build
	$(BIN)/midstream bench join4 --json build/join4.json

forks: ## Count the places in src that fork by kind of query
	@tools/count-forks

clean: ## Remove build output and caches; .venv stays
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

# The stamps lie inside .venv, so that deleting .venv also forgets them.
.venv/.ready-dev: pyproject.toml constraints.txt
	@echo "Setting up .venv: downloading and installing takes a minute or two the first time."
	@tools/ensure-venv .venv
	@$(PIP_INSTALL) -e '.[dev]'
	@tools/ensure-java
	@touch $@

# Apart from the rest because PySpark is a large download that only the demo and the Spark tests need.
.venv/.ready-spark: .venv/.ready-dev
	@echo "Adding PySpark to .venv: a large download the first time."
	@$(PIP_INSTALL) -e '.[dev,spark]'
	@touch $@
