//! Who has the sampler's memory for unwind tables and the time of the thread that compiles them, and which bytes kept tables are of.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use icecore_tests::machine::{Mounted, Recorded, record, swapped, text};
use serde_json::Value;

/// Who is not root.
const NOBODY: u32 = 65534;
/// How long a file seems to be that has nothing between its begin and its end.
const LONG_BYTES: u64 = 1 << 30;

fn programs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs"))
}

/// Makes a program whose tables have so many descriptions of code near the end of a long file, each of which costs time.
fn sparse(path: &Path, many: u32, costs: u32) {
    let mut compiler = Command::new("cc");
    compiler.args(["-nostdlib", "-static", "-Wl,--eh-frame-hdr", "-Wl,--build-id=none", "-o"]).arg(path);
    compiler.arg(format!("-Wl,-T,{}", programs().join("sparse.ld").display()));
    compiler.arg(format!("-Wa,--defsym,REACH=0x3f000000,--defsym,MANY={many},--defsym,COSTS={costs}"));
    let compiled = compiler.arg(programs().join("sparse.s")).output().expect("a compiler is installed");
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    let file = File::options().write(true).open(path).expect("it was made");
    // The length of the only segment, in the file and in memory.
    for at in [64 + 32, 64 + 40] {
        file.write_all_at(&LONG_BYTES.to_le_bytes(), at).expect("own");
    }
    file.set_len(LONG_BYTES).expect("room for nothing");
}

/// Programs of another user that run until the test ends.
struct Strangers(Vec<Child>);

impl Strangers {
    fn run(programs: impl Iterator<Item = PathBuf>) -> Self {
        let run = |program| Command::new(program).uid(NOBODY).stdout(Stdio::null()).spawn().expect("it runs");
        Self(programs.map(run).collect())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        for stranger in &mut self.0 {
            let _ = stranger.kill();
            let _ = stranger.wait();
        }
    }
}

/// A folder that other users can see.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own");
    dir
}

/// Records the machine while python3 computes; returns the recording, and which share of python3's stacks was walked by tables.
fn beside_python(seconds: u32) -> (Recorded, f64) {
    let compute =
        format!("import time\nend = time.time() + {seconds}\nwhile time.time() < end: sum(range(1000))");
    let options = ["-a", "-F", "499", "-q"];
    let recorded = Recorded::new(&options, &["python3", "-S", "-c", &compute]);
    let samples = recorded.samples(&[]);
    let ends: Vec<String> = samples
        .iter()
        .filter(|sample| sample.text("comm") == "python3" && sample.0["ended"].is_string())
        .map(|sample| sample.text("ended").to_owned())
        .collect();
    let walked = ends.iter().filter(|end| *end == "by_tables").count();
    println!("{walked} of {} walks of python3 were by tables", ends.len());
    assert!(ends.len() > 100, "{}", ends.len());
    (recorded, walked as f64 / ends.len() as f64)
}

/// Returns how many files the sampler lacked tables of, for a reason.
fn left_out(recorded: &Recorded, why: &str) -> u64 {
    let info: Value = recorded.json("info", &[]);
    let rows = info["left_out"].as_array().expect("a list");
    rows.iter().filter(|row| row["why"] == why).filter_map(|row| row["files"].as_u64()).sum()
}

#[test]
fn root_large_files_of_one_user_take_no_tables_away_from_others() {
    let dir = folder();
    let files = (0..5).map(|n| dir.path().join(format!("sparse{n}")));
    files.clone().for_each(|file| sparse(&file, 1, 0));
    let _strangers = Strangers::run(files);
    let (recorded, walked) = beside_python(12);
    assert!(left_out(&recorded, "tables_full") > 0);
    assert!(walked > 0.3, "{walked}");
}

#[test]
fn root_a_file_whose_tables_take_too_long_keeps_nobody_waiting() {
    let dir = folder();
    let slow = dir.path().join("slow");
    sparse(&slow, 400_000, 470);
    let _strangers = Strangers::run([slow].into_iter());
    let (recorded, walked) = beside_python(12);
    assert_eq!(left_out(&recorded, "tables_slow"), 1);
    assert!(walked > 0.1, "{walked}");
}

/// A block device that has a file as its disk.
struct Loop(String);

