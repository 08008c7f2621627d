//! DWARF, as the report reads it: units, ranges, inlined calls, lines, names; of programs that are nothing but that.

use std::path::Path;
use std::process::Command;

use icecore_symbolize::Answer;
use icecore_symbolize::image::FileOff;

use super::{FREE_BYTES, image};

/// Names every address of the code, which lies in the first page of the seeds.
pub fn run(data: &[u8]) {
    let offsets: Vec<FileOff> = (0..data.len().min(4096) as u64).map(FileOff).collect();
    // Compressed sections may become a thousand times as long; a reader may not.
    let answers = image::named(data, &offsets, 16 * FREE_BYTES + 1200 * data.len());
    assert_eq!(answers.len(), offsets.len());
    for answer in &answers {
        if let Answer::Named(functions) = answer {
            assert!(!functions.is_empty() && functions.iter().all(|function| !function.name.is_empty()));
        }
    }
}

/// Small programs: inlined calls, cold parts, several units and versions, of two compilers; compressed, split, partial
/// units.
pub fn seeds() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    write_sources(dir.path());
    let variants = [
        ("c++", "-g -O2"),
        ("c++", "-g -O2 -gdwarf-4"),
        ("c++", "-g -O2 -gdwarf-2 -gstrict-dwarf"),
        ("c++", "-g -O0"),
        ("c++", "-g -O2 -flto"),
        ("c++", "-g -O2 -gz=zlib"),
        ("c++", "-g -O2 -gsplit-dwarf"),
        ("clang++", "-g -O2"),
        ("clang++", "-gline-tables-only -O2 -gdwarf-4"),
    ];
    let mut seeds: Vec<_> =
        variants.iter().map(|(compiler, flags)| compile(dir.path(), compiler, flags)).collect();
    compile(dir.path(), "c++", "-g -O2");
    succeed(Command::new("dwz").arg("x.so").current_dir(dir.path()));
    seeds.push(std::fs::read(dir.path().join("x.so")).expect("just made"));
    seeds
}

const A: &str = "
extern volatile int sink;
void far(int x);
namespace deep {
template <class T> inline __attribute__((always_inline)) void inner(T x) { sink += x; sink ^= x; }
struct Type { int field; int method(int x) const { inner(x); return field * x; } };
}
static __attribute__((noinline)) void secret(int x) { while (x-- > 0) deep::inner(x * 3); }
extern \"C\" void exported(int x) {
  struct Local { int n; int method(int x) { return x * n; } } local{x};
  secret(x);
  far(deep::Type{x}.method(7) + local.method(3));
}
";
const B: &str = "
volatile int sink;
static inline __attribute__((always_inline)) int half(int x) { sink = x; return x / 2; }
void far(int x) { if (__builtin_expect(x == 77, 0)) __builtin_trap(); sink += half(half(x)); }
";

/// Writes what is compiled.
pub(super) fn write_sources(dir: &Path) {
    std::fs::write(dir.join("a.cc"), A).expect("writable");
    std::fs::write(dir.join("b.cc"), B).expect("writable");
}

/// Compiles a library, `x.so`, and reads it.
pub(super) fn compile(dir: &Path, compiler: &str, flags: &str) -> Vec<u8> {
    let fixed = "-fPIC -shared -nostdlib -Wl,-z,noseparate-code -o x.so a.cc b.cc";
    succeed(Command::new(compiler).args(flags.split(' ').chain(fixed.split(' '))).current_dir(dir));
    std::fs::read(dir.join("x.so")).expect("just made")
}

fn succeed(command: &mut Command) {
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?} must succeed");
}
