# Two commands: `make up` runs Plait on this machine, `make test` checks everything.
# Both set up what they need and are safe to run again.

PYTHON ?= python3
BIN := .venv/bin
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.PHONY: up down test lint types types-python types-dashboard unit setup dev chromium clean

up: setup
	@$(BIN)/plait up

down: setup
	@$(BIN)/plait down

# The checks before the tests, and what they need, keep one core each.
test:
	@$(MAKE) --jobs=2 --output-sync=target lint types
	@$(MAKE) unit

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: types-python types-dashboard

types-python: dev
	$(BIN)/mypy

types-dashboard: dev .stamps/openapi
	npm --prefix frontend run check

# Most tests run side by side, each file in one of two processes, which start servers of their own;
# torch's threads would only fight there. The longest files come first, so that both processes end
# together. The other tests time what they run or look at all of the machine, and have it for
# themselves.
SIDE_BY_SIDE := $(patsubst %,tests/end_to_end/test_end_to_end_%.py,jobs browser model_page tuning hosts \
  tuning_page) \
  $(addprefix tests/,graph zoo schedulers alternatives backend runner cli schedules architecture \
  deploy hardware tuning) \
  $(wildcard $(addprefix tests/devices/test_devices_,sim*.py cuda*.py providers_aten.py \
  providers_gpu.py)) $(wildcard $(addprefix tests/measure/test_measure_,compare.py cpu_model.py \
  environment.py explain.py parallel_*.py profile_index.py roofline.py statistics.py tournament.py \
  verify.py zoo.py))

unit: dev chromium
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder $(SIDE_BY_SIDE)
	$(BIN)/pytest $(addprefix --ignore=,$(SIDE_BY_SIDE))

setup: .stamps/python .stamps/frontend

dev: .stamps/dev .stamps/frontend

.stamps/python: pyproject.toml constraints.txt
	@mkdir -p .stamps
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Plait needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || scripts/install-debian python3-venv
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "installing Python packages into .venv"
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[workers,local,tvm]'
	@touch $@

.stamps/dev: .stamps/python
	@$(BIN)/pip install --quiet --constraint constraints.txt --group dev
	@touch $@

FRONTEND_SOURCES := $(shell find frontend -path frontend/node_modules -prune -o -path frontend/dist -prune -o -type f -print)

.stamps/npm: frontend/package-lock.json
	@mkdir -p .stamps
	@command -v npm > /dev/null || { echo "Plait's dashboard needs Node.js 20 or newer with npm" >&2; exit 1; }
	@echo "installing the dashboard's packages"
	@npm --prefix frontend ci --no-audit --no-fund --loglevel=error
	@touch $@

.stamps/frontend: .stamps/npm $(FRONTEND_SOURCES)
	@echo "building the dashboard"
	@npm --prefix frontend run build --silent
	@touch $@

# The dashboard's types come from the API's own description; a stale one fails the check.
.stamps/openapi: .stamps/dev $(shell find backend -name '*.py')
	@$(BIN)/python -m backend.openapi --check
	@touch $@

chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || scripts/install-debian chromium

clean:
	rm -rf .venv .stamps frontend/node_modules frontend/dist
