# Every target works as the first command in a fresh clone: it makes the virtual environment it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
READY   = $(VENV)/.installed

DATA    = data/iceslider
RUN     = runs/demo

.PHONY: help setup demo test lint format types pytest slow clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Create the virtual environment and install everything

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)  ## IceSlider: collect, train, evaluate; then open runs/demo/report.html
	@test -d $(DATA) || $(BIN)/dwmr collect iceslider --out $(DATA)
	$(BIN)/dwmr train iceslider/dwmr --data $(DATA) --out $(RUN) --resume
	$(BIN)/dwmr evaluate $(RUN) --data $(DATA) --report $(RUN)/report.html --overwrite --json > $(RUN)/evaluation.json.part
	@mv $(RUN)/evaluation.json.part $(RUN)/evaluation.json
	@$(BIN)/python -c "import json; f = json.load(open('$(RUN)/evaluation.json')); \
	print('F1 of imagination %.1f, of copying the frame %.1f' % (f['imagination']['f1'], f['baselines']['copy']['f1']))"
	@echo "open $(RUN)/report.html; all numbers are in $(RUN)/evaluation.json"

test: lint types pytest  ## Lint, check types, run the tests

lint: $(READY)  ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## Check types with mypy
	$(BIN)/mypy

pytest: $(READY)  ## Run the tests in two processes
	$(BIN)/pytest -n 2 --dist worksteal

slow: $(READY)  ## Run the tests that take more than a minute
	$(BIN)/pytest -m slow

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove runs, data and the virtual environment
	rm -rf runs data $(VENV)
