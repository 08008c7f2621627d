//! Tests which files name the code of what `perf record` wrote: those that ran, whatever their file system and whoever made them, those
//! that the user trusts, with a mark, and no others.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{
    Mounted, Sample, copy, jit, needs, needs_perf, report, report_output, stacks_with_frames, target, text,
};
use serde_json::Value;

/// A folder in which perf records.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        needs_perf();
        Self(tempfile::tempdir().expect("a folder for temporary files"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a shell command in the folder, with perf's own cache of files in it.
    fn run(&self, command: &str, arguments: &[&Path]) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-c", command, "sh"]).args(arguments).current_dir(self.0.path());
        let out = shell.output().expect("a shell");
        assert!(out.status.success(), "{command}: {}", text(&out.stderr));
        text(&out.stdout)
    }

    /// Imports a file of the folder.
    fn import(&self, file: &str, options: &[&OsStr]) -> Imported {
        let to = self.path("r.icecore");
        let from = self.path(file);
        let base = ["import".as_ref(), from.as_os_str(), "-o".as_ref(), to.as_os_str(), "--force".as_ref()];
        report(&[&base[..], options].concat());
        assert!(report(&["verify".as_ref(), to.as_os_str()]).contains("all is well"));
        Imported(to)
    }
}

struct Imported(PathBuf);

impl Imported {
    fn samples(&self) -> Vec<Sample> {
        let out = report(&["samples".as_ref(), self.0.as_os_str(), "--json".as_ref()]);
        out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
    }

    fn json(&self, view: &str, options: &[&OsStr]) -> Value {
        let base = [view.as_ref(), self.0.as_os_str(), "--json".as_ref()];
        serde_json::from_str(&report(&[&base[..], options].concat())).expect("JSON")
    }

    /// The names of the hottest functions, with their images.
    fn hottest(&self, options: &[&OsStr]) -> Vec<(String, String)> {
        let top = self.json("top", options);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let rows = top["rows"].as_array().expect("a list").iter();
        rows.map(|row| (text(row, "name"), text(row, "image"))).take(1).collect()
    }

    /// The row of `missing` of an image.
    fn missing(&self, path: &Path) -> Value {
        let missing = self.json("missing", &[]);
        let rows = missing["names"].as_array().expect("a list").clone();
        rows.into_iter().find(|row| row["image"] == path.display().to_string()).unwrap_or_default()
    }
}

/// Copies a program without a build-id.
fn nameless(program: &Path, to: &Path) {
    let mut objcopy = Command::new("objcopy");
    let done = objcopy.args(["--remove-section", ".note.gnu.build-id"]).arg(program).arg(to).status();
    assert!(done.expect("objcopy runs").success());
}

