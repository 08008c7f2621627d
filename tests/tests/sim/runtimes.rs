//! Runtimes whose code has no names, and interpreters whose functions are not shown: the report says how to make them report names.

use icecore_format::records::{Change, ImageKind, JitCode, Language, Location, Origin};
use icecore_tests::machine::report;
use icecore_tests::synthetic::Builder;
use serde_json::Value;
use tempfile::TempDir;

/// Makes samples in JIT code whose stacks do not show the runtime. The process has the runtime mapped, or had it until it ran
/// `another` program.
fn unnamed(library: &str, another: bool) -> String {
    let mut b = Builder::default();
    let library = b.image(ImageKind::FILE, library);
    let memory = b.image(ImageKind::ANONYMOUS, "[anon]");
    b.change(0, Change::FOUND, 100, 1, "server");
    b.map(1_000, 100, 0x5_0000, library, Origin::SCAN);
    if another {
        b.change(2_000, Change::EXEC, 100, 0, "server");
    }
    b.map(3_000, 100, 0x9_0000, memory, Origin::SCAN);
    let task = b.task(100, 100, "server");
    let stack = b.stack_at(&[Location::Address(0x9_0010), Location::Address(0x9_0100)]);
    for at_ns in (1..100).map(|n| n * 10_000_000) {
        b.sample(at_ns, 0, task, &[], &[]).user_stack = stack;
    }
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("r.icecore");
    b.write(&path, true).expect("a recording");
    report(&["missing".as_ref(), path.as_os_str()])
}

#[test]
fn a_process_that_maps_a_runtime_is_told_how_its_code_gets_names() {
    for (library, remedy) in [
        ("/usr/lib/jvm/java-17/lib/server/libjvm.so", "Compiler.perfmap"),
        ("/usr/bin/node", "run node with --perf-basic-prof"),
        ("/usr/lib/libpython3.12.so.1.0", "run python with -X perf (3.12) if the recorder does not know"),
        ("/opt/semeru/lib/default/libj9vm29.so", "run java with -XX:+PerfTool"),
        ("/usr/share/dotnet/shared/8.0.1/libcoreclr.so", "run it with DOTNET_PerfMapEnabled=1"),
        ("/usr/lib/erlang/erts-13.1.5/bin/beam.smp", "run erl with +JPperf true"),
        ("/usr/sbin/php-fpm8.2", "run php with -d opcache.jit_debug=16"),
        ("/usr/bin/luajit", "build LuaJIT with -DLUAJIT_USE_PERFTOOLS"),
        ("/usr/lib/libruby-3.3.so.3.3.0", "run ruby with --yjit-perf"),
    ] {
        let told = unnamed(library, false);
        assert!(told.contains(remedy), "{library}: {told}");
        let told = unnamed(library, true);
        assert!(told.contains("jit") && !told.contains("to have its names"), "{library}: {told}");
        assert!(!told.contains(remedy), "{library}: {told}");
    }
    // Neither has a JIT: another library has made the code.
    for library in ["/usr/lib/libother.so", "/usr/bin/perl", "/usr/lib/liblua5.4.so.0"] {
        let told = unnamed(library, false);
        assert!(told.contains("jit") && !told.contains("JIT code has names"), "{library}: {told}");
    }
}

/// Makes ten samples in each of two processes that run an interpreter. The second one shows a function of a language, or has named JIT
/// code.
fn interpreting(path: &str, shows: Option<Language>) -> Value {
    let mut b = Builder::default();
    let interpreter = b.image(ImageKind::FILE, path);
    for tgid in [100, 200] {
        b.change(0, Change::FOUND, tgid, 1, "server");
        b.map(1_000, tgid, 0x5_0000, interpreter, Origin::SCAN);
        let (machine, code) = (Location::Image { image: interpreter, file_off: 0x10 }, 0x7000);
        let leaf = match shows {
            Some(language) if tgid == 200 => {
                let is_interpreted = language.is_interpreted();
                let (start, name) = (code, b"f".to_vec());
                b.jit.push(JitCode { tgid, start, end: start + 64, name, language, ..JitCode::default() });
                Some(Location::Address(code + 8 + if is_interpreted { Location::INTERPRETED } else { 0 }))
            }
            _ => None,
        };
        let stack = b.stack_at(&[leaf.as_slice(), &[machine]].concat());
        let task = b.task(tgid, tgid, "server");
        for at_ns in (1..=10).map(|n| n * 10_000_000) {
            b.sample(at_ns, 0, task, &[], &[]).user_stack = stack;
        }
    }
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("r.icecore");
    b.write(&path, true).expect("a recording");
    let told = report(&["missing".as_ref(), "--json".as_ref(), path.as_os_str()]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    told["interpreters"].clone()
}

#[test]
fn interpreters_of_which_no_function_is_shown_are_listed_with_their_samples() {
    for (path, name, advice) in [
        ("/usr/bin/perl", "Perl", "no option makes the interpreter report them"),
        ("/usr/bin/lua5.4", "Lua", "no option makes the interpreter report them"),
        ("/usr/bin/luajit", "LuaJIT", "no option makes the interpreter report them"),
        ("/usr/lib/libruby-3.1.so.3.1.2", "Ruby", "no option makes the interpreter report them"),
        ("/usr/bin/python3.8", "Python", "3.9 to 3.15 on x86-64 with the global lock"),
        ("/usr/sbin/php-fpm7.3", "PHP", "7.4 to 8.5 on x86-64 without threads"),
    ] {
        let told = interpreting(path, None);
        assert_eq!((&told[0]["name"], &told[0]["samples"]), (&name.into(), &20.into()), "{path}: {told}");
        assert!(told[0]["advice"].as_str().is_some_and(|text| text.contains(advice)), "{path}: {told}");
    }
    for path in ["/usr/bin/node", "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", "/usr/lib/libother.so"] {
        assert_eq!(interpreting(path, None), Value::Array(Vec::new()), "{path}");
    }
}

#[test]
fn a_process_that_shows_functions_of_its_interpreter_is_not_listed() {
    for (path, language, samples) in [
        ("/usr/bin/python3.12", Language::PYTHON, 10),
        ("/usr/bin/php8.2", Language::PHP, 10),
        // -X perf: its perf map names code that has no language.
        ("/usr/bin/python3.12", Language::UNKNOWN, 10),
    ] {
        let told = interpreting(path, Some(language));
        assert_eq!(told[0]["samples"], samples, "{path} {language:?}: {told}");
    }
}
