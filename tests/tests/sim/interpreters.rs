//! Functions that interpreters run: what `--native` shows, and what `--fold-interpreters` counts to them.

use std::path::Path;

use icecore_format::records::{ImageKind, JitCode, Language, Location, Origin};
use icecore_tests::machine::{report, report_output};
use icecore_tests::synthetic::Builder;
use tempfile::TempDir;

/// A frame: an offset in one of three files, or a function of Python.
#[derive(Clone, Copy)]
enum At {
    Python(u64),
    Extension(u64),
    Libc(u64),
    Function(&'static str),
}

use At::{Extension, Function, Libc, Python};

/// The loop of the interpreter, which runs the functions of Python that it calls.
const LOOP: At = Python(0x10);
/// What begins the program.
const MAIN: At = Python(0x20);

/// Writes a recording of a process of Python: stacks, leaf first, and their samples.
fn written(folder: &Path, stacks: &[(&[At], u64)]) {
    let mut b = Builder::default();
    let [python, extension, libc] = ["/usr/bin/python3.12", "/usr/lib/fast.so", "/usr/lib/libc.so.6"]
        .map(|path| b.image(ImageKind::FILE, path));
    for (start, image) in [(0x1_0000, python), (0x2_0000, extension), (0x3_0000, libc)] {
        b.map(0, 100, start, image, Origin::SCAN);
    }
    let names = ["f", "g", "h"];
    let code =
        |name: &str| 0x70_0000 + 0x1000 * names.iter().position(|it| *it == name).expect("a name") as u64;
    for name in names {
        let (start, language) = (code(name), Language::PYTHON);
        let name = name.as_bytes().to_vec();
        b.jit.push(JitCode { tgid: 100, start, end: start + 64, name, language, ..JitCode::default() });
    }
    let task = b.task(100, 100, "server");
    let mut at_ns = 0;
    for (stack, samples) in stacks {
        let location = |at: &At| match *at {
            Python(file_off) => Location::Image { image: python, file_off },
            Extension(file_off) => Location::Image { image: extension, file_off },
            Libc(file_off) => Location::Image { image: libc, file_off },
            Function(name) => Location::Address(Location::INTERPRETED | (code(name) + 8)),
        };
        let stack = b.stack_at(&stack.iter().map(location).collect::<Vec<_>>());
        for _ in 0..*samples {
            at_ns += 10_000_000;
            b.sample(at_ns, 0, task, &[], &[]).user_stack = stack;
        }
    }
    b.write(&folder.join("r.icecore"), true).expect("a recording");
}

/// The folded stacks, without offsets in files and without the name of the process.
fn folded(folder: &Path, options: &[&str]) -> Vec<String> {
    let path = folder.join("r.icecore");
    let path = path.to_str().expect("plain text");
    let told = report(&[&["folded", path], options].concat());
    let bare = |line: &str| {
        let (stack, samples) = line.rsplit_once(' ').expect("a number");
        let frames = stack.split(';').skip(1).map(|frame| frame.split('+').next().unwrap_or(frame));
        format!("{} {samples}", frames.collect::<Vec<_>>().join(";"))
    };
    told.lines().map(bare).collect()
}

#[test]
fn functions_of_the_interpreter_count_to_those_that_called_them() {
    let folder = TempDir::new().expect("a folder");
    // g, which f calls, in the loop.
    let called = [Function("g"), Function("f"), LOOP, MAIN, Libc(0x10)];
    let stacks: [(&[At], u64); 7] = [
        (&[&[][..], &called].concat(), 1),
        (&[&[Python(0x50), Python(0x40)][..], &called].concat(), 2),
        // What allocates for the interpreter is no part of it.
        (&[&[Libc(0x50), Python(0x40)][..], &called].concat(), 4),
        // An extension that calls the interpreter, which calls a function of Python.
        (&[&[Python(0x60), Extension(0x10), Python(0x40)][..], &called].concat(), 8),
        (&[&[Function("h"), LOOP, Python(0x70), Extension(0x10), Python(0x40)][..], &called].concat(), 16),
        // A run of the loop for a function that native code of the interpreter calls.
        (&[&[Python(0x50), Function("h"), LOOP, Python(0x70)][..], &called].concat(), 32),
        // Before it runs any function the interpreter is all that there is.
        (&[Python(0x80), MAIN, Libc(0x10)], 64),
    ];
    written(folder.path(), &stacks);
    let folded_away = [
        "libc.so.6;python3.12;f;g 3",
        "libc.so.6;python3.12;f;g;fast.so 8",
        "libc.so.6;python3.12;f;g;fast.so;h 16",
        "libc.so.6;python3.12;f;g;h 32",
        "libc.so.6;python3.12;f;g;libc.so.6 4",
        "libc.so.6;python3.12;python3.12 64",
    ];
    let mut told = folded(folder.path(), &["--fold-interpreters"]);
    told.sort();
    assert_eq!(told, folded_away);
    // Functions that are named stay samples of their language, and nothing is lost.
    let python = folded(folder.path(), &["--fold-interpreters", "--language", "python"]);
    assert_eq!(python.len(), folded_away.len() - 1);
    let machinery = "libc.so.6;python3.12;f;g;python3.12;python3.12 2".to_owned();
    assert!(folded(folder.path(), &[]).contains(&machinery));
    let loops = "libc.so.6;python3.12;python3.12;f;g 1".to_owned();
    assert!(folded(folder.path(), &["--native"]).contains(&loops));
}

#[test]
fn every_view_folds_the_same_frames() {
    let folder = TempDir::new().expect("a folder");
    written(folder.path(), &[(&[Python(0x50), Function("g"), Function("f"), LOOP, MAIN], 3)]);
    let path = folder.path().join("r.icecore");
    let told = |view: &str, fold: &[&str]| {
        report(&[&[view, path.to_str().expect("plain text"), "--json"], fold].concat())
    };
    for view in ["top", "tree", "samples"] {
        let machinery = "python3.12+0x50";
        assert!(told(view, &[]).contains(machinery) || told(view, &[]).contains("\"offset\":80"), "{view}");
        let folded = told(view, &["--fold-interpreters"]);
        assert!(!folded.contains(machinery) && !folded.contains("\"offset\":80"), "{view}: {folded}");
    }
    let both = ["top", path.to_str().expect("plain text"), "--native", "--fold-interpreters"];
    assert_eq!(report_output(&both).status.code(), Some(2));
}
