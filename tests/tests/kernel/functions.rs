//! Functions that share a name, through real eBPF: two functions are two rows in every view, and one function is one, wherever the
//! compiler put it.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{Recorded, report};
use serde_json::Value;

/// A function that takes time in proportion to its argument.
const SPIN: &str = "static __attribute__((noinline)) unsigned long NAME(unsigned long n) {
  unsigned long x = n;
  for (unsigned long i = 0; i < n; i++) x = x * 6364136223846793005ul + (x >> 3);
  return x;
}
";

const MAIN: &str = "#include <stdlib.h>
unsigned long one(unsigned long), two(unsigned long);
volatile unsigned long sink;
int main(int argc, char **argv) {
  for (int i = 0; i < 150; i++) { sink += one(100000 * atoi(argv[1])); sink += two(100000 * atoi(argv[2])); }
}
";

/// Compiles sources in a folder.
fn compiled(dir: &Path, compiler: &str, flags: &str, sources: &[(&str, String)]) -> PathBuf {
    for (name, text) in sources {
        std::fs::write(dir.join(name), text).expect("written");
    }
    let names = sources.iter().map(|(name, _)| *name);
    let args: Vec<&str> = flags.split(' ').chain(names).chain(["-o", "program"]).collect();
    let status = Command::new(compiler).args(args).current_dir(dir).status().expect("a compiler");
    assert!(status.success());
    dir.join("program")
}

/// Two files with a local `helper` each.
fn helpers(dir: &Path, flags: &str) -> PathBuf {
    let of = |caller: &str| {
        SPIN.replace("NAME", "helper")
            + &format!("unsigned long {caller}(unsigned long n) {{ return helper(n) + 1; }}\n")
    };
    compiled(dir, "cc", flags, &[("a.c", of("one")), ("b.c", of("two")), ("main.c", MAIN.to_owned())])
}

fn record(program: &Path, args: [&str; 2]) -> Recorded {
    let command = [program.display().to_string(), args[0].to_owned(), args[1].to_owned()];
    Recorded::new(&["-F", "999", "-q", "-U"], &command)
}

/// Lists the rows of `top` whose name begins so: the name, and the share that they take themselves.
fn rows(recorded: &Recorded, begin: &str, options: &[&str]) -> Vec<(String, f64)> {
    let top = recorded.json("top", &[&["-n", "0"], options].concat());
    let rows = top["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["self_share"].as_f64().expect("a share"))
    };
    let mut found: Vec<(String, f64)> = rows.map(row).filter(|(name, _)| name.starts_with(begin)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn assert_shares(found: &[(String, f64)], expected: &[(&str, f64)]) {
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{found:?}");
    for ((name, share), (_, expected)) in found.iter().zip(expected) {
        assert!((share - expected).abs() < 0.1, "{name}: {share}, not {expected}");
    }
}

#[test]
fn root_local_functions_of_two_files_are_told_apart_in_every_view() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = helpers(dir.path(), "-O1 -g");
    let (before, after) = (record(&program, ["10", "20"]), record(&program, ["20", "10"]));
    assert_shares(&rows(&before, "helper", &[]), &[("helper (a.c:1)", 0.33), ("helper (b.c:1)", 0.67)]);
    assert_shares(&rows(&after, "helper", &[]), &[("helper (a.c:1)", 0.67), ("helper (b.c:1)", 0.33)]);
    let focused = rows(&before, "helper", &["--focus", "helper (a.c:1)"]);
    assert_eq!(focused.len(), 1, "{focused:?}");
    let both = rows(&before, "helper", &["--focus", "helper"]);
    assert_eq!(both.len(), 2, "{both:?}");
    let path = before.path().display().to_string();
    for view in ["tree", "folded"] {
        let text = report(&[view, &path]);
        for name in ["helper (a.c:1)", "helper (b.c:1)"] {
            assert!(text.contains(name), "{view}: {text}");
        }
    }
    let (a, b) = (before.path().display().to_string(), after.path().display().to_string());
    let diff: Value = serde_json::from_str(&report(&["diff", &a, &b, "--json"])).expect("JSON");
    let changed = |name: &str| {
        let rows = diff["rows"].as_array().expect("rows").iter();
        let row = rows.clone().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {diff:#}"));
        (row["significant"].as_bool(), row["delta"].as_f64().is_some_and(|delta| delta > 0.2))
    };
    assert_eq!(changed("helper (a.c:1)"), (Some(true), true));
    assert_eq!(changed("helper (b.c:1)"), (Some(true), false));
}

#[test]
fn root_without_debug_information_the_symbol_table_tells_local_functions_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorded = record(&helpers(dir.path(), "-O1"), ["10", "20"]);
    // Here, and on a machine without the program.
    std::fs::remove_file(dir.path().join("program")).expect("it is there");
    assert_shares(&rows(&recorded, "helper", &[]), &[("helper (a.c)", 0.33), ("helper (b.c)", 0.67)]);
}

#[test]
fn root_functions_without_a_name_are_the_same_rows_on_a_machine_without_the_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = helpers(dir.path(), "-O1 -s");
    let recorded = record(&program, ["10", "20"]);
    let here = rows(&recorded, "program+", &[]);
    std::fs::remove_file(&program).expect("it is there");
    let elsewhere = rows(&recorded, "program+", &[]);
    assert_eq!(here, elsewhere);
    let heavy: Vec<f64> = elsewhere.iter().map(|(_, share)| *share).filter(|share| *share > 0.1).collect();
    assert_eq!(heavy.len(), 2, "{elsewhere:?}");
}

