#!/bin/sh
# Runs fuzz targets under libFuzzer: run.sh SECONDS [TARGET…], all without names. What a run has learned stays in
# target/fuzz/ for the next. Coverage and AddressSanitizer need nightly Rust; tests/fuzz/tests/short.rs does not.
set -eu
cd "$(dirname "$0")/../.."
seconds=$1
shift
if ! cargo +nightly --version >/dev/null 2>&1; then
	echo "fuzz: cannot find nightly Rust: run \`rustup toolchain install nightly --profile minimal\`, then try again" >&2
	echo "fuzz: (make test runs every target for a moment without it)" >&2
	exit 2
fi
root=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

# What cargo-fuzz passes, so that it is not needed.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-pc-table"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="$coverage -Zsanitizer=address" CARGO_TARGET_DIR=$root/build cargo +nightly build --quiet --locked \
	--profile fuzz -p icecore-fuzz --features libfuzzer --bins --target "$host"
built=$root/build/$host/fuzz
seeds=$root/seeds
rm -rf "$seeds"
"$built/icecore-fuzz" seeds "$seeds"

broken=0
[ $# -gt 0 ] || set -- $(ls "$seeds")
for target; do
	corpus=$root/corpus/$target
	mkdir -p "$corpus"
	if ! ICECORE_FUZZ_TARGET=$target "$built/icecore-libfuzzer" "$corpus" "$seeds/$target" \
		-max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 -detect_leaks=0 \
		-print_final_stats=1 -artifact_prefix="$root/$target-" >"$root/$target.log" 2>&1; then
		grep -E -A2 'panicked at|ERROR: |Test unit written' "$root/$target.log" >&2 || true
		echo "fuzz: $target broke a promise; all of it: $root/$target.log" >&2
		echo "fuzz: again: cargo run -p icecore-fuzz -- run $target FILE" >&2
		broken=1
	fi
	executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$root/$target.log")
	# #INITED and #DONE: coverage in edges, before and after.
	edges=$(sed -n 's/.*\(INITED\|DONE\) *cov: \([0-9]*\).*/\2/p' "$root/$target.log" | paste -sd '>' -)
	echo "$target: $executions executions, edges $edges"
done
exit $broken
