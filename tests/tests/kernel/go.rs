//! Programs of Go, stripped, through real eBPF: their stacks are known, or each call of them is looked up in the machine code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::SnapshotsV1;
use icecore_tests::machine::{Recorded, Sample, text};

const OPTIONS: [&str; 5] = ["-F", "997", "-q", "--audit", "16"];
/// Functions that begin stacks of Go: goroutines, threads, the first thread, the scheduler after a goroutine gave up its thread.
const STARTS: [&str; 6] = [
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go",
    "runtime.mcall",
    "runtime.gopreempt_m",
    "runtime.preemptPark",
];

/// Builds the programs in `tests/programs/go`, with symbols and without; returns the folder.
fn built() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let build = |name: &str, source: &str, options: &[&str]| {
            let mut go = Command::new("go");
            go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/go"));
            go.env("GO111MODULE", "off").env("GOCACHE", dir.path().join("cache"));
            go.arg("build").args(options).arg("-o").arg(dir.path().join(name)).arg(source);
            let output = go.output().expect("go is installed by tests/setup.sh");
            assert!(output.status.success(), "{source}: {}", text(&output.stderr));
        };
        build("stacks", "stacks.go", &[]);
        build("stacks-stripped", "stacks.go", &["-ldflags=-s -w"]);
        build("stacks-anywhere", "stacks.go", &["-ldflags=-s -w", "-buildmode=pie"]);
        build("callbacks", "./callbacks", &[]);
        // If a program contains C, the linker of C puts Go's table among other data.
        build("callbacks-anywhere", "./callbacks", &["-ldflags=-s -w", "-buildmode=pie"]);
        dir
    });
    dir.path()
}

/// Records a part of a program; once more, if the machine was too busy to keep up. Asserts that no walk by unwind tables differs from
/// its copy, and prints how many there are.
fn recorded(program: &str, part: &str, options: &[&str]) -> Recorded {
    let program = built().join(program);
    let command = [program.as_os_str(), part.as_ref(), "1500".as_ref()];
    let options = [&OPTIONS[..], options].concat();
    let recorded = Recorded::without_loss(&options, &command);
    let audit = &recorded.json("health", &[])["audit"];
    let number = |key: &str| audit[key].as_u64().unwrap_or(0);
    let [walked, checked, differ] = ["walked", "checked", "differ"].map(number);
    println!("{part}: {walked} stacks are walked by unwind tables, {checked} are checked, {differ} differ");
    assert_eq!(differ, 0, "{part}: {audit:#}");
    recorded
}

/// Asserts that at least this share of samples was walked by unwind tables.
fn assert_walked(samples: &[Sample], least: f64) {
    let walked = samples.iter().filter(|sample| sample.text("ended") == "by_tables").count();
    let share = walked as f64 / samples.len() as f64;
    assert!(share > least, "{share} of {}", samples.len());
}

/// Returns the samples of the program itself without its first half second: until the recorder has examined a program, it copies
/// whole stacks of Go, too.
fn samples(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| !sample.names("user").is_empty() && sample.text("comm") != "icecore-record");
    let begin = samples.first().map_or(0, |sample| sample.number("time_ns"));
    samples.retain(|sample| sample.number("time_ns") - begin > 500_000_000);
    assert!(samples.len() > 100, "{}", samples.len());
    samples
}

/// The call before each return address: the called function, or `None` for a call through a register or memory.
type Calls = BTreeMap<u64, Option<String>>;

/// Reads all calls of a program, and the functions that each function jumps on to.
fn calls(program: &Path) -> (Calls, BTreeMap<String, BTreeSet<String>>) {
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output();
    let listing = text(&output.expect("binutils").stdout);
    let plain = |name: &str| name.trim_end_matches(".abi0").to_owned();
    let target = |operands: &str| {
        let name = operands.split_once('<')?.1.split(['+', '>']).next()?;
        (!operands.contains('*')).then(|| plain(name))
    };
    let (mut calls, mut jumps) = (Calls::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let (mut function, mut called) = (String::new(), None);
    for line in listing.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            function = plain(name);
            continue;
        }
        let Some((address, rest)) = line.trim_start().split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        if let Some(called) = called.take() {
            calls.insert(address, called);
        }
        let (operation, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        match operation {
            "call" => called = Some(target(operands)),
            "jmp" => {
                let to = target(operands).unwrap_or_default();
                jumps.entry(function.clone()).or_default().insert(to);
            }
            _ => {}
        }
    }
    (calls, jumps)
}