#[test]
fn root_a_function_is_one_row_with_the_part_that_the_compiler_split_off() {
    let source = "#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline, cold)) static void spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) unsigned long run(unsigned long n, int rare) {
  unsigned long x = n;
  for (unsigned long i = 0; i < n; i++) x = x * 6364136223846793005ul + (x >> 3);
  if (__builtin_expect(rare, 0)) { for (unsigned long i = 0; i < n; i++) sink += x * i; spin(1); }
  return x;
}
int main(int argc, char **argv) {
  for (int i = 0; i < 150; i++) sink += run(100000 * atoi(argv[1]), atoi(argv[2]));
}
";
    let dir = tempfile::tempdir().expect("a directory");
    for flags in ["-O2 -g", "-O2"] {
        let program = compiled(dir.path(), "cc", flags, &[("run.c", source.to_owned())]);
        let symbols = Command::new("nm").arg(&program).output().expect("nm is there").stdout;
        assert!(String::from_utf8_lossy(&symbols).contains("run.cold"), "{flags}");
        let found = rows(&record(&program, ["10", "1"]), "run", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 == "run" && found[0].1 > 0.95, "{flags}: {found:?}");
    }
}

#[test]
fn root_lambdas_and_functions_in_namespaces_are_told_apart_with_line_tables_alone() {
    let source = "#include <cstdlib>
using u64 = unsigned long;
namespace cold {
static inline __attribute__((always_inline)) u64 step(u64 x) { return x * 6364136223846793005ul + (x >> 3); }
}
namespace hot {
static inline __attribute__((always_inline)) u64 step(u64 x) { return x * 2862933555777941757ul ^ (x >> 5); }
}
volatile u64 sink;
int main(int argc, char **argv) {
  u64 one = 100000 * atoi(argv[1]), two = 100000 * atoi(argv[2]), x = one;
  for (int i = 0; i < 150; i++) {
    for (u64 n = 0; n < one; n++) x = cold::step(x);
    for (u64 n = 0; n < two; n++) x = hot::step(x);
    sink += x;
  }
}
";
    let dir = tempfile::tempdir().expect("a directory");
    for (flags, names) in
        [("-O2 -g1", ["step (step.cc:4)", "step (step.cc:7)"]), ("-O2 -g", ["cold::step", "hot::step"])]
    {
        let program = compiled(dir.path(), "c++", flags, &[("step.cc", source.to_owned())]);
        let recorded = record(&program, ["5", "15"]);
        let inlined = |begin: &str| rows(&recorded, begin, &["--by", "inlined"]);
        let found = [inlined(&names[0][..4]), inlined(&names[1][..3])].concat();
        let share =
            |name: &str| found.iter().find(|(found, _)| found == name).map_or(0.0, |(_, share)| *share);
        // Some instructions of the loops are those of `main`, and how many differs; by rounds it is 25 and 75 %.
        assert!(share(names[0]) > 0.05 && share(names[1]) > 0.2, "{flags}: {found:?}");
        assert!(share(names[1]) > 1.3 * share(names[0]), "{flags}: {found:?}");
    }
}

