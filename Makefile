# make demo        60 stores learn which offer sells, then decide for 10,000 visitors; a report and a picture in demo/
# make test        lint, types and tests (five minutes)
# make check       lint, types and the fast core of the tests (one minute)
# make test-slow   every test, also those that take minutes: kills, soaks, browsers, clusters, coverage
# make test-lab    the fast tests of the laboratory: benchmarks, data sets, the reproduction
# make serve       the decision service with simulated stores, and its page
# make paper       the methods of the paper, compared
# make docs        the documentation site, in docs/_build/site
# make dist        wheel and source archive in dist/, tried in a fresh environment
# make bench       how fast it is, beside what was promised, in bench/ (ten minutes, 10 GB of memory)
# make report      every figure and claim of the paper, in report/ (half an hour)
# Each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8080
# Tests start hundreds of processes; without kept bytecode each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo paper serve check core test compile test-lab test-slow lint format bench report picture docs dist clean

.venv/%.installed: pyproject.toml constraints.txt
	@scripts/install $* $(PYTHON)

demo: .venv/plot.installed
	@$(BIN)/posse demo

paper: .venv/test.installed
	$(BIN)/posse lab paper

serve: .venv/serve.installed
	mkdir -p demo
	$(BIN)/posse serve --demo --database demo/posse.db --port $(PORT)

lint: .venv/test.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@echo 'collecting tests'
	@$(BIN)/python -m pytest --collect-only -q -n 0 -m 'not slow' | tail -n 1

# Linters take one core while the other compiles; afterwards nothing that a test starts waits for the compiler.
test: .venv/test.installed
	@$(MAKE) --no-print-directory -j 2 lint compile
	$(BIN)/python -m pytest -m 'not slow'

compile: .venv/test.installed
	$(BIN)/posse warmup

# What most changes break first, in a minute: the mathematics, logs, evaluation, and a fleet that decides and learns.
CORE := tests/model tests/families tests/features tests/logs tests/offline tests/fleet/test_posse.py \
  tests/fleet/test_decide.py tests/fleet/test_rewarding.py tests/test_package.py
check: .venv/test.installed
	@$(MAKE) --no-print-directory -j 2 lint core

core: .venv/test.installed
	$(BIN)/python -m pytest -m 'not slow' $(CORE)

test-lab: .venv/test.installed
	$(BIN)/python -m pytest -m 'not slow' lab

test-slow: .venv/dev.installed
	$(BIN)/python -m pytest src tests lab

format: .venv/test.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev.installed
	$(BIN)/posse warmup
	$(BIN)/posse lab bench step
	$(BIN)/posse lab bench peers
	$(BIN)/posse lab bench serve --postgres
	$(BIN)/posse lab bench scale

report: .venv/dev.installed
	$(BIN)/posse lab reproduce all
	cp report/claims.md docs/claims.md
	cp report/figures/balanced.svg docs/images/balanced.svg

picture: demo
	cp demo/sales.svg docs/images/sales.svg

docs: .venv/docs.installed
	$(BIN)/python -m sphinx -q -W --keep-going -d docs/_build/trees docs docs/_build/site
	@echo "open docs/_build/site/index.html"

# The test builds once more, and runs the README's example from that wheel outside this folder.
dist: .venv/dev.installed
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m pytest -n 0 -m slow tests/test_dist.py

clean:
	rm -rf .venv dist docs/_build demo bench report report-quick .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests lab -name __pycache__ -type d -exec rm -rf {} +
