# `make help` lists what there is.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DATA   ?= mqctl-data

.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

INSTALL = $(PYTHON) -c 'import sys; sys.exit("mqctl needs Python 3.11 or later: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)' \
	&& $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --editable

$(VENV)/installed: pyproject.toml
	$(INSTALL) .
	@touch $@

$(VENV)/installed-dev: pyproject.toml
	$(INSTALL) '.[dev]'
	@touch $(VENV)/installed $@

run: $(VENV)/installed  ## start a name server and a broker on 127.0.0.1, with the store in ./mqctl-data (DATA=... for another)
	$(BIN)/mqctl standalone --store $(DATA)

quickstart: $(VENV)/installed  ## see it at work: servers, a producer, two consumers, live numbers; leaves nothing behind
	$(BIN)/mqctl quickstart

test: lint  ## lint, check types, run the whole suite (interop tests need Java, Maven and Go)
	@# What fails beside another worker gets a second chance alone: five JVMs on two cores can starve a client.
	$(BIN)/python -m pytest -n 2 -m 'not long' || $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

long: $(VENV)/installed-dev  ## the few tests that `make test` leaves out: a Spark cluster, Spark from the executable, graceful stops of Apache's
	$(BIN)/python -m pytest -m long

unit: $(VENV)/installed-dev  ## only the tests that need neither Java nor Go
	$(BIN)/python -m pytest -n 2 -m 'not interop and not spark'

flaky: $(VENV)/installed-dev  ## run the suite ten times and list what failed in any of them; goes on after an interruption; FLAKY='--runs 3'
	$(BIN)/python -m tests.flaky $(FLAKY)

coverage: $(VENV)/installed-dev  ## which lines the tests without Apache's software run, those of processes of their own included; needs Java for Spark
	$(BIN)/python -m pytest -n 2 -m 'not interop and not long' --cov --cov-report=html:build/coverage --cov-report=term:skip-covered

lint: $(VENV)/installed-dev  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev  ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

crash: $(VENV)/installed-dev  ## kill the broker and tear stores; MQCTL_CRASH_ROUNDS=100 for longer
	$(BIN)/python -m pytest -s tests/crash

fuzz: $(VENV)/installed-dev  ## throw damaged frames at a live broker; MQCTL_FUZZ_SECONDS=600 for longer
	$(BIN)/python -m pytest -s tests/fuzz

soak: $(VENV)/installed-dev  ## 200 clients for 20 minutes: nothing lost, memory flat; SOAK='--minutes 3' for less
	$(BIN)/python -m tests.soak $(SOAK)

bench: $(VENV)/installed-dev  ## compare with Apache's broker under the same load, print ratios
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.clients
	$(BIN)/python -m tests.bench.scan
	$(BIN)/python -m tests.bench.commands
	$(BIN)/python -m tests.bench.binary

binary: $(VENV)/installed-dev  ## build dist/mqctl: everything in one file, for machines without Python
	$(BIN)/pyinstaller --clean --noconfirm --log-level WARN --workpath build dist/mqctl.spec
	@ls -lh dist/mqctl

completions: $(VENV)/installed  ## generate the shell completion files
	$(BIN)/mqctl completion bash > completions/mqctl.bash
	$(BIN)/mqctl completion zsh > completions/_mqctl
	$(BIN)/mqctl completion fish > completions/mqctl.fish

docs: $(VENV)/installed  ## write the pages about the command line
	$(BIN)/python -m mqctl.manual docs

clean:  ## remove the environment, the executable and caches; stores are left alone
	rm -rf $(VENV) build dist/mqctl .coverage* *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help run quickstart test long unit flaky coverage lint format crash fuzz soak bench binary completions docs clean
