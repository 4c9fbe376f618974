# Every target does its own set-up in .venv and is quick when that is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup dev chat serve test lint bench prove lock train train-redaction library docs clean

help:
	@echo "make chat    set up and open the chat on the built-in model"
	@echo "make test    set up and run the tests"
	@echo "make setup   only the set-up          make lint    ruff and mypy"
	@echo "make bench   what is timed            make prove   what is too heavy for every run"
	@echo "make train   rebuild the classifiers  make library plan the shipped paths anew (20 minutes)"
	@echo "make lock    resolve the locked requirements anew"

$(VENV)/made: requirements.lock pyproject.toml
	@echo "Setting up in $(VENV) (once; a minute or two)…"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "Python 3.11 to 3.13 is needed; say which: make PYTHON=python3.11 …"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python -m bot.web.ui
	@touch $@
	@echo "Set up."

$(VENV)/dev-made: requirements-dev.lock $(VENV)/made
	@echo "Adding what the tests need…"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

setup: $(VENV)/made
	@echo "Ready: $(BIN)/raise-chat"

dev: $(VENV)/dev-made

chat: $(VENV)/made
	@$(BIN)/raise-chat serve --open

serve: $(VENV)/made
	@$(BIN)/raise-chat serve

test: $(VENV)/dev-made
	@echo "Running the tests…"
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder  # in order: browser tests last

lint: $(VENV)/dev-made
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

bench: $(VENV)/dev-made
	@$(BIN)/python -m tests.benchmarks

prove: $(VENV)/dev-made
	@failed=""; \
	for proof in prove prove_privacy prove_retention prove_planning prove_penguin prove_pilot prove_load; do \
		echo "== $$proof"; $(BIN)/python -m tests.$$proof || failed="$$failed $$proof"; \
	done; \
	WHOLE_TESTS=1 $(BIN)/python -m pytest -q tests/models/test_conversations_with_a_model.py || failed="$$failed conversations"; \
	[ -z "$$failed" ] || { echo "not as it should be:$$failed"; exit 1; }

train: $(VENV)/dev-made
	@$(BIN)/python scripts/train.py

train-redaction: $(VENV)/dev-made
	@$(BIN)/python scripts/train_redaction.py

docs: $(VENV)/dev-made
	@$(BIN)/python scripts/make_failures.py

library: $(VENV)/made
	@$(BIN)/raise-chat plan build --per-domain 0 --max-calls 60 --date $$(date -u +%Y-%m-%d) --journal .cache/library.journal --out policies/planning/library.jsonl.gz

lock: $(VENV)/dev-made
	@$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
	@$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements-dev.lock --constraint requirements.lock requirements-dev.in

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
