//! Code that programs make at run time, named by what they tell of it themselves: perf maps and jitdump files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use icecore_format::records::{Change, ImageKind, JitCode, Location, Origin};
use icecore_tests::machine::{Recorded, Sample, copy, has_ebpf, has_node, jit, report, text};
use icecore_tests::synthetic::{Builder, START_NS};
use serde_json::Value;

/// Where `tests/programs/jit.c` makes its code.
const FIRST: u64 = 0x1000_0000;
const SECOND: u64 = FIRST + 0x1_0000;
const OPTIONS: [&str; 3] = ["-F", "997", "-q"];

/// Leaves of samples in the code of `tests/programs/jit.c`.
fn leaves(samples: &[Sample]) -> Vec<&Value> {
    let leaf = |sample: &Sample| sample.0["frames"].as_array().and_then(|frames| frames.first().cloned());
    let is_made =
        |leaf: &Value| leaf["address"].as_u64().is_some_and(|at| (FIRST..SECOND + 0x100).contains(&at));
    samples
        .iter()
        .filter(|sample| leaf(sample).is_some_and(|leaf| is_made(&leaf)))
        .map(|s| &s.0["frames"][0])
        .collect()
}

/// How often each name is that of a leaf in made code; unnamed ones under their reason, in brackets.
fn names(samples: &[Sample]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for leaf in leaves(samples) {
        let name = match (&leaf["name"], &leaf["reason"]) {
            (Value::String(name), Value::Null) => name.clone(),
            (_, reason) => format!("[{}]", reason.as_str().unwrap_or("?")),
        };
        *names.entry(name).or_default() += 1;
    }
    names
}

/// Asserts that made code has these names, nearly all of it, and each of them often.
fn assert_named(names: &BTreeMap<String, usize>, expected: &[&str]) {
    let all: usize = names.values().sum();
    let of = |name: &&str| names.get(*name).copied().unwrap_or(0);
    assert!(all > 40 && expected.iter().all(|name| of(name) * 5 > all), "{names:?}");
    assert!(expected.iter().map(of).sum::<usize>() * 100 >= all * 98, "{names:?}");
}

fn recorded(how: &str) -> Recorded {
    let program = jit();
    Recorded::new(&OPTIONS, &[program.as_os_str(), how.as_ref(), "900".as_ref()])
}

#[test]
fn root_code_at_an_address_that_had_other_code_before_has_both_names() {
    if !has_ebpf() {
        return;
    }
    // Nothing tells when the one became the other: neither name is a fact.
    let names = names(&recorded("reused").samples(&[]));
    assert!(names.len() == 1 && names.get("alpha or gamma").is_some_and(|count| *count > 40), "{names:?}");
}

