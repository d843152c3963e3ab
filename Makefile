# make demo and make test do all their own set-up, in .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 60
ROUNDS ?= 50
SEED ?= $(shell date +%s)
BIN := $(VENV)/bin
INSTALL = $(BIN)/python scripts/install.py

.PHONY: help demo test test-plain test-gpu harden harden-order vulnerabilities lint docs format bench bench-gpu clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    race the optimizers on the LASSO problems of the paper; table here, figure in out/demo.png"
	@echo "make test    lint, types, import rules, documentation and the test suite"
	@echo "make test-plain  the tests of solves once more, without kernels (a few minutes)"
	@echo "make test-gpu  the tests that need an NVIDIA GPU (a few minutes), by a Python here whose PyTorch finds one"
	@echo "make harden  fault, fuzz and endurance tests at their full counts (about 95 minutes on 2 cores)"
	@echo "make harden-order  tests of clusters, faults, clocks, sweeps and searches in random order, ROUNDS=50 times"
	@echo "make vulnerabilities  ask whether any pinned version has a known one (needs a network)"
	@echo "make lint    everything in make test but the documentation and the test suite"
	@echo "make docs    build the documentation, out/docs/index.html; a warning is an error"
	@echo "make format  let ruff format and fix what it can"
	@echo "make bench   run the benchmarks and rewrite benchmarks/records"
	@echo "make bench-gpu  the benchmarks that need an NVIDIA GPU (about five minutes), with the tests of its kernels"
	@echo "make clean   remove $(VENV), caches and out"

demo: $(VENV)/.installed-demo
	@$(BIN)/sureprox demo

test: $(VENV)/.installed-dev
	@said=$$(mktemp); $(MAKE) --no-print-directory docs >$$said 2>&1 & docs=$$!; \
		$(MAKE) --no-print-directory lint; lint=$$?; \
		wait $$docs; docs=$$?; cat $$said; rm $$said; exit $$((lint + docs))
	@echo "pytest"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# What users run without a C++ compiler, or on an unusual device; `make test` runs kernels wherever there are any.
PLAIN = tests/test_solve.py tests/test_certified_solve.py tests/test_polished_solves.py tests/estimators/test_lasso.py \
	tests/contracts/test_alone.py

test-plain: $(VENV)/.installed-dev
	@echo "pytest, plain"
	@SUREPROX_ENGINE=plain OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(PLAIN)

# Runs from src/ and installs nothing: a machine with a GPU often has its own PyTorch.
test-gpu:
	@for python in $(BIN)/python $(PYTHON) python; do \
		$$python -c 'import pytest, torch; assert torch.cuda.is_available()' 2>/dev/null || continue; \
		$$python -c 'import torch; print("pytest, PyTorch", torch.__version__, "on", torch.cuda.get_device_name())'; \
		PYTHONPATH=src SUREPROX_CHECK_SHAPES= timeout 3600 $$python -m pytest -q -c tests/gpu.ini --rootdir . \
			$$(grep -rl --include='test_*.py' 'mark\.cuda' tests); \
		exit $$?; \
	done; \
	echo "no Python here has pytest and a PyTorch that finds a GPU; choose one with: make PYTHON=... test-gpu"; exit 1

harden: $(VENV)/.installed-dev
	@echo "faults and hostile input, full counts"
	@SUREPROX_HARDEN=full OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -o timeout=7200 -o faulthandler_timeout=9000 \
		tests/faults tests/hostile
	@$(MAKE) --no-print-directory vulnerabilities
	@echo "kernels of a CPU under the sanitizers"
	@$(BIN)/python scripts/sanitize.py
	@echo "endurance, $(MINUTES) minutes"
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/endurance.py --minutes $(MINUTES)

# What shares clusters, clocks, locks and directories. One round again: make harden-order ROUNDS=1 SEED=...
SHARING = tests/test_cluster.py tests/faults tests/many tests/training/test_sweep.py tests/training/test_search.py \
	tests/cli/test_sweep_command.py tests/cli/test_search_command.py tests/cli/test_solve_shards.py

harden-order: $(VENV)/.installed-dev
	@first=$(SEED); for seed in $$(seq $$first $$((first + $(ROUNDS) - 1))); do \
		echo "order $$seed"; \
		SUREPROX_TEST_ORDER=$$seed OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(SHARING) || exit 1; \
	done

vulnerabilities: $(VENV)/.installed-dev
	@$(BIN)/python scripts/vulnerabilities.py || [ $$? -eq 3 ]

lint: $(VENV)/.installed-dev
	@echo "ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "not formatted; run: make format" && $(BIN)/ruff format --check . ; exit 1; }
	@echo "mypy"
	@$(BIN)/mypy
	@echo "import rules"
	@$(BIN)/lint-imports

docs: $(VENV)/.installed-dev
	@echo "documentation"
	@OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs out/docs

format: $(VENV)/.installed-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	@$(BIN)/python benchmarks/import_time.py
	@$(BIN)/python benchmarks/shared_matrix.py
	@$(BIN)/python benchmarks/audit_statements.py

bench-gpu: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory test-gpu
	@$(BIN)/python benchmarks/kernel_speed.py
	@$(BIN)/python benchmarks/iteration_speed.py --batches 1,8,32,128,1024,4096,16384
	@$(BIN)/python benchmarks/iteration_speed.py --shared --batches 1024,10000,65536
	@$(BIN)/python benchmarks/throughput.py
	@$(BIN)/python benchmarks/sklearn_speed.py
	@$(BIN)/python benchmarks/training_speed.py

clean:
	@rm -rf $(VENV) out build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info

# The stamps make the installation run again when, and only when, the requirements have changed.
$(VENV)/.installed-demo: pyproject.toml hashes.txt | $(BIN)/python
	@echo "Installing sureprox into $(VENV) (a few minutes the first time) ..."
	@$(INSTALL) cli plots
	@touch $@

$(VENV)/.installed-dev: pyproject.toml hashes.txt | $(BIN)/python
	@echo "Installing sureprox and its development tools into $(VENV) (a few minutes the first time) ..."
	@$(INSTALL) dev
	@touch $@ $(VENV)/.installed-demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "sureprox needs Python 3.11 or newer; choose one with: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
