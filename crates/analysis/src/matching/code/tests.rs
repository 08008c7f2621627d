use std::path::{Path, PathBuf};

use super::*;
use icecore_symbolize::image::fixture::{identity, run, text};
use icecore_symbolize::image::{Finder, Search};

/// With SHIFT everything lies elsewhere; the other words change one function each.
const SOURCE: &str = r#"
#include <stdio.h>
#include <string.h>
#ifndef FACTOR
#define FACTOR 0.75
#endif
#ifndef STEP
#define STEP 3
#endif
#ifndef CALLEE
#define CALLEE one
#endif
#ifndef COPY
#define COPY memmove
#endif
#ifdef SHIFT
const char more_text[] = "text that moves all other constants";
double more_factors[] = {1.5, 2.5};
int more_data[1000] = {1};
__attribute__((noinline)) int more_code(int x) { puts("more"); return more_data[x] * 7; }
#endif
int counts[64];
const char* names[] = {"a", "b", "c"};
__attribute__((noinline)) double scaled(double x) { return x * FACTOR; }
__attribute__((noinline)) int looped(int n) {
  int sum = 0;
  for (int i = 0; i < n; i += STEP) {
    __asm__("");
    sum += counts[i & 63] ^ i;
  }
  return sum;
}
__attribute__((noinline)) int one(int x) { return counts[x & 7] + 1; }
__attribute__((noinline)) int two(int x) { return counts[x & 7] + 2; }
__attribute__((noinline)) int caller(int x) { return CALLEE(x) * looped(x) + CALLEE(x + 1); }
__attribute__((noinline)) void copied(char* to, const char* from) {
  COPY(to, from, strlen(from));
  puts("copied");
}
__attribute__((noinline)) int switched(int x) {
  switch (x) {
    case 0: return puts("zero");
    case 1: return counts[5];
    case 2: return printf("%d", x);
    case 3: return one(x);
    case 4: return two(x) * 3;
    case 5: return putchar(x);
    default: return puts(names[x & 1]);
  }
}
int main(int argc, char** argv) {
  char text[64];
  copied(text, argv[0]);
#ifdef SHIFT
  more_code(argc);
#endif
  return (int)scaled(argc) + caller(argc) + switched(argc) + two(argc);
}
"#;
const FUNCTIONS: [&str; 7] = ["scaled", "looped", "one", "two", "caller", "copied", "switched"];

struct Yard(tempfile::TempDir);

impl Yard {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("x.c"), SOURCE).expect("written");
        Self(dir)
    }

    fn build(&self, flags: &str, out: &str) -> PathBuf {
        let path = self.0.path().canonicalize().expect("a real path").join(out);
        let args = format!("-O2 x.c -Wl,--build-id=sha1 {flags}");
        let args: Vec<&str> = args.split_whitespace().chain(["-o", text(&path)]).collect();
        run(self.0.path(), "cc", &args);
        path
    }
}

fn open(path: &Path) -> Result<Code, Doubt> {
    Code::open(&identity(path), &Finder { search: &Search::nowhere(), embedded: None })
}

/// The functions that are different; all others are identical.
fn different(before: &Path, after: &Path) -> Vec<&'static str> {
    let [before, after] = [before, after].map(|path| open(path).expect("the file is there"));
    let mut names = FUNCTIONS.to_vec();
    names.retain(|name| match compare((&before, name), (&after, name)) {
        CodeVerdict::Identical => false,
        CodeVerdict::Different => true,
        CodeVerdict::Unknown(cause) => panic!("{name}: {cause}"),
    });
    names
}