impl Loop {
    fn new(disk: &Path) -> Self {
        let made =
            Command::new("losetup").args(["--find", "--show"]).arg(disk).output().expect("losetup exists");
        assert!(made.status.success(), "{}", text(&made.stderr));
        Self(text(&made.stdout).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// Compiles a library of swapped.c, and puts so many functions behind it that its tables take long to compile: only such are kept.
fn library(dir: &Path, function: &str, room: u32) -> Vec<u8> {
    let (padding, library) = (dir.join("padding.s"), dir.join(function));
    let functions = ".rept 200000\n.cfi_startproc\nnop\n.cfi_def_cfa_offset 16\nnop\n.cfi_endproc\n.endr\n";
    fs::write(&padding, format!(".text\n{functions}.section .note.GNU-stack,\"\"\n")).expect("room");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-fomit-frame-pointer", "-shared", "-fPIC", "-Wl,--build-id=none"]);
    compiler.args([format!("-DFUNCTION={function}"), format!("-DROOM={room}")]).arg("-o").arg(&library);
    let compiled = compiler.arg(programs().join("swapped.c")).arg(padding).status();
    assert!(compiled.expect("a compiler is installed").success());
    let mut bytes = fs::read(library).expect("it was compiled");
    bytes.resize(16 << 20, 0);
    bytes
}

/// Finds where a file lies on a disk, in one piece.
fn place_on(disk: &mut File, file: &[u8]) -> u64 {
    let mut bytes = Vec::new();
    disk.seek(SeekFrom::Start(0)).and_then(|_| disk.read_to_end(&mut bytes)).expect("it can be read");
    let begin =
        bytes.chunks(4096).position(|block| file.starts_with(block)).expect("it is on the disk") * 4096;
    assert!(bytes[begin..begin + file.len()] == *file, "it lies in one piece");
    begin as u64
}

#[test]
fn root_kept_tables_of_a_file_do_not_count_for_other_bytes_with_its_inode_and_times() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (large, small) = (library(dir.path(), "turned", 4000), library(dir.path(), "turned", 256));
    let image = dir.path().join("disk");
    File::create(&image).and_then(|disk| disk.set_len(64 << 20)).expect("room");
    let made = Command::new("mkfs.ext4").args(["-q", "-b", "4096"]).arg(&image).status();
    assert!(made.expect("e2fsprogs is installed").success());
    let disk = Loop::new(&image);
    fs::write(Mounted::new(&[&disk.0]).path().join("library.so"), &large).expect("room on the disk");

    let cache = dir.path().join("cache");
    let record = || {
        let mounted = Mounted::new(&["-o", "ro", &disk.0]);
        let (program, library) = (swapped(), mounted.path().join("library.so"));
        let command = [program.as_os_str(), library.as_os_str(), "turned".as_ref(), "1500".as_ref()];
        let cached = ("XDG_CACHE_HOME", cache.to_str().expect("a path of this test"));
        let recorded = Recorded::with(cached, &["-q", "-F", "1999"], &command);
        let mut samples = recorded.samples(&[]);
        samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
        let all = samples.len();
        samples.retain(|sample| sample.text("ended") == "by_tables");
        assert!(samples.len() > 200, "{} of {all}", samples.len());
        for sample in &samples {
            let names = sample.names("user");
            assert!(
                matches!(names[..], ["spin", "work", "turned", "turn", "main", _, _, "_start"]),
                "{names:?}"
            );
        }
    };
    record();
    assert!(fs::read_dir(cache.join("icecore-record")).expect("tables are kept").count() > 0);

    let mut device = File::options().read(true).write(true).open(&disk.0).expect("root may");
    let begin = place_on(&mut device, &large);
    device.seek(SeekFrom::Start(begin)).and_then(|_| device.write_all(&small)).expect("room");
    device.sync_all().expect("it is written");
    drop(device);
    record();
}

#[test]
fn root_the_recorder_shows_and_clears_the_tables_that_it_keeps() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let cache = |args: &[&str]| {
        let run = record().env("XDG_CACHE_HOME", dir.path()).arg("cache").args(args).output();
        let run = run.expect("the recorder runs");
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    let folder = dir.path().join("icecore-record");
    assert_eq!(
        cache(&[]),
        format!("{}: the unwind tables of 0 files, 0 B of 256.0 MiB at most\n", folder.display())
    );
    fs::create_dir(&folder)
        .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)))
        .expect("own");
    for name in ["aa.rows", ".new-left"] {
        fs::write(folder.join(name), [0; 2048]).expect("room");
    }
    fs::write(folder.join("other"), "of somebody").expect("room");
    assert!(
        cache(&[]).contains(": the unwind tables of 1 file, 4.0 KiB of 256.0 MiB at most\n"),
        "{}",
        cache(&[])
    );
    assert!(cache(&["--clear"]).contains(": removed the unwind tables of 1 file, 4.0 KiB\n"));
    let left: Vec<_> =
        fs::read_dir(&folder).expect("own").map(|entry| entry.expect("own").file_name()).collect();
    assert_eq!(left, ["other"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("own");
    let run =
        record().env("XDG_CACHE_HOME", dir.path()).args(["cache", "--clear"]).output().expect("it runs");
    assert!(
        run.status.code() == Some(2) && text(&run.stderr).contains("cannot list"),
        "{}",
        text(&run.stderr)
    );
}
