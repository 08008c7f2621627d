//! From a file on disk to names.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::image::fixture::{Fixture, function, identity, nm, run, text};
use crate::image::{ElfFile, FileOff, Finder, Identity, Inode, Search, Svma};

fn nowhere() -> Search {
    Search::nowhere()
}

fn ask(path: &Path, search: &Search, offsets: &[u64]) -> Vec<Answer> {
    ask_as(&identity(path), search, offsets)
}

fn ask_as(image: &Identity, search: &Search, offsets: &[u64]) -> Vec<Answer> {
    let offsets: Vec<_> = offsets.iter().map(|&off| FileOff(off)).collect();
    let ticks = AtomicU64::new(0);
    let tick = |n| {
        ticks.fetch_add(n, Ordering::Relaxed);
    };
    let mut answers =
        symbolize(&[Wanted { image, offsets: &offsets }], &Finder { search, embedded: None }, &tick);
    assert_eq!(ticks.into_inner(), offsets.len() as u64, "every offset is ticked once");
    let answers = answers.pop().expect("one list per image");
    assert_eq!(answers.len(), offsets.len());
    answers
}

fn names(answer: &Answer) -> Vec<&str> {
    match answer {
        Answer::Named(functions) => functions.iter().map(|function| &*function.name).collect(),
        Answer::Unnamed { .. } => Vec::new(),
    }
}

/// All offsets of a function of the fixture.
fn body(name: &str) -> Vec<u64> {
    let (start, len) = function(&Fixture::shared().with_debug, name);
    (start.0..start.0 + len).collect()
}

#[test]
fn names_lines_and_inlined_functions_agree_with_addr2line() {
    let fixture = Fixture::shared();
    let offsets = [body("outer"), body("secret"), body("exported")].concat();
    let hex: Vec<_> = offsets.iter().map(|off| format!("{off:#x}")).collect();
    let hex: Vec<_> = hex.iter().map(String::as_str).collect();
    let out = run(Path::new("/"), "addr2line", &[&["-aife", text(&fixture.with_debug)], &hex[..]].concat());
    let mut oracle = String::new();
    for line in out.lines() {
        let line = line.split(" (discriminator").next().unwrap_or(line);
        oracle += if line.starts_with("0x") { "--" } else { line };
        oracle.push('\n');
    }
    let mut ours = String::new();
    for answer in ask(&fixture.with_debug, &nowhere(), &offsets) {
        ours += "--\n";
        let Answer::Named(functions) = answer else { panic!("unnamed") };
        for function in functions {
            let (file, line) = (function.file.expect("a file"), function.line.expect("a line"));
            ours += &format!("{}\n{file}:{line}\n", function.name);
        }
    }
    assert_eq!(ours, oracle);
    let deep = "inner\n";
    assert!(ours.contains(deep) && ours.contains("lib.c:3\nmiddle\n") && ours.contains("lib.c:7\nouter\n"));
}

#[test]
fn a_symbol_table_alone_gives_names_without_lines() {
    let answers = ask(&Fixture::shared().with_symbols, &nowhere(), &body("secret"));
    for answer in &answers {
        let start = Some(Svma(body("secret")[0]));
        let origin = Origin { start, ..Origin::default() };
        let function = Function { origin: origin.into(), ..Function::new("secret".into()) };
        assert_eq!(answer, &Answer::Named(vec![function]));
    }
}

#[test]
fn a_stripped_function_has_a_start_and_not_the_name_of_its_neighbour() {
    let fixture = Fixture::shared();
    for path in [&fixture.stripped, &fixture.without_unwind_table] {
        let offsets = body("secret");
        for (answer, &off) in ask(path, &nowhere(), &offsets).iter().zip(&offsets) {
            let (start, at) = (Some(Svma(offsets[0])), Some(Svma(off)));
            assert_eq!(answer, &Answer::Unnamed { reason: Reason::NoSymbol, start, at }, "{path:?}");
        }
        assert_eq!(names(&ask(path, &nowhere(), &body("exported"))[0]), ["exported"]);
    }
}

