//! addr2line and blazesym say the same, but for differences that are listed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use gimli::{EndianArcSlice, LittleEndian};
use icecore_elf::{demangled, part_of};
use icecore_symbolize::image::Search;
use object::{Object, ObjectSection, ObjectSymbol};

use crate::programs::{Frame, Workshop, nowhere, ours, places};

/// How the same addresses were answered.
#[derive(Debug, Default)]
struct Tally {
    equal: usize,
    /// The other one has a line without a function; the symbol table knows the function: assembly.
    line_only: usize,
    /// The symbol table has another name for the function itself: `.cold`, `.isra.0`, a path.
    renamed: usize,
    /// We say more: the scopes around a function, types of an instance, the number of a closure.
    completed: usize,
    /// No function is there; the other one still has a line: the padding after functions.
    padding: usize,
    /// The other one knows nothing, and a symbol table does.
    table_only: usize,
    /// A stub of the linker, which objdump names as we do: see `stubs`.
    stub: usize,
    /// The other one takes a symbol that does not cover the address.
    not_covered: usize,
}

/// The names of all symbols at each start, and where they end.
fn symbols(path: &Path) -> Vec<(u64, u64, String)> {
    let bytes = std::fs::read(path).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let symbols = elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| !symbol.is_undefined());
    let symbols = symbols.filter_map(|symbol| {
        let name = symbol.name().ok()?.split('@').next()?;
        // A part has the name of its function.
        let name = part_of(name.as_bytes()).map_or(name, |whole| &name[..whole.len()]);
        Some((symbol.address(), symbol.size(), demangled(name)))
    });
    symbols.collect()
}

/// Returns true if a name is another one with the scopes around it, or, for Rust, with the types of an instance or the number of a
/// closure.
pub(crate) fn says_more(ours: &str, theirs: &str) -> bool {
    let bare = |name: &str| {
        let mut bare = name.to_owned();
        while let Some(begin) = bare.find("{closure#") {
            let Some(len) = bare[begin..].find('}') else { break };
            bare.replace_range(begin..=begin + len, "{{closure}}");
        }
        // The report names the class of a lambda, too.
        bare = bare.replace("{lambda}::", "").replace("(anonymous class)::", "");
        while let Some(begin) = bare.find("<lambda(") {
            let Some(len) = bare[begin..].find(")>::") else { break };
            bare.replace_range(begin..begin + len + ")>::".len(), "");
        }
        bare
    };
    let (ours, theirs) = (bare(ours), bare(theirs));
    // An assembler name of the C library, which its users do not know.
    if theirs.strip_prefix("__GI_") == Some(&*ours) {
        return true;
    }
    let is_scoped =
        ours.strip_suffix(&*theirs).is_some_and(|around| around.is_empty() || around.ends_with("::"));
    let has_types =
        ours.strip_prefix(&*theirs).is_some_and(|types| types.starts_with('<') && types.ends_with('>'));
    is_scoped || has_types
}

/// `path` is the file that has DWARF: the image itself, or its debug file.
fn tally(image: &Path, path: &Path, theirs: &dyn Fn(&[u64]) -> Vec<Vec<Frame>>, count: u64) -> Tally {
    let places = places(image, count);
    let search = if image == path { nowhere() } else { Search::default() };
    let ours = ours(image, &search, &places);
    let theirs = theirs(&places.iter().map(|place| place.1).collect::<Vec<_>>());
    assert_eq!(ours.len(), theirs.len());
    let mut starts_of: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    for (start, size, name) in symbols(path) {
        starts_of.entry(name).or_default().push((start, size));
    }
    let covers = |name: &str, at: u64| {
        starts_of.get(name).is_some_and(|all| all.iter().any(|(start, size)| at.wrapping_sub(*start) < *size))
    };
    let are_one = |one: &str, other: &str| match (starts_of.get(one), starts_of.get(other)) {
        (Some(one), Some(other)) => one.iter().any(|(start, _)| other.iter().any(|(too, _)| too == start)),
        _ => false,
    };
    let mut tally = Tally::default();
    for (((_, at), ours), theirs) in places.iter().zip(&ours).zip(&theirs) {
        let without_name = |frames: &[Frame]| {
            let mut frames = frames.to_vec();
            if let Some(physical) = frames.last_mut() {
                physical.0.clear();
            }
            frames
        };
        let is_line_only =
            |frames: &[Frame]| frames.len() == 1 && frames[0].1.is_none() && frames[0].2.is_none();
        let last = |frames: &[Frame]| frames.last().map(|frame| frame.0.clone()).unwrap_or_default();
        // All but the names of the function itself.
        let is_alike = || {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            let is_alike = |(depth, (a, b)): (usize, (&Frame, &Frame))| {
                (&a.1, a.2) == (&b.1, b.2) && (depth + 1 == ours.len() || says_more(&a.0, &b.0))
            };
            ours.len() == theirs.len() && pairs.all(is_alike)
        };
        if ours == theirs {
            tally.equal += 1;
        } else if is_alike() && says_more(&last(ours), &last(theirs)) {
            tally.completed += 1;
        } else if is_alike() && (covers(&last(ours), *at) || are_one(&last(ours), &last(theirs))) {
            tally.renamed += 1;
        } else if without_name(ours) == *theirs {
            tally.line_only += 1;
        } else if ours.is_empty() && theirs.len() == 1 && theirs[0].0.is_empty() {
            tally.padding += 1;
        } else if is_line_only(ours) && last(ours).ends_with("@plt") && !covers(&last(theirs), *at) {
            tally.stub += 1;
        } else if theirs.is_empty() && is_line_only(ours) {
            tally.table_only += 1;
        } else if ours.is_empty() && is_line_only(theirs) && !covers(&last(theirs), *at) {
            tally.not_covered += 1;
        } else {
            panic!("{}, {at:#x}:\nours {ours:#?}\ntheirs {theirs:#?}", path.display());
        }
    }
    println!("{}: {tally:?}", path.display());
    tally
}