#[test]
fn root_code_that_a_linker_folded_has_the_names_by_which_calls_name_it() {
    let looping = |name: &str| SPIN.replace("NAME", name).replace("static ", "");
    let caller = |name: &str, called: &str| {
        format!("__attribute__((noinline)) void {name}(unsigned long n) {{ sink += {called}(n); sink++; }}\n")
    };
    let main = "volatile unsigned long sink;
"
    .to_owned()
        + &caller("call_alpha", "alpha")
        + &caller("call_beta", "beta").replace("sink++", "sink += 2")
        + "int main(int argc, char **argv) {
  unsigned long n = 100000ul * (argc > 1 ? 20 : 1);
  for (int i = 0; i < 60; i++) { call_alpha(n); call_beta(n); call_beta(n); }
}
";
    let dir = tempfile::tempdir().expect("a directory");
    for (compiler, flags, is_named) in [
        ("c++", "-O2 -g -ffunction-sections -fuse-ld=lld -Wl,--icf=all", true),
        ("clang++", "-O2 -g -ffunction-sections -fuse-ld=lld -Wl,--icf=all", true),
        // Without debug information nobody knows what a call names.
        ("c++", "-O2 -ffunction-sections -fuse-ld=lld -Wl,--icf=all", false),
        ("c++", "-O2 -g -ffunction-sections -fuse-ld=lld -Wl,--icf=none", false),
    ] {
        let declared = "unsigned long alpha(unsigned long); unsigned long beta(unsigned long);\n";
        let sources =
            [("main.cc", declared.to_owned() + &main), ("loops.cc", looping("alpha") + &looping("beta"))];
        let program = compiled(dir.path(), compiler, flags, &sources);
        let recorded = record(&program, ["20", "0"]);
        let rows = rows(&recorded, "", &[]);
        let names = |under: &str| -> Vec<String> {
            let focus = recorded.json("top", &["-n", "0", "--focus", under]);
            let rows = focus["rows"].as_array().expect("rows").iter();
            rows.filter_map(|row| {
                row["name"].as_str().filter(|name| name.contains("(") && name.contains("a("))
            })
            .map(str::to_owned)
            .collect()
        };
        let folded: Vec<&(String, f64)> = rows.iter().filter(|(_, share)| *share > 0.2).collect();
        if is_named {
            assert_eq!(folded.len(), 1, "{compiler} {flags}: {rows:?}");
            let both = [
                "alpha(unsigned long) or beta(unsigned long)",
                "beta(unsigned long) or alpha(unsigned long)",
            ];
            assert!(both.contains(&&*folded[0].0), "{compiler} {flags}: {rows:?}");
            let top = report(&["top".as_ref(), recorded.path().as_os_str()]);
            // A sample in front of the `exec` is in the recorder and in libc, where code has several names.
            let of_program = |line: &&str| line.split_whitespace().any(|word| word == "program");
            assert!(top.lines().filter(of_program).all(|line| !line.contains("(+1 name)")), "{top}");
            // The name is the same wherever the code was called from, and both names find it.
            assert!(names("call_beta").contains(&folded[0].0), "{:?}", names("call_beta"));
            let of = |name: &str| recorded.json("top", &["--focus", name])["total_weight"].as_u64();
            assert_eq!(of("alpha(unsigned long)"), of("beta(unsigned long)"), "{compiler} {flags}");
        } else {
            assert!(rows.iter().all(|(name, _)| !name.contains(" or ")), "{compiler} {flags}: {rows:?}");
        }
    }
}

