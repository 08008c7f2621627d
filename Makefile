# make demo     set up, build, record a program and show what it did (as root)
# make test     set up what tests need, build, run every test
# make check    format, lints, documentation (no tests)
# make fuzz     every fuzz target for FUZZ_SECONDS (60) under libFuzzer; needs nightly Rust
# make kernels  record known programs on Debian's kernels under emulation, and check what is recorded; as root
# make engines  ask DuckDB, ClickHouse and Spark the questions of docs/FLEET.md, and check their answers; takes 2 GB
# make bench    record one workload with icecore-record and perf, and compare
# make install  stripped programs into PREFIX/bin (default /usr/local); DESTDIR is put before it
# make uninstall
PREFIX ?= /usr/local
CARGO  ?= cargo
BIN    := target/release
TESTED := target/debug
# Where rustup puts cargo.
export PATH := $(PATH):$(HOME)/.cargo/bin
PROGRAMS := icecore-record icecore-report
FUZZ_SECONDS ?= 60
FLEET  := target/engines/fleet
TABLES := target/engines/tables

.PHONY: demo test check fuzz kernels engines bench install uninstall setup-build setup-test build

build: setup-build
	$(CARGO) build --release

demo: build
	tests/demo.sh $(BIN)

test: setup-test
	tests/run.py

check: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

fuzz: setup-test
	tests/fuzz/run.sh $(FUZZ_SECONDS)

kernels: setup-test build
	tests/kernels/run.sh $(BIN)

# The programs of the tests, so that nothing is built twice.
engines: setup-build
	tests/setup.sh engines
	$(CARGO) build --workspace --quiet --bins --examples
	rm -rf $(FLEET) $(TABLES)
	$(TESTED)/synthesize fleet $(FLEET) 62 8 100
	$(TESTED)/icecore-report parquet $(FLEET)/*.icecore -o $(TABLES)
	target/engines/all/bin/python tests/engines/questions.py duckdb,chdb,spark $(TABLES) $(FLEET) $(TESTED)/icecore-report

bench: setup-test build
	tests/setup.sh bench
	python3 tests/bench/compare.py $(BIN)
	python3 tests/bench/names.py $(BIN)
	python3 tests/bench/stacks.py $(BIN)
	python3 tests/bench/walks.py $(BIN)
	python3 tests/bench/waits.py $(BIN)
	python3 tests/bench/neighbour.py $(BIN)
	python3 tests/bench/quality.py $(BIN)
	python3 tests/bench/interpreters.py $(BIN)
	python3 tests/bench/soak.py $(BIN)
	python3 tests/bench/unattended.py $(BIN)
	python3 tests/bench/follow.py $(BIN)
	python3 tests/bench/cpus.py $(BIN)
	$(CARGO) build --release -p icecore-tests --example trackers
	$(BIN)/examples/trackers
	python3 tests/bench/differ.py $(BIN)
	python3 tests/bench/differences.py $(BIN)
	$(CARGO) build --release -p icecore-tests --bin synthesize --example explore
	python3 tests/bench/large.py $(BIN)
	target/engines/test/bin/python tests/bench/tables.py $(BIN)
	python3 tests/bench/archive.py $(BIN)
	$(BIN)/synthesize 1000000 $(BIN)/explored.icecore && $(BIN)/examples/explore $(BIN)/explored.icecore
	$(CARGO) build --release -p icecore-tests --example symbolize
	python3 tests/bench/symbolize.py $(BIN)/examples/symbolize
	$(CARGO) test -p icecore-tests --test page
	$(CARGO) build --release -p icecore-tests --example firefox
	python3 tests/bench/page.py $(BIN)

install: build
	install -D -s -m 755 -t $(DESTDIR)$(PREFIX)/bin $(PROGRAMS:%=$(BIN)/%)

uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(PREFIX)/bin/%)

setup-build:
	@tests/setup.sh build

setup-test: setup-build
	@tests/setup.sh test