#[test]
fn an_offset_outside_the_segments_has_no_address() {
    let none = Answer::Unnamed { reason: Reason::NoSymbol, start: None, at: None };
    assert_eq!(ask(&Fixture::shared().with_debug, &nowhere(), &[1 << 40, u64::MAX]), [none.clone(), none]);
}

#[test]
fn the_debug_file_gives_a_stripped_image_its_names_back() {
    let fixture = Fixture::shared();
    let offsets = [body("outer"), body("secret")].concat();
    let stripped = ask(&fixture.stripped, &fixture.search(), &offsets);
    assert_eq!(stripped, ask(&fixture.with_debug, &nowhere(), &offsets));
}

#[test]
fn an_image_that_is_gone_is_named_from_a_copy_with_its_build_id() {
    let fixture = Fixture::shared();
    let gone = Identity { path: "/no/such/file".into(), ..identity(&fixture.with_debug) };
    let offsets = [body("outer"), body("secret")].concat();
    let missing = ask_as(&gone, &fixture.search(), &offsets);
    assert!(
        matches!(missing[0], Answer::Unnamed { reason: Reason::ImageMissing, .. }),
        "objcopy: no offsets"
    );

    let dir = tempfile::tempdir().expect("a directory");
    let hex: String = gone.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let place = dir.path().join(".build-id").join(&hex[..2]);
    std::fs::create_dir_all(&place).expect("made");
    std::fs::copy(&fixture.with_debug, place.join(&hex[2..])).expect("copied");
    let search = Search { debug_dirs: vec![dir.path().to_owned()], ..nowhere() };
    let oracle = ask(&fixture.with_debug, &nowhere(), &offsets);
    for path in [
        "/no/such/file",
        "/no/such/file (deleted)",
        "/dev/null",
        "/etc/passwd",
        text(&fixture.without_build_id),
    ] {
        assert_eq!(
            ask_as(&Identity { path: path.into(), ..gone.clone() }, &search, &offsets),
            oracle,
            "{path}"
        );
    }
}

#[test]
fn a_gap_between_functions_is_not_the_function_before_it() {
    let path = &Fixture::shared().with_symbols;
    let layout = ElfFile::open(path).and_then(|file| file.layout()).expect("ELF");
    let plt = layout.section(".plt").expect("the fixture calls through a PLT");
    // `_init` is the last symbol before `.plt`, and has no size.
    assert!(nm(path, &[]).iter().all(|symbol| symbol.2 != "_init"), "_init has no size");
    assert_eq!(names(&ask(path, &nowhere(), &[plt.off.0])[0]), [""; 0], "it belongs to all stubs");
    let last = &ask(path, &nowhere(), &[plt.off.0 + plt.len - 1])[0];
    assert!(names(last)[0].ends_with("@plt"), "{last:?}");
    // Functions begin at multiples of 16; the rules of the one before the gap do not reach into it.
    let (start, len) = function(path, "outer");
    assert_ne!(len % 16, 0, "there is a gap");
    for path in [path, &Fixture::shared().stripped, &Fixture::shared().without_unwind_table] {
        let at = start.0 + len;
        let gap = Answer::Unnamed { reason: Reason::NoSymbol, start: None, at: Some(Svma(at)) };
        assert_eq!(ask(path, &nowhere(), &[at]), [gap]);
    }
}

