#!/usr/bin/env python3
"""Names 50,000 addresses of one large C++ program by this project's engine and by others, and prints time and memory.

usage: symbolize.py PROGRAM-MADE-OF-symbolize.rs [UNITS]

The program is generated: UNITS files of templates, compiled once with -O2 -g and kept in target/bench. Times are the least
of three runs; files are in the page cache.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COUNT = 50_000

UNIT = """
#include <algorithm>
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
namespace unit{n} {{
template <int N> struct Key {{
  std::string name; double value;
  bool operator<(const Key& other) const {{ return std::tie(name, value) < std::tie(other.name, other.value); }}
}};
template <int N> struct Store {{
  std::map<Key<N>, std::vector<std::string>> rows;
  std::unordered_map<std::string, std::deque<std::pair<int, std::string>>> index;
  std::set<std::pair<std::string, int>> seen;
  std::list<std::function<int(const std::string&)>> hooks;
  int fill(int count) {{
    for (int i = 0; i < count; i++) {{
      std::ostringstream text; text << N << ':' << i;
      rows[Key<N>{{text.str(), i * 0.5}}].push_back(text.str());
      index[text.str()].emplace_back(i, text.str());
      seen.insert({{text.str(), i}});
      hooks.push_back([i, this](const std::string& s) {{ return int(s.size()) + i + int(rows.size()); }});
    }}
    std::vector<std::pair<std::string, int>> all(seen.begin(), seen.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {{ return a.second > b.second; }});
    std::stable_sort(all.begin(), all.end());
    int sum = 0;
    for (auto& hook : hooks) sum += hook(all.empty() ? "" : all[0].first);
    std::regex pattern("([a-z]+):([0-9]+)");
    for (auto& [name, i] : all) sum += std::regex_match(name, pattern) ? i : 1;
    return sum;
  }}
}};
int run(int count) {{ return {calls}; }}
}}
"""


def compiled(units):
    folder = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "bench" / f"units-{units}"
    program = folder / "large"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    print(f"compiling {units} files of templates into {folder} ...", file=sys.stderr)

    def compile_unit(n):
        calls = " + ".join(f"Store<{n * 100 + i}>().fill(count)" for i in range(6))
        (folder / f"{n}.cc").write_text(UNIT.format(n=n, calls=calls))
        command = ["c++", "-std=c++17", "-O2", "-g", "-c", f"{n}.cc", "-o", f"{n}.o"]
        subprocess.run(command, cwd=folder, check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_unit, range(units)))
    main = "\n".join(f"namespace unit{n} {{ int run(int); }}" for n in range(units))
    main += "\nint main(int n, char**) { return " + " + ".join(f"unit{n}::run(n)" for n in range(units)) + "; }\n"
    (folder / "main.cc").write_text(main)
    objects = [f"{n}.o" for n in range(units)]
    command = ["c++", "-O2", "-g", "main.cc", *objects, "-Wl,--build-id", "-o", "large.new"]
    subprocess.run(command, cwd=folder, check=True)
    os.replace(folder / "large.new", program)
    return program


def timed(command, text):
    """Seconds, and the peak of memory in MB."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    child.stdin.write(text)
    child.stdin.close()
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, command
    return time.monotonic() - begin, usage.ru_maxrss / 1e3


def engine(tool, name, program, threads):
    command = [tool, name, program, str(COUNT), str(threads)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(out[0]), int(out[1]) / 1e3


def main():
    tool = Path(sys.argv[1]).resolve()
    program = compiled(int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    sections = subprocess.run(["size", "-A", program], check=True, capture_output=True, text=True).stdout
    info = next(int(line.split()[1]) for line in sections.splitlines() if line.startswith(".debug_info"))
    print(f"{COUNT:,} addresses, inlined calls and lines; C++, {program.stat().st_size / 1e6:.0f} MB, "
          f".debug_info {info / 1e6:.0f} MB")
    print(f"{'engine':34}{'1 thread':>10}{'2 threads':>11}{'peak MB, 1':>12}{'2':>6}")
    for name, title in [("icecore", "icecore"), ("addr2line", "addr2line crate, one per thread"),
                        ("blazesym", "blazesym, one per thread")]:
        one, two = (min(engine(tool, name, program, threads) for _ in range(3)) for threads in (1, 2))
        print(f"{title:34}{one[0]:>8.2f} s{two[0]:>9.2f} s{one[1]:>12.0f}{two[1]:>6.0f}")
    listed = subprocess.run([tool, "list", program, str(COUNT), "1"], check=True, capture_output=True).stdout
    for name in ("addr2line", "llvm-addr2line"):
        if not shutil.which(name):
            print(f"{name:34}{'is not installed':>10}")
            continue
        title = f"{name} -Cife" + (" (binutils)" if name == "addr2line" else "")
        some = listed if name != "addr2line" else b"".join(listed.splitlines(keepends=True)[::50])
        seconds, peak = timed([name, "-Cife", program], some)
        note = "" if some is listed else f"   (every 50th address: {len(some.splitlines()):,})"
        print(f"{title:34}{seconds:>8.2f} s{'':>11}{peak:>12.0f}{note}")


main()
