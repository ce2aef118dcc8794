# `make help` lists the targets. The first two need nothing but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo-ready
TOOLS := $(VENV)/.tools-ready
READY := $(VENV)/.ready
# How many processes run tests side by side, each with a broker of its own (JOBS=0: this one alone, as
# a debugger wants it): two, or four where half of them wait for brokers (tests/support/side_by_side.py).
COMPUTING := -n $(or $(JOBS),2) --dist loadfile
WAITING := -n $(or $(JOBS),4) --dist loadfile
# Tests start hundreds of Python processes, and each would compile the same files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-nightly unit check lint test-spark test-members test-versions test-fake test-container test-compose test-proxy faults chaos test-native test-compiled test-bare readme-bare simulate mutants kill-rounds soak fuzz nightly offline-image dashboards format bench lock docs docs-serve pictures dist wheels sbom interpreters jars clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO)  ## See ordered messaging work on a real broker with real flights
	@$(BIN)/orderly demo $(ARGS)

# One part that fails does not keep the other from running.
BOTH = @failed=0; $(BIN)/pytest $(1) --ignore=tests/spark $(2) $(ARGS) || failed=$$?; \
  $(BIN)/pytest tests/spark $(2) $(ARGS) || failed=$$?; exit $$failed

test: $(READY)  ## Run the tests; a real broker is downloaded and started for them
	$(call BOTH,$(WAITING))

test-all: $(READY)  ## Run all tests, also those marked nightly
	$(call BOTH,$(WAITING),--nightly=with)

test-nightly: $(READY)  ## Run only the nightly tests: they are long, and a faster test checks the same promise
	$(call BOTH,$(COMPUTING),--nightly=only)

test-spark: $(READY)  ## Run the tests with Spark (needs Java 17+)
	@$(BIN)/pytest tests/spark $(ARGS)

unit: $(READY)  ## Run the tests that need no broker
	@$(BIN)/pytest $(COMPUTING) tests/unit tests/frozen $(ARGS)

check: lint unit  ## Run lint and the unit tests

lint: $(READY)  ## Format, lint, types, known vulnerabilities of the locked packages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python .ci/audit.py

test-members: $(READY)  ## Run the behaviour tests with 1, 2 and 3 members
	@$(BIN)/pytest $(WAITING) tests/behaviour --members=1,2,3 $(ARGS)

test-versions: $(READY)  ## Run contract, behaviour and monitoring on each RocketMQ release (VERSIONS="4.9.7 5.5.1"); writes docs/reference/versions.md
	@$(BIN)/python -m tests.versions --versions "$(VERSIONS)" $(ARGS)

test-fake: $(READY)  ## Run the behaviour tests on the fake broker, with 1, 2 and 3 members
	@$(BIN)/pytest $(WAITING) tests/behaviour --orderly-broker=fake --members=1,2,3 $(ARGS)

# The container's own, and a few that show that all of it can be reached; the rest knows no other broker.
SMOKE_TESTS := container container_bad_input bad_input cli state_topics
ON_CONTAINER := $(SMOKE_TESTS) offsets_cli members_are_asked java_member mqadmin mixed_groups state_records

test-container: $(READY)  ## Run behaviour and integration tests on a broker in a container (needs Docker; SMOKE=1: a few)
	@$(BIN)/pytest $(COMPUTING) $(patsubst %,tests/integration/test_%.py,$(if $(SMOKE),$(SMOKE_TESTS),$(ON_CONTAINER))) \
	  tests/contract --ignore=tests/contract/test_a_proxy.py $(if $(SMOKE),,tests/behaviour) \
	  --orderly-broker=container -m "not slow" $(ARGS)

test-compose: $(READY)  ## Bring docker/compose.yaml up and check all of it (needs root, Docker, offline-image)
	@PYTHON="$(CURDIR)/$(BIN)/python" docker/offline/build_compose.sh
	@ORDERLY_TEST_COMPOSE=1 $(BIN)/pytest tests/compose $(ARGS)

ON_PROXY := tests/integration/test_proxy.py tests/contract/test_a_proxy.py

test-proxy: $(READY)  ## Run behaviour tests through RocketMQ's proxy; kill and pause proxies under traffic (SMOKE=1: a few)
	@$(BIN)/pytest $(COMPUTING) $(ON_PROXY) $(if $(SMOKE),,tests/behaviour) --orderly-broker=proxy $(ARGS)
	@$(if $(SMOKE),,ORDERLY_TEST_EXCUSED=1 $(BIN)/pytest tests/behaviour --orderly-broker=proxy $(ARGS))
	@$(if $(SMOKE),,$(BIN)/pytest tests/integration/faults/test_proxies_come_and_go.py --nightly=with $(ARGS))

faults: $(READY)  ## Break the network, brokers and members under traffic, and judge the result
	@$(BIN)/pytest tests/integration/faults --nightly=with $(ARGS)

chaos: $(READY)  ## Kill, pause and cut off brokers of a cluster (ROUNDS=50 SEED=7)
	@CHAOS_ROUNDS=$(or $(ROUNDS),4) CHAOS_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest tests/integration/cluster/test_chaos.py --nightly=with $(ARGS)

test-native: $(READY)  ## Run the native driver's tests (ORDERLY_LIBROCKETMQ: on the real library, too)
	@$(BIN)/pytest tests/native tests/unit/native $(ARGS)

