use std::path::Path;

use super::*;
use icecore_symbolize::Reason;
use icecore_symbolize::image::Search;
use icecore_symbolize::image::fixture::{Fixture, function, identity, nm, run, text};

fn listed(path: &Path, name: &str, search: &Search) -> Result<FunctionCode, NoCode> {
    let image = identity(path);
    let (off, len) = function(path, name);
    Code::open(&image, &Finder { search, embedded: None })?.function(FileOff(off.0 + len / 2))
}

#[test]
fn instructions_cover_the_function_and_know_lines_and_inlined_functions() {
    let fixture = Fixture::shared();
    let outer = listed(&fixture.with_debug, "outer", &Search::nowhere()).expect("code");
    let (off, len) = function(&fixture.with_debug, "outer");
    assert_eq!((outer.range.start.0, outer.range.end.0 - outer.range.start.0), (off.0, len));
    assert_eq!(outer.instructions.iter().map(|it| it.bytes.len() as u64).sum::<u64>(), len);
    assert_eq!((outer.name.as_deref(), outer.source), (Some("outer"), FileSource::Path));
    let xor = outer.instructions.iter().find(|it| it.functions.first().and_then(|f| f.line) == Some(4));
    let chain: Vec<(&str, Option<u32>)> =
        xor.expect("line 4").functions.iter().map(|f| (&*f.name, f.line)).collect();
    assert_eq!(chain, [("inner", Some(4)), ("middle", Some(7)), ("outer", Some(10))]);
}

#[test]
fn calls_say_whom_they_call_also_through_stubs() {
    let fixture = Fixture::shared();
    let exported = listed(&fixture.with_debug, "exported", &Search::nowhere()).expect("code");
    let referred = exported.instructions.iter().filter_map(|it| it.refers.as_ref());
    let names: Vec<&str> = referred.filter_map(|it| it.name.as_deref()).collect();
    assert!(names.contains(&"secret"), "{names:?}");
    assert!(names.iter().any(|name| ["outer", "outer@plt"].contains(name)), "{names:?}");
    let secret = listed(&fixture.with_debug, "secret", &Search::nowhere()).expect("code");
    let jump = secret.instructions.iter().filter_map(|it| it.refers.clone()).find(|it| it.is_code);
    assert_eq!(jump.and_then(|it| it.name).as_deref(), Some("secret"), "a loop");
}

#[test]
fn slots_of_the_loader_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, program) = (dir.path().join("x.c"), dir.path().join("x.so"));
    std::fs::write(&source, "int other(int); int calls(int x) { return other(x) + 1; }").expect("room");
    run(dir.path(), "cc", &["-O1", "-fPIC", "-fno-plt", "-shared", "-o", text(&program), text(&source)]);
    let calls = listed(&program, "calls", &Search::nowhere()).expect("code");
    let call = calls.instructions.iter().find(|it| it.is_call).expect("a call");
    let Referred { is_code, name, offset, .. } = call.refers.clone().expect("a slot");
    assert_eq!((is_code, name.as_deref(), offset), (false, Some("other"), 0));
}

#[test]
fn a_stripped_function_has_its_bounds_from_unwind_tables_or_its_debug_file() {
    let fixture = Fixture::shared();
    let (image, (off, len)) = (identity(&fixture.stripped), function(&fixture.with_debug, "secret"));
    for search in [Search::nowhere(), fixture.search()] {
        let finder = Finder { search: &search, embedded: None };
        let mut code = Code::open(&image, &finder).expect("code");
        let secret = code.function(FileOff(off.0 + 1)).expect("bounds");
        assert_eq!((secret.range.start.0, secret.range.end.0 - secret.range.start.0), (off.0, len));
        let has_lines = secret.instructions.iter().any(|it| it.functions.iter().any(|f| f.line.is_some()));
        assert_eq!(has_lines, !search.debug_dirs.is_empty());
    }
}

#[test]
fn every_reason_for_no_instructions_is_told() {
    let fixture = Fixture::shared();
    let nowhere = Search::nowhere();
    let finder = Finder { search: &nowhere, embedded: None };
    let missing = Identity { path: "/no/such".into(), ..identity(&fixture.with_debug) };
    let why = |result: Result<FunctionCode, NoCode>| result.map(|code| code.range).expect_err("no code");
    let open = |image| Code::open(image, &finder).map(drop).expect_err("no code");
    assert_eq!(open(&missing), NoCode::Image(Reason::ImageMissing));
    let image = identity(&fixture.with_debug);
    let header = Code::open(&image, &finder).expect("code").function(FileOff(0));
    assert_eq!(why(header), NoCode::NoBounds, "the ELF header is no code");

    let dir = tempfile::tempdir().expect("a folder");
    let (source, large) = (dir.path().join("x.s"), dir.path().join("x.so"));
    let text_of = ".globl f\n.type f,@function\nf: .skip 1048577, 0x90\nret\n.size f, .-f\n";
    std::fs::write(&source, text_of).expect("room");
    run(dir.path(), "cc", &["-shared", "-nostdlib", "-o", text(&large), text(&source)]);
    assert_eq!(why(listed(&large, "f", &nowhere)), NoCode::TooLong);

    // The number of another machine in the header: 40 is 32-bit Arm.
    let other = dir.path().join("arm.so");
    let mut bytes = std::fs::read(&fixture.with_debug).expect("read");
    bytes[18] = 40;
    std::fs::write(&other, bytes).expect("room");
    assert_eq!(open(&identity(&other)), NoCode::Processor);
    assert!(nm(&fixture.with_debug, &[]).iter().any(|symbol| symbol.2 == "secret"));
}