#[test]
fn root_a_file_of_which_nobody_knows_whether_it_ran_is_named_only_if_the_user_trusts_it() {
    let room = Room::new();
    let program = room.path("program");
    nameless(&stacks_with_frames(), &program);
    room.run("sleep 0.1; perf record -B -q -e cpu-clock -F 997 -o perf.data -- ./program chain 400", &[]);
    assert_eq!(
        room.import("perf.data", &[]).hottest(&[])[0],
        ("leaf".into(), program.display().to_string()),
        "it has not changed"
    );
    // Other permissions move the time of the last change, and nothing else.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("ours");
    let imported = room.import("perf.data", &[]);
    assert!(imported.hottest(&[])[0].0.contains("program+0x"));
    let row = imported.missing(&program);
    assert_eq!(row["reason"], "image_unknown", "{row:#}");
    let evidence = &row["tried"][0]["evidence"];
    let size = fs::metadata(&program).expect("there").size();
    assert_eq!((&evidence["same_inode"], &evidence["size_bytes"]), (&true.into(), &size.into()), "{row:#}");
    assert_eq!((&evidence["written_before"], &evidence["changed_before"]), (&true.into(), &false.into()));
    let advice = row["get"][0].as_str().expect("it has some");
    assert!(advice.starts_with(&format!("--trust {}", program.display())), "{advice}");
    let told = report(&["missing".as_ref(), imported.0.as_os_str()]);
    assert!(told.contains("the recorded inode") && told.contains("given other permissions since"), "{told}");

    for trusted in [&*program, room.0.path()] {
        let trust = ["--trust".as_ref(), trusted.as_os_str()];
        assert_eq!(imported.hottest(&trust)[0], ("leaf".into(), format!("{} (trusted)", program.display())));
        for view in ["top", "tree", "flame", "folded", "health", "samples"] {
            let said = report_output(&[&[view.as_ref(), imported.0.as_os_str()][..], &trust].concat());
            let said = text(&said.stderr) + &text(&said.stdout);
            assert!(said.contains("only --trust says"), "{view}: {said}");
        }
        let health = imported.json("health", &trust)["restrictions"].to_string();
        assert!(health.contains("only --trust says"), "{health}");
    }
    // What others read must not hold what only this user trusts.
    let out = room.path("packed.icecore");
    for command in ["pack", "compact"] {
        let line = [command.as_ref(), imported.0.as_os_str(), "-o".as_ref(), out.as_os_str()];
        let refused = report_output(&[&line[..], &["--trust".as_ref(), program.as_os_str()]].concat());
        assert!(!refused.status.success() && text(&refused.stderr).contains("cannot use --trust"));
        assert!(!out.exists());
    }
    // Trust in another path changes nothing, and neither does trust in a file that is known to be another one.
    assert!(imported.hottest(&["--trust".as_ref(), "/usr".as_ref()])[0].0.contains("program+0x"));
}

#[test]
fn root_a_file_with_another_build_id_is_never_trusted() {
    let room = Room::new();
    let program = room.path("program");
    copy(&stacks_with_frames(), &program);
    room.run("perf record --buildid-mmap -q -e cpu-clock -F 997 -o perf.data -- ./program chain 300", &[]);
    fs::remove_file(&program).expect("ours");
    copy(&target(), &program);
    let imported = room.import("perf.data", &[]);
    assert!(imported.hottest(&["--trust".as_ref(), program.as_os_str()])[0].0.contains("program+0x"));
    assert_eq!(imported.missing(&program)["reason"], "build_id_mismatch");
}

#[test]
fn root_files_on_overlayfs_are_known_by_their_inodes() {
    let room = Room::new();
    let upper = Mounted::small(16 << 20);
    for folder in [room.path("lower"), upper.path().join("u"), upper.path().join("w")] {
        fs::create_dir(folder).expect("room");
    }
    nameless(&stacks_with_frames(), &room.path("lower/below"));
    let (lower, upper) = (room.path("lower"), upper.path().display());
    let layers = format!("lowerdir={},upperdir={upper}/u,workdir={upper}/w", lower.display());
    let all = Mounted::new(&["-t", "overlay", "none", "-o", &layers]);
    copy(&all.path().join("below"), &all.path().join("above"));
    for name in ["below", "above"] {
        let record = "sleep 0.1; perf record -B -q -e cpu-clock -F 997 -o perf.data -- \"$1\" chain 300";
        room.run(record, &[&all.path().join(name)]);
        assert_eq!(room.import("perf.data", &[]).hottest(&[])[0].0, "leaf", "{name}");
    }
}

/// Returns the names of the leaves in made code, in the order of time.
fn made(samples: &[Sample]) -> Vec<(u64, String)> {
    let leaf = |sample: &Sample| {
        let mut frames = sample.0["frames"].as_array().expect("a list").iter();
        let leaf = frames.find(|frame| frame["side"] == "user")?;
        let address = leaf["address"].as_u64()? & !0xff;
        let name = leaf["name"].as_str().or_else(|| leaf["reason"].as_str()).unwrap_or_default();
        (address >> 24 == 0x10).then(|| (address, name.to_owned()))
    };
    samples.iter().filter_map(leaf).collect()
}