#[test]
fn exported_names_of_the_c_library_agree_with_nm() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let libc =
        maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|p| p.contains("/libc.so")));
    let Some(libc) = libc.map(Path::new) else { return }; // static libc: nothing to compare
    let layout = ElfFile::open(libc).and_then(|file| file.layout()).expect("ELF");
    if layout.has(".symtab") {
        return; // names that nm -D does not have are right
    }
    let symbols = nm(libc, &["-D"]);
    let text = layout.section(".text").expect("code");
    let offsets: Vec<u64> = (text.off.0..text.off.0 + text.len).step_by(97).collect();
    let (mut named, mut unnamed) = (0, 0);
    for (answer, &off) in ask(libc, &nowhere(), &offsets).iter().zip(&offsets) {
        let at = text.at.0 + (off - text.off.0);
        let covering: Vec<_> =
            symbols.iter().filter(|symbol| at.wrapping_sub(symbol.0) < symbol.1).map(|s| &*s.2).collect();
        match names(answer)[..] {
            [] => unnamed += 1,
            [name] => {
                named += 1;
                let is_sizeless = !symbols.iter().any(|symbol| symbol.2 == name);
                assert!(covering.contains(&name) || is_sizeless, "{at:#x} is {name}, not {covering:?}");
            }
            _ => panic!("no DWARF, no inlined functions"),
        }
        assert!(!names(answer).is_empty() || covering.is_empty(), "{at:#x} is {covering:?}");
    }
    assert!(named > 1000 && unnamed > 1000, "{named} named, {unnamed} unnamed");
}

