//! Reads recordings where nothing of the recorded machine is.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::{Sample, program, text};

/// A root folder with nothing in it but a program, under its own name, the libraries that it needs, and a file.
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
        std::fs::copy(from, to).expect("room");
    }
    root
}

/// Samples as they are listed in a root folder with nothing in it but the report and its libraries.
pub fn samples_elsewhere(recording: &Path) -> Vec<Sample> {
    let root = root_with(&program("icecore-report"), Some(recording));
    let file = Path::new("/").join(recording.file_name().expect("it has a name"));
    let mut report = Command::new("chroot");
    report.arg(root.path()).args(["/icecore-report", "samples"]).arg(file).arg("--json");
    let out = report.output().expect("chroot is everywhere");
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout).lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}
