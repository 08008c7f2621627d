# make demo     set up, build, record a real workload, report it, draw its flame graph
# make test     set up, build, run every test
# make check    format, lints, documentation (no tests)
# make fuzz     every fuzz target for FUZZ_SECONDS (60) under libFuzzer; needs nightly Rust
# make kernels  record known programs on Debian's kernels under emulation, and check what is recorded; as root
# make bench    record one workload with icecore-record and perf, and compare
# make install  into PREFIX/bin (default /usr/local)
PREFIX ?= /usr/local
CARGO  ?= cargo
BIN    := target/release
FUZZ_SECONDS ?= 60

.PHONY: demo test check fuzz kernels bench install setup build

build: setup
	$(CARGO) build --release --bins -p icecore-record -p icecore-report

demo: build
	tests/demo.sh $(BIN)

test: setup
	$(CARGO) test --workspace --quiet --no-fail-fast

check: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

fuzz: setup
	tests/fuzz/run.sh $(FUZZ_SECONDS)

kernels: build
	tests/kernels/run.sh $(BIN)

bench: build
	tests/setup.sh perf
	python3 tests/bench/compare.py $(BIN)
	python3 tests/bench/names.py $(BIN)
	python3 tests/bench/stacks.py $(BIN)
	python3 tests/bench/walks.py $(BIN)
	python3 tests/bench/waits.py $(BIN)
	python3 tests/bench/quality.py $(BIN)
	python3 tests/bench/soak.py $(BIN)
	python3 tests/bench/cpus.py $(BIN)
	$(CARGO) build --release -p icecore-tests --example trackers
	$(BIN)/examples/trackers
	python3 tests/bench/differ.py $(BIN)
	python3 tests/bench/differences.py $(BIN)
	$(CARGO) build --release -p icecore-tests --bin synthesize --example explore
	python3 tests/bench/large.py $(BIN)
	$(BIN)/synthesize 1000000 $(BIN)/explored.icecore && $(BIN)/examples/explore $(BIN)/explored.icecore
	$(CARGO) build --release -p icecore-tests --example symbolize
	python3 tests/bench/symbolize.py $(BIN)/examples/symbolize
	$(CARGO) test -p icecore-tests --test page
	$(CARGO) build --release -p icecore-tests --example firefox
	python3 tests/bench/page.py $(BIN)

install: build
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BIN)/icecore-record $(BIN)/icecore-report

setup:
	@tests/setup.sh