#[test]
fn code_that_only_lies_elsewhere_is_identical_and_what_changed_is_told() {
    let yard = Yard::new();
    for (kind, flags) in
        ["", "-no-pie -fno-pie", "-fPIC -shared", "-fno-plt", "-static", "-O1 -fcf-protection"]
            .iter()
            .enumerate()
    {
        let before = yard.build(flags, &format!("before-{kind}"));
        for (change, expected) in [
            ("", &[][..]),
            ("-DSTEP=5", &["looped"]),
            ("-DFACTOR=0.5", &["scaled"]),
            ("-DCALLEE=two", &["caller"]),
            ("-DCOPY=memcpy", &["copied"]),
        ] {
            let after = yard.build(&format!("{flags} -DSHIFT {change}"), &format!("after-{kind}"));
            assert!(!is_same_build(&identity(&before), &identity(&after)));
            assert_eq!(different(&before, &after), expected, "{flags} {change}");
            assert_eq!(different(&after, &before), expected, "{flags} {change}");
        }
    }
}

#[test]
fn other_optimization_is_other_code() {
    let yard = Yard::new();
    let different = different(&yard.build("", "before"), &yard.build("-O0", "after"));
    assert_eq!(different, FUNCTIONS);
}

#[test]
fn a_build_is_the_same_as_itself() {
    let yard = Yard::new();
    let path = yard.build("", "x");
    assert!(is_same_build(&identity(&path), &identity(&path)));
    let without = Identity { build_id: Vec::new(), ..identity(&path) };
    assert!(!is_same_build(&without, &without), "without a build-id nothing is known");
}

#[test]
fn every_cause_has_a_case() {
    let yard = Yard::new();
    let path = yard.build("", "x");
    let code = open(&path).expect("there");
    assert_eq!(compare((&code, "none"), (&code, "one")), CodeVerdict::Unknown(Doubt::NoSymbol));
    let gone = Identity { path: "/no/such/file".into(), ..identity(&path) };
    let missing = Code::open(&gone, &Finder { search: &Search::nowhere(), embedded: None });
    assert_eq!(missing.err(), Some(Doubt::Image(Reason::ImageMissing)));
    let other = yard.0.path().join("other");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[18] = 243; // e_machine: RISC-V
    std::fs::write(&other, &bytes).expect("written");
    let other = open(&other.canonicalize().expect("there")).expect("ELF");
    assert_eq!(compare((&code, "one"), (&other, "one")), CodeVerdict::Unknown(Doubt::Processor));
    assert_eq!(compare((&other, "one"), (&other, "one")), CodeVerdict::Unknown(Doubt::Processor));

    let assembled = |body: &str, out: &str| {
        let source = format!(".globl main\nmain: ret\n{body}");
        std::fs::write(yard.0.path().join("x.s"), source).expect("written");
        let path = yard.0.path().canonicalize().expect("a real path").join(out);
        run(yard.0.path(), "cc", &["x.s", "-o", text(&path)]);
        open(&path).expect("ELF")
    };
    let twice = |a: &str, b: &str| {
        format!(
            ".type f,@function\nf: {a}; ret\n.size f, .-f\n.local f.cold.0\n.type g,@function\ng: {b}; ret\n.size g, .-g\n"
        )
    };
    let (ab, ba) = (assembled(&twice("nop", "leave"), "ab"), assembled(&twice("leave", "nop"), "ba"));
    assert_eq!(compare((&ab, "f"), (&ba, "g")), CodeVerdict::Identical);
    assert_eq!(compare((&ab, "f"), (&ba, "f")), CodeVerdict::Different);
    let long = assembled(".type f,@function\nf: ret\n.size f, 0x7fffffff\n", "long");
    assert_eq!(compare((&long, "f"), (&long, "f")), CodeVerdict::Unknown(Doubt::Bytes));
}