#[test]
fn rust_and_cpp_names_are_demangled_and_c_names_are_not() {
    let cases = [
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_RNvMs_NtCs1234_7mycrate3modNtB4_4Type3foo", "<mycrate::mod::Type>::foo"),
        ("_ZN3foo3BarIiE3bazERKSs", "foo::Bar<int>::baz(std::string const&)"),
        ("plain_c.part.0", "plain_c"),
        ("plain_c.resume", "plain_c.resume"),
        ("_Znot_mangled", "_Znot_mangled"),
        // Bare C++ types to a demangler.
        ("f", "f"),
        ("z", "z"),
        ("Pc", "Pc"),
        ("Ss", "Ss"),
        ("PFvvE", "PFvvE"),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    let mut source = String::new();
    for (i, (mangled, _)) in cases.iter().enumerate() {
        source += &format!("void f{i}(void) __asm__(\"{mangled}\"); void f{i}(void) {{}}\n");
    }
    std::fs::write(dir.path().join("names.c"), source).expect("written");
    let flags = ["-O1", "-fPIC", "-shared", "-Wl,--build-id=sha1", "names.c", "-o", "names.so"];
    run(dir.path(), "cc", &flags);
    let path = dir.path().join("names.so");
    for (mangled, demangled) in cases {
        let (off, _) = function(&path, mangled);
        assert_eq!(names(&ask(&path, &nowhere(), &[off.0])[0]), [demangled]);
    }
    std::fs::write(dir.path().join("dwarf.c"), "int f(int i) { return i; }\n").expect("written");
    run(dir.path(), "cc", &["-g", "-fPIC", "-shared", "-Wl,--build-id=sha1", "dwarf.c", "-o", "names.so"]);
    let (off, _) = function(&path, "f");
    let answers = ask(&path, &nowhere(), &[off.0]);
    assert_eq!(names(&answers[0]), ["f"]);
    assert!(matches!(&answers[0], Answer::Named(functions) if functions[0].line == Some(1)));
}

/// A name that is longer than others is still a name. The profile cuts it, with a mark.
#[test]
fn long_names_are_names() {
    let dir = tempfile::tempdir().expect("a directory");
    for len in [5_000, 30_000, 100_000] {
        let of = "x".repeat(len);
        let source = format!(
            "struct {of} {{}}; template <class T> int hot(T) {{ return 1; }} int f() {{ return hot({of}()); }}\n"
        );
        std::fs::write(dir.path().join("long.cc"), source).expect("written");
        run(
            dir.path(),
            "c++",
            &["-O0", "-fPIC", "-shared", "-Wl,--build-id=sha1", "long.cc", "-o", "long.so"],
        );
        let path = dir.path().join("long.so");
        let (off, _) = function(&path, &format!("_Z3hotI{len}{of}EiT_"));
        let answers = ask(&path, &nowhere(), &[off.0]);
        let whole = format!("int hot<{of}>({of})");
        match names(&answers[0])[..] {
            [name] if len < 60_000 => assert_eq!(name, whole),
            // No recording stores more.
            [name] => assert_eq!(*name, format!("_Z3hotI{len}{of}")[..64 << 10]),
            ref other => panic!("{} names", other.len()),
        }
    }
}

#[test]
fn a_link_to_a_fifo_is_not_followed() {
    let fixture = Fixture::shared();
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("fifo");
    run(dir.path(), "mkfifo", &[text(&fifo)]);
    let out = dir.path().join("linked.so");
    let name = [text(&fifo).as_bytes(), &[0]].concat();
    // The name at a multiple of four, then a checksum; the name, then a build-id; DWARF 5 §7.3.6.
    let padding = &[0; 3][..(4 - name.len() % 4) % 4];
    let links = [
        (".gnu_debuglink", [&name[..], padding, &[1, 2, 3, 4]].concat()),
        (".gnu_debugaltlink", [&name[..], &[7; 20]].concat()),
        (".debug_sup", [&[5, 0, 0][..], &name, &[2, 7, 7]].concat()),
    ];
    for (section, contents) in links {
        std::fs::write(dir.path().join("link"), contents).expect("written");
        let add = format!("{section}={}", text(&dir.path().join("link")));
        run(dir.path(), "objcopy", &["--add-section", &add, text(&fixture.with_debug), text(&out)]);
        let answers = ask(&out, &nowhere(), &body("secret"));
        assert_eq!(answers, ask(&fixture.with_debug, &nowhere(), &body("secret")), "{section}");
    }
}

#[test]
fn a_link_to_a_missing_supplement_costs_nothing() {
    let fixture = Fixture::shared();
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("linked.so");
    std::fs::write(dir.path().join("link"), b"nowhere.debug\0\x01\x02\x03\x04\x05\x06\x07\x08")
        .expect("written");
    let add = format!(".gnu_debugaltlink={}", text(&dir.path().join("link")));
    run(dir.path(), "objcopy", &["--add-section", &add, text(&fixture.with_debug), text(&out)]);
    let offsets = body("outer");
    assert_eq!(ask(&out, &nowhere(), &offsets), ask(&fixture.with_debug, &nowhere(), &offsets));
}

#[test]
fn compressed_dwarf_is_read_unless_it_claims_too_much() {
    let fixture = Fixture::shared();
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("compressed.so");
    let flag = "--compress-debug-sections=zlib";
    run(dir.path(), "objcopy", &[flag, text(&fixture.with_debug), text(&out)]);
    let offsets = body("outer");
    assert_eq!(ask(&out, &nowhere(), &offsets), ask(&fixture.with_debug, &nowhere(), &offsets));

    let layout = ElfFile::open(&out).and_then(|file| file.layout()).expect("ELF");
    let section = layout.sections.iter().find(|section| section.compressed_from.is_some());
    let at = section.expect("something is worth compressing").off.0 as usize + 8;
    let mut bytes = std::fs::read(&out).expect("read");
    bytes[at..at + 8].copy_from_slice(&(1u64 << 60).to_le_bytes());
    std::fs::write(&out, bytes).expect("written");
    let answers = ask(&out, &nowhere(), &offsets);
    let Answer::Named(functions) = &answers[0] else { panic!("{:?}", answers[0]) };
    let told: Vec<_> = functions.iter().map(|it| (&*it.name, it.line, &it.origin.entry)).collect();
    assert_eq!(told, [("outer", None, &None)]);
}

#[test]
fn a_function_with_a_cold_part_elsewhere_keeps_its_inlined_functions_and_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = r#"#include <stdexcept>
volatile int sink;
static inline __attribute__((always_inline)) void check(int x) {
  if (__builtin_expect(x == 77, 0)) throw std::runtime_error("bad");
  sink += x;
}
__attribute__((noinline)) int hot(int x) {
  check(x);
  return sink;
}
"#;
    std::fs::write(dir.path().join("hot.cc"), source).expect("written");
    let flags = "-O2 -g -fPIC -shared -Wl,--build-id=sha1 hot.cc -o hot.so";
    run(dir.path(), "c++", &flags.split(' ').collect::<Vec<_>>());
    let path = dir.path().join("hot.so");
    let (hot, cold) = (function(&path, "_Z3hoti"), function(&path, "_Z3hoti.cold"));
    let mut inlined = 0;
    for off in (hot.0.0..hot.0.0 + hot.1).chain(cold.0.0..cold.0.0 + cold.1) {
        let Answer::Named(list) = &ask(&path, &nowhere(), &[off])[0] else { panic!("{off:#x} has no name") };
        assert!(list.iter().all(|function| function.line.is_some()), "{off:#x}: {list:?}");
        let outer = list.last().expect("never empty");
        assert!(outer.name.starts_with("hot(int)"), "{off:#x}: {list:?}");
        inlined += usize::from(list.iter().any(|function| function.name.starts_with("check")));
    }
    assert!(inlined > 0);
}