#[test]
fn root_nothing_recurses_where_a_function_of_the_same_name_is_called() {
    let source = "#include <stdlib.h>
unsigned long in_b(unsigned long);
static __attribute__((noinline)) unsigned long visit(unsigned long n) { return in_b(n) + 1; }
volatile unsigned long sink;
int main(int argc, char **argv) {
  for (int i = 0; i < 150; i++) sink += visit(100000 * atoi(argv[1]) + atoi(argv[2]));
}
";
    let other =
        SPIN.replace("NAME", "visit") + "unsigned long in_b(unsigned long n) { return visit(n) + 1; }\n";
    let dir = tempfile::tempdir().expect("a directory");
    let program = compiled(dir.path(), "cc", "-O1 -g", &[("a.c", source.to_owned()), ("b.c", other)]);
    let recorded = record(&program, ["20", "0"]);
    assert_eq!(rows(&recorded, "visit", &[]).len(), 2);
    assert_eq!(recorded.json("depth", &[])["recursion"], Value::Array(Vec::new()));
}

#[test]
fn root_an_alias_changes_no_name_and_selects_the_function() {
    let source = SPIN.replace("static ", "").replace("NAME", "decode_request_body")
        + "__attribute__((alias(\"decode_request_body\"))) unsigned long drb(unsigned long);\n"
        + "unsigned long one(unsigned long n) { return decode_request_body(n); }\n"
        + "unsigned long two(unsigned long n) { return n; }\n";
    let dir = tempfile::tempdir().expect("a directory");
    let program = compiled(dir.path(), "cc", "-O1 -g", &[("a.c", source), ("main.c", MAIN.to_owned())]);
    let recorded = record(&program, ["20", "1"]);
    let (name, share) = &rows(&recorded, "decode_request_body", &[])[0];
    assert!(name == "decode_request_body" && *share > 0.9, "{name} {share}");
    assert_eq!(rows(&recorded, "decode", &["--focus", "drb"]).len(), 1);
}

#[test]
fn root_functions_in_unnamed_namespaces_are_told_apart_by_their_files() {
    let of = |caller: &str| {
        let spin = SPIN.replace("NAME", "parse").replace("static ", "");
        format!(
            "namespace {{\n{spin}}}\nunsigned long {caller}(unsigned long n) {{ return parse(n) + 1; }}\n"
        )
    };
    let sources = || [("a.cc", of("one")), ("b.cc", of("two")), ("main.cc", MAIN.to_owned())];
    for (flags, [a, b]) in [("-O1 -g", ["(a.cc:2)", "(b.cc:2)"]), ("-O1", ["(a.cc)", "(b.cc)"])] {
        let dir = tempfile::tempdir().expect("a directory");
        let recorded = record(&compiled(dir.path(), "c++", flags, &sources()), ["10", "20"]);
        let found = rows(&recorded, "(anonymous namespace)::parse", &[]);
        let [a, b] = [a, b].map(|mark| format!("(anonymous namespace)::parse(unsigned long) {mark}"));
        assert_shares(&found, &[(&a, 0.33), (&b, 0.67)]);
        assert_eq!(rows(&recorded, "(anonymous", &["--focus", &b]).len(), 1, "{flags}");
    }
}

