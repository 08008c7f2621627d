#!/bin/sh
# run.sh BIN [SUITE...]   records known programs on the kernels of these suites of Debian, each booted under emulation, and fails
# if a recording is wrong. BIN has icecore-report; the recorder is built anew, statically linked. If BIN is a folder `debug`, the
# icecore-record there is taken, with its libraries. Installs qemu, cpio and busybox; kernels come from the mirror that apt is
# configured with, are checked by apt, and are unpacked, never installed. Four kernels take about a quarter of an hour.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$(realpath "$1")
report=$bin/icecore-report
shift
[ $# -gt 0 ] || set -- bullseye bookworm trixie sid
work=$root/target/kernels
host=x86_64-unknown-linux-gnu

need=""
command -v qemu-system-x86_64 >/dev/null || need="$need qemu-system-x86"
command -v cpio >/dev/null || need="$need cpio"
[ -x /bin/busybox ] || need="$need busybox-static"
# shellcheck disable=SC2086 # one word per package
[ -z "$need" ] || apt-get install -y -qq --no-install-recommends $need >/dev/null

recorder=$bin/icecore-record
if [ "$(basename "$bin")" != debug ]; then
	recorder=$root/target/$host/release/icecore-record
	LIBBPF_SYS_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu RUSTFLAGS="-C target-feature=+crt-static" \
		cargo build --quiet --release --manifest-path "$root/Cargo.toml" --target-dir "$root/target" \
		-p icecore-record --features static --target $host
fi

# The programs, and the one that is run first.
programs=$root/tests/programs
tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/tmp" "$tree/cgroup"
compile() { cc -static -O2 -g -pthread "$@"; }
compile -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer "$programs/target.c" -o "$tree/bin/target"
compile -fomit-frame-pointer "$programs/callers.c" -o "$tree/bin/callers"
compile -fomit-frame-pointer "$programs/stacks.c" -o "$tree/bin/stacks"
compile -fomit-frame-pointer "$programs/returns.c" -o "$tree/bin/returns"
compile -fomit-frame-pointer "$programs/statics.c" -o "$tree/bin/statics"
compile "$programs/in_step.c" -o "$tree/bin/in_step"
compile -fomit-frame-pointer "$programs/probed.c" -o "$tree/bin/probed"
compile -fomit-frame-pointer "$programs/waits.c" -o "$tree/bin/waits"
(cd "$programs/go" && GO111MODULE=off CGO_ENABLED=0 go build -o "$tree/bin/go-stacks" stacks.go)
strip -o "$tree/bin/icecore-record" "$recorder"
# shellcheck disable=SC2013 # one path per word
for library in $(ldd "$recorder" | grep -o '/[^ ]*'); do
	mkdir -p "$tree$(dirname "$library")"
	cp -L "$library" "$tree$library"
done
cp /bin/busybox "$tree/bin/busybox"
cat >"$tree/init" <<'END'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /cgroup
cd /tmp
record() { name=$1; shift; icecore-record -o "$name.icecore" "$@" >"$name.txt" || echo "$name: icecore-record fails with $?"; }
record recursion -F 499 --audit 8 -- target recursion 1500
record recursion-fp -F 499 --unwind fp -- target recursion 1000
record recursion-dwarf -F 499 --unwind dwarf -- target recursion 1000
record buffer -F 499 --audit 8 -- callers buffer 2500
record buffer-dwarf -F 499 --unwind dwarf -- callers buffer 2500
record alternate -F 499 --audit 8 -- stacks alternate 1500
record go -F 499 -- go-stacks chain 2500
record in_step -F 99 -- in_step 4
record uprobe --max-event-rate 0 -e uprobe:/bin/probed:tick -- probed tick 500
record tracepoint --max-event-rate 0 -e syscalls:sys_enter_sched_yield -- probed yield 500
record field --max-event-rate 0 -e syscalls:sys_enter_write,weight=count,field=fd -e sched:sched_process_exec,field=filename -- dd if=/dev/zero of=/dev/null bs=1000 count=50
record kprobe --max-event-rate 0 -e kprobe:__x64_sys_sched_yield -- probed yield 500
record kretprobe --max-event-rate 0 -e kretprobe:vfs_read,weight=retval -- probed read 500
record fentry --max-event-rate 0 -e fentry:vfs_read,weight=arg3 -- probed read 500
record fexit --max-event-rate 0 -e fexit:vfs_read,weight=retval -e fentry:ksys_read -e kprobe:vfs_read,weight=arg3 -- probed read 500
record overfull --max-event-rate 0 -e kretprobe:hrtimer_nanosleep -- sh -c 'for i in $(seq 30); do sleep 4 & done; wait'
record slept --max-event-rate 0 -e kretprobe:hrtimer_nanosleep,weight=duration -- probed sleep 100
record several --max-event-rate 0 -e cpu-clock,freq=99 -e uprobe:/bin/probed:sized,weight=arg1 -e uprobe:/bin/probed:tick -- probed sized 500
record return --max-event-rate 0 -e uretprobe:/bin/probed:down -- probed down 50
record duration --max-event-rate 0 -e 'uretprobe:/bin/returns:timed_*,weight=duration' -- returns times 20
record deep --max-event-rate 0 -e 'uretprobe:/bin/returns:timed_*,weight=duration' -- returns deep 100
record leaps --max-event-rate 0 -e cpu-clock,freq=999 -e uretprobe:/bin/returns:leaps -e uretprobe:/bin/returns:stays -- returns leaps 20000
record usdt --max-event-rate 0 -e 'usdt:/bin/statics:sh*:*' -- statics 30
record probed-waits --off-cpu-only=1ms --max-event-rate 0 -e uretprobe:/bin/waits:sleeps -e uretprobe:/bin/waits:reads -- waits 20 20
record waits --off-cpu=1ms -F 99 -- waits 20 20
record wakers --off-cpu=1ms --wakers -F 99 -- waits 20 20
record paused -a --max-event-rate 0 --off-cpu=1ms --duty 300ms/800ms -e fentry:hrtimer_nanosleep -e kprobe:hrtimer_nanosleep -e syscalls:sys_enter_clock_nanosleep -- probed sleep 900
record long-waits --off-cpu=1ms -F 99 -- waits 20 240
waits 60000 1 idle &
idle=$!
sleep 1
record idle --off-cpu -d 1 -p $idle
kill $idle
mkdir /cgroup/one
(echo 0 >/cgroup/one/cgroup.procs; exec callers buffer 90000) &
long=$!
record cgroup -F 499 -d 1.5 --cgroup /one
kill $long
wait
record all -F 499 -a -- target syscalls 1500
stty -F /dev/ttyS1 raw
tar cf - ./*.icecore ./*.txt >/dev/ttyS1
poweroff -f
END
chmod +x "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

# Boots the kernel in a folder, records there, and judges the recordings.
record_and_check() {
	rm -rf "$1/out" "$1/out.tar"
	mkdir "$1/out"
	# Without cmpxchg16b: QEMU 7.2 sometimes breaks its flags, and kernels from 6.12 on panic of it. Without KVM: any machine can.
	timeout 900 qemu-system-x86_64 -accel tcg -cpu max,-cx16,-la57 -m 1024 -smp 1 -display none -monitor none -no-reboot \
		-kernel "$1/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet no_timer_check" \
		-serial "file:$1/console.txt" -serial "file:$1/out.tar" || echo "NO: qemu fails with $?"
	if ! { tar xf "$1/out.tar" -C "$1/out" && python3 "$here/check.py" "$report" "$tree" "$1/out" >"$1/found.txt" 2>&1; }; then
		cat "$1/found.txt"
		tail -n 40 "$1/console.txt"
		# What is wrong comes last: whoever reads only the end of a log sees it.
		grep -v '^   ' "$1/found.txt"
		return 1
	fi
	cat "$1/found.txt"
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -1)
failed=0
for suite; do
	# An apt of its own for this suite alone.
	dir=$work/$suite
	rm -rf "$dir"/*.deb
	mkdir -p "$dir/etc/apt.conf.d" "$dir/etc/preferences.d" "$dir/lists/partial" "$dir/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$dir/etc/sources.list"
	set -- -q=2 -o Dir::Etc="$dir/etc" -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" -o APT::Sandbox::User=root
	apt-get "$@" update
	depends() { apt-cache "$@" | sed -n 's/^ *Depends: \(linux-\(image\|binary\)-[0-9].*\)/\1/p' | head -1; }
	image=$(depends "$@" depends linux-image-cloud-amd64)
	# The kernel itself is a package of its own since 7.
	binary=$(depends "$@" depends "$image")
	(cd "$dir" && apt-get "$@" download "${binary:-$image}")
	dpkg-deb --fsys-tarfile "$dir"/*.deb | tar -xO --wildcards '*/vmlinuz*' >"$dir/vmlinuz"
	echo "== $suite: $image"
	if ! record_and_check "$dir"; then
		echo "== $suite: once more"
		if record_and_check "$dir"; then
			echo "FLAKY: $suite failed once and passed when it was run again"
		else
			failed=1
		fi
	fi
done
exit $failed