#[test]
fn root_a_jitdump_that_nobody_injected_names_the_code_of_each_moment() {
    let room = Room::new();
    let record = |options: &str| {
        let keep = "(while ! ln jit-*.dump kept 2>/dev/null; do sleep 0.05; done) & ";
        let run = format!(
            "rm -f kept jit-*.dump; {keep} perf record -q -e cpu-clock -F 997 {options} -o perf.data -- \"$1\" dump 900"
        );
        // The program removes its dump; the same file is at its path again.
        let restore = "ln kept jit-$(perf script --no-itrace -i perf.data -F pid 2>/dev/null | head -1 | tr -d ' ').dump";
        room.run(&format!("{run}; wait; {restore}"), &[&jit()]);
        made(&room.import("perf.data", &[]).samples())
    };
    let by_time = record("-k CLOCK_MONOTONIC");
    let at = |address: u64| by_time.iter().filter(move |(at, _)| *at == address).map(|(_, name)| &**name);
    let moved: Vec<&str> = at(0x1001_0000).collect();
    assert!(moved.len() > 50 && moved.iter().all(|name| *name == "first"), "{moved:?}");
    let reused: Vec<&str> = at(0x1000_0000).collect();
    let turn = reused.iter().position(|name| *name == "second").expect("it was made");
    assert!(turn > 50 && reused[..turn].iter().all(|name| *name == "first"), "{reused:?}");
    assert!(reused[turn..].iter().all(|name| *name == "second"), "{reused:?}");
    // With another clock nobody knows which of the two it was.
    let without = record("");
    let reused = || without.iter().filter(|(at, _)| *at == 0x1000_0000);
    assert!(reused().count() > 100 && reused().all(|(_, name)| name == "first or second"), "{without:?}");
    // Another file at the path of the dump is none.
    room.run("for f in jit-*.dump; do cp $f other; rm $f; mv other $f; done", &[]);
    let other = made(&room.import("perf.data", &[]).samples());
    assert!(other.len() > 100 && other.iter().all(|(_, name)| name == "jit"), "{other:?}");
}

#[test]
fn root_code_that_perf_injected_has_its_names() {
    let room = Room::new();
    let keep = "(while ! ln jit-*.dump kept 2>/dev/null; do sleep 0.05; done) & ";
    let run = format!(
        "{keep} perf record -q -k CLOCK_MONOTONIC -e cpu-clock -F 997 -o perf.data -- \"$1\" dump 900"
    );
    let inject = "ln kept jit-$(perf script --no-itrace -i perf.data -F pid 2>/dev/null | head -1 | tr -d ' ').dump; \
                  perf inject --jit -i perf.data -o injected.data; ls jitted-*.so >&2";
    room.run(&format!("{run}; wait; {inject}"), &[&jit()]);
    let names: Vec<String> =
        made(&room.import("injected.data", &[]).samples()).into_iter().map(|(_, name)| name).collect();
    let of = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert!(of("first") > 200 && of("second") > 100, "{names:?}");
    assert_eq!(of("first") + of("second"), names.len(), "{names:?}");
}

#[test]
fn root_files_of_threads_of_perf_are_read_together() {
    let room = Room::new();
    let record = "perf record --threads=cpu -q -e cpu-clock -F 997 -a -o perf.data -- sh -c '\"$0\" chain 300 & \"$0\" chain 300; wait' \"$1\"";
    room.run(record, &[&stacks_with_frames()]);
    assert!(room.path("perf.data/data.0").is_file(), "perf has made a folder");
    let wanted = room.run("perf script -i perf.data -F time | wc -l", &[]);
    let imported = room.import("perf.data", &[]);
    let samples = imported.json("info", &[])["receipt"]["samples"].clone();
    assert_eq!(samples.to_string(), wanted.trim());
    assert_eq!(imported.hottest(&[])[0].0, "leaf");
}

