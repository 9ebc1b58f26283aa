# Every target sets itself up: on a machine with only Python, one command does it all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo page docs verify test fuzz lint audit bench

demo: $(VENV)/installed-core
	$(BIN)/python demo.py

page: $(VENV)/installed-onnx
	$(BIN)/python -m export page --serve

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open out/site/index.html, or run: $(BIN)/mkdocs serve"

verify: $(VENV)/installed-core
	$(BIN)/python -m training verify fashion28_discrete_s1p00 --samples

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 15

fuzz: $(VENV)/installed-dev
	FUZZ=3 $(BIN)/python -m pytest tests/test_fuzz.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

audit: $(VENV)/installed-dev
	@$(BIN)/python -c "import pip_audit" 2>/dev/null || \
		{ echo "pip-audit is missing; get it with: $(BIN)/python -m pip install pip-audit"; exit 1; }
	$(BIN)/python -m pip_audit --skip-editable

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/installed-core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-onnx: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[onnx]"
	touch $@ $(VENV)/installed-core

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@ $(VENV)/installed-core

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/installed-core $(VENV)/installed-onnx $(VENV)/installed-docs
