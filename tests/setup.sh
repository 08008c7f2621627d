#!/bin/sh
# Installs what is missing: on Debian and Ubuntu by apt, elsewhere it says what is missing.
#   setup.sh build   what building and running need
#   setup.sh test    what the tests need besides (half a GB); DuckDB, polars, moto and others in target/engines/test (417 MB);
#                    and what reads exported files in target/exports (205 MB, of which Node.js is 121)
#   setup.sh         both
#   setup.sh bench   what the benchmarks need besides: their peer, and what runs their BPF programs
#   setup.sh engines what reads tables besides DuckDB: ClickHouse and Spark in target/engines/all (1.5 GB), and Java (200 MB)
set -eu

if [ $# = 0 ]; then
	"$0" build
	exec "$0" test
fi
root=$(cd "$(dirname "$0")/.." && pwd)
need=""
fetches_rustup=no
# The folder below target/engines that gets packages of Python.
venv=""
# The folder below target that gets packages of npm.
packages=""
has() { command -v "$1" >/dev/null 2>&1; }
want() { need="$need $1"; }

# The compiler of the programs in bpf/, as crates/record/build.rs looks for it.
has_clang() {
	for name in "${CLANG:-clang}" clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
		has "$name" && return
	done
	return 1
}

# Asks for the venv target/engines/$1 with the packages that these files in tests/engines name; the last one includes the others.
want_venv() {
	venv=$1
	shift
	python=$root/target/engines/$venv/bin/python
	required=$(cd "$root/tests/engines" && cat "$@")
	if [ "$required" = "$(cat "$root/target/engines/$venv/required" 2>/dev/null)" ] && "$python" -c '' 2>/dev/null; then
		venv=""
	elif ! python3 -c 'import ensurepip' 2>/dev/null; then
		want python3-venv
	fi
	for last; do requirements=$root/tests/engines/$last; done
}

# Asks for the packages that tests/$1/package-lock.json names, in target/$1.
want_packages() {
	packages=$1
	if cmp -s "$root/tests/$1/package-lock.json" "$root/target/$1/installed"; then packages=""; fi
}

case "${1:-}" in
build)
	has_clang || want clang
	has cc || want gcc
	has make || want make
	has pkg-config || want pkg-config
	has cc && printf '#include <libelf.h>\n' | cc -E - >/dev/null 2>&1 || want libelf-dev
	has cc && printf '#include <zlib.h>\n' | cc -E - >/dev/null 2>&1 || want zlib1g-dev
	# Without recommended packages gcc comes without the headers of C.
	has cc && printf '#include <stdlib.h>\n' | cc -E - >/dev/null 2>&1 || want libc6-dev
	# By these cargo knows its registry.
	[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki ] || want ca-certificates
	# Rust 1.90 or newer; rustup is a package since Debian 13 and Ubuntu 24.04. Elsewhere its own installer fetches it.
	minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\).*/\1/p')
	if [ "${minor:-0}" -lt 90 ]; then
		if has rustup; then
			rustup default stable
		elif has apt-cache && apt-cache show rustup >/dev/null 2>&1; then
			want rustup
		else
			has curl || want curl
			fetches_rustup=yes
		fi
	fi
	;;