#[test]
fn root_code_in_a_perf_map_is_named_when_the_process_and_the_map_are_gone() {
    if !has_ebpf() {
        return;
    }
    let program = jit();
    let script = format!("'{}' map 900; sleep 0.3", program.display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    assert_named(&names(&samples), &["alpha", "beta /x y.js:1:2"]);
    for leaf in leaves(&samples) {
        assert_eq!((&leaf["image"], &leaf["offset"]), (&Value::from("[jit]"), &Value::Null), "{leaf}");
    }
    let made_by = samples.iter().filter(|sample| sample.has("alpha"));
    assert!(
        made_by.clone().all(|sample| sample.names("user").contains(&"run")),
        "callers of made code are named"
    );
    let images = recorded.json("top", &["--by", "image"]);
    let rows = images["rows"].as_array().expect("a list");
    assert!(
        rows.iter().any(|row| row["image"] == "[jit]" && row["self_share"].as_f64() > Some(0.5)),
        "{images}"
    );
    assert!(recorded.json("info", &[])["jit"].as_u64().is_some_and(|rows| rows == 2));
    report(&["verify".as_ref(), recorded.path().as_os_str()]);
}

#[test]
fn root_a_map_that_comes_late_or_is_replaced_counts_as_it_is_in_the_end() {
    if !has_ebpf() {
        return;
    }
    for how in ["late", "replaced"] {
        let program = jit();
        let command = [program.as_os_str(), how.as_ref(), "2600".as_ref()];
        // The recorder looks at a map that has changed within a second: on a busy machine the program is gone by then.
        let is_named = |recorded: &Recorded| names(&recorded.samples(&[])).len() == 2;
        let recorded = Recorded::until(is_named, || Recorded::new(&OPTIONS, &command));
        assert_named(&names(&recorded.samples(&[])), &["alpha", "beta /x y.js:1:2"]);
    }
}

#[test]
fn root_memory_that_is_mapped_twice_is_named() {
    if !has_ebpf() {
        return;
    }
    assert_named(&names(&recorded("memfd").samples(&[])), &["alpha", "beta /x y.js:1:2"]);
}

#[test]
fn root_a_child_runs_code_under_the_names_that_its_parent_gave_it() {
    if !has_ebpf() {
        return;
    }
    assert_named(&names(&recorded("forked").samples(&[])), &["alpha"]);
}

/// How many samples have a function on their stack, and how often its caller is made code of each name; unnamed code under
/// its reason, in brackets.
fn callers(samples: &[Sample], function: &str) -> (usize, BTreeMap<String, usize>) {
    let (mut all, mut callers) = (0, BTreeMap::new());
    for sample in samples.iter().filter(|sample| sample.has(function)) {
        all += 1;
        let frames = sample.0["frames"].as_array().expect("a list");
        let at = frames.iter().position(|frame| frame["name"] == function).expect("it has it");
        let Some(caller) = frames.get(at + 1) else { continue };
        let name = match (&caller["name"], &caller["reason"]) {
            (Value::String(name), Value::Null) => name.clone(),
            (_, reason) => format!("[{}]", reason.as_str().unwrap_or("?")),
        };
        *callers.entry(name).or_default() += 1;
    }
    (all, callers)
}

#[test]
fn root_made_code_that_only_unwinding_finds_is_named() {
    if !has_ebpf() {
        return;
    }
    let recorded = recorded("called");
    let samples = recorded.samples(&[]);
    // In the process that made the code, and in its child.
    let processes: BTreeSet<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
    let mut found = 0;
    for tgid in processes {
        let own = recorded.samples(&["--pid", &tgid.to_string()]);
        let (all, callers) = callers(&own, "numbers");
        if all > 20 {
            found += 1;
            // A copy may have been left out, or shortened.
            assert!(callers.get("alpha").copied().unwrap_or(0) * 10 > all * 9, "{all}: {callers:?}");
            assert!(callers.keys().all(|name| name == "alpha"), "{all}: {callers:?}");
        }
    }
    assert_eq!(found, 2);
}

#[test]
fn root_two_processes_with_code_at_one_address_have_their_own_names() {
    if !has_ebpf() {
        return;
    }
    let program = jit();
    let script = format!("'{0}' map 900 one- & '{0}' map 900 two- & wait", program.display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    let processes: BTreeSet<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
    let of = |tgid: u64| names(&recorded.samples(&["--pid", &tgid.to_string()]));
    let named: Vec<_> = processes.into_iter().map(of).filter(|names| !names.is_empty()).collect();
    assert_eq!(named.len(), 2, "{named:?}");
    for prefix in ["one-", "two-"] {
        let own = named.iter().find(|names| names.keys().any(|name| name.starts_with(prefix)));
        let expected = [format!("{prefix}alpha"), format!("{prefix}beta /x y.js:1:2")];
        assert_named(own.expect("it is named"), &expected.each_ref().map(String::as_str));
    }
}

/// A root folder with a folder for temporary files and the program.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::create_dir(root.path().join("tmp")).expect("room");
    copy(&jit(), &root.path().join("jit"));
    root
}

#[test]
fn root_a_process_in_a_root_and_with_a_number_of_its_own_is_named() {
    if !has_ebpf() {
        return;
    }
    let commands: [&[&str]; 2] = [&[], &["unshare", "-pf", "--mount-proc"]];
    for outside in commands {
        let root = root();
        let inside = ["chroot", &root.path().display().to_string(), "/jit", "map", "900"].map(str::to_owned);
        let command: Vec<String> = outside.iter().map(|word| (*word).to_owned()).chain(inside).collect();
        let recorded = Recorded::new(&OPTIONS, &command);
        drop(root);
        assert_named(&names(&recorded.samples(&[])), &["alpha", "beta /x y.js:1:2"]);
    }
}

#[test]
fn root_a_link_out_of_the_root_of_a_process_is_not_followed() {
    if !has_ebpf() {
        return;
    }
    let (root, outside) = (root(), tempfile::tempdir_in("/var/tmp").expect("a folder for temporary files"));
    std::fs::remove_dir(root.path().join("tmp")).expect("it is empty");
    // In the root this leads to a folder of the same name there, which is where the program writes.
    symlink(outside.path(), root.path().join("tmp")).expect("room");
    let inner = root.path().join(outside.path().strip_prefix("/").expect("it begins so"));
    std::fs::create_dir_all(&inner).expect("room");
    let path = root.path().display().to_string();
    let mut recorder = icecore_tests::machine::record();
    let file = outside.path().join("r.icecore");
    recorder.args(OPTIONS).arg("-o").arg(&file).args(["--", "chroot", &path, "/jit", "map", "900"]);
    let mut recorder = recorder.spawn().expect("the recorder runs");
    // The same number may be anybody's outside: wrong names wait there.
    let inner_map = until(|| std::fs::read_dir(&inner).ok()?.flatten().find(|entry| is_map(&entry.path())));
    let wrong = outside.path().join(inner_map.file_name());
    std::fs::write(wrong, format!("{FIRST:x} 100 wrong\n{SECOND:x} 100 wrong\n")).expect("room");
    assert!(recorder.wait().expect("ours").success());
    let out = report(&["samples".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let samples: Vec<Sample> =
        out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect();
    assert_named(&names(&samples), &["alpha", "beta /x y.js:1:2"]);
}

fn is_map(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "map")
}

/// Waits until something is there.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program that has made its code and written its map, and is killed in the end.
struct Running {
    child: Child,
    map: PathBuf,
}

impl Running {
    fn new() -> Self {
        let child = Command::new(jit()).args(["map", "60000"]).spawn().expect("it was compiled");
        let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
        until(|| map.exists().then_some(()));
        Self { child, map }
    }

    /// Records it for a moment: the names, and what the recorder said.
    fn recorded(&self) -> (BTreeMap<String, usize>, String) {
        let begin = Instant::now();
        let pid = self.child.id().to_string();
        let recorded = Recorded::until(
            |recorded| names(&recorded.samples(&[])).values().sum::<usize>() > 50,
            || Recorded::new::<&str>(&["-F", "997", "-d", "2", "-p", &pid], &[]),
        );
        assert!(begin.elapsed() < Duration::from_secs(120), "the recorder waited for something");
        (names(&recorded.samples(&[])), text(&recorded.output.stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.map).or_else(|_| std::fs::remove_dir(&self.map));
    }
}

#[test]
fn root_files_of_others_and_what_is_no_file_are_not_believed() {
    if !has_ebpf() {
        return;
    }
    type Change = fn(&Path, &str);
    let changes: [(&str, Change); 6] = [
        ("a file of somebody else", |map, _| chown(map, Some(12345), None).expect("root may")),
        ("a link", |map, _| {
            let real = map.with_extension("real");
            std::fs::rename(map, &real).expect("one folder");
            symlink(&real, map).expect("room");
        }),
        ("a pipe", |map, _| {
            std::fs::remove_file(map).expect("it is there");
            assert!(Command::new("mkfifo").arg(map).status().expect("mkfifo is everywhere").success());
        }),
        ("a folder", |map, _| {
            std::fs::remove_file(map).expect("it is there");
            std::fs::create_dir(map).expect("room");
        }),
        ("a file of an older process", |map, _| {
            let touched = Command::new("touch").args(["-d", "2001-01-01"]).arg(map).status();
            assert!(touched.expect("touch is everywhere").success());
        }),
        ("garbage", |map, text| {
            let garbage: Vec<u8> = (0..300_000_u64).map(|n| ((n * n) >> 7) as u8).collect();
            let line = text.lines().next().expect("two lines").replace(' ', "\t");
            std::fs::write(map, [&garbage[..], line.as_bytes()].concat()).expect("room");
        }),
    ];
    for (what, change) in changes {
        let running = Running::new();
        let told = std::fs::read_to_string(&running.map).expect("it is there");
        change(&running.map, &told);
        let (names, _) = running.recorded();
        let _ = std::fs::remove_file(running.map.with_extension("real"));
        assert!(names.len() == 1 && names["[jit]"] > 50, "{what}: {names:?}");
    }
}

#[test]
fn root_of_a_huge_map_the_end_is_read_and_it_is_told() {
    if !has_ebpf() {
        return;
    }
    let running = Running::new();
    let told = std::fs::read_to_string(&running.map).expect("it is there");
    let file = std::fs::OpenOptions::new().append(true).open(&running.map).expect("ours");
    file.set_len(20 << 30).expect("nothing is stored");
    std::io::Write::write_all(&mut &file, format!("\n{told}").as_bytes()).expect("room");
    assert_eq!(file.metadata().expect("ours").permissions().mode() & 0o400, 0o400);
    let (names, said) = running.recorded();
    assert_named(&names, &["alpha"]);
    assert!(said.contains("not read, or not all: 1 file that may name such code"), "{said}");
}

#[test]
fn root_a_jitdump_names_code_that_moves_and_code_that_is_made_where_other_code_was() {
    if !has_ebpf() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script = format!("cd '{}' && exec '{}' dump 1200", folder.path().display(), jit().display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    assert_named(&names(&samples), &["first", "second"]);
    let leaves = leaves(&samples);
    let at = |address: u64| {
        leaves.iter().filter(move |leaf| leaf["address"].as_u64().is_some_and(|a| a & !0xff == address))
    };
    let moved: Vec<&str> = at(SECOND).filter_map(|leaf| leaf["name"].as_str()).collect();
    assert!(moved.len() > 50 && moved.iter().all(|name| *name == "first"), "{moved:?}");
    let reused: Vec<&str> = at(FIRST).filter_map(|leaf| leaf["name"].as_str()).collect();
    let turn = reused.iter().position(|name| *name == "second").expect("it was made");
    assert!(turn > 50 && reused[turn..].iter().all(|name| *name == "second"), "{reused:?}");
}

#[test]
fn root_functions_of_node_are_named() {
    if !has_ebpf() || !has_node() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script = folder.path().join("work.js");
    let source = "function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }\n\
                  while (process.cpuUsage().user < 900000) fibonacci(20);\n";
    std::fs::write(&script, source).expect("room");
    // It leaves a log in the folder at hand, and its map.
    let run = format!(
        "cd '{}'; node --perf-basic-prof '{}' & wait; rm /tmp/perf-$!.map",
        folder.path().display(),
        script.display()
    );
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &run]);
    let samples = recorded.samples(&[]);
    let (function, place) = ("fibonacci ", format!("{}:1:", script.display()));
    let is_it = |name: &&str| name.contains(function) && name.contains(&place);
    let named = samples.iter().filter(|sample| sample.names("user").iter().any(is_it)).count();
    assert!(named * 2 > samples.len() && named > 50, "{named} of {}", samples.len());
}

/// A Python program that makes code and tells its name as Python 3.12 does with `-X perf`.
const PYTHON: &str = r#"
import ctypes, mmap, os, platform, time
code = {
    "x86_64": bytes.fromhex("554889e54889f848ffc875fb5dc3"),
    "aarch64": bytes.fromhex("fd7bbfa9fd030091000400f1e1ffff54fd7bc1a8c0035fd6"),
}[platform.machine()]
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
with open(f"/tmp/perf-{os.getpid()}.map", "w") as map:
    map.write(f"{address:x} {len(code):x} py::hot:/srv/app.py\n")
hot = ctypes.CFUNCTYPE(None, ctypes.c_long)(address)
while time.thread_time() < 0.9:
    hot(1000000)
os.unlink(map.name)
"#;

#[test]
fn root_functions_of_python_are_named() {
    if !has_ebpf() {
        return;
    }
    let recorded = Recorded::new(&OPTIONS, &["python3", "-c", PYTHON]);
    let samples = recorded.samples(&[]);
    let hot =
        samples.iter().filter(|sample| sample.names("user").first() == Some(&"py::hot:/srv/app.py")).count();
    assert!(hot * 2 > samples.len() && hot > 50, "{hot} of {}", samples.len());
}

#[test]
fn root_no_names_of_made_code_are_embedded_if_nothing_is_wanted() {
    if !has_ebpf() {
        return;
    }
    let program = jit();
    let command = [program.as_os_str(), "map".as_ref(), "400".as_ref()];
    let recorded = Recorded::new(&[&OPTIONS[..], &["--embed", "none"]].concat(), &command);
    assert_eq!(recorded.json("info", &[])["jit"], 0);
    let names = names(&recorded.samples(&[]));
    assert!(names.len() == 1 && names["[jit]"] > 50, "{names:?}");
}

/// Two processes that made code at one address, one of them other code there after a while; all of one host.
fn story(prefix: &str) -> Builder {
    let mut b = Builder::default();
    let memory = b.image(ImageKind::ANONYMOUS, "[anon]");
    for (tgid, comm) in [(100, "one"), (200, "two")] {
        b.change(0, Change::FOUND, tgid, 1, comm);
        b.map(1_000, tgid, 0x9_0000, memory, Origin::SCAN);
        let task = b.task(tgid, tgid, comm);
        let stack = b.stack_at(&[Location::Address(0x9_0010), Location::Address(0x9_0100)]);
        for at_ns in [10_000_000, 20_000_000, 30_000_000] {
            b.sample(at_ns, 0, task, &[], &[]).user_stack = stack;
        }
    }
    let row = |tgid, start, since_ns, name: &str| {
        let name = format!("{prefix}{name}").into_bytes();
        JitCode { tgid, start, end: start + 0x100, since_ns, name, ..JitCode::default() }
    };
    b.jit = vec![
        row(100, 0x9_0000, 0, "before"),
        row(100, 0x9_0000, START_NS + 15_000_000, "after"),
        row(200, 0x9_0000, START_NS + 5_000_000, "other"),
        row(200, 0x8_f800, 0, "elsewhere"),
    ];
    b
}

#[test]
fn why_code_has_no_name_is_the_same_in_a_packed_recording_and_in_a_piece_of_it() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let [plain, packed, piece] = ["plain", "packed", "piece"].map(|name| folder.path().join(name));
    let mut b = story("");
    b.jit.clear();
    let images = [(ImageKind::SPECIAL, "/dev/dri/card0"), (ImageKind::FILE, "/gone/lib.so")];
    let stack = images.map(|(kind, path)| Location::Image { image: b.image(kind, path), file_off: 0x1234 });
    let task = b.task(100, 100, "one");
    let stack = b.stack_at(&[&stack[..], &[Location::Address(0x9_0010), Location::Address(0x77)]].concat());
    b.sample(40_000_000, 0, task, &[], &[]).user_stack = stack;
    b.write(&plain, true).expect("room");
    report(&["pack".as_ref(), plain.as_os_str(), "-o".as_ref(), packed.as_os_str()]);
    report(
        &["cut", "--pid", "100", "-o"]
            .map(AsRef::as_ref)
            .into_iter()
            .chain([piece.as_os_str(), packed.as_os_str()])
            .collect::<Vec<&std::ffi::OsStr>>(),
    );
    let reasons = |path: &Path| {
        let out = report(&[
            "samples".as_ref(),
            path.as_os_str(),
            "--pid".as_ref(),
            "100".as_ref(),
            "--json".as_ref(),
        ]);
        let samples = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let frames = samples.flat_map(|sample| sample["frames"].as_array().expect("a list").clone());
        frames.map(|frame| frame["reason"].as_str().unwrap_or("named").to_owned()).collect::<Vec<_>>()
    };
    let told = reasons(&plain);
    let distinct: BTreeSet<&str> = told.iter().map(String::as_str).collect();
    assert_eq!(distinct, BTreeSet::from(["image_missing", "jit", "special", "unmapped"]));
    assert_eq!(reasons(&packed), told);
    assert_eq!(reasons(&piece), told);
}

/// Names of the frames of each sample, as time and process order them.
fn told(path: &Path, options: &[&str]) -> Vec<String> {
    let args = ["samples", &path.display().to_string(), "--json"].map(str::to_owned);
    let options = options.iter().map(|option| (*option).to_owned());
    let out = report(&args.into_iter().chain(options).collect::<Vec<_>>());
    let line = |line: &str| {
        let sample = Sample(serde_json::from_str(line).expect("JSON"));
        format!("{} {}", sample.number("tgid"), sample.names("user").join(";"))
    };
    let mut lines: Vec<String> = out.lines().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn made_code_is_named_by_process_and_moment_in_pieces_and_in_merged_recordings() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let at = |name: &str| folder.path().join(name);
    story("").write(&at("a"), true).expect("room");
    let mut second = story("second-");
    second.uuid = Some([7; 16]);
    second.write(&at("b"), true).expect("room");
    // The return address lies behind the piece that it belongs to, and 0x9_0100 - 1 in it.
    let of = |p: &str| {
        let name = |tgid, name: &str| format!("{tgid} {p}{name};{p}{name}");
        vec![
            name(100, "after"),
            name(100, "after"),
            name(100, "before"),
            name(200, "other"),
            name(200, "other"),
            name(200, "other"),
        ]
    };
    assert_eq!(told(&at("a"), &[]), of(""));
    let run = |args: &[&str]| {
        let path = |word: &&str| {
            if word.len() == 1 || word.contains('.') { at(word).into_os_string() } else { word.into() }
        };
        report(&args.iter().map(path).collect::<Vec<_>>());
    };
    run(&["merge", "a", "b", "-o", "c.both"]);
    run(&["verify", "c.both"]);
    let mut both = [of(""), of("second-")].concat();
    both.sort();
    assert_eq!(told(&at("c.both"), &[]), both);
    run(&["cut", "c.both", "--pid", "100", "-o", "d.piece"]);
    run(&["verify", "d.piece"]);
    assert_eq!(told(&at("d.piece"), &[]), told(&at("c.both"), &["--pid", "100"]));
    let info: Value =
        serde_json::from_str(&report(&["info".as_ref(), at("d.piece").as_os_str(), "--json".as_ref()]))
            .expect("JSON");
    assert_eq!(info["jit"], 4, "only what is needed is kept");
}
