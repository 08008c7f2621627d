//! Simulates other machines: root folders that contain only the report and the recording.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::machine::{Sample, copy, program, text};

/// Returns a root folder that contains only a program, under its own name, the libraries that it needs, and a file.
pub fn root_with(program: &Path, file: Option<&Path>) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder for temporary files");
    let libraries = Command::new("ldd").arg(program).output().expect("ldd is part of the C library");
    let libraries = text(&libraries.stdout);
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let name = |path: &Path| PathBuf::from("/").join(path.file_name().expect("it has a name"));
    let files = [Some(program), file].into_iter().flatten().map(|path| (path.to_owned(), name(path)));
    for (from, to) in libraries.map(|path| (path.clone(), path)).chain(files) {
        let to = root.path().join(to.strip_prefix("/").expect("it begins so"));
        std::fs::create_dir_all(to.parent().expect("it is below the root")).expect("room");
        copy(&from, &to);
    }
    root
}

/// Returns the samples that the report lists in a root folder with nothing but the report and its libraries.
pub fn samples_elsewhere(recording: &Path) -> Vec<Sample> {
    let root = root_with(&program("icecore-report"), Some(recording));
    let file = Path::new("/").join(recording.file_name().expect("it has a name"));
    let mut report = Command::new("chroot");
    report.arg(root.path()).args(["/icecore-report", "samples"]).arg(file).arg("--json");
    let out = report.output().expect("chroot is everywhere");
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout).lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}

/// Runs a command of the report in such a root folder, with a folder for temporary files and its own `/proc`; returns the JSON that
/// it prints.
pub fn report_in_a_container(command: &[&str], recording: &Path) -> String {
    let root = root_with(&program("icecore-report"), Some(recording));
    for folder in ["tmp", "proc"] {
        std::fs::create_dir(root.path().join(folder)).expect("room");
    }
    let file = Path::new("/").join(recording.file_name().expect("it has a name"));
    let mut report = Command::new("unshare");
    report.args(["--mount", "--pid", "--fork"]);
    report.arg(format!("--mount-proc={}", root.path().join("proc").display()));
    report.arg("chroot").arg(root.path()).arg("/icecore-report").args(command).arg(file).arg("--json");
    let out = report.env_remove("TMPDIR").output().expect("util-linux is everywhere");
    let said = text(&out.stderr);
    // Most names may be missing where no file is.
    let is_well = said.lines().all(|line| line.starts_with("warning: most names are missing"));
    assert!(out.status.success() && is_well, "{said}");
    text(&out.stdout)
}

/// Returns the samples that the report lists in that root folder.
pub fn samples_in_a_container(recording: &Path) -> Vec<Sample> {
    let lines = report_in_a_container(&["samples"], recording);
    lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}

/// Returns the physical frames of all samples: their name, if they have one, and image.
pub fn frames(samples: &[Sample]) -> Vec<(Option<String>, String)> {
    let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
    let physical = frames.filter(|frame| frame["inlined"] == false);
    let named = |frame: &Value| match &frame["reason"] {
        Value::Null => frame["name"].as_str().map(str::to_owned),
        _ => None,
    };
    physical.map(|frame| (named(frame), frame["image"].as_str().unwrap_or_default().to_owned())).collect()
}