test)
	# The tests compile C++ with it, too.
	{ has_clang && has clang++; } || want clang
	has c++ || want g++
	has readelf || want binutils
	has ld.lld || want lld
	has xz || want xz-utils
	has dwz || want dwz
	has musl-gcc || want musl-tools
	# The tests take any of these (tests/src/machine.rs), and Debian's package serves only the second.
	if ! python3 -c 'import zstandard' 2>/dev/null && ! /usr/bin/python3 -c 'import zstandard' 2>/dev/null; then
		want python3-zstandard
	fi
	has python3 || want python3
	has pgrep || want procps
	# The terminal in which the tests look at `icecore-report tui`.
	has tmux || want tmux
	has node || want nodejs
	has php || want php-cli
	has javac || want default-jdk-headless
	has erlc || want erlang-base
	has perl || want perl
	# What shows the page of `icecore-report html` (tests/page/). Ubuntu's packages of Chromium are stubs of a snap, which needs a
	# running snapd.
	has npm || want npm
	browser=no
	for name in chromium google-chrome google-chrome-stable chrome chromium-browser; do
		has "$name" && browser=yes
	done
	if [ $browser = no ] && [ -z "${ICECORE_BROWSER:-}" ]; then
		if has apt-cache && apt-cache show chromium 2>/dev/null | grep -q '^Depends:.*chromium-common'; then
			want chromium
		else
			echo "setup: cannot install Chromium here: install Google Chrome or the snap chromium, or set ICECORE_BROWSER to a" \
				"browser like these; until then the test \`page\` fails" >&2
		fi
	fi
	# The peer whose files are imported. Ubuntu has one for each kernel.
	if ! perf --version >/dev/null 2>&1; then
		if has apt-cache && ! apt-cache show linux-perf >/dev/null 2>&1; then want linux-tools-generic; else want linux-perf; fi
	fi
	# Peers of the symbolizing engine: Go (81 MB to fetch, 474 MB on disk), LLVM's tools, which may have its version in their
	# names, the linker of another processor, and the debug file of libc.
	has go || want golang-go
	for name in llvm-gsymutil llvm-dwp; do
		has $name || ls /usr/bin/$name-[0-9]* >/dev/null 2>&1 || { want llvm; break; }
	done
	has aarch64-linux-gnu-ld || want binutils-aarch64-linux-gnu
	if has dpkg; then
		dpkg -s libc6-dbg >/dev/null 2>&1 || want libc6-dbg
	fi
	has debuginfod || want debuginfod
	# What reads exported files (tests/exports/): callgrind_annotate, and programs of npm.
	has callgrind_annotate || want valgrind
	want_packages exports
	# The other host to which files are shipped: sshd on loopback.
	has sftp || want openssh-client
	has sshd || [ -x /usr/sbin/sshd ] || want openssh-server
	has losetup || [ -x /sbin/losetup ] || want mount
	has mkfs.ext4 || [ -x /sbin/mkfs.ext4 ] || want e2fsprogs
	printf '#include <sys/sdt.h>\n' | cc -E - >/dev/null 2>&1 || want systemtap-sdt-dev
	want_venv test requirements-test.txt
	;;
bench)
	perf --version >/dev/null 2>&1 || want linux-perf
	has bpftool || [ -x /usr/sbin/bpftool ] || want bpftool
	;;
engines)
	has python3 || want python3
	# Spark needs Java 17 or newer.
	java=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
	[ "${java:-0}" -ge 17 ] || want default-jre-headless
	want_venv all requirements-test.txt requirements.txt
	;;
*)
	echo "usage: $0 build|test|bench|engines" >&2
	exit 2
	;;
esac

# Installs packages of Debian.
install() {
	if ! has apt-get; then
		echo "setup: cannot install what is missing: there is no apt-get here. Debian's names of it:$need" >&2
		exit 2
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "setup: missing:$need" >&2
		echo "setup: run this, then try again: sudo apt-get install -y$need" >&2
		exit 2
	fi
	echo "setup: installing$need"
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	# shellcheck disable=SC2086 # one word per package
	if ! { apt-get update -qq && apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends $need; } >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		echo "setup: cannot install$need: see above" >&2
		exit 2
	fi
	rm -f "$log"
}

[ -z "$need" ] || install
case "$need" in *rustup*) rustup default stable ;; esac
if [ $fetches_rustup = yes ]; then
	echo "setup: installing Rust for this user, by https://rustup.rs"
	installer=$(mktemp)
	if ! { curl -fsS --proto '=https' --tlsv1.2 -o "$installer" https://sh.rustup.rs && sh "$installer" -y --no-modify-path; }; then
		rm -f "$installer"
		echo "setup: cannot install Rust: see above; install Rust 1.90 or newer, then run this again" >&2
		exit 2
	fi
	rm -f "$installer"
fi
if [ -n "$venv" ]; then
	echo "setup: installing $(basename "$requirements") into target/engines/$venv"
	folder=$root/target/engines/$venv
	log=$(mktemp)
	install_packages() {
		python3 -m venv --clear "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
	}
	if ! install_packages >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		echo "setup: cannot install the packages that $requirements names: see above; pip needs an index of packages, PyPI or" \
			"the one that PIP_INDEX_URL or pip.conf names" >&2
		exit 2
	fi
	rm -f "$log"
	# Last: without it everything is installed again.
	printf '%s\n' "$required" >"$folder/required"
fi
if [ -n "$packages" ]; then
	echo "setup: installing the packages of tests/$packages into target/$packages"
	folder=$root/target/$packages
	log=$(mktemp)
	install_packages() {
		mkdir -p "$folder" && cp "$root/tests/$packages/package.json" "$root/tests/$packages/package-lock.json" "$folder" \
			&& cd "$folder" && npm ci --prefer-offline --no-audit --no-fund
	}
	if ! (install_packages) >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		echo "setup: cannot install the packages of tests/$packages: see above; npm needs its registry (or one that it can reach," \
			"by \`npm config set registry\`)" >&2
		exit 2
	fi
	rm -f "$log"
	# Last: without it everything is installed again.
	cp "$root/tests/$packages/package-lock.json" "$folder/installed"
fi
