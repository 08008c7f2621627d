//! Tests the files of runtimes: jitdump files, and the perf maps of Node.js, Python, Erlang and PHP.

use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, jit, needs, report};

use super::{FIRST, OPTIONS, SECOND, assert_named, leaves, names};

#[test]
fn root_a_jitdump_names_code_that_moves_and_code_that_is_made_where_other_code_was() {
    assert_dump_is_believed("", "dump");
}

#[test]
fn root_times_of_another_time_namespace_are_converted() {
    assert_dump_is_believed("unshare -T --monotonic 100000 -f", "dump");
    assert_dump_is_believed("unshare -T --monotonic -1 -f", "dump");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn root_times_of_the_processors_counter_are_converted() {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(source).expect("x86-64 has one");
    if source.trim_end() != "tsc" {
        icecore_tests::machine::skip("the kernel does not keep time by the counter");
    }
    assert_dump_is_believed("", "ticks");
}

/// Records `tests/programs/jit.c`, begun by some program, and checks which code was where at which time.
fn assert_dump_is_believed(begun_by: &str, how: &str) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script =
        format!("cd '{}' && exec {begun_by} '{}' {how} 1200", folder.path().display(), jit().display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    assert_named(&names(&samples), &["first", "second"]);
    let leaves = leaves(&samples);
    let at = |address: u64| {
        leaves.iter().filter(move |leaf| leaf["address"].as_u64().is_some_and(|a| a & !0xff == address))
    };
    let moved: Vec<&str> = at(SECOND).filter_map(|leaf| leaf["name"].as_str()).collect();
    assert!(moved.len() > 50 && moved.iter().all(|name| *name == "first"), "{moved:?}");
    let reused: Vec<&str> = at(FIRST).filter_map(|leaf| leaf["name"].as_str()).collect();
    let turn = reused.iter().position(|name| *name == "second").expect("it was made");
    assert!(turn > 50 && reused[turn..].iter().all(|name| *name == "second"), "{reused:?}");
}

#[test]
fn root_functions_of_node_are_named() {
    needs("node", &["--version"]);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script = folder.path().join("work.js");
    let source = "function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }\n\
                  while (process.cpuUsage().user < 900000) fibonacci(20);\n";
    std::fs::write(&script, source).expect("room");
    // It leaves a log in the current folder, and its map.
    let run = format!(
        "cd '{}'; node --perf-basic-prof '{}' & wait; rm /tmp/perf-$!.map",
        folder.path().display(),
        script.display()
    );
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &run]);
    // Functions of JavaScript stand in the place of the code that runs them.
    let samples = recorded.samples(&["--native"]);
    let (function, place) = ("fibonacci ", format!("{}:1", script.display()));
    let is_it = |name: &&str| name.contains(function) && name.contains(&place);
    let named = samples.iter().filter(|sample| sample.names("user").iter().any(is_it)).count();
    assert!(named * 2 > samples.len() && named > 50, "{named} of {}", samples.len());
}

/// A Python program that makes code and reports its name, as Python 3.12 does with `-X perf`.
const PYTHON: &str = r#"
import ctypes, mmap, os, platform, time
code = {
    "x86_64": bytes.fromhex("554889e54889f848ffc875fb5dc3"),
    "aarch64": bytes.fromhex("fd7bbfa9fd030091000400f1e1ffff54fd7bc1a8c0035fd6"),
}[platform.machine()]
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with open(f"/tmp/perf-{os.getpid()}.map", "w") as map:
    map.write(f"{address:x} {len(code):x} py::hot:/srv/app.py\n")
hot = ctypes.CFUNCTYPE(None, ctypes.c_long)(address)
while time.thread_time() < 0.9:
    hot(1000000)
os.unlink(map.name)
"#;

