#!/bin/sh
# Records a program of which each function does what its name says (tests/demo/orders.c), and shows where its time went; then the
# same program without symbols, and what to do about that. Ten seconds; needs Linux 5.12 for waits.
set -eu
bin=$1
out=demo
here=$(dirname "$0")

if [ "$(id -u)" != 0 ]; then
	echo "demo: recording needs privileges; run: sudo --preserve-env=PATH make demo" >&2
	exit 2
fi
bold="" plain=""
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
# Shows a command line, and runs it.
show() {
	printf '\n$ %s\n' "$*"
	"$@"
}
PATH=$(realpath "$bin"):$PATH
mkdir -p $out/symbols
# The C library inside of it has symbols; the shared one of distributions has not. By a build-id a debug file is found.
compile() { cc -O2 -g -pthread -Wl,--build-id "$@" "$here/demo/orders.c" -o $out/orders; }
compile -static 2>/dev/null || compile

printf '\n$ PATH=%s:$PATH\n' "$(realpath "$bin")"
say "A program with two threads that take orders. First screen: where the time went, and how good the data is"
show icecore-record -q -F 499 --off-cpu --force -o $out/demo.icecore -- $out/orders 5000 $out/ledger
show icecore-report $out/demo.icecore

say "For what did its threads wait? And who waited for the lock of the ledger?"
show icecore-report top --by wait -n 4 $out/demo.icecore
show icecore-report tree --event off-cpu --user --focus book_order $out/demo.icecore

say "The same program as distributions ship theirs: stripped. The report says what is missing, and where to get it"
objcopy --only-keep-debug $out/orders $out/symbols/orders.debug
strip -o $out/stripped $out/orders
show icecore-record -q -F 499 --force -o $out/stripped.icecore -- $out/stripped 2000 $out/ledger
show icecore-report missing $out/stripped.icecore
show icecore-report top -n 3 --symbols $out/symbols $out/stripped.icecore

say "All samples, to explore in a browser"
show icecore-report flame $out/demo.icecore --force -o $out/demo.svg
show icecore-report html $out/demo.icecore --force -o $out/demo.html
