//! Tests the search from an identity to its files, wherever they lie.

use std::path::PathBuf;

use super::super::fixture::{Fixture, identity, run, text};
use super::super::{Finder, PathMap, Symbols, hex};
use super::*;

fn look(wanted: &Identity, search: &Search) -> Looked {
    Finder { search, embedded: None }.look(wanted)
}

/// A folder for one test, as its real path.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().expect("a real path").join(path)
    }

    /// Copies a file to a path in the folder, and creates its parent folders.
    fn put(&self, from: &Path, path: &str) -> PathBuf {
        let to = self.path(path);
        std::fs::create_dir_all(to.parent().expect("a parent")).expect("made");
        std::fs::copy(from, &to).expect("copied");
        to
    }

    fn search(&self) -> Search {
        Search { debug_dirs: vec![self.path("")], ..Search::nowhere() }
    }
}

/// Returns the separate debug file of the fixture.
fn debug_file(fixture: &Fixture) -> PathBuf {
    fixture.search().debug_dirs[0].join(by_id(&identity(&fixture.stripped), ".debug"))
}

fn by_id(wanted: &Identity, suffix: &str) -> String {
    let hex = hex(&wanted.build_id);
    format!(".build-id/{}/{}{suffix}", &hex[..2], &hex[2..])
}

fn gone(wanted: &Identity) -> Identity {
    Identity { path: "/no/such/lib.so".into(), ..wanted.clone() }
}

/// Returns the sources of the image and of its debug file.
fn sources(looked: &Looked) -> Result<(FileSource, Option<FileSource>), Reason> {
    let files = looked.files.as_ref().map_err(|reason| *reason)?;
    Ok((files.image.source, files.debug.as_ref().map(|debug| debug.source)))
}

fn outcomes(looked: &Looked) -> Vec<(FileSource, Outcome)> {
    looked.attempts.iter().map(|step| (step.source, step.outcome)).collect()
}

#[test]
fn an_image_with_dwarf_ends_the_search() {
    let fixture = Fixture::shared();
    let looked = look(&identity(&fixture.with_debug), &Search::nowhere());
    assert_eq!(sources(&looked), Ok((FileSource::Path, None)));
    assert_eq!(outcomes(&looked), [(FileSource::Path, Outcome::Taken)]);
}

#[test]
fn a_debug_file_is_found_by_build_id_and_only_with_the_same_one() {
    let fixture = Fixture::shared();
    let wanted = identity(&fixture.stripped);
    let looked = look(&wanted, &fixture.search());
    assert_eq!(sources(&looked), Ok((FileSource::Path, Some(FileSource::DebugDir))));
    assert_eq!(looked.files.expect("found").knowledge(), Knowledge::Dwarf);

    let liar = Dir::new();
    liar.put(&fixture.without_build_id, &by_id(&wanted, ".debug"));
    let looked = look(&wanted, &liar.search());
    assert_eq!(sources(&looked), Ok((FileSource::Path, None)));
    assert_eq!(outcomes(&looked)[0], (FileSource::DebugDir, Outcome::OtherBuild));
    let debug_dirs = [liar.search().debug_dirs, fixture.search().debug_dirs].concat();
    let looked = look(&wanted, &Search { debug_dirs, ..Search::nowhere() });
    assert_eq!(sources(&looked), Ok((FileSource::Path, Some(FileSource::DebugDir))), "behind a liar");
}

#[test]
fn a_debug_file_alone_must_tell_where_the_code_was() {
    let fixture = Fixture::shared();
    let wanted = gone(&identity(&fixture.stripped));
    let looked = look(&wanted, &fixture.search());
    assert_eq!(sources(&looked), Err(Reason::ImageMissing), "objcopy changes the offsets");
    assert_eq!(outcomes(&looked)[0], (FileSource::DebugDir, Outcome::NoOffsets));

    // eu-strip copies the program headers: this puts those of the image into the file that objcopy made.
    let dir = Dir::new();
    let original = std::fs::read(&fixture.with_debug).expect("read");
    let mut bytes = std::fs::read(debug_file(&fixture)).expect("read");
    assert_eq!((original[56], original[32]), (bytes[56], bytes[32]), "as many headers, at the same place");
    let headers = 64..64 + 56 * usize::from(bytes[56]);
    bytes[headers.clone()].copy_from_slice(&original[headers]);
    std::fs::write(dir.put(&fixture.stripped, &by_id(&wanted, ".debug")), &bytes).expect("written");
    let files = look(&wanted, &dir.search()).files.expect("offsets are the image's");
    assert_eq!(files.image.layout.unwind_table, None, "its bytes are not in the debug file");
    assert_eq!(files.knowledge(), Knowledge::Dwarf);

    dir.put(&fixture.with_symbols, &by_id(&wanted, ""));
    let files = look(&wanted, &dir.search()).files.expect("the image itself");
    assert!(files.image.file.real_path.extension().is_none(), "is preferred");
    assert_eq!(files.knowledge(), Knowledge::Dwarf, "and the debug file serves as such");
}

