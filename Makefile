# make demo, make test and make install each install what they need. make help lists all targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AGENT := src/vnetbench/agents/bin/vnetbench-agent
WORDED := src agent bench tests tools studies docs README.md CONTRIBUTING.md CHANGELOG.md Makefile
NOW := $(shell date +%Y%m%d-%H%M%S)
DEMO := out/jumbo-frames-$(NOW)
DEMO_ADAPTERS := out/adapters-$(NOW)

.PHONY: help install demo demo-adapters test test-traffic test-static test-computed test-agent test-agent-built test-bench test-pure test-long test-real test-real-alone test-real-parallel test-peers fuzz audit-dependencies lint bench bench-estimates bench-search bench-large corpus bench-explain soak words docs clean

help:
	@echo "make install          .venv/bin/vnetbench, with the agent in it"
	@echo "make demo             run studies/jumbo-frames.toml on this machine (three minutes)"
	@echo "make demo-adapters    compare virtio-net, vmxnet3, e1000e and e1000 in QEMU guests (five minutes)"
	@echo "make test             run linters, type checks and all tests"
	@echo "make test-long        run long simulations, searches and mutations of input"
	@echo "make fuzz             give each parser of foreign data mutated input for FUZZ_SECONDS=60"
	@echo "make audit-dependencies  check all dependencies for known vulnerabilities; write SBOMs to out/audit"
	@echo "make bench            compare the instrument with other tools, interleaved (12 to 20 minutes)"
	@echo "make bench-estimates  test the estimates on simulated campaigns: coverage and time saved"
	@echo "make bench-search     compare throughput searches on simulated devices: trial time, wrong answers"
	@echo "make bench-large      measure show, explain and report of large results files, and long campaigns"
	@echo "make corpus           run campaigns with a known cause, in out/corpus (two to three hours, resumable)"
	@echo "make bench-explain    score the explanations of the corpus against the known causes"
	@echo "make soak             disturb a long campaign at random; nothing may be lost or left behind (SOAK_TRIALS=3000)"
	@echo "make words            print every sentence that a user can see, by module"
	@echo "make docs             generate the study reference, its JSON Schema, causes, evidence and audit rules"

install: $(BIN)/vnetbench $(AGENT)

# A changed list of packages rebuilds the virtual environment.
$(BIN)/vnetbench: pyproject.toml constraints.txt
	PYTHON=$(PYTHON) tools/prepare
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(AGENT): Cargo.toml Cargo.lock .cargo/config.toml $(shell find agent/Cargo.toml agent/src agent/crates -type f)
	PYTHON=$(PYTHON) tools/prepare
	cargo build --release --locked --quiet
	@mkdir -p $(@D)
	cp target/release/vnetbench-agent $@

demo: install
	@mkdir -p out
	$(BIN)/vnetbench run studies/jumbo-frames.toml -o $(DEMO).vnb
	$(BIN)/vnetbench report $(DEMO).vnb -o $(DEMO).html --png $(DEMO)

demo-adapters: install
	PYTHON=$(PYTHON) tools/prepare qemu
	@mkdir -p out
	$(BIN)/vnetbench run studies/adapters.toml --set streams=1 --set timing.duration='700 ms' \
		--set precision.max_trials=8 --set precision.time_limit='5 min' -o $(DEMO_ADAPTERS).vnb
	$(BIN)/vnetbench report $(DEMO_ADAPTERS).vnb -o $(DEMO_ADAPTERS).html --png $(DEMO_ADAPTERS)

# Tests with real traffic mostly wait. Linters and tests that only compute use the CPU time that those leave. Their output
# follows when they end. The agent's tests send traffic too, so they run last.
define at_low_priority
	@mkdir -p out
	@tools/at_low_priority.py $(MAKE) --jobs=1 --keep-going $(1) > out/$@.log 2>&1; status=$$?; \
		echo; cat out/$@.log; exit $$status
endef

