//! Packed recordings contain all names, lines and inlined functions of their code.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use icecore_tests::elsewhere::samples_elsewhere;
use icecore_tests::machine::{Recorded, Sample, inlining, report, report_output, text};
use serde_json::Value;

fn run(args: &[&dyn AsRef<OsStr>]) -> String {
    report(&args.iter().map(|arg| arg.as_ref()).collect::<Vec<_>>())
}

fn listed(path: &Path) -> Vec<Sample> {
    let lines = run(&[&"samples", &path, &"--json"]);
    lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}

/// Returns function, line and whether it was inlined, for all user frames.
fn frames(samples: &[Sample]) -> Vec<(String, Value, bool)> {
    let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
    let user = frames.filter(|frame| frame["side"] == "user");
    let told = |frame: &Value| {
        let name = frame["name"].as_str().unwrap_or_default().to_owned();
        (name, frame["line"].clone(), frame["inlined"] == true)
    };
    user.map(told).collect()
}

#[test]
fn root_lines_and_inlined_functions_are_told_where_nothing_is() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path());
    let recorded = Recorded::new(&["-F", "997", "-q"], &[program.as_os_str()]);
    let packed = dir.path().join("packed.icecore");
    run(&[&"pack", &recorded.path(), &"-o", &packed]);
    run(&[&"verify", &packed]);
    let here = frames(&listed(&recorded.path()));
    let is_innermost =
        |(name, line, inlined): &&(String, Value, bool)| name == "innermost" && *line == 3 && *inlined;
    let hot = here.iter().filter(is_innermost).count();
    assert!(hot > 100, "{hot} of {} frames", here.len());
    std::fs::remove_file(&program).expect("it was there");
    assert!(frames(&samples_elsewhere(&recorded.path())).iter().all(|(_, line, _)| line.is_null()));
    assert_eq!(frames(&samples_elsewhere(&packed)), here);

    // Recordings made of it have the same names, also after packing where less is known.
    let [piece, both, again] = ["piece", "both", "again"].map(|name| dir.path().join(name));
    run(&[&"cut", &packed, &"--to", &"100", &"-o", &piece]);
    assert_eq!(frames(&samples_elsewhere(&piece)), here);
    let second = Recorded::target(&["-F", "997", "-q"], "shares", 200);
    run(&[&"merge", &piece, &second.path(), &"-o", &both]);
    run(&[&"pack", &both, &"-o", &again]);
    run(&[&"verify", &again]);
    let all = frames(&samples_elsewhere(&again));
    assert_eq!(all.iter().filter(is_innermost).count(), hot);
    assert_eq!(all, frames(&listed(&both)));
    let names =
        |path: &Path| -> Value { serde_json::from_str(&run(&[&"info", &path, &"--json"])).expect("JSON") };
    assert_eq!(names(&recorded.path())["names"], 0);
    assert!(names(&packed)["names"].as_u64() > Some(3), "{}", names(&packed)["names"]);
}

/// Annotates the heaviest functions of files, at most `most`; where no file is if `root` is given. Source texts are not compared.
fn annotated(path: &Path, most: usize, root: Option<&Path>) -> Vec<Value> {
    let json = |command: &str, more: &[&str]| -> Value {
        let mut args: Vec<&OsStr> = vec![command.as_ref(), path.as_os_str()];
        args.extend(more.iter().chain(&["--json", "--no-cache", "--no-debuginfod"]).map(OsStr::new));
        args.extend(root.into_iter().flat_map(|root| ["--sysroot".as_ref(), root.as_os_str()]));
        serde_json::from_str(&report(&args)).expect("JSON")
    };
    let top = json("top", &["-n", "0"]);
    let rows = top["rows"].as_array().expect("rows").iter();
    let of_files = rows.filter_map(|row| Some((row["name"].as_str()?, row["image"].as_str()?)));
    let of_files = of_files.filter(|(name, image)| image.starts_with('/') && !name.contains(['+', '(']));
    let annotate = |(name, image): (&str, &str)| {
        let mut told = json("annotate", &[name, "--image", image, "--only", "asm"]);
        told["code"].as_array_mut().expect("rows").iter_mut().for_each(|code| code["source"] = Value::Null);
        told
    };
    of_files.take(most).map(annotate).collect()
}

