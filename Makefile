# make demo, make test and make install each set up what they need; make help lists all.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AGENT := src/vnetbench/agents/bin/vnetbench-agent
NOW := $(shell date +%Y%m%d-%H%M%S)
DEMO := out/jumbo-frames-$(NOW)
DEMO_ADAPTERS := out/adapters-$(NOW)

.PHONY: help install demo demo-adapters test test-agent test-bench test-peers fuzz lint bench bench-estimates bench-search docs clean

help:
	@echo "make install          .venv/bin/vnetbench, with the agent in it"
	@echo "make demo             measure studies/jumbo-frames.toml on this machine (three minutes)"
	@echo "make demo-adapters    virtio-net, vmxnet3, e1000e and e1000 in QEMU guests, side by side (five minutes)"
	@echo "make test             linters, type checks and all tests"
	@echo "make fuzz             a million mutated messages at the parsers of iperf3's protocol"
	@echo "make bench            the instrument beside its peers, interleaved (12 to 20 minutes)"
	@echo "make bench-estimates  the estimates on simulated campaigns: coverage and time saved"
	@echo "make bench-search     the ways of searching a throughput on simulated devices: trial time, wrong answers"
	@echo "make docs             the generated pages: study reference and its JSON Schema"

install: $(BIN)/vnetbench $(AGENT)

# The venv is made anew when its list of packages changes.
$(BIN)/vnetbench: pyproject.toml constraints.txt
	PYTHON=$(PYTHON) tools/prepare
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(AGENT): Cargo.toml Cargo.lock .cargo/config.toml agent/Cargo.toml agent/build.rs $(shell find agent/src -type f)
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

test: install lint test-agent test-bench

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cargo fmt --all --check
	cargo clippy --locked --quiet --all-targets -- -D warnings

test-agent: install
	cargo test --locked --quiet

test-bench: install test-peers
	tools/in-lab $(BIN)/pytest -m pure -n auto --dist worksteal
	tools/in-lab $(BIN)/pytest -m "not pure"

# What the tests run against, and nobody needs who only measures.
test-peers:
	PYTHON=$(PYTHON) tools/prepare iperf3 qemu openvswitch openssh-server

fuzz:
	PYTHON=$(PYTHON) tools/prepare
	VNETBENCH_FUZZ_INPUTS=1000000 cargo test --locked --release --quiet iperf3::mutated_messages

bench: install
	PYTHON=$(PYTHON) tools/prepare iperf3 nuttcp sockperf netsniff-ng qemu
	tools/in-lab $(BIN)/python -m bench

bench-estimates: install
	$(BIN)/python -m bench.estimates

bench-search: install
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.search

docs: install
	$(BIN)/python -m vnetbench.study.reference docs

clean:
	rm -rf $(VENV) target out src/vnetbench/agents/bin