test: test-peers
	$(MAKE) --jobs=3 --keep-going test-traffic test-static test-computed

# These two run one after the other.
test-traffic: install test-peers
	@$(MAKE) --jobs=1 --keep-going test-real test-agent

# Linters need no agent, so they run while it is linked.
test-static: $(BIN)/vnetbench
	$(call at_low_priority,lint test-agent-built)

test-computed: install
	$(call at_low_priority,test-pure)

lint: $(BIN)/vnetbench
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/codespell $(WORDED)
	cargo fmt --all --check
	cargo clippy --locked --quiet --all-targets -- -D warnings

test-agent: install
	cargo test --locked --quiet --no-fail-fast

test-agent-built: $(BIN)/vnetbench
	cargo test --locked --quiet --no-run

test-bench: test-pure test-real

SKIPS := out/skips.json
REAL_PROCESSES := 3

# One BLAS thread per process: more threads mostly wait for each other on small matrices.
test-pure: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/in-lab $(BIN)/pytest -m pure -n auto --dist worksteal

# Long simulations, of which `make test` runs quick ones.
test-long: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/in-lab $(BIN)/pytest -m long -n auto --dist worksteal

# A test runs once. Tests that need a quiet machine skip on a busy one (tests/quiet.py), but few may.
test-real: install test-peers
	@mkdir -p out
	@rm -f $(SKIPS)
	@$(MAKE) --jobs=1 --keep-going test-real-alone test-real-parallel

test-real-alone: install test-peers
	tools/in-lab $(BIN)/pytest -m "alone and not pure" --skip-record=$(SKIPS)

# Most tests wait for short trials and assert on counts, states and messages, so a few run at once. Each process has a /run
# of its own. The limit counts the skips of the tests before too.
test-real-parallel: install test-peers
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -m "not alone and not pure" \
		--tx "$(REAL_PROCESSES)*popen//python=tools/in-lab $(BIN)/python" --dist loadfile \
		--skip-record=$(SKIPS) --max-skipped-percent=2

# Programs that only the tests need.
test-peers: $(BIN)/vnetbench
	PYTHON=$(PYTHON) tools/prepare iperf3 qemu openvswitch openssh-server ethtool iptables nftables libvirt
	if ! $(BIN)/python -c 'import libvirt' 2>/dev/null; then \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[libvirt]'; fi

# Seconds of each fuzz target.
FUZZ_SECONDS ?= 60

fuzz: install
	PYTHON=$(PYTHON) tools/prepare
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# ADVISORY_DB=FOLDER: a clone of RustSec's advisory database, for machines that cannot fetch it.
audit-dependencies: install
	PYTHON=$(PYTHON) tools/audit-dependencies $(ADVISORY_DB)

bench: install
	PYTHON=$(PYTHON) tools/prepare iperf3 nuttcp sockperf netsniff-ng qemu
	tools/in-lab $(BIN)/python -m bench

bench-estimates: install
	$(BIN)/python -m bench.estimates

bench-search: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.search

bench-large: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.large_files

corpus: install
	PYTHON=$(PYTHON) tools/prepare qemu
	tools/in-lab $(BIN)/python -m bench.corpus

bench-explain: install
	$(BIN)/python -m bench.explain

SOAK_TRIALS := 3000

bench-audit: install
	PYTHON=$(PYTHON) tools/prepare qemu
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/in-lab $(BIN)/python -m bench.audit_effects

soak: install
	PYTHON=$(PYTHON) tools/prepare
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/in-lab $(BIN)/python -m bench.soak --trials $(SOAK_TRIALS)

words: install
	$(BIN)/python -m tools.user_sentences

docs: install
	$(BIN)/python -m vnetbench.study.file.reference docs
	$(BIN)/python -m vnetbench.estimate.evidence.reference docs
	$(BIN)/python -m vnetbench.explain.reference docs
	$(BIN)/python -m vnetbench.audit.reference docs

clean:
	rm -rf $(VENV) target out src/vnetbench/agents/bin