/// Lists calls that the code does not make: callee, caller, and the function that the caller calls there. It works for programs
/// that run at their linked addresses and have no inlined frames because they are stripped.
fn impossible(samples: &[Sample], image: &str, program: &Path) -> Vec<String> {
    let (calls, jumps) = calls(program);
    let reaches = |from: &str, to: &str| {
        let next = |name: &str| jumps.get(name).into_iter().flatten().cloned().collect::<Vec<_>>();
        let (first, second) = (next(from), next(from).iter().flat_map(|name| next(name)).collect::<Vec<_>>());
        // An empty name is a jump through a register or memory.
        from == to || first.iter().chain(&second).any(|name| name == to || name.is_empty())
    };
    let mut found = Vec::new();
    for sample in samples {
        let frames: Vec<_> =
            sample.0["frames"].as_array().expect("a list").iter().filter(|it| it["side"] == "user").collect();
        for pair in frames.windows(2) {
            let (callee, caller) = (pair[0]["name"].as_str().map(own), pair[1]["name"].as_str().map(own));
            let is_own = pair[1]["image"].as_str().is_some_and(|path| path.ends_with(image));
            // Nobody calls these functions: their addresses are put on the stack.
            if !is_own || caller == Some("runtime.goexit") || callee == Some("runtime.asyncPreempt") {
                continue;
            }
            let address = pair[1]["address"].as_u64().expect("an address");
            match calls.get(&address) {
                None => found.push(format!("{callee:?} by {caller:?}: no call there")),
                Some(Some(called)) if callee.is_some_and(|callee| !reaches(called, callee)) => {
                    found.push(format!("{callee:?} by {caller:?}, which calls {called}"));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Removes what tells a function apart from another one of its name: that for the other calling convention.
fn own(name: &str) -> &str {
    name.split(" (+").next().unwrap_or(name)
}

/// Returns the names of user frames as Go writes them.
fn plain(sample: &Sample) -> Vec<&str> {
    sample.names("user").into_iter().map(|name| own(name).trim_end_matches(".abi0")).collect()
}

fn begins_with_a_start(sample: &Sample) -> bool {
    sample.names("user").last().is_some_and(|last| STARTS.contains(last))
}

#[test]
fn root_stripped_go_has_whole_stacks_and_is_hardly_copied() {
    let outer = ["main.three", "main.one.func1", "main.two", "main.one", "main.chain", "main.main"];
    let outer = [&outer[..], &["runtime.main", "runtime.goexit"]].concat();
    for program in ["stacks-stripped", "stacks-anywhere"] {
        let recorded = recorded(program, "chain", &[]);
        let mut in_leaf = samples(&recorded);
        in_leaf.retain(|sample| sample.names("user")[0] == "main.leaf");
        assert!(in_leaf.len() > 100, "{}", in_leaf.len());
        assert_walked(&in_leaf, 0.9);
        for sample in &in_leaf {
            let names = sample.names("user");
            let inner = names.len().checked_sub(outer.len()).expect("it is deep enough");
            assert!(names[1..inner].iter().all(|name| *name == "main.deep"), "{names:?}");
            assert_eq!(names[inner..], outer, "{program}: {}", sample.text("ended"));
        }
        assert!(copied_share(&recorded) < 0.2, "{program}: {}", copied_share(&recorded));
    }
}

/// Returns the share of samples whose whole stack was copied.
fn copied_share(recorded: &Recorded) -> f64 {
    let recording = Recording::open(&recorded.path()).expect("it was just written");
    let blocks = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SNAPSHOTS);
    let rows = blocks.flat_map(|entry| {
        let payload = recording.payload(entry).expect("it is whole");
        payload.view::<SnapshotsV1>().expect("it is valid").rows().expect("it is valid")
    });
    let copied = rows.filter(|row| row.copied >= row.depth).count();
    copied as f64 / recorded.samples(&[]).len() as f64
}

#[test]
fn root_the_runtime_of_go_makes_no_impossible_calls() {
    for part in ["spawns", "garbage", "clocks"] {
        let recorded = recorded("stacks-stripped", part, &[]);
        let samples = samples(&recorded);
        let found = impossible(&samples, "stacks-stripped", &built().join("stacks"));
        assert!(found.is_empty(), "{part}: {} of {}: {:?}", found.len(), samples.len(), &found[..1]);
        // Stacks end early until the recorder has examined the program, which takes long on a busy machine.
        let known = &samples[samples.len() / 3..];
        let whole = known.iter().filter(|sample| begins_with_a_start(sample)).count();
        println!("{part}: {whole} of {} stacks begin with a start", known.len());
        assert!(whole * 100 > known.len() * 97, "{part}: {whole} of {}", known.len());
        // A stack that is not whole is marked.
        for sample in samples.iter().filter(|sample| !begins_with_a_start(sample)) {
            let ended = sample.text("ended");
            assert!(ended != "root" && !sample.is_unwound(), "{part}: {ended} {:?}", sample.names("user"));
        }
        // If a goroutine's stack was left, the stack shows the function that left it.
        let switches = known.iter().filter(|sample| sample.has("runtime.systemstack"));
        let (mut all, mut gone_on) = (0, 0);
        for sample in switches {
            let names = sample.names("user");
            let at = names.iter().position(|name| *name == "runtime.systemstack").expect("it has it");
            all += 1;
            gone_on += usize::from(at + 1 < names.len());
        }
        println!("{part}: {gone_on} of {all} stacks go on behind systemstack");
        assert!(gone_on * 100 >= all * 97, "{part}: {gone_on} of {all}");
    }
}

#[test]
fn root_go_that_calls_c_without_frame_pointers_goes_on_behind_it() {
    let recorded = recorded("callbacks", "calls", &[]);
    let mut in_c = samples(&recorded);
    in_c.retain(|sample| sample.names("user")[0] == "c_leaf");
    assert!(in_c.len() > 100, "{}", in_c.len());
    let inner = ["c_leaf", "c_two", "c_one"];
    let mut whole = 0;
    for sample in &in_c {
        let names = plain(sample);
        assert!(names.starts_with(&inner), "{names:?}");
        let Some(at) = names.iter().position(|name| *name == "runtime.asmcgocall") else { continue };
        let outer = &names[at + 1..];
        if !outer.is_empty() {
            assert_eq!(outer[0], "runtime.cgocall", "{names:?}");
            assert_eq!(*outer.last().expect("not empty"), "runtime.goexit", "{names:?}");
            assert!(outer.contains(&"main.calls"), "{names:?}");
            whole += 1;
        }
    }
    println!("{whole} of {} stacks go on behind C", in_c.len());
    assert!(whole * 100 > in_c.len() * 97, "{whole} of {}", in_c.len());
}

/// Returns the frames from a C function that Go calls up to the call in Go.
fn called(c: &[&'static str], by: &'static str) -> Vec<&'static str> {
    let go = ["runtime.asmcgocall", "runtime.cgocall", by, "main.main", "runtime.main", "runtime.goexit"];
    [c, &go].concat()
}

#[test]
fn root_what_c_calls_back_has_the_stacks_of_both() {
    let back = called(&["goBack", "c_back"], "main.back");
    for (part, leaf, outer) in [
        ("back", "main.leaf", back.clone()),
        ("nested", "c_leaf", back),
        ("threads", "main.leaf", vec!["goBack", "c_thread", "start_thread"]),
    ] {
        let recorded = recorded("callbacks", part, &[]);
        let mut in_leaf = samples(&recorded);
        in_leaf.retain(|sample| plain(sample)[0] == leaf);
        assert!(in_leaf.len() > 100, "{}", in_leaf.len());
        let mut whole = 0;
        for sample in &in_leaf {
            // The functions that the tools generate between C and Go have different names in different versions.
            let is_own = |name: &&str| {
                !name.contains("_cgo") && !name.contains("_Cfunc") && !name.starts_with("clone")
            };
            let names: Vec<&str> = plain(sample).into_iter().filter(is_own).collect();
            let at = names.iter().position(|name| *name == "crosscall2");
            let is_whole =
                at.is_some_and(|at| names[at + 1..] == outer && names[at - 1] == "runtime.cgocallback");
            whole += usize::from(is_whole);
            // A stack that is not whole is marked.
            assert!(
                is_whole || sample.0["incomplete"] == true,
                "{part}: {}: {names:?}",
                sample.text("ended")
            );
            let inner = [
                "c_leaf",
                "c_two",
                "c_one",
                "runtime.asmcgocall",
                "runtime.cgocall",
                "main.calls",
                "main.goBack",
            ];
            assert!(part != "nested" || !is_whole || names.starts_with(&inner), "{names:?}");
        }
        println!("{part}: {whole} of {} stacks are whole", in_leaf.len());
        assert!(whole * 100 > in_leaf.len() * 97, "{part}: {whole} of {}", in_leaf.len());
    }
}

#[test]
fn root_code_of_go_needs_no_copies_in_a_program_with_c() {
    for program in ["callbacks", "callbacks-anywhere"] {
        let recorded = recorded(program, "alone", &[]);
        let samples = samples(&recorded);
        let expected = ["main.leaf", "main.main", "runtime.main", "runtime.goexit"];
        let in_leaf: Vec<_> = samples.iter().filter(|sample| plain(sample)[0] == "main.leaf").collect();
        assert!(in_leaf.len() > 100 && in_leaf.iter().all(|sample| plain(sample) == expected), "{program}");
        assert!(copied_share(&recorded) < 0.2, "{program}: {}", copied_share(&recorded));
    }
}