#[test]
fn root_functions_of_python_are_named() {
    let recorded = Recorded::new(&OPTIONS, &["python3", "-c", PYTHON]);
    let samples = recorded.samples(&[]);
    let hot =
        samples.iter().filter(|sample| sample.names("user").first() == Some(&"py::hot:/srv/app.py")).count();
    assert!(hot * 2 > samples.len() && hot > 50, "{hot} of {}", samples.len());
}

/// Erlang's JIT keeps frame pointers if it writes a map, so its stacks are whole up to the first function of its process.
#[test]
fn root_functions_of_erlang_are_named_and_have_their_callers() {
    needs("erl", &["-noshell", "-eval", "jit = erlang:system_info(emu_flavor), halt()."]);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/known.erl");
    // It leaves its map and its jitdump.
    let run = format!(
        "cd '{}' && erlc '{}' || exit; erl +JPperf true -noshell -run known main 1500 & \
         wait; rm /tmp/perf-$!.map /tmp/jit-$!.dump",
        folder.path().display(),
        known.display()
    );
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &run]);
    let samples = recorded.samples(&[]);
    let stacks: Vec<Vec<&str>> = samples.iter().map(|sample| sample.names("user")).collect();
    let spins: Vec<_> = stacks.iter().filter(|names| names.first() == Some(&"known:spin/1")).collect();
    let is_whole = |names: &[&str]| {
        let deep = names.iter().skip(1).take_while(|name| **name == "known:deep/2").count();
        deep == 21 && names.get(22..24) == Some(&["known:outer/1", "known:work/1"])
    };
    let whole = spins.iter().filter(|names| is_whole(names)).count();
    assert!(
        spins.len() > 300 && whole * 100 >= spins.len() * 99,
        "{whole} of {}: {:?}",
        spins.len(),
        spins[0]
    );
}

/// What PHP's JIT makes of a loop.
const PHP: &str = "function hot() { for ($i = 0, $n = 0; $i < 100000; $i++) $n += $i % 7; return $n; }\n\
                   for ($end = microtime(true) + 0.9; microtime(true) < $end;) hot();";

#[test]
fn root_functions_of_the_jit_of_php_are_named() {
    needs("php", &["-r", "exit(extension_loaded('Zend OPcache') ? 0 : 1);"]);
    // Without the last one it compiles no file that is younger than two seconds.
    let jit = "-d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=32M \
               -d opcache.file_update_protection=0";
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script = folder.path().join("hot.php");
    std::fs::write(&script, format!("<?php {PHP}")).expect("room");
    let run = |options: &str| {
        let run = format!("php {jit} {options} '{}' & wait; rm -f /tmp/perf-$!.map", script.display());
        Recorded::new(&OPTIONS, &["sh", "-c", &run])
    };
    let named = run("-d opcache.jit_debug=16");
    let samples = named.samples(&[]);
    let is_it = |sample: &&Sample| sample.names("user").first().is_some_and(|name| name.contains("$hot$"));
    let hot = samples.iter().filter(is_it).count();
    assert!(hot * 2 > samples.len() && hot > 50, "{hot} of {}", samples.len());
    // Without a map the report says how to get one, though the recorder has read functions of PHP that the JIT did not compile.
    let plain = run("");
    let told = report(&["missing".as_ref(), plain.path().as_os_str()]);
    assert!(told.contains("opcache.jit_debug=16"), "{told}");
}

/// Perl has no JIT and no map: the report says that nothing will show its functions.
#[test]
fn root_functions_of_perl_are_said_not_to_be_shown() {
    needs("perl", &["-e", "1"]);
    let script =
        "sub hot { my $n = 0; $n += $_ for 1..1000; $n } my $end = time + 2; hot() while time < $end;";
    let recorded = Recorded::new(&OPTIONS, &["perl", "-e", script]);
    let perl = &recorded.json("missing", &[])["interpreters"][0];
    assert!(perl["name"] == "Perl" && perl["samples_share"].as_f64() > Some(0.9), "{perl}");
}