#[test]
fn root_files_that_perf_archived_name_everything_on_another_machine() {
    let room = Room::new();
    needs("readelf", &["--version"]);
    let program = room.path("program");
    copy(&target(), &program);
    let archive = room.path("archive");
    let record = "perf --buildid-dir \"$1\" record --buildid-all -q -g -e cpu-clock -F 997 -o perf.data -- ./program syscalls 300";
    room.run(record, &[&archive]);
    let kept = room.run("find archive -name kallsyms; find archive -path '*program*' -name elf", &[]);
    assert_eq!(kept.lines().count(), 2, "perf has archived both: {kept}");
    fs::remove_file(&program).expect("ours");
    let named = |imported: &Imported, options: &[&OsStr]| {
        let rows = imported.json("top", &[options, &["-n".as_ref(), "0".as_ref()]].concat());
        let rows = rows["rows"].as_array().expect("a list").clone();
        let is_named = |row: &&Value| row["reason"].is_null();
        let of = |side: &str| rows.iter().filter(|row| row["side"] == side).filter(is_named).count();
        (of("user"), of("kernel"))
    };
    // The list of symbols of this machine does not count for another release.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it runs");
    let release = release.trim_end().as_bytes();
    let mut bytes = fs::read(room.path("perf.data")).expect("there");
    while let Some(at) = bytes.windows(release.len()).position(|window| window == release) {
        bytes[at + release.len() - 1] ^= 1;
    }
    fs::write(room.path("elsewhere.data"), bytes).expect("room");
    let imported = room.import("elsewhere.data", &[]);
    let (user, kernel) = named(&imported, &[]);
    assert_eq!(kernel, 0);
    let (with, _) = named(&imported, &["--debug-dir".as_ref(), archive.as_os_str()]);
    assert!(with > user, "{with} of {user}");
    let kallsyms = room.path(kept.lines().next().expect("two"));
    for given in [&archive, &kallsyms] {
        let imported = room.import("elsewhere.data", &["--kallsyms".as_ref(), given.as_os_str()]);
        assert!(named(&imported, &[]).1 > 5);
        let notes = imported.json("info", &[])["session"]["notes"].to_string();
        assert!(notes.contains("(--kallsyms)"), "{notes}");
    }
    let (from, to) = (room.path("elsewhere.data"), room.path("x.icecore"));
    let wrong = room.path("wrong");
    fs::write(&wrong, "ffffffff00000000 T _text\nffffffff00001000 T f\n").expect("room");
    let line = ["import".as_ref(), from.as_os_str(), "-o".as_ref(), to.as_os_str()];
    let refused = report_output(&[&line[..], &["--kallsyms".as_ref(), wrong.as_os_str()]].concat());
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("of another kernel or of another boot")
    );
}

#[test]
fn root_switches_of_the_whole_machine_are_the_waits_of_its_threads() {
    let room = Room::new();
    room.run("perf record -a -q -m 8M -e sched:sched_switch -g -o perf.data -- python3 -c 'import time; time.sleep(0.7)'", &[]);
    let imported = room.import("perf.data", &[]);
    let out = report(&[
        "samples".as_ref(),
        imported.0.as_os_str(),
        "--event".as_ref(),
        "off-cpu".as_ref(),
        "--json".as_ref(),
    ]);
    let samples: Vec<Sample> =
        out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect();
    let slept = |sample: &&Sample| {
        sample.text("comm").starts_with("python3") && sample.number("weight") > 650_000_000
    };
    let slept: Vec<&Sample> = samples.iter().filter(slept).collect();
    let [slept] = slept[..] else { panic!("it has slept once: {}", slept.len()) };
    assert!((700_000_000..900_000_000).contains(&slept.number("weight")), "{}", slept.0);
    assert!(slept.names("kernel").contains(&"do_nanosleep"), "{}", slept.0);
    assert_eq!(slept.0["wait"]["state"], "sleeping", "{}", slept.0);
    // No thread waits for longer than all the time.
    let summary = imported.json("summary", &[]);
    let whole = summary["duration_s"].as_f64().expect("a number");
    assert!(samples.iter().all(|sample| sample.number("weight") as f64 / 1e9 <= whole + 0.01), "{whole}");

    // Without all threads or each switch nobody knows how long they waited.
    for options in ["-e sched:sched_switch -g", "-a -e sched:sched_switch -c 3 -g"] {
        room.run(&format!("perf record -q -m 8M {options} -o perf.data -- sleep 0.2"), &[]);
        let imported = room.import("perf.data", &[]);
        let info = imported.json("info", &[]);
        assert!(info["session"]["notes"].to_string().contains("no waits here"), "{info:#}");
        assert!(!info["session"]["events"].to_string().contains("off-cpu"), "{info:#}");
    }
}
