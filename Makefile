# make run    start the lab on http://localhost:8501   (make run PORT=8600 HOST=0.0.0.0)
# make test   all that must be green: linters, types, tests, a real browser
# make lint   ruff and mypy alone
# make bench  measure speed against its targets        (make bench ONLY=server for one of them)
# make lock   pin the newest allowed versions in requirements.lock
# make clean  remove what the others made
#
# Each target sets up what it needs first: see deploy/setup.sh. Works from any directory (make -C).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.PHONY: run test lint bench lock clean venv browser

PORT ?= 8501
HOST ?= localhost
ONLY ?= *
BIN := .venv/bin

run: venv
	@exec $(BIN)/streamlit run streamlit_app.py --server.port '$(PORT)' --server.address '$(HOST)'

test: lint browser
	$(BIN)/pytest -n 2 --dist loadfile --ignore=tests/ui --ignore=tests/browser
	$(BIN)/pytest -n 2 --dist loadfile tests/ui
	$(BIN)/pytest tests/browser

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict core

# Runs every benchmark, however many miss their target, and fails at the end if one did.
bench: venv browser
	@failed=0
	for script in tests/benchmarks/$(ONLY).py; do
	  grep -q '^if __name__ ==' "$$script" || continue
	  echo "== $$script"
	  PYTHONPATH=. $(BIN)/python "$$script" || failed=1
	done
	exit $$failed

# A version that pip is told to stay below on this machine is not pinned above it.
lock: venv
	@constraint=$$($(BIN)/pip config list | sed -n "s/^global.constraint='\(.*\)'/\1/p")
	UV_CONSTRAINT="$$constraint" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  requirements.txt requirements-dev.txt --output-file requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv browser:
	@deploy/setup.sh $@
