//! Small ELF files for tests, compiled once per test run.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::image::Kind;
use tempfile::TempDir;

use super::{ElfFile, FileOff, Identity, Inode, Search};

/// Inlining is two functions deep. Tests assert line numbers, so do not move a line.
pub const SOURCE: &str = r#"volatile int sink;
__attribute__((always_inline)) static inline void inner(int x) {
  sink += x;
  sink ^= x;
}
__attribute__((always_inline)) static inline void middle(int x) {
  inner(x * 3);
}
__attribute__((noinline)) void outer(int x) {
  middle(x + 1);
}
__attribute__((noinline)) static void secret(int x) {
  while (x-- > 0) sink -= x;
}
void exported(int x) {
  secret(x);
  outer(x);
}
"#;

/// The files; all except `without_build_id` have the same build-id and the same code.
pub struct Fixture {
    _dir: TempDir,
    /// Symbol table, DWARF.
    pub with_debug: PathBuf,
    /// Symbol table, no DWARF.
    pub with_symbols: PathBuf,
    /// Dynamic symbols only; [`Fixture::search`] has its debug file.
    pub stripped: PathBuf,
    /// As `stripped`, and no `.eh_frame_hdr` in the section or program headers.
    pub without_unwind_table: PathBuf,
    /// Symbol table, DWARF, no build-id.
    pub without_build_id: PathBuf,
    debug_dir: PathBuf,
}

impl Fixture {
    /// Compiles the files, unless another running test has done so; the last test deletes them.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Fixture>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let built = Arc::new(Self::build());
            *shared = Arc::downgrade(&built);
            built
        })
    }

    /// Finds the debug file of `stripped`.
    pub fn search(&self) -> Search {
        Search { debug_dirs: vec![self.debug_dir.clone()], ..Search::nowhere() }
    }

    fn build() -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = temp.path().canonicalize().expect("a real path");
        let [with_debug, with_symbols, stripped, without_unwind_table, without_build_id, debug, debug_dir] =
            ["lib.so", "symbols.so", "stripped.so", "nohdr.so", "noid.so", "lib.debug", "debug"]
                .map(|name| dir.join(name));
        std::fs::write(dir.join("lib.c"), SOURCE).expect("written");
        let compile = |out: &Path, more: &str| {
            let flags = "-O2 -g -fPIC -shared -fasynchronous-unwind-tables lib.c -o";
            run(&dir, "cc", &[&flags.split(' ').collect::<Vec<_>>()[..], &[text(out), more]].concat());
        };
        compile(&with_debug, "-Wl,--build-id=sha1");
        compile(&without_build_id, "-Wl,--build-id=none");
        run(&dir, "strip", &["-g", "-o", text(&with_symbols), text(&with_debug)]);
        run(&dir, "strip", &["-o", text(&stripped), text(&with_debug)]);
        run(&dir, "objcopy", &["--only-keep-debug", text(&with_debug), text(&debug)]);
        without_table(&stripped, &without_unwind_table);

        let hex: String = identity(&stripped).build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = debug_dir.join(".build-id").join(&hex[..2]);
        std::fs::create_dir_all(&place).expect("made");
        std::fs::rename(&debug, place.join(format!("{}.debug", &hex[2..]))).expect("moved");
        Self {
            _dir: temp,
            with_debug,
            with_symbols,
            stripped,
            without_unwind_table,
            without_build_id,
            debug_dir,
        }
    }
}

/// Turns PT_GNU_EH_FRAME into PT_NULL and renames the section.
fn without_table(from: &Path, to: &Path) {
    let mut bytes = std::fs::read(from).expect("read");
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (table, count) = (word(&bytes, 32) as usize, usize::from(bytes[56]));
    for at in (0..count).map(|i| table + 56 * i) {
        if bytes[at..at + 4] == 0x6474_e550_u32.to_le_bytes() {
            bytes[at..at + 4].fill(0);
        }
    }
    let name = b".eh_frame_hdr";
    let at = bytes.windows(name.len()).rposition(|window| window == name).expect("the section's name");
    bytes[at..at + name.len()].copy_from_slice(b".xx_frame_hdr");
    std::fs::write(to, bytes).expect("written");
}

/// Returns the identity that a recorder would have written for this file.
pub fn identity(path: &Path) -> Identity {
    let meta = std::fs::metadata(path).expect("the file is there");
    let layout = ElfFile::open(path).and_then(|file| file.layout()).expect("ELF");
    Identity {
        kind: Kind::File,
        path: text(path).to_owned(),
        build_id: layout.build_id,
        size_bytes: meta.len(),
        modified_unix_ns: (meta.mtime() * 1_000_000_000 + meta.mtime_nsec()) as u64,
        inode: Some(Inode { device: meta.dev(), number: meta.ino() }),
        has_double: false,
    }
}

/// Lists the symbols of `nm`: address, size, name; skips those without a size.
pub fn nm(path: &Path, more: &[&str]) -> Vec<(u64, u64, String)> {
    let out = run(Path::new("/"), "nm", &[&["-S", "--defined-only"], more, &[text(path)]].concat());
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    out.lines()
        .filter_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let &[at, len, _, name] = &words[..] else { return None };
            let name = name.split('@').next().unwrap_or(name);
            Some((hex(at)?, hex(len)?, name.to_owned()))
        })
        .collect()
}

/// Finds address, size and file offset of a function by `nm`. In shared objects of GNU ld address and offset are equal in the
/// first executable segment, which is checked.
pub fn function(path: &Path, name: &str) -> (FileOff, u64) {
    let (at, len, _) = nm(path, &[])
        .into_iter()
        .find(|symbol| symbol.2 == name)
        .unwrap_or_else(|| panic!("no symbol {name}"));
    let layout = ElfFile::open(path).and_then(|file| file.layout()).expect("ELF");
    assert_eq!(layout.svma(FileOff(at)).map(|svma| svma.0), Some(at), "offsets and addresses are equal");
    (FileOff(at), len)
}

/// Runs a program, which must succeed.
pub fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).current_dir(dir).output().expect("the program is installed");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