/// An assembly file with one function, and this many inlined functions in each other.
fn nested(depth: usize) -> String {
    format!(
        r#".text; .globl f; .type f,@function
        f: .file 1 "x.c"; .loc 1 5 0; ret; .Lend: .size f,.-f
        .section .note.GNU-stack,"",@progbits
        .section .debug_abbrev,"",@progbits; .Labbrev:
        .byte 1,0x11,1, 0x11,1, 0x12,7, 0x10,0x17, 0,0
        .byte 2,0x2e,1, 3,8, 0x11,1, 0x12,7, 0,0
        .byte 3,0x1d,1, 0,0, 0
        .section .debug_info,"",@progbits
        .long .Lunit_end-.Lunit; .Lunit: .value 4; .long .Labbrev; .byte 8
        .byte 1; .quad f; .quad .Lend-f; .long .Lline
        .byte 2; .asciz "dwarf_f"; .quad f; .quad .Lend-f
        .fill {depth},1,3; .fill {depth},1,0; .byte 0,0; .Lunit_end:
        .section .debug_line,"",@progbits; .Lline:
        "#
    )
}

#[test]
fn bottomless_nesting_costs_no_stack() {
    let dir = tempfile::tempdir().expect("a directory");
    for depth in [10, 1_000_000] {
        std::fs::write(dir.path().join("deep.s"), nested(depth)).expect("written");
        run(dir.path(), "cc", &["-shared", "-Wl,--build-id=sha1", "deep.s", "-o", "deep.so"]);
        let path = dir.path().join("deep.so");
        let (off, _) = function(&path, "f");
        let Answer::Named(functions) = &ask(&path, &nowhere(), &[off.0])[0] else { panic!("it has a name") };
        assert_eq!((functions.len(), functions[0].line), (1, Some(5)), "{depth} levels");
    }
}

#[test]
fn truncated_files_are_unreadable_and_never_a_panic() {
    let fixture = Fixture::shared();
    let whole = std::fs::read(&fixture.with_debug).expect("read");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("torn.so");
    let wanted = Identity { path: text(&path).into(), ..identity(&fixture.with_debug) };
    let offsets = body("outer");
    for len in (0..200).chain((200..whole.len()).step_by(211)) {
        std::fs::write(&path, &whole[..len]).expect("written");
        for answer in ask_as(&wanted, &nowhere(), &offsets) {
            assert!(matches!(answer, Answer::Unnamed { reason: Reason::ImageUnreadable, .. }), "{len}");
        }
    }
}

#[test]
fn flipped_bytes_cost_names_at_most() {
    let fixture = Fixture::shared();
    let whole = std::fs::read(&fixture.with_debug).expect("read");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("flipped.so");
    let wanted = Identity { path: text(&path).into(), ..identity(&fixture.with_debug) };
    let offsets = [body("outer"), body("secret")].concat();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] = (random >> 24) as u8;
        }
        std::fs::write(&path, bytes).expect("written");
        ask_as(&wanted, &nowhere(), &offsets);
    }
}

