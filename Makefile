# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
DATASET ?= workdays@dev
OUT ?= reports/runs/demo
LOGS ?= datasets/workdays
TESTS ?= -n auto --randomly-seed=1 # pytest's options; another order: make test TESTS="-n 2 --randomly-seed=2"

export HF_HUB_OFFLINE := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: demo test test-all lint integrations eval notebooks lab docs reports bench acceptance validate clean

demo: .venv/all.done  ## replay the shipped logs, compare the retrievers, leave a report
	$(BIN)/neuralstream --home $(OUT)/memory replay $(LOGS)
	$(BIN)/neuralstream notebook run notebooks/02_compare_retrievers.ipynb --out $(OUT) -p dataset $(DATASET)

test: lint  ## lint, types, import contracts and the fast tests
	$(BIN)/python -m pytest $(TESTS)

test-all: lint  ## the slow tests too
	$(BIN)/python -m pytest -m ""

lint: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

integrations: .venv/all.done integrations/node_modules/.package-lock.json  ## type-check and test the agents' extensions; needs Node.js 20 or later
	npm --prefix integrations test

eval: .venv/all.done  ## measure the served settings on the shipped set and hold them against reports/baseline.json
	$(BIN)/neuralstream eval --dataset workdays@dev --modes hybrid --out reports/runs/eval
	$(BIN)/neuralstream gate reports/runs/eval --baseline reports/baseline.json

notebooks: .venv/all.done  ## run every notebook with its own parameters
	for notebook in notebooks/*.ipynb; do $(BIN)/neuralstream notebook run $$notebook || exit 1; done

lab: .venv/all.done  ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

docs: .venv/dev.done  ## write docs/commands.md and docs/configuration.md anew
	$(BIN)/python docs/generate.py

reports: .venv/all.done  ## measure the shipped sets anew, and put the tables into README.md
	for split in dev test; do \
		$(BIN)/neuralstream eval --dataset workdays@$$split --lane turns --out reports/runs/workdays-$$split || exit 1; \
		cp reports/runs/workdays-$$split/summary.md reports/workdays-$$split.md; \
		$(BIN)/neuralstream eval-themes --dataset workdays@$$split --out reports/runs/themes-$$split.md || exit 1; \
	done
	{ cat reports/runs/themes-dev.md && echo && cat reports/runs/themes-test.md; } > reports/themes.md
	$(BIN)/neuralstream eval --dataset workdays@dev --modes bm25,semantic,hybrid --lane gems --out reports/runs/workdays-dev-gems
	cp reports/runs/workdays-dev-gems/summary.md reports/workdays-dev-gems.md
	$(BIN)/neuralstream eval --dataset tongues --modes whitespace-bm25,bm25,semantic,hybrid --lane turns --out reports/runs/tongues
	$(BIN)/python docs/languages.py reports/runs/tongues > reports/languages.md
	$(BIN)/python docs/generate.py

bench: .venv/dev.done  ## measure speed, memory and disk anew; `python -m benchmarks --long` goes to a million turns
	$(BIN)/python -m benchmarks

acceptance: .venv/dev.done  ## show every promise with its figure, and write reports/acceptance.md; an hour and more
	$(BIN)/python -m acceptance

validate: .venv/all.done  ## compute what the data set's datasheet claims
	$(BIN)/neuralstream datasets validate workdays

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache reports/runs integrations/node_modules

integrations/node_modules/.package-lock.json: integrations/package-lock.json
	npm --prefix integrations ci --ignore-scripts --no-audit --no-fund

.venv/python.done:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "NeuralStream needs Python 3.11 or later; say which: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv .venv
	touch $@

.venv/all.done: .venv/python.done pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	touch $@

.venv/dev.done: .venv/all.done
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
