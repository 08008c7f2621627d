#!/bin/sh
# A workload made of what every development machine has: a compiler, the program that it makes (with
# frame pointers, two threads, system calls), a compressor, an interpreter, and the kernel's
# file system. About six seconds.
set -eu
work=$1
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"

# A compiler: several processes side by side.
for n in 1 2 3; do
	{
		echo '#include <algorithm>'
		echo '#include <map>'
		echo '#include <regex>'
		echo '#include <string>'
		echo '#include <vector>'
		echo "bool f$n(const std::string &s) { return std::regex_match(s, std::regex(\"a+b*\")); }"
	} >"$work/unit$n.cc"
	c++ -O2 -c "$work/unit$n.cc" -o "$work/unit$n.o" &
done
cc -O1 -g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fno-optimize-sibling-calls -pthread "$here/programs/target.c" -o "$work/target"

# The program that it made.
"$work/target" shares 1500
"$work/target" threads 700
"$work/target" syscalls 700

# The kernel's file system, a compressor, an interpreter.
tar cf - /usr/include 2>/dev/null | head -c 40000000 | xz -1 >"$work/include.xz"
find /usr -xdev -type f -size +2000k >"$work/files" 2>/dev/null
python3 -c '
import json
text = json.dumps([{"n": n, "square": n * n, "name": str(n)} for n in range(60000)])
print(sum(len(row["name"]) for row in json.loads(text)))
' >"$work/sum"
wait