#[test]
fn answers_are_the_same_at_any_number_of_threads() {
    let fixture = Fixture::shared();
    let paths = [&fixture.with_debug, &fixture.with_symbols, &fixture.stripped, &fixture.without_build_id];
    let images: Vec<_> = paths.iter().cycle().take(17).map(|path| identity(path)).collect();
    let offsets: Vec<_> = (0..0x2000).step_by(3).map(FileOff).collect();
    let wanted: Vec<_> = images.iter().map(|image| Wanted { image, offsets: &offsets }).collect();
    let at = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| symbolize(&wanted, &Finder { search: &fixture.search(), embedded: None }, &|_| ()))
    };
    let one = at(1);
    assert_eq!(one.len(), wanted.len());
    for threads in [2, 5, 32] {
        assert_eq!(at(threads), one, "{threads} threads");
    }
}

#[test]
fn nothing_wanted_is_nothing_answered() {
    assert_eq!(
        symbolize(&[], &Finder { search: &Search::default(), embedded: None }, &|_| ()),
        Vec::<Vec<Answer>>::new()
    );
    assert_eq!(ask(&Fixture::shared().with_debug, &nowhere(), &[]), []);
}

#[test]
fn every_reason_of_this_room_is_produced() {
    let fixture = Fixture::shared();
    let good = identity(&fixture.stripped);
    let (secret, _) = function(&fixture.with_debug, "secret");
    let other = good.inode.map(|inode| Inode { number: inode.number + 1, ..inode });
    let cases = [
        (Reason::ImageMissing, Identity { path: "/no/such/file".into(), ..good.clone() }),
        (Reason::NotAFile, Identity { path: "/dev/null".into(), ..good.clone() }),
        (Reason::BuildIdMismatch, Identity { build_id: vec![7; 20], ..good.clone() }),
        (Reason::ImageChanged, Identity { build_id: Vec::new(), size_bytes: 1, ..good.clone() }),
        (Reason::ImageUnproven, Identity { build_id: Vec::new(), inode: other, ..good.clone() }),
        (Reason::ImageUnreadable, Identity { path: "/etc/passwd".into(), ..good.clone() }),
        (Reason::NoSymbol, good.clone()),
    ];
    for (expected, wanted) in cases {
        let answers = ask_as(&wanted, &nowhere(), &[secret.0]);
        assert!(matches!(answers[0], Answer::Unnamed { reason, .. } if reason == expected), "{answers:?}");
    }
}

#[test]
fn debug_sections_that_claim_more_memory_than_there_is_for_all_are_not_unpacked() {
    let fixture = Fixture::shared();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("bomb.so");
    // 1.5 GiB each, as zlib could pack them: neither is over the budget, both are.
    let claimed = 3_u64 << 29;
    let section =
        [&b"ZLIB"[..], &claimed.to_be_bytes(), &vec![0x78; (claimed / 1032) as usize + 100]].concat();
    std::fs::write(dir.path().join("section"), section).expect("written");
    let add = |name: &str| format!("{name}={}", text(&dir.path().join("section")));
    let [info, strings] = [".zdebug_info", ".zdebug_str"].map(add);
    let from = text(&fixture.with_symbols);
    run(dir.path(), "objcopy", &["--add-section", &info, "--add-section", &strings, from, "bomb.so"]);
    let (outer, len) = function(&path, "outer");
    let refusals = crate::image::budget::refusals();
    let answers = ask(&path, &nowhere(), &[outer.0, outer.0 + len / 2, 0x10]);
    assert!(crate::image::budget::refusals() > refusals);
    assert_eq!(names(&answers[0]), ["outer"], "the symbol table is read all the same");
    let is_said = matches!(answers[2], Answer::Unnamed { reason: Reason::ImageUnreadable, .. });
    assert!(is_said, "{:?}", answers[2]);
}