#[test]
fn a_folder_of_symbols_is_searched_by_build_id() {
    let fixture = Fixture::shared();
    let dir = Dir::new();
    dir.put(&fixture.stripped, "binaries/whatever");
    dir.put(&debug_file(&fixture), "deep/down/symbols.bin");
    let search = Search { symbols: Symbols::below(vec![dir.path("")]), ..Search::nowhere() };
    let looked = look(&gone(&identity(&fixture.stripped)), &search);
    assert_eq!(sources(&looked), Ok((FileSource::Symbols, Some(FileSource::Symbols))));
    let mut other = gone(&identity(&fixture.stripped));
    other.build_id[0] ^= 1;
    assert_eq!(sources(&look(&other, &search)), Err(Reason::ImageMissing));
}

#[test]
fn debug_files_lie_under_the_path_of_their_image_or_beside_it() {
    let fixture = Fixture::shared();
    let debug = debug_file(&fixture);
    for place in ["lib/.debug/x.so.debug", "lib/x.so.debug"] {
        let dir = Dir::new();
        let wanted = identity(&dir.put(&fixture.stripped, "lib/x.so"));
        dir.put(&debug, place);
        let looked = look(&wanted, &Search::nowhere());
        assert_eq!(sources(&looked), Ok((FileSource::Path, Some(FileSource::DebugDir))), "{place}");
    }
    let dir = Dir::new();
    let wanted = identity(&dir.put(&fixture.stripped, "lib/x.so"));
    dir.put(&debug, &format!("debug{}.debug", dir.path("lib/x.so").display()));
    let search = Search { debug_dirs: vec![dir.path("debug")], ..Search::nowhere() };
    assert_eq!(sources(&look(&wanted, &search)), Ok((FileSource::Path, Some(FileSource::DebugDir))));
    dir.put(&fixture.without_build_id, "lib/x.so.debug");
    let looked = look(&wanted, &Search::nowhere());
    assert!(outcomes(&looked).contains(&(FileSource::DebugDir, Outcome::OtherBuild)));
    assert_eq!(sources(&looked), Ok((FileSource::Path, None)), "a neighbour of another build");
}

/// Makes a stripped copy of a library, and the debug file that it names, beside it.
fn linked(dir: &Dir, from: &Path) -> (PathBuf, PathBuf) {
    let [image, debug] = ["lib/x.so", "lib/named.dbg"].map(|path| dir.put(from, path));
    run(&dir.path("lib"), "objcopy", &["--only-keep-debug", text(from), text(&debug)]);
    let add = format!("--add-gnu-debuglink={}", text(&debug));
    run(&dir.path("lib"), "objcopy", &["--strip-all", &add, text(&image)]);
    (image, debug)
}

#[test]
fn a_debuglink_counts_if_the_checksum_is_right_and_else_the_search_goes_on() {
    let fixture = Fixture::shared();
    for from in [&fixture.with_debug, &fixture.without_build_id] {
        let dir = Dir::new();
        let (image, debug) = linked(&dir, from);
        let looked = look(&identity(&image), &Search::nowhere());
        assert_eq!(
            sources(&looked),
            Ok((FileSource::Path, Some(FileSource::Debuglink))),
            "{:?}",
            looked.attempts
        );

        // This changes a byte of a comment: the build-id is the same, the checksum is not.
        let mut bytes = std::fs::read(&debug).expect("read");
        let at = bytes.windows(4).position(|window| window == b"GCC:").expect("the compiler signs");
        bytes[at] = b'g';
        std::fs::write(&debug, &bytes).expect("written");
        let looked = look(&identity(&image), &Search::nowhere());
        assert_eq!(sources(&looked), Ok((FileSource::Path, None)));
        assert!(outcomes(&looked).contains(&(FileSource::Debuglink, Outcome::OtherChecksum)));

        bytes[at] = b'G';
        let hidden = dir.put(&debug, "lib/.debug/named.dbg");
        std::fs::write(hidden, &bytes).expect("written");
        let looked = look(&identity(&image), &Search::nowhere());
        assert_eq!(sources(&looked), Ok((FileSource::Path, Some(FileSource::Debuglink))), "behind a liar");
    }
}

