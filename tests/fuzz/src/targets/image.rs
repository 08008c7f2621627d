//! Images, as the report reads them: ELF headers, notes, links, unwind tables, symbols, DWARF.

use std::path::Path;
use std::process::Command;

use icecore_symbolize::image::{FileOff, Finder, Identity, Kind, Search};
use icecore_symbolize::{Answer, Wanted, symbolize};

use super::FREE_BYTES;
use crate::{memory, scratch};

/// Names addresses all over a file.
pub fn run(data: &[u8]) {
    let offsets = (0..data.len()).step_by(data.len() / 64 + 1).map(|off| FileOff(off as u64));
    let offsets: Vec<FileOff> = offsets.collect();
    let answers = named(data, &offsets, 16 * FREE_BYTES + 256 * data.len());
    assert_eq!(answers.len(), offsets.len());
}

/// Names offsets in a file, in a bounded number of bytes.
pub(super) fn named(data: &[u8], offsets: &[FileOff], limit: usize) -> Vec<Answer> {
    let search = Search::nowhere();
    let mut answers = scratch::as_file(data, |path| {
        let image = Identity {
            kind: Kind::File,
            path: path.display().to_string(),
            build_id: Vec::new(),
            size_bytes: data.len() as u64,
            modified_unix_ns: 0,
            inode: None,
            has_double: false,
        };
        let wanted = [Wanted { image: &image, offsets }];
        memory::within(limit, || symbolize(&wanted, &Finder { search: &search, embedded: None }, &|_| ()))
    });
    answers.swap_remove(0)
}

/// A small library with DWARF; without; stripped; with compressed DWARF.
pub fn seeds() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::write(dir.path().join("x.c"), SOURCE).expect("writable");
    let flags = [
        "-g -O2",
        "-s -O2",
        "-g0 -O2",
        "-g -O2 -gz=zlib",
        "-g -O2 -gdwarf-4 -fno-asynchronous-unwind-tables",
    ];
    flags.iter().map(|flags| compile(dir.path(), flags)).collect()
}

const SOURCE: &str = "volatile int sink;
static inline __attribute__((always_inline)) void inner(int x) { sink += x; sink ^= x; }
static __attribute__((noinline)) void secret(int x) { while (x-- > 0) inner(x * 3); }
void exported(int x) { secret(x); inner(x); }
";

fn compile(dir: &Path, flags: &str) -> Vec<u8> {
    let fixed = "-fPIC -shared -nostdlib -Wl,--build-id=sha1 -Wl,-z,noseparate-code -o x.so x.c";
    let args = flags.split(' ').chain(fixed.split(' '));
    assert!(Command::new("cc").args(args).current_dir(dir).status().expect("a C compiler").success());
    std::fs::read(dir.join("x.so")).expect("just made")
}