/// Names the functions at every byte of a program's own code, each once, with the places of their declarations.
fn functions_of(dir: &Path, compiler: &str, flags: &str, sources: &[(&str, &str)]) -> Vec<(String, String)> {
    for (name, text) in sources {
        std::fs::write(dir.join(name), text).expect("written");
    }
    let names: Vec<&str> =
        sources.iter().map(|(name, _)| *name).filter(|name| !name.ends_with(".h")).collect();
    let args: Vec<&str> = flags.split(' ').chain(names).chain(["-o", "program"]).collect();
    run(dir, compiler, &args);
    let path = dir.join("program");
    let layout = ElfFile::open(&path).and_then(|file| file.layout()).expect("ELF");
    let code = layout.sections.iter().find(|section| section.name == b".text").expect("code");
    let answers = ask(&path, &nowhere(), &(code.off.0..code.off.0 + code.len).collect::<Vec<_>>());
    let mut told = std::collections::BTreeSet::new();
    for answer in &answers {
        let Answer::Named(functions) = answer else { continue };
        for function in functions.iter().filter(|function| function.line.is_some()) {
            let declared = function.origin.declared.as_ref();
            let declared =
                declared.map(|(file, line)| format!("{}:{line}", file.rsplit('/').next().unwrap_or("")));
            told.insert((function.name.to_string(), declared.unwrap_or_default()));
        }
    }
    told.into_iter().collect()
}

const LAMBDAS: &str = "#include <cstdint>
namespace cold { static inline __attribute__((always_inline)) uint64_t step(uint64_t x) { return x * 3 + 1; } }
namespace { struct P { uint64_t v; __attribute__((noinline)) uint64_t parse(uint64_t n) { return v *= n; } }; }
volatile uint64_t s;
int main() {
  P p{s};
  auto one = [](uint64_t v) { return cold::step(v); };
  s += one(s) + p.parse(s);
}
";

#[test]
fn names_have_the_scopes_of_their_entries_and_the_places_of_their_declarations() {
    let dir = tempfile::tempdir().expect("a directory");
    let told = functions_of(dir.path(), "c++", "-O2 -g -static-libgcc", &[("lambda.cc", LAMBDAS)]);
    let told: Vec<(&str, &str)> = told.iter().map(|(name, at)| (&**name, &**at)).collect();
    for expected in [
        ("cold::step", "lambda.cc:2"),
        ("main::{lambda}::operator()", ""),
        ("(anonymous namespace)::P::parse(unsigned long)", "lambda.cc:3"),
        ("main", "lambda.cc:5"),
    ] {
        assert!(told.contains(&expected), "{expected:?}: {told:?}");
    }
}

#[test]
fn closures_and_instances_of_rust_have_their_numbers_and_types() {
    let source = "use std::hint::black_box;
trait S { fn s(x: u64) -> u64; }
struct A;
struct B;
impl S for A { fn s(x: u64) -> u64 { x * 3 } }
impl S for B { fn s(x: u64) -> u64 { x ^ 7 } }
#[inline(never)] fn run<T: S>(n: u64) -> u64 { T::s(black_box(n)) }
#[inline(never)] fn call(f: &dyn Fn(u64) -> u64) { black_box(f(black_box(3))); }
fn main() {
    black_box(run::<A>(1) + run::<B>(2));
    call(&|x| black_box(x) + 1);
    call(&|x| black_box(x) ^ 5);
}
";
    let dir = tempfile::tempdir().expect("a directory");
    let told = functions_of(dir.path(), "rustc", "-O -g", &[("two.rs", source)]);
    for (name, at) in [
        ("two::run<two::A>", "two.rs:7"),
        ("two::run<two::B>", "two.rs:7"),
        ("two::main::{closure#0}", "two.rs:11"),
        ("two::main::{closure#1}", "two.rs:12"),
    ] {
        let is_it = |(told, place): &&(String, String)| told.replace("::<", "<") == name && place == at;
        assert!(told.iter().any(|told| is_it(&told)), "{name}: {told:?}");
    }
}