#[test]
fn a_debuglink_to_a_fifo_is_not_followed() {
    let fixture = Fixture::shared();
    let dir = Dir::new();
    let (image, debug) = linked(&dir, &fixture.with_debug);
    std::fs::remove_file(&debug).expect("removed");
    run(&dir.path("lib"), "mkfifo", &[text(&debug)]);
    let looked = look(&identity(&image), &Search::nowhere());
    assert!(outcomes(&looked).contains(&(FileSource::Debuglink, Outcome::NotAFile)));
}

#[test]
fn a_sysroot_is_all_that_there_is_of_recorded_paths() {
    let fixture = Fixture::shared();
    let wanted = identity(&fixture.with_debug);
    let dir = Dir::new();
    std::fs::create_dir(dir.path("root")).expect("made");
    let search = || Search { sysroot: Some(dir.path("root")), ..Search::nowhere() };
    let looked = look(&wanted, &search());
    assert_eq!(sources(&looked), Err(Reason::ImageMissing), "the path exists outside");
    let inside = dir.path("root").join(&wanted.path[1..]);
    assert!(looked.attempts.iter().any(|step| step.source == FileSource::Sysroot && step.path == inside));

    let bin = Identity { path: "/bin/x".into(), ..identity(&fixture.stripped) };
    let secret = dir.put(&fixture.stripped, "secret");
    std::fs::create_dir(dir.path("root/bin")).expect("made");
    std::os::unix::fs::symlink(&secret, dir.path("root/bin/x")).expect("linked");
    assert_eq!(sources(&look(&bin, &search())), Err(Reason::ImageMissing), "a link leads out");
    let up = Identity { path: "/../../secret".into(), ..bin.clone() };
    assert_eq!(sources(&look(&up, &search())), Err(Reason::ImageMissing), "`..` leads out");

    std::fs::remove_file(dir.path("root/bin/x")).expect("removed");
    dir.put(&fixture.stripped, "root/usr/x");
    std::os::unix::fs::symlink("/usr/x", dir.path("root/bin/x")).expect("linked");
    dir.put(&debug_file(&fixture), &format!("root/usr/lib/debug/{}", by_id(&bin, ".debug")));
    let looked = look(&bin, &search());
    assert_eq!(
        sources(&looked),
        Ok((FileSource::Sysroot, Some(FileSource::DebugDir))),
        "{:?}",
        looked.attempts
    );

    let out = dir.put(&debug_file(&fixture), "outside.debug");
    std::fs::remove_dir_all(dir.path("root/usr/lib")).expect("removed");
    std::os::unix::fs::symlink(out, dir.path("root/bin/x.debug")).expect("linked");
    assert_eq!(sources(&look(&bin, &search())), Ok((FileSource::Sysroot, None)), "a neighbour leads out");
}

#[test]
fn a_mapped_path_is_looked_up_where_it_was_mapped_to() {
    let fixture = Fixture::shared();
    let dir = Dir::new();
    dir.put(&fixture.with_debug, "here/lib.so");
    let wanted = Identity { path: "/build/7/lib.so".into(), ..identity(&fixture.with_debug) };
    let maps = vec![PathMap { from: "/build/7".into(), to: dir.path("here") }];
    let looked = look(&wanted, &Search { maps, ..Search::nowhere() });
    assert_eq!(sources(&looked), Ok((FileSource::Path, None)));
    assert_eq!(looked.attempts[0].path, dir.path("here/lib.so"));
}

#[test]
fn downloads_are_used_and_empty_ones_say_that_there_are_none() {
    let fixture = Fixture::shared();
    let dir = Dir::new();
    let wanted = gone(&identity(&fixture.stripped));
    let place = |what: &str| format!("{}/{what}", hex(&wanted.build_id));
    let search = Search { downloads: Some(dir.path("")), ..Search::nowhere() };
    dir.put(&debug_file(&fixture), &place("debuginfo"));
    std::fs::write(dir.path(&place("executable")), "").expect("written");
    let looked = look(&wanted, &search);
    assert_eq!(sources(&looked), Err(Reason::ImageMissing));
    let last = looked.attempts.last().map(|step| step.outcome);
    assert_eq!(last, Some(Outcome::NotServed));
    dir.put(&fixture.stripped, &place("executable"));
    let looked = look(&wanted, &search);
    assert_eq!(sources(&looked), Ok((FileSource::Debuginfod, Some(FileSource::Debuginfod))));
    dir.put(&fixture.without_build_id, &place("executable"));
    assert_eq!(sources(&look(&wanted, &search)), Err(Reason::ImageMissing), "another build");
}

