//! Files of others are opened in one place: each other open is a way around what that place refuses.

use std::collections::BTreeSet;
use std::path::Path;

/// Rooms that look at files of others through one door.
struct Guarded {
    /// The folder of their sources, below `crates`.
    sources: &'static str,
    rooms: &'static [&'static str],
    /// What may open files itself: the door, and what opens files of the kernel, of its own user, or at paths that the user typed.
    own: &'static [&'static str],
    /// How many files there are at least.
    files: usize,
}

const WITH_ONE_DOOR: [Guarded; 4] = [
    Guarded {
        sources: "record/src",
        rooms: &["machine", "track", "collect", "frame_pointers", "threads"],
        own: &["frame_pointers/kept.rs"],
        files: 40,
    },
    Guarded {
        sources: "symbolize/src",
        rooms: &[""],
        own: &[
            "image/open.rs",
            "image/door/mod.rs",
            "image/door/reader.rs",
            "image/search.rs",
            "image/tree.rs",
            "image/debug_search.rs",
            "image/fixture.rs",
            "debuginfod/cache.rs",
            "debuginfod/client.rs",
            "debuginfod/settings.rs",
            "source.rs",
        ],
        files: 40,
    },
    Guarded {
        sources: "profile/src",
        rooms: &["recording", "stacks", "named"],
        own: &["named/cache/folder.rs", "named/cache/unwound.rs", "named/source.rs"],
        files: 80,
    },
    Guarded { sources: "edit/src", rooms: &[""], own: &["import/jit.rs", "import/kernel.rs"], files: 20 },
];

/// Returns the lines that open a file, or ask a file system for one, outside of `/proc` and `/sys`.
fn opens(source: &str) -> Vec<&str> {
    let words = [
        "File::open",
        "OpenOptions",
        "fs::metadata",
        "fs::symlink_metadata",
        "fs::read",
        "fs::canonicalize",
        ".exists()",
    ];
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_of_kernel =
        |line: &str| ["\"/proc/", "\"/sys/", "CLOCK_SOURCE", "&root)"].iter().any(|path| line.contains(path));
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let opens = |line: &&str| words.iter().any(|word| line.contains(word)) && !is_of_kernel(line);
    code.lines().filter(|line| opens(line) && !is_comment(line)).collect()
}

#[test]
fn files_of_others_are_opened_by_one_door() {
    for Guarded { sources, rooms, own, files } in WITH_ONE_DOOR {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(sources);
        let (mut seen, mut opening) = (0, BTreeSet::new());
        let mut folders: Vec<_> = rooms.iter().map(|room| sources.join(room)).collect();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a room").map(|entry| entry.expect("a file").path())
            {
                let name = entry.strip_prefix(&sources).expect("below").to_string_lossy().into_owned();
                if entry.is_dir() {
                    folders.push(entry);
                } else if !name.ends_with("tests.rs") {
                    let source = std::fs::read_to_string(&entry).expect("text");
                    let opens = opens(&source);
                    let is_own = own.contains(&&*name);
                    assert!(opens.is_empty() || is_own, "{name} opens files without the door: {opens:#?}");
                    if !opens.is_empty() {
                        opening.insert(name);
                    }
                    seen += 1;
                }
            }
        }
        assert!(seen >= files, "{sources:?}: {seen}");
        assert_eq!(opening, own.iter().map(|name| (*name).to_owned()).collect(), "{sources:?}");
    }
    assert_eq!(
        opens("let x = File::open(path);\nfs::read(\"/proc/1/maps\")\n#[cfg(test)]\nFile::open").len(),
        1
    );
}

/// Files of `/proc/PID` for which the kernel takes the lock of the memory of the process, which the process may hold for as long as it likes.
const OF_MEMORY: [&str; 8] =
    ["maps", "smaps", "numa_maps", "map_files", "pagemap", "mem", "cmdline", "environ"];

#[test]
fn one_file_of_the_recorder_reads_what_waits_for_the_memory_of_a_process() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/src");
    let reads = |line: &str| {
        let mut texts = line.split('"').skip(1).step_by(2);
        let of_process = |name: &&str| !name.starts_with("/proc/self/");
        texts.any(|text| {
            let mut names = text.split('/').map(|part| part.split(['{', ' ']).next().unwrap_or_default());
            of_process(&text) && (!text.contains(' ')) && names.any(|name| OF_MEMORY.contains(&name))
        })
    };
    let (mut folders, mut reading) = (vec![sources.clone()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a room").map(|entry| entry.expect("a file").path()) {
            let name = entry.strip_prefix(&sources).expect("below").to_string_lossy().into_owned();
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let source = std::fs::read_to_string(&entry).expect("text");
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                let is_code = |line: &&str| !line.trim_start().starts_with("//");
                if code.lines().filter(is_code).any(reads) {
                    reading.insert(name);
                }
            }
        }
    }
    assert_eq!(reading, BTreeSet::from(["foreign/reader.rs".to_owned()]));
    assert!(
        reads("File::open(folder.join(\"maps\"))") && reads("format!(\"/proc/{tgid}/map_files/{start}\")")
    );
    assert!(!reads("fs::read(\"/proc/{tgid}/status\")"));
}