#[test]
fn a_number_that_may_be_an_address_is_not_called_the_same() {
    let yard = Yard::new();
    let source = "static char large[48 << 20]; volatile int sink;
        __attribute__((noinline)) void slow(void) { for (int i = 0; i < LIMIT; i++) sink += i; }
        __attribute__((noinline)) const char *told(void) { return \"as it is\"; }
        __attribute__((noinline)) int adds(int by) { return by + LIMIT; }
        int main(int argc, char **argv) {
            large[argc] = 1;
            slow();
            return told()[argc] + large[sink] + adds(argc);
        }";
    std::fs::write(yard.0.path().join("x.c"), source).expect("written");
    let build = |flags: &str, limit: u32| {
        let path = yard.0.path().canonicalize().expect("a real path").join(format!("x{flags}{limit}"));
        run(yard.0.path(), "cc", &["-O2", flags, &format!("-DLIMIT={limit}"), "x.c", "-o", text(&path)]);
        open(&path).expect("ELF")
    };
    for (flags, other) in
        [("-no-pie", CodeVerdict::Unknown(Doubt::Numbers)), ("-pie", CodeVerdict::Different)]
    {
        let [one, same, twice] = [8_388_607, 8_388_607, 16_777_215].map(|limit| build(flags, limit));
        assert_eq!(compare((&one, "slow"), (&same, "slow")), CodeVerdict::Identical, "{flags}");
        assert_eq!(compare((&one, "slow"), (&twice, "slow")), other, "{flags}");
        assert_eq!(compare((&one, "adds"), (&twice, "adds")), other, "{flags}");
        assert_eq!(compare((&one, "told"), (&twice, "told")), CodeVerdict::Identical, "{flags}");
    }
}

#[test]
fn of_equal_names_nobody_knows_which_is_which() {
    let yard = Yard::new();
    std::fs::write(
        yard.0.path().join("a.c"),
        "__attribute__((noinline)) static int f(int x) { return x * 3; } int a(int x) { return f(x) + 1; }",
    )
    .expect("written");
    std::fs::write(
        yard.0.path().join("b.c"),
        "__attribute__((noinline)) static int f(int x) { return x * 5; } int b(int x) { return f(x) + 1; }",
    )
    .expect("written");
    let [ab, ba] = [["a.c", "b.c"], ["b.c", "a.c"]].map(|[one, two]| {
        let path = yard.0.path().canonicalize().expect("a real path").join(format!("{one}{two}.so"));
        run(yard.0.path(), "cc", &["-O2", "-shared", "-fPIC", one, two, "-o", text(&path)]);
        open(&path).expect("ELF")
    });
    assert_eq!(compare((&ab, "f"), (&ab, "f")), CodeVerdict::Identical);
    assert_eq!(compare((&ab, "f"), (&ba, "f")), CodeVerdict::Unknown(Doubt::Ambiguous));
}

#[test]
fn torn_and_flipped_images_are_survived() {
    let yard = Yard::new();
    let whole = open(&yard.build("", "whole")).expect("ELF");
    let bytes = std::fs::read(yard.build("-s -shared -fPIC -nostdlib", "x")).expect("read");
    let with_symbols = std::fs::read(yard.build("-shared -fPIC -nostdlib", "y")).expect("read");
    let path = yard.0.path().canonicalize().expect("a real path").join("hostile");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut opened, mut compared) = (0, 0);
    for round in 0..400 {
        let mut bytes = if round % 4 == 0 { bytes.clone() } else { with_symbols.clone() };
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        if round % 3 == 0 {
            let len = next(bytes.len());
            bytes.truncate(len);
        }
        // Headers and tables are what lengths and offsets are read from: both ends of the file.
        for _ in 0..next(12) {
            let at = if bytes.is_empty() { break } else { next(bytes.len()) };
            let at = if next(2) == 0 { at % 512 } else { at };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = next(256) as u8;
            }
        }
        std::fs::write(&path, &bytes).expect("written");
        let size_bytes = bytes.len() as u64;
        let image = Identity {
            kind: icecore_symbolize::image::Kind::File,
            path: text(&path).into(),
            build_id: Vec::new(),
            size_bytes,
            modified_unix_ns: 0,
            inode: None,
            has_double: false,
        };
        if let Ok(code) = Code::open(&image, &Finder { search: &Search::nowhere(), embedded: None }) {
            opened += 1;
            for name in FUNCTIONS {
                let verdict = compare((&code, name), (&whole, name));
                compared += usize::from(!matches!(verdict, CodeVerdict::Unknown(_)));
            }
        }
    }
    assert!(opened > 100 && compared > 100, "{opened} opened, {compared} compared");
}