test-compiled: $(READY)  ## Build a platform wheel and run contracts, behaviour on the fake and a comparison with the sources on it (needs a C compiler)
	@$(BIN)/python .ci/wheels.py --try $(ARGS)

test-bare: $(READY)  ## Run tests that use programs of the machine without these: they are left out, the others pass
	@$(BIN)/python .ci/bare.py $(COMPUTING) $(ARGS)

readme-bare:  ## Run the README's two commands in a container that has only Python and make (needs root, Docker)
	@docker/offline/bare.sh $(if $(ARGS),"$(ARGS)")

simulate: $(READY)  ## Run 10,000 drawn histories of a cluster under virtual time (ARGS="--seeds 1000 --known", "--mutations")
	@$(BIN)/python -m tests.simulation $(ARGS)

mutants: $(READY)  ## Change the order's core in 100 places, one at a time, and count what the tests notice (ARGS="--sample 300 --seed 7")
	@$(BIN)/python -m tests.mutants $(ARGS)

kill-rounds: $(READY)  ## Kill members under traffic (ROUNDS=20 LEASE=60 SEED=1; ARGS="--order key --handler process")
	@$(BIN)/python -m benchmarks.kill_rounds --rounds $(or $(ROUNDS),20) --lease $(or $(LEASE),8) \
	  --seed $(or $(SEED),1) $(ARGS)

soak: $(READY)  ## Ten minutes and a million messages; memory and threads must stay flat
	@$(BIN)/python -m benchmarks.soak $(ARGS)

fuzz: $(READY)  ## Throw hostile bytes at the decoders (ARGS="--cases 1000000 --seed 7 --jobs 2")
	@$(BIN)/python -m tests.fuzz $(ARGS)

nightly: $(READY)  ## Run all long suites, for hours; writes docs/proof/nightly.md (STAGES="simulate mutants", ARGS=--quick)
	@$(BIN)/python -m tests.nightly --stages "$(STAGES)" $(ARGS)

offline-image: $(READY)  ## Build the image of the broker in a container from Debian packages, without a registry
	@PYTHON="$(CURDIR)/$(BIN)/python" docker/offline/build.sh

dashboards: $(READY)  ## Render alerts and dashboards from docker/monitoring/mixin
	@$(BIN)/python docker/monitoring/render.py
	@$(BIN)/python examples/kubernetes/render_alerts.py

format: $(READY)  ## Format, and fix what ruff can fix
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(READY)  ## Measure beside the Java, native and gRPC clients and the raw-socket floor; writes benchmarks/README.md
	@$(BIN)/python -m benchmarks.peers --write $(ARGS)

COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --quiet
EXTRAS := cli embedded demo monitoring testing native otel otlp once redis speed

lock: $(TOOLS)  ## Renew the lock files (pinned versions with hashes): what users install, PySpark, tools
	@$(BIN)/$(COMPILE) pyproject.toml $(EXTRAS:%=--extra %) --group build --output-file requirements.lock
	@$(BIN)/$(COMPILE) pyproject.toml --extra spark --constraint requirements.lock \
	  --output-file requirements-spark.lock
	@$(BIN)/$(COMPILE) --group dev --constraint requirements.lock --constraint requirements-spark.lock \
	  --output-file requirements-dev.lock

docs: $(TOOLS)  ## Build the documentation as a site: build/site (links are checked)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(ARGS)
	@echo "build/site/index.html"

docs-serve: $(TOOLS)  ## Serve the site while you write, on http://127.0.0.1:8000
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve $(ARGS)

pictures: $(READY)  ## Take new pictures for README.md and docs, from real runs (needs Chromium)
	@$(BIN)/python -m docs.pictures.make $(ARGS)

dist: $(READY)  ## Build wheel and sdist (the same bytes each time), check them, write the bill of materials
	@$(BIN)/python .ci/dist.py $(ARGS)

wheels: dist  ## Build platform wheels beside them, for this Python and those of `make interpreters` (needs a C compiler)
	@$(BIN)/python .ci/wheels.py

sbom: $(READY)  ## Write the bill of materials (CycloneDX) into dist
	@$(BIN)/python .ci/sbom.py --output dist/sbom.cdx.json

interpreters: $(READY)  ## Unit tests and the fake's behaviour tests on other Pythons (PYTHONS="python3.12 python3.14")
	@$(BIN)/python .ci/interpreters.py $(PYTHONS)

jars: $(READY)  ## Renew the list of the broker's jars from docker/pom.xml (needs Maven)
	@$(BIN)/python docker/update_jars.py

clean:  ## Remove the virtual environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

# Exactly the locked packages, checked against their hashes; then this checkout, editable.
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check

$(DEMO): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; say which: make demo PYTHON=python3.12"; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing; on Debian: apt install python3-venv"; exit 3; }
	@echo "Preparing $(VENV) (once, about a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# The site is built with these, and needs no network after that.
$(TOOLS): $(DEMO) requirements-dev.lock
	@echo "Adding tools to $(VENV) (once, about a minute) …"
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

# PySpark is 450 MB and is built here: demo and site do without.
$(READY): $(TOOLS) requirements-spark.lock
	@echo "Adding PySpark to $(VENV) (once, about a minute) …"
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements-spark.lock
	@touch $@
