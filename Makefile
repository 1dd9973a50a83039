# make demo   run the paper's six methods and draw the README's picture
# make test   lint, types, tests
# make serve  the decision service with a small simulated fleet, and its page
# make bench  how fast it is, beside what was promised, in bench/ (ten minutes, 10 GB of memory)
# make docs   the documentation site, in docs/_build/
# make dist   wheel and source archive in dist/, and the README's example run from the wheel in a fresh environment
# make report every figure and claim of the paper, in report/ (half an hour)
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8080
# Tests start hundreds of processes; without kept bytecode each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve test pytest test-slow lint format bench report picture docs dist clean

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "posse needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/posse demo

serve: .venv/ready
	mkdir -p demo
	$(BIN)/posse serve --demo --database demo/posse.db --port $(PORT)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Linters take one core, so tests begin beside them.
test: .venv/ready
	$(MAKE) --no-print-directory -j 2 lint pytest

pytest: .venv/ready
	$(BIN)/python -m pytest -m 'not slow'

test-slow: .venv/ready
	$(BIN)/python -m pytest -m slow

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready
	$(BIN)/posse warmup
	$(BIN)/posse bench step
	$(BIN)/posse bench simulate
	$(BIN)/posse bench peers
	$(BIN)/posse bench serve --postgres
	$(BIN)/posse bench scale

report: .venv/ready
	$(BIN)/posse reproduce all
	cp report/claims.md docs/claims.md
	cp report/figures/balanced.svg docs/images/balanced.svg

picture: demo
	cp demo/regret.svg docs/images/regret.svg

docs: .venv/ready
	$(BIN)/python -m sphinx -q -W --keep-going -d docs/_build/trees docs docs/_build/site
	@echo "open docs/_build/site/index.html"

# The test builds once more, and runs the README's example from that wheel outside this folder.
dist: .venv/ready
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m pytest -n 0 tests/test_dist.py

clean:
	rm -rf .venv dist docs/_build demo bench report report-quick .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -exec rm -rf {} +
