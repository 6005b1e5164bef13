# Everything a contributor or a first-time user runs. `make` alone lists the targets.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-slow test-pure laws lint format docs bench bench-quick bench-deciding bench-rest bench-links peers chaos soak results clean java

PYTHON ?= python3
# More for pytest or the demo: make test ARGS="-k books -x"
ARGS ?=

# Paths are relative, so that a folder with a space in its name does no harm.
BIN := .venv/bin
INSTALLED := .venv/.installed

# Where nothing compiled is kept, every process that a test starts compiles the house anew, and pytest all tests: a
# tenth of a run.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

venv: $(INSTALLED) ## Create .venv and install the package with its tools

$(INSTALLED): pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "Tidings needs Python 3.11 or newer, and there is no $(PYTHON): install one, or name yours with PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tidings needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" -V 2>&1): name another with PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot create virtual environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,experiments]'
	@touch $@

# Asked before the long installation, not after it. The service checks once more, with more advice.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Tidings needs Java 17 or newer; $$java is $${version:+Java }$${version:-not there}: install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME" >&2; \
		exit 1; \
	fi

demo: java venv ## Start Kafka and Spark, publish a workload, and show what was told
	$(BIN)/tidings demo $(ARGS)

test: java venv ## Run the tests, with a real Kafka and a real Spark: under 15 minutes
	@# 5: ARGS chose none of these tests
	$(BIN)/pytest -m "not live" -n 2 --dist worksteal $(ARGS) || [ $$? -eq 5 ]
	$(BIN)/pytest -m "live and not slow and not shared" -n 2 --dist loadfile --no-loadscope-reorder $(ARGS) || [ $$? -eq 5 ]
	@# They share one service, and some of them say how soon it answers: nothing else runs beside it
	$(BIN)/pytest -m "live and not slow and shared" $(ARGS) || [ $$? -eq 5 ]

test-slow: java venv ## Run the tests that are too long for every change: a Spark cluster, TLS and rights, a migration, a lost link, a backlog
	$(BIN)/pytest -m slow $(ARGS)

test-pure: venv ## Run the tests that need no Java: under a minute
	$(BIN)/pytest -m "not live" -n 2 --dist worksteal $(ARGS)

laws: venv ## Try every law of the pure tests on many more examples: half an hour
	$(BIN)/pytest -m "not live" -n 2 --dist worksteal --hypothesis-profile=thorough --timeout=1800 $(ARGS)

lint: venv ## Check style, types and which room imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## Put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: venv ## Write the tables in docs/ anew from the code: settings, rights, reasons, errors, metrics, Kafka topics, decisions
	$(BIN)/python -m testing.docs
	WRITE_DOCS=1 $(BIN)/pytest -q tests/streaming/wire/test_documented.py -k documented

bench: java venv ## Measure the gatherer beside simpler queries, and write docs/benchmarks.md: a quarter of an hour
	PYTHONPATH=. $(BIN)/python benchmarks/bench.py $(ARGS)

bench-quick: java venv ## The same with fewer messages, in under five minutes
	PYTHONPATH=. $(BIN)/python benchmarks/bench.py --quick $(ARGS)

bench-deciding: venv ## Measure what deciding for windows costs with 100,000 items open, and write it there too: ten minutes, no Java
	$(BIN)/python benchmarks/deciding.py $(ARGS)

bench-rest: java venv ## Measure what a service takes with nothing to do, and write it there too: three minutes
	PYTHONPATH=. $(BIN)/python benchmarks/rest.py $(ARGS)

bench-links: java venv ## Measure what links cost within one process, and write it there too: three minutes
	PYTHONPATH=. $(BIN)/python benchmarks/links.py $(ARGS)

peers: java venv ## Measure other systems at the same job: half an hour
	PYTHONPATH=. $(BIN)/python benchmarks/peers/run.py $(ARGS)

chaos: java venv ## Do a service harm in every way we know, and hold it to the reference: half an hour
	$(BIN)/python -m testing.chaos $(ARGS)

soak: java venv ## Run a service for half an hour with changes and faults, and watch what it takes
	$(BIN)/python -m testing.chaos.soak $(ARGS)

results: venv ## Run every experiment and write docs/results.md anew
	$(BIN)/tidings experiment all $(ARGS)

clean: ## Remove .venv, builds and caches; .tidings, where the service keeps its data, stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
