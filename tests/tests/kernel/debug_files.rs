//! Tests names, lines and inlined functions of a stripped program whose debug file lies elsewhere, and names of PLT stubs.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::elsewhere::samples_elsewhere;
use icecore_tests::machine::{Recorded, Sample, needs, report_output, text};
use serde_json::Value;

/// An inlined function in a function that takes nearly all of the time. Tests assert the lines.
const SOURCE: &str = r#"#include <ctime>
#include <vector>
volatile unsigned sink;
template <typename T> static inline __attribute__((always_inline)) void mix(T x) {
  sink = sink * 31 + x;
}
namespace work {
struct Busy {
  __attribute__((noinline)) void spin(const std::vector<unsigned> &all) {
    for (unsigned x : all) mix(x);
  }
};
}
int main() {
  std::vector<unsigned> all(100000, 3);
  work::Busy busy;
  while (std::clock() < CLOCKS_PER_SEC * 7 / 10) busy.spin(all);
}
"#;

/// A stripped program, its debug file, and a recording of it.
struct Story {
    dir: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
    build_id: String,
    recorded: Recorded,
}

impl Story {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let folder = dir.path().canonicalize().expect("a real path");
        let [source, program, debug] = ["busy.cc", "bin/busy", "busy.debug"].map(|name| folder.join(name));
        std::fs::create_dir(folder.join("bin")).expect("room");
        std::fs::write(&source, SOURCE).expect("room");
        let flags = ["-O2", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id=sha1", "-o"];
        run(Command::new("c++").args(flags).arg(&program).arg(&source));
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug));
        run(Command::new("strip").arg(&program));
        let notes = run(Command::new("readelf").arg("-n").arg(&program));
        let build_id = notes.split("Build ID: ").nth(1).expect("the linker wrote one");
        let build_id = build_id.split_whitespace().next().expect("hexadecimal").to_owned();
        let recorded = Recorded::new(&["-F", "997", "-q"], &[&program]);
        Self { dir, program, debug, build_id, recorded }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("a real path").join(name)
    }

    /// Moves the debug file into a `.build-id` folder below a new folder.
    fn put_by_build_id(&self, folder: &str) -> PathBuf {
        let (first, rest) = self.build_id.split_at(2);
        let place = self.path(folder).join(".build-id").join(first);
        std::fs::create_dir_all(&place).expect("room");
        std::fs::rename(&self.debug, place.join(format!("{rest}.debug"))).expect("one file system");
        self.path(folder)
    }

    /// Runs a view with an environment that asks no server.
    fn view(&self, view: &str, options: &[&str]) -> Value {
        let out = self.output(view, options, &[]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).expect("JSON")
    }

    fn output(&self, view: &str, options: &[&str], env: &[(&str, &str)]) -> Output {
        let program = icecore_tests::machine::program("icecore-report");
        let mut report = Command::new(program);
        report.arg(view).arg(self.recorded.path()).arg("--json").args(options);
        report.env_remove("DEBUGINFOD_URLS").env_remove("XDG_CACHE_HOME").env_remove("HOME");
        report.env("DEBUGINFOD_CACHE_PATH", self.path("cache"));
        report.envs(env.iter().copied()).output().expect("the report runs")
    }

    /// Returns the frames of the hot function: name, last part of the file, line, whether inlined.
    fn hot(&self, options: &[&str], env: &[(&str, &str)]) -> BTreeSet<(String, String, u64, bool)> {
        let out = self.output("samples", options, env);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let samples = text(&out.stdout);
        let samples = samples.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let frames: Vec<Value> =
            samples.flat_map(|sample| sample["frames"].as_array().expect("a list").clone()).collect();
        let hot = frames.iter().filter(|frame| {
            let name = frame["name"].as_str().unwrap_or_default();
            name.starts_with("mix") || name.contains("mix<") || name.contains("Busy::spin")
        });
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let file = |value: &Value| word(value).rsplit('/').next().unwrap_or_default().to_owned();
        let row = |frame: &Value| {
            let line = frame["line"].as_u64().unwrap_or_default();
            (word(&frame["name"]), file(&frame["file"]), line, frame["inlined"] == true)
        };
        hot.map(row).collect()
    }

    /// Returns the row of the program in one of the lists of `missing`.
    fn missing(&self, list: &str, options: &[&str]) -> Option<Value> {
        let missing = self.view("missing", options);
        let rows = missing[list].as_array().expect("a list");
        rows.iter().find(|row| row["build_id"] == self.build_id.as_str()).cloned()
    }
}

