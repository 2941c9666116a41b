# Two commands do everything on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# Two test processes; one BLAS thread each, so that they do not fight for the cores. tests/conftest.py has the order.
# A test that fails is tried once more and named (RERUN): on a busy machine a socket or a signal may come late.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --reruns 1 -rR

.PHONY: demo test check format bench lowest setup clean soak

setup: .venv/.installed

.venv/.installed: pyproject.toml hatch_build.py $(wildcard pipelines/model/native/*.[ch])
	@echo "Setting up .venv; the first time this takes a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

demo: setup
	@$(BIN)/cotrans demo

test: setup
	$(PYTEST) tests

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mkdocs build --quiet --strict

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m pip install --quiet "continual-inference==1.2.4"
	$(BIN)/python benchmarks/step_latency.py
	$(BIN)/python benchmarks/end_to_end.py

# The lowest versions that pyproject.toml allows, in an environment of their own, and every command once.
lowest:
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --requirement tests/lowest/versions.txt
	.venv-lowest/bin/python -m pip check
	.venv-lowest/bin/python tests/lowest/smoke.py

# The long proof of reliability (hours): SOAK="--only fuzz --fuzz 20000" takes a part of it.
soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.robustness.soak $(SOAK)

clean:
	rm -rf .venv .venv-lowest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