#[test]
fn root_instructions_are_the_same_where_no_file_is() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let empty = tempfile::tempdir().expect("a folder for temporary files");
    let source = dir.path().join("run.c");
    std::fs::write(
        &source,
        "#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline, cold)) static void spin(unsigned long n) { while (n--) sink += n; }
__attribute__((noinline)) unsigned long run(unsigned long n, int rare) {
  unsigned long x = n;
  for (unsigned long i = 0; i < n; i++) x = x * 6364136223846793005ul + (x >> 3);
  if (__builtin_expect(rare, 0)) { for (unsigned long i = 0; i < n; i++) sink += x * i; spin(1000000); }
  return x;
}
int main(int argc, char **argv) {
  for (int i = 0; i < 150; i++) sink += run(1000000, argc);
}
",
    )
    .expect("room");
    let program = dir.path().join("run");
    let cc = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status();
    assert!(cc.expect("cc runs").success());
    let python = "sum(len(str(i * i)) for i in range(10**6))";
    let commands: [&[&OsStr]; 3] = [
        &[program.as_os_str()],
        &["python3".as_ref(), "-c".as_ref(), python.as_ref()],
        &["sh".as_ref(), "-c".as_ref(), "xz -c /bin/bash >/dev/null".as_ref()],
    ];
    for command in commands {
        let recorded = Recorded::new(&["-F", "997", "-q"], command);
        let packed = dir.path().join("packed.icecore");
        let told = run(&[&"pack", &recorded.path(), &"-o", &packed, &"--code", &"--force", &"--json"]);
        run(&[&"verify", &packed]);
        let here = annotated(&packed, 12, None);
        // What the files of this machine say, without the packed code.
        let names = dir.path().join("names.icecore");
        run(&[&"pack", &recorded.path(), &"-o", &names, &"--force"]);
        let (files, there) = (annotated(&names, 12, None), annotated(&packed, 12, Some(empty.path())));
        // Code without bounds is not stored: pack has listed it. Where the file is not, that is the reason.
        let stored = |told: &&Value| told["no_code"][0]["why"] != "no_bounds";
        for (files, there) in files.iter().zip(&there).filter(|(files, _)| stored(files)) {
            assert_eq!(files, there, "{command:?}: {told}");
        }
        assert_eq!(here, files, "{command:?}");
        let instructions = |told: &Value| {
            told["code"].as_array().expect("rows").iter().any(|code| code["instructions"][0].is_object())
        };
        assert!(there.iter().filter(|told| instructions(told)).count() >= there.len().min(3), "{command:?}");
        if command[0] == program.as_os_str() {
            let run = there.iter().find(|told| told["matches"][0]["name"] == "run").expect("it was hit");
            assert_eq!(run["code"].as_array().map(Vec::len), Some(2), "both parts of it");
            let elsewhere = annotated(&names, 12, Some(empty.path()));
            assert!(elsewhere.iter().all(|told| told["no_code"][0]["why"] == "image_missing"));
        }
    }
}

#[test]
fn a_damaged_recording_is_repaired_first() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [path, packed] = ["torn.icecore", "packed.icecore"].map(|name| dir.path().join(name));
    icecore_tests::synthetic::story().write(&path, true).expect("room");
    let mut bytes = std::fs::read(&path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, bytes).expect("room");
    let out = report_output(&["pack".as_ref(), path.as_os_str(), "-o".as_ref(), packed.as_os_str()]);
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("with repair") && !packed.exists(), "{said}");
    let whole = dir.path().join("whole.icecore");
    run(&[&"repair", &path, &"-o", &whole]);
    let told: Value =
        serde_json::from_str(&run(&[&"pack", &whole, &"-o", &packed, &"--json"])).expect("JSON");
    assert_eq!(told["schema"], "icecore.pack/1");
}