fn run(command: &mut Command) -> String {
    let out = command.output().expect("tests/setup.sh has installed it");
    assert!(out.status.success(), "{command:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn shows_lines_and_inlined_functions(hot: &BTreeSet<(String, String, u64, bool)>) -> bool {
    let has = |part: &str, lines: std::ops::RangeInclusive<u64>, is_inlined| {
        hot.iter().any(|(name, file, line, inlined)| {
            name.contains(part) && file == "busy.cc" && lines.contains(line) && *inlined == is_inlined
        })
    };
    has("mix", 5..=5, true) && has("work::Busy::spin", 9..=10, false)
}

/// A debuginfod server of Debian's on loopback; it ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts the server, and waits until it serves these of a build-id.
    fn start(folder: &Path, build_id: &str, artifacts: &[&str]) -> Self {
        needs("debuginfod", &["--version"]);
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.expect("a port");
        let mut command = Command::new("debuginfod");
        command.args(["-d", ":memory:", "-p"]).arg(address.port().to_string()).arg("-F").arg(folder);
        command.env_remove("DEBUGINFOD_URLS").stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it just ran");
        let server = Self { child, url: format!("http://{address}") };
        let deadline = Instant::now() + Duration::from_secs(60);
        let serves = |artifact: &str| -> std::io::Result<bool> {
            let request = format!("GET /buildid/{build_id}/{artifact} HTTP/1.0\r\n\r\n");
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(request.as_bytes())?;
            // The reply begins with HTTP/1.x 200.
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            Ok(head.ends_with(b"200"))
        };
        while !artifacts.iter().all(|artifact| serves(artifact).is_ok_and(|serves| serves)) {
            assert!(Instant::now() < deadline, "debuginfod does not serve {build_id}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn root_a_debug_file_in_a_build_id_folder_gives_lines_and_inlined_functions() {
    let story = Story::new();
    assert!(story.hot(&[], &[]).is_empty(), "a stripped program has no names");
    let row = story.missing("names", &[]).expect("it is missing");
    assert!(row["samples_share"].as_f64().expect("a number") > 0.5, "{row}");
    assert_eq!(row["reason"], "no_symbol");
    assert_eq!(row["get"][0], format!("debuginfod-find debuginfo {}", story.build_id));

    let folder = story.put_by_build_id("debug");
    let folder = folder.to_str().expect("UTF-8");
    for option in ["--debug-dir", "--symbols"] {
        let hot = story.hot(&[option, folder], &[]);
        assert!(shows_lines_and_inlined_functions(&hot), "{option}: {hot:?}");
        assert_eq!(story.missing("names", &[option, folder]), None);
        assert_eq!(story.missing("lines", &[option, folder]), None);
    }
    // This copies the recorded machine: the program and its debug file lie below a root.
    let root = story.path("root");
    for from in [story.program.clone(), story.path("debug")] {
        let to = if from.ends_with("debug") {
            root.join("usr/lib/debug")
        } else {
            root.join(from.strip_prefix("/").expect("absolute"))
        };
        std::fs::create_dir_all(to.parent().expect("a parent")).expect("room");
        run(Command::new("cp").arg("-r").arg(from).arg(to));
    }
    std::fs::remove_file(&story.program).expect("it was there");
    assert!(story.hot(&["--symbols", folder], &[]).is_empty(), "objcopy's file has no offsets");
    let hot = story.hot(&["--sysroot", root.to_str().expect("UTF-8")], &[]);
    assert!(shows_lines_and_inlined_functions(&hot), "{hot:?}");
}

#[test]
fn root_a_debug_file_that_only_a_server_has_gives_lines_and_inlined_functions() {
    let story = Story::new();
    let served = story.path("served");
    std::fs::create_dir(&served).expect("room");
    std::fs::rename(&story.debug, served.join("anything")).expect("one file system");
    let server = Server::start(&served, &story.build_id, &["debuginfo"]);
    assert!(story.hot(&[], &[]).is_empty() && !story.path("cache").exists(), "nobody asked for it");
    let hot = story.hot(&[], &[("DEBUGINFOD_URLS", &server.url)]);
    assert!(shows_lines_and_inlined_functions(&hot), "{hot:?}");
    assert!(story.path("cache").join(&story.build_id).join("debuginfo").exists());
    assert!(story.hot(&["--no-debuginfod"], &[("DEBUGINFOD_URLS", &server.url)]).is_empty());
    drop(server);
    let url = "http://127.0.0.1:9";
    assert_eq!(story.hot(&["--debuginfod", url], &[]), hot, "the cache has it");
    assert_eq!(story.missing("names", &["--debuginfod", url]), None);
}

#[test]
fn root_a_program_that_is_gone_is_fetched_with_its_debug_file() {
    let story = Story::new();
    let here = story.hot(&["--symbols", story.path("").to_str().expect("UTF-8")], &[]);
    assert!(shows_lines_and_inlined_functions(&here), "{here:?}");
    let served = story.path("served");
    std::fs::create_dir(&served).expect("room");
    for file in [&story.debug, &story.program] {
        let name = file.file_name().expect("it has a name");
        std::fs::rename(file, served.join(name)).expect("one file system");
    }
    let row = story.missing("names", &[]).expect("it is missing");
    assert_eq!(row["reason"], "image_missing");
    let get: Vec<&str> = row["get"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let host = text(&Command::new("hostname").output().expect("everywhere").stdout);
    let copy = format!("scp {}:{} symbols/", host.trim(), story.program.display());
    assert!(get.contains(&copy.as_str()), "{get:?} {copy}");
    let server = Server::start(&served, &story.build_id, &["executable", "debuginfo"]);
    assert_eq!(story.hot(&["--debuginfod", &server.url], &[]), here);
    let budget = ["--debuginfod", &server.url, "--debuginfod-budget", "1k,60s"];
    std::fs::remove_dir_all(story.path("cache")).expect("it was there");
    let out = story.output("samples", &budget, &[]);
    assert!(out.status.success(), "the report is complete with what is there");
    let said = text(&out.stderr);
    assert!(said.contains("were not fetched: the budget was 1K,60s"), "{said}");
}

#[test]
fn an_address_that_is_none_of_http_is_refused() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("r.icecore");
    icecore_tests::synthetic::story().write(&file, true).expect("room");
    let out = report_output(&["top".as_ref(), file.as_os_str(), "--debuginfod".as_ref(), "ftp://x".as_ref()]);
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    assert!(said.contains("cannot ask debuginfod server `ftp://x`: it must begin with http"), "{said}");
}

/// Calls functions of another file that do nothing, one after the other. There are more PLT stubs and slots than the processor
/// caches, so it waits in stubs, and samples hit them.
const CALLS: &str = r#"#include <time.h>
void calls_all(void);
int main(void) {
  for (clock_t end = clock() + CLOCKS_PER_SEC * 7 / 10; clock() < end;) calls_all();
}
"#;
const CALLED: usize = 20_000;

/// Compiles that program with its library, which is assembly.
fn calls(dir: &Path) -> PathBuf {
    let [main, calls, functions, library, program] =
        ["main.c", "calls.s", "functions.s", "libfunctions.so", "calls"].map(|name| dir.join(name));
    let note = ".section .note.GNU-stack,\"\",%progbits\n";
    let (enter, call, leave) = if cfg!(target_arch = "x86_64") {
        ("push %rbp\nmov %rsp, %rbp\n", "call", "pop %rbp\nret\n")
    } else {
        ("stp x29, x30, [sp, -16]!\nmov x29, sp\n", "bl", "ldp x29, x30, [sp], 16\nret\n")
    };
    let each = |line: &dyn Fn(usize) -> String| (0..CALLED).map(line).collect::<String>();
    let all = each(&|n| format!("{call} f{n}\n"));
    let begin = ".text\n.globl calls_all\n.type calls_all, %function\ncalls_all:\n";
    std::fs::write(&calls, format!("{begin}{enter}{all}{leave}.size calls_all, . - calls_all\n{note}"))
        .expect("room");
    let all = each(&|n| format!(".globl f{n}\n.type f{n}, %function\nf{n}: ret\n.size f{n}, 1\n"));
    std::fs::write(&functions, format!(".text\n{all}{note}")).expect("room");
    std::fs::write(&main, CALLS).expect("room");
    run(Command::new("cc").args(["-shared", "-o"]).args([&library, &functions]));
    let flags = ["-O1", "-fno-omit-frame-pointer", "-Wl,-z,lazy", "-Wl,--build-id=sha1"];
    let rpath = format!("-Wl,-rpath,{}", dir.display());
    run(Command::new("cc").args(flags).arg(rpath).arg("-o").args([&program, &main, &calls, &library]));
    program
}

#[test]
fn root_a_stub_has_one_name_here_and_elsewhere_and_in_a_packed_recording() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (program, packed) = (calls(dir.path()), dir.path().join("packed.icecore"));
    run(Command::new("strip").arg(&program));
    let recorded = Recorded::new(&["-F", "997", "-q"], &[&program]);
    let is_stub = |name: &&str| name.starts_with('f') && name.ends_with("@plt");
    let stubs =
        |samples: &[Sample]| samples.iter().filter(|sample| sample.names("user").iter().any(is_stub)).count();
    let here = stubs(&recorded.samples(&[]));
    assert!(here > 0, "no sample of {} is in a stub", recorded.samples(&[]).len());
    let out =
        report_output(&["pack".as_ref(), recorded.path().as_os_str(), "-o".as_ref(), packed.as_os_str()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    std::fs::remove_file(&program).expect("it was there");
    assert_eq!(stubs(&samples_elsewhere(&packed)), here);
    assert_eq!(stubs(&samples_elsewhere(&recorded.path())), here);
}
