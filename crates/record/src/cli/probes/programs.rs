//! What a program's name stands for beside its file: the program that a version manager starts, and the library that holds its functions.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::read::ReadCache;
use object::read::elf::ElfFile64;

use crate::sys::user;

/// The longest script that is looked at, bytes.
const MAX_SCRIPT_BYTES: u64 = 64 << 10;

/// Returns the program that a script of pyenv, rbenv, nodenv or another manager of the family starts here: the manager itself says
/// which one. Such scripts end with `exec "/…/libexec/pyenv" exec "$program" "$@"`.
///
/// The manager is run only if it belongs to root or to the user who records, as does the script.
pub(super) fn behind_script(script: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    File::open(script).ok()?.take(MAX_SCRIPT_BYTES).read_to_string(&mut text).ok()?;
    let manager = Path::new(manager(&text)?);
    let is_ours = |path: &Path| fs::metadata(path).is_ok_and(|meta| [0, user::own()].contains(&meta.uid()));
    if !manager.is_absolute() || !is_ours(script) || !is_ours(manager) {
        return None;
    }
    let mut which = Command::new(manager);
    which.arg("which").arg(script.file_name()?).stdin(Stdio::null()).stderr(Stdio::null());
    let output = which.output().ok().filter(|output| output.status.success())?.stdout;
    let path = output.strip_suffix(b"\n").unwrap_or(&output);
    Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
}

/// Returns the manager to which a script hands over.
fn manager(script: &str) -> Option<&str> {
    script.lines().find_map(|line| {
        let handed = line.trim_start().strip_prefix("exec \"")?.split_once("\" exec \"$program\"");
        handed.map(|(manager, _)| manager)
    })
}

/// Returns the library of a program that bears its name, and so has its functions: `libpython3.11.so.1.0` of `python3.11`. `library`
/// finds a library where the loader does if the program does not say where it is.
pub(super) fn own_library(program: &Path, library: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let name = program.file_name()?.to_str()?;
    let file = ReadCache::new(File::open(program).ok()?);
    let file = ElfFile64::<Endianness, _>::parse(&file).ok()?;
    let table = file.elf_dynamic_table().ok()?;
    let texts = |tags: &[_]| -> Vec<&[u8]> {
        let tagged = table.iter().filter(|entry| tags.contains(&entry.tag));
        tagged.filter_map(|entry| table.string(entry).ok()).collect()
    };
    let is_own = |library: &&[u8]| {
        let rest = library.strip_prefix(b"lib").and_then(|rest| rest.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b".so"))
    };
    let own = texts(&[DT_NEEDED]).into_iter().find(is_own)?;
    let own = std::str::from_utf8(own).ok()?;
    let origin = program.parent()?.as_os_str().as_bytes();
    let folders = texts(&[DT_RUNPATH, DT_RPATH]);
    let folders = folders.iter().flat_map(|list| list.split(|byte| *byte == b':'));
    let said = folders.filter(|folder| !folder.is_empty()).map(|folder| {
        let folder = [&b"$ORIGIN"[..], b"${ORIGIN}"]
            .iter()
            .find_map(|origin_of| folder.strip_prefix(*origin_of))
            .map_or_else(|| folder.to_vec(), |rest| [origin, rest].concat());
        Path::new(OsStr::from_bytes(&folder)).join(own)
    });
    said.filter_map(|path| fs::canonicalize(path).ok())
        .next()
        .or_else(|| fs::canonicalize(library(own)?).ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(path: &Path, text: &str) {
        fs::write(path, text).expect("room");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
    }

    #[test]
    fn a_manager_says_which_program_its_script_starts() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (manager, shim) = (dir.path().join("xenv"), dir.path().join("x3"));
        script(&manager, "#!/bin/sh\n[ \"$1 $2\" = 'which x3' ] && echo /opt/x/bin/x3\n");
        let text = format!("#!/bin/sh\nprogram=x\nexec \"{}\" exec \"$program\" \"$@\"\n", manager.display());
        script(&shim, &text);
        assert_eq!(behind_script(&shim), Some("/opt/x/bin/x3".into()));
        let other = dir.path().join("x4");
        script(&other, &text);
        assert_eq!(behind_script(&other), None, "the manager knows no such program");
        script(&other, "#!/bin/sh\nexec \"/bin/true\" \"$@\"\n");
        assert_eq!(behind_script(&other), None, "no manager");
        script(&shim, &text.replace(&format!("{}/", dir.path().display()), ""));
        assert_eq!(behind_script(&shim), None, "a manager by its path alone");
    }

    #[test]
    fn the_library_of_a_program_bears_its_name() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (lib, bin) = (dir.path().join("lib"), dir.path().join("bin"));
        fs::create_dir(&lib).and_then(|()| fs::create_dir(&bin)).expect("room");
        let built = |args: &[&str]| {
            let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
            assert!(status.success(), "{args:?}");
        };
        fs::write(dir.path().join("x.c"), "int f(void) { return 0; }").expect("room");
        fs::write(dir.path().join("main.c"), "int f(void); int main(void) { return f(); }").expect("room");
        built(&["-shared", "-fPIC", "-Wl,-soname,libx3.so.1", "x.c", "-o", "lib/libx3.so.1"]);
        let program = ["main.c", "lib/libx3.so.1", "-o"];
        let rpath = "-Wl,-rpath,/nowhere:$ORIGIN/../lib";
        built(&[&program[..], &["bin/x3", rpath]].concat());
        built(&[&program[..], &["bin/y", rpath]].concat());
        built(&[&program[..], &["bin/x"]].concat());
        let nowhere = |_: &str| None;
        let path = fs::canonicalize(lib.join("libx3.so.1")).expect("just built");
        assert_eq!(own_library(&bin.join("x3"), nowhere), Some(path.clone()));
        assert_eq!(own_library(&bin.join("y"), nowhere), None, "a library of another name");
        assert_eq!(own_library(&bin.join("x"), nowhere), None, "`libx3` is not `libx`");
        fs::rename(bin.join("x"), bin.join("x3")).expect("our own file");
        let loader = |name: &str| (name == "libx3.so.1").then(|| path.clone());
        assert_eq!(own_library(&bin.join("x3"), nowhere), None, "it does not say where");
        assert_eq!(own_library(&bin.join("x3"), loader), Some(path.clone()));
        assert_eq!(own_library(&dir.path().join("x.c"), loader), None, "no program");
    }
}