#[test]
fn a_packed_symbol_table_is_taken_if_there_is_no_other() {
    let fixture = Fixture::shared();
    let dir = Dir::new();
    let image = dir.put(&fixture.stripped, "mini.so");
    dir.put(&fixture.with_symbols, "table");
    run(&dir.path(""), "xz", &["-k", "table"]);
    run(&dir.path(""), "objcopy", &["--add-section", ".gnu_debugdata=table.xz", text(&image)]);
    let files = look(&identity(&image), &Search::nowhere()).files.expect("found");
    assert_eq!((files.mini.is_some(), files.knowledge()), (true, Knowledge::Symbols));
    let files = look(&identity(&image), &fixture.search()).files.expect("found");
    assert_eq!((files.mini.is_some(), files.knowledge()), (false, Knowledge::Dwarf));
}

#[test]
fn the_supplement_of_dwz_is_found_by_build_id_or_by_its_path_and_only_the_right_one() {
    let dir = Dir::new();
    for name in ["one", "two"] {
        let source = format!(
            "struct shared {{ int a, b, c; long long_member_name; struct shared *next; }};\n\
            enum several {{ first_constant, second_constant, third_constant }};\n\
            int {name}(struct shared *x, enum several y) {{ return x->a + x->b + y; }}\n"
        );
        std::fs::write(dir.path(&format!("{name}.c")), source).expect("written");
        let (so, c) = (format!("{name}.so"), format!("{name}.c"));
        let flags = ["-g", "-gdwarf-4", "-O1", "-fPIC", "-shared", "-Wl,--build-id=sha1", "-o", &so, &c];
        run(&dir.path(""), "cc", &flags);
    }
    run(&dir.path(""), "dwz", &["-m", "common.debug", "-M", "common.debug", "one.so", "two.so"]);
    let wanted = identity(&dir.path("one.so"));
    let looked = look(&wanted, &Search::nowhere());
    let alt = looked.files.expect("found").alt.expect("beside it");
    assert_eq!(alt.file.real_path, dir.path("common.debug"));

    let moved = dir.path("common.debug");
    let place = by_id(&Identity { build_id: alt.layout.build_id.clone(), ..wanted.clone() }, ".debug");
    dir.put(&moved, &format!("debug/{place}"));
    std::fs::remove_file(&moved).expect("removed");
    let search = Search { debug_dirs: vec![dir.path("debug")], ..Search::nowhere() };
    assert!(look(&wanted, &search).files.expect("found").alt.is_some());
    let symbols = Symbols::below(vec![dir.path("debug")]);
    let search = Search { symbols, ..Search::nowhere() };
    assert!(look(&wanted, &search).files.expect("found").alt.is_some());

    dir.put(&dir.path("two.so"), "common.debug");
    let looked = look(&wanted, &Search::nowhere());
    assert_eq!(looked.missing_alt.map(|link| link.build_id), Some(alt.layout.build_id));
    assert_eq!(looked.attempts.last().map(|step| step.outcome), Some(Outcome::OtherBuild));
    assert!(looked.files.expect("found").alt.is_none());
}

#[test]
fn a_package_of_split_dwarf_and_its_units_are_found_beside_the_image() {
    let dir = Dir::new();
    std::fs::write(dir.path("x.c"), "int f(int x) { return x + 1; }\n").expect("written");
    let flags = "-g -gsplit-dwarf -O1 -fPIC -c x.c";
    run(&dir.path(""), "cc", &flags.split(' ').collect::<Vec<_>>());
    run(&dir.path(""), "cc", &["-shared", "-Wl,--build-id=sha1", "-o", "x.so", "x.o"]);
    let wanted = identity(&dir.path("x.so"));
    let files = look(&wanted, &Search::nowhere()).files.expect("found");
    assert!(files.dwp.is_none() && files.knowledge() == Knowledge::Dwarf);
    let unit = |search: &Search, directory: &Path| {
        let units: Vec<_> = split::units(&files.image.file, directory, Path::new("x.dwo"), search).collect();
        units.first().map(|(file, _)| file.real_path.clone())
    };
    let nowhere = Path::new("/no/such");
    assert_eq!(unit(&Search::nowhere(), &dir.path("")), Some(dir.path("x.dwo")));
    assert_eq!(unit(&Search::nowhere(), nowhere), Some(dir.path("x.dwo")), "beside the image");
    let moved = dir.put(&dir.path("x.dwo"), "elsewhere/x.dwo");
    std::fs::remove_file(dir.path("x.dwo")).expect("removed");
    assert_eq!(unit(&Search::nowhere(), nowhere), None);
    let maps = vec![PathMap { from: nowhere.into(), to: dir.path("elsewhere") }];
    assert_eq!(unit(&Search { maps, ..Search::nowhere() }, nowhere), Some(moved.clone()));
    let symbols = Symbols::below(vec![dir.path("elsewhere")]);
    assert_eq!(unit(&Search { symbols, ..Search::nowhere() }, nowhere), Some(moved));
}
