# make demo, make test and make install each set up what they need; make help lists all.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AGENT := src/vnetbench/agents/bin/vnetbench-agent
WORDED := src agent bench tests tools studies docs README.md CONTRIBUTING.md CHANGELOG.md Makefile
NOW := $(shell date +%Y%m%d-%H%M%S)
DEMO := out/jumbo-frames-$(NOW)
DEMO_ADAPTERS := out/adapters-$(NOW)

.PHONY: help install demo demo-adapters test test-computed test-agent test-agent-built test-bench test-pure test-real test-peers fuzz lint bench bench-estimates bench-search corpus bench-explain words docs clean

help:
	@echo "make install          .venv/bin/vnetbench, with the agent in it"
	@echo "make demo             measure studies/jumbo-frames.toml on this machine (three minutes)"
	@echo "make demo-adapters    virtio-net, vmxnet3, e1000e and e1000 in QEMU guests, side by side (five minutes)"
	@echo "make test             linters, type checks and all tests"
	@echo "make fuzz             a million mutated messages at the parsers of iperf3's protocol"
	@echo "make bench            the instrument beside its peers, interleaved (12 to 20 minutes)"
	@echo "make bench-estimates  the estimates on simulated campaigns: coverage and time saved"
	@echo "make bench-search     the ways of searching a throughput on simulated devices: trial time, wrong answers"
	@echo "make corpus           runs with a cause put there on purpose, in out/corpus (two to three hours; goes on where it was ended)"
	@echo "make bench-explain    the explanations of those runs, held against what was put there"
	@echo "make words            every sentence that a user can see, by module"
	@echo "make docs             the generated pages: study reference, its JSON Schema, evidence"

install: $(BIN)/vnetbench $(AGENT)

# The venv is made anew when its list of packages changes.
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
		--set precision.most_trials=8 --set precision.time_limit='5 min' -o $(DEMO_ADAPTERS).vnb
	$(BIN)/vnetbench report $(DEMO_ADAPTERS).vnb -o $(DEMO_ADAPTERS).html --png $(DEMO_ADAPTERS)

# Tests of real traffic mostly wait, and no other traffic may run beside them. What only computes runs meanwhile, after them in
# rank, and has its say when it is done. The agent's tests send traffic too, and come last. What fails among those of real
# traffic has to pass twice, alone: a host may take the CPUs away in the middle of any of them.
test: install test-peers
	$(MAKE) --jobs=2 --keep-going test-real test-computed
	$(MAKE) test-agent

test-computed: install
	@mkdir -p out
	@nice -n 19 $(MAKE) --jobs=1 --keep-going lint test-pure test-agent-built > out/test-computed.log 2>&1; status=$$?; \
		echo; cat out/test-computed.log; exit $$status

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/codespell $(WORDED)
	cargo fmt --all --check
	cargo clippy --locked --quiet --all-targets -- -D warnings

test-agent: install
	$(PYTHON) -m tools.rerun_failed cargo cargo test --locked --quiet

test-agent-built: install
	cargo test --locked --quiet --no-run

test-bench: test-pure test-real

# One thread for each of the processes: threads that share small matrices out among them mostly wait for each other.
test-pure: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/in-lab $(BIN)/pytest -m pure -n auto --dist worksteal

test-real: install test-peers
	$(PYTHON) -m tools.rerun_failed pytest tools/in-lab $(BIN)/pytest -m "not pure"

# What the tests run against, and nobody needs who only measures.
test-peers:
	PYTHON=$(PYTHON) tools/prepare iperf3 qemu openvswitch openssh-server ethtool

fuzz:
	PYTHON=$(PYTHON) tools/prepare
	VNETBENCH_FUZZ_INPUTS=1000000 cargo test --locked --release --quiet --package vnetbench-iperf3 mutated_messages

bench: install
	PYTHON=$(PYTHON) tools/prepare iperf3 nuttcp sockperf netsniff-ng qemu
	tools/in-lab $(BIN)/python -m bench

bench-estimates: install
	$(BIN)/python -m bench.estimates

bench-search: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.search

corpus: install
	PYTHON=$(PYTHON) tools/prepare qemu
	tools/in-lab $(BIN)/python -m bench.corpus

bench-explain: install
	$(BIN)/python -m bench.explain

words: install
	$(BIN)/python -m tools.user_sentences

docs: install
	$(BIN)/python -m vnetbench.study.file.reference docs
	$(BIN)/python -m vnetbench.estimate.evidence.reference docs
	$(BIN)/python -m vnetbench.explain.reference docs

clean:
	rm -rf $(VENV) target out src/vnetbench/agents/bin