/// The addr2line crate.
fn addr2line(path: &Path, at: &[u64]) -> Vec<Vec<Frame>> {
    let bytes = std::fs::read(path).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let load = |id: gimli::SectionId| -> Result<EndianArcSlice<LittleEndian>, gimli::Error> {
        let section = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianArcSlice::new(Arc::from(section.unwrap_or_default()), LittleEndian))
    };
    let dwarf = gimli::Dwarf::load(load).expect("sections");
    let context = addr2line::Context::from_dwarf(dwarf).expect("DWARF");
    let frames = |&at: &u64| {
        let mut frames = context.find_frames(at).skip_all_loads().expect("DWARF");
        let mut list = Vec::new();
        while let Some(frame) = frames.next().expect("DWARF") {
            let name = frame.function.map(|function| demangled(&function.raw_name().expect("UTF-8")));
            let (file, line) = frame.location.map_or((None, None), |place| (place.file, place.line));
            list.push((name.unwrap_or_default(), file.map(str::to_owned), line.filter(|line| *line > 0)));
        }
        list
    };
    at.iter().map(frames).collect()
}

/// blazesym.
fn blazesym(path: &Path, at: &[u64]) -> Vec<Vec<Frame>> {
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).enable_demangling(false).build();
    let source = Source::Elf(Elf::new(path));
    let frame = |name: &str, place: Option<&CodeInfo<'_>>| {
        let file = place.map(|place| place.to_path().to_string_lossy().into_owned());
        (demangled(name), file, place.and_then(|place| place.line).filter(|line| *line > 0))
    };
    let answers = symbolizer.symbolize(&source, Input::VirtOffset(at)).expect("readable");
    let frames = |answer: &Symbolized<'_>| {
        let Symbolized::Sym(symbol) = answer else { return Vec::new() };
        let inlined = symbol.inlined.iter().rev();
        let mut frames: Vec<_> = inlined.map(|call| frame(&call.name, call.code_info.as_ref())).collect();
        frames.push(frame(&symbol.name, symbol.code_info.as_deref()));
        frames
    };
    answers.iter().map(frames).collect()
}

/// Compares with both.
fn agree(path: &Path, count: u64) {
    agree_with(path, path, count);
}

/// Compares an image with what both say of its debug file.
fn agree_with(image: &Path, path: &Path, count: u64) {
    for (name, theirs) in
        [("addr2line", addr2line as fn(&Path, &[u64]) -> _), ("blazesym", blazesym as fn(&Path, &[u64]) -> _)]
    {
        let tally = tally(image, path, &|at| theirs(path, at), count);
        let compared = tally.equal + tally.completed + tally.renamed + tally.line_only;
        let others = tally.padding + tally.stub + tally.table_only + tally.not_covered;
        assert!(compared > 1000 && compared > 2 * others, "{name}: {tally:?}");
    }
}

#[test]
fn programs_of_gcc_agree() {
    let shop = Workshop::new();
    for (i, flags) in ["-O2 -g", "-O2 -g -gdwarf-4", "-O0 -g", "-O3 -g -flto=1", "-O2 -g1"].iter().enumerate()
    {
        agree(&shop.compile("c++", flags, &format!("gcc{i}")), 10_000);
    }
}

#[test]
fn programs_of_clang_agree() {
    let shop = Workshop::new();
    let all = ["-O2 -g", "-O2 -g -gdwarf-4", "-O0 -g", "-O2 -gline-tables-only", "-O1 -gdwarf-2"];
    for (i, flags) in all.iter().enumerate() {
        agree(&shop.compile("clang++", flags, &format!("clang{i}")), 10_000);
    }
}

#[test]
fn a_large_program_of_rust_agrees() {
    agree(&std::env::current_exe().expect("we are running"), 4_000);
}

#[test]
fn a_program_of_go_agrees() {
    let shop = Workshop::new();
    agree(&shop.compile_go("-ldflags=-compressdwarf=false", "go"), 10_000);
}

#[test]
fn the_c_library_and_its_installed_debug_file_agree() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let libc = Path::new(paths.find(|path| path.contains("/libc.so")).expect("we are linked with it"));
    let bytes = std::fs::read(libc).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let id = elf.build_id().expect("notes").expect("distributions have them");
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let debug = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    assert!(Path::new(&debug).exists(), "libc6-dbg must be installed: run tests/setup.sh");
    // Not every oracle reads what is compressed in every way; we read the file as it is installed.
    let shop = Workshop::new();
    shop.run("objcopy", &format!("--decompress-debug-sections {debug} plain"));
    agree_with(libc, &shop.path("plain"), 20_000);
}

#[test]
fn symbol_tables_agree_with_blazesym() {
    let shop = Workshop::new();
    shop.compile("c++", "-O2", "tables");
    let path = shop.path("tables");
    let tally = tally(&path, &path, &|at| blazesym(&path, at), 10_000);
    assert!(tally.equal + tally.completed + tally.renamed > 1000, "{tally:?}");
}
