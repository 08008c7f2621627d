//! Runtimes whose code has no names: the report says how to make them report names.

use icecore_format::records::{Change, ImageKind, Location, Origin};
use icecore_tests::machine::report;
use icecore_tests::synthetic::Builder;
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
        ("/usr/lib/libpython3.12.so.1.0", "run python with -X perf"),
    ] {
        let told = unnamed(library, false);
        assert!(told.contains(remedy), "{library}: {told}");
        let told = unnamed(library, true);
        assert!(told.contains("jit") && !told.contains("run "), "{library}: {told}");
    }
    let told = unnamed("/usr/lib/libother.so", false);
    assert!(told.contains("jit") && !told.contains("run "), "{told}");
}