#[test]
fn root_versions_of_a_function_are_functions() {
    let dir = tempfile::tempdir().expect("a directory");
    let spin = |name: &str| SPIN.replace("NAME", name).replace("static ", "");
    let library = [
        spin("api_old"),
        spin("api_new"),
        "__asm__(\".symver api_old, api@V1\"); __asm__(\".symver api_new, api@@V2\");\n".to_owned(),
    ];
    std::fs::write(dir.path().join("versions"), "V1 { global: api; local: *; }; V2 { global: api; } V1;\n")
        .expect("written");
    let flags = "-O1 -shared -fPIC -s -Wl,--version-script=versions";
    let library = compiled(dir.path(), "cc", flags, &[("lib.c", library.concat())]);
    std::fs::rename(library, dir.path().join("libapi.so")).expect("it is there");
    let caller = |caller: &str, version: &str| {
        format!(
            "unsigned long called(unsigned long); __asm__(\".symver called, api@{version}\");
             unsigned long {caller}(unsigned long n) {{ return called(n) + 1; }}\n"
        )
    };
    let sources = [("a.c", caller("one", "V1")), ("b.c", caller("two", "V2")), ("main.c", MAIN.to_owned())];
    let library = dir.path().join("libapi.so").display().to_string();
    let program = compiled(dir.path(), "cc", &format!("-O1 -Wl,--no-as-needed {library}"), &sources);
    let found = rows(&record(&program, ["10", "20"]), "api", &[]);
    assert_shares(&found, &[("api@@V2", 0.67), ("api@V1", 0.33)]);
    // Probes, too: each version is called 150 times, with an argument of its own.
    let program = program.to_str().expect("UTF-8");
    for (function, weights) in [("api@V1", &[10_000][..]), ("api@@V2", &[20_000]), ("api", &[10_000, 20_000])]
    {
        let event = format!("uprobe:{library}:{function},weight=arg1");
        let recorded = Recorded::new(&["-e", &event, "--max-event-rate", "0"], &[program, "1", "2"]);
        let mut found: Vec<u64> =
            recorded.samples(&[]).iter().map(|sample| sample.number("weight") / 10).collect();
        assert_eq!(found.len(), 150 * weights.len(), "{function}; lost: {}", recorded.lost());
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, weights, "{function}");
    }
}

#[test]
fn root_a_label_names_no_code_that_is_not_proven_to_be_its_function() {
    let dir = tempfile::tempdir().expect("a directory");
    // `asm_fast` returns at once; the two functions behind it have no name, and only data refers to them.
    let spin = |label: &str| {
        format!(
            "{label}: mov %rdi, %rax\n 1: imul $0x5851f42d, %rax, %rax; dec %rdi; jnz 1b; ret\n.p2align 4\n"
        )
    };
    let code = format!(
        ".globl asm_fast, table\nasm_fast: mov %rdi, %rax; ret\n.p2align 4\n{}{}
         .section .data.rel,\"aw\"; .p2align 3; table: .quad .Lone, .Ltwo\n.section .note.GNU-stack,\"\",@progbits\n",
        spin(".Lone"),
        spin(".Ltwo")
    );
    let calls = "extern unsigned long (*table[2])(unsigned long); unsigned long asm_fast(unsigned long);
        unsigned long one(unsigned long n) { return table[0](n) + asm_fast(n); }
        unsigned long two(unsigned long n) { return table[1](n) + asm_fast(n); }\n";
    let sources = [("fast.s", code), ("calls.c", calls.to_owned()), ("main.c", MAIN.to_owned())];
    let recorded = record(&compiled(dir.path(), "cc", "-O1", &sources), ["10", "20"]);
    let named: f64 = rows(&recorded, "asm_fast", &[]).iter().map(|(_, share)| share).sum();
    let nameless: f64 = rows(&recorded, "program+0x", &[]).iter().map(|(_, share)| share).sum();
    assert!(named < 0.05 && nameless > 0.9, "asm_fast {named}, nameless {nameless}");
}
