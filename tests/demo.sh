#!/bin/sh
# Records a workload of several programs, prints where the time went, draws a flame graph, and writes a page to explore.
set -eu
bin=$1
out=demo
here=$(dirname "$0")

if [ "$(id -u)" != 0 ]; then
	echo "demo: recording needs privileges; run: sudo --preserve-env=PATH make demo" >&2
	exit 2
fi
mkdir -p $out
"$bin/icecore-record" -F 499 --label demo=workload --force -o $out/demo.icecore -- "$here/workload.sh" $out/work
echo
"$bin/icecore-report" $out/demo.icecore
"$bin/icecore-report" flame $out/demo.icecore --force -o $out/demo.svg
"$bin/icecore-report" html $out/demo.icecore --force -o $out/demo.html
echo
echo "demo: recording   $out/demo.icecore"
echo "demo: flame graph $out/demo.svg (open it in a browser, click a frame to zoom)"
echo "demo: page        $out/demo.html (open it in a browser: all samples, to explore)"
