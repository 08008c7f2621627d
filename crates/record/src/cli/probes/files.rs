//! Finds the file that a probe names: by its path, as a program on PATH, or as a library where the loader finds it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use icecore_elf::{Layout, Machine};
use object::read::ReadCache;

use super::programs::{behind_script, own_library};

/// Where libraries lie if the loader keeps no list of them, as musl does not.
const FOLDERS: [&str; 5] = ["/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// The list of libraries that ldconfig writes and the loader reads.
const CACHE: &str = "/etc/ld.so.cache";
/// The largest list that is read, bytes.
const MAX_CACHE_BYTES: u64 = 64 << 20;

/// Finds the file that a word names; of a program that is found by its name, also its own library. Notes which ones these are, if there
/// is a choice.
pub(super) fn find(word: &str, notes: &mut Vec<String>) -> anyhow::Result<Vec<PathBuf>> {
    let open =
        |path: &Path| fs::canonicalize(path).with_context(|| format!("cannot open `{}`", path.display()));
    if word.contains('/') {
        let path = open(Path::new(word))?;
        ensure!(is_elf(&path), "`{word}` is no ELF file; name the program or library with the machine code");
        return Ok(vec![path]);
    }
    let on_path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let programs: Vec<PathBuf> = std::env::split_paths(&on_path)
        .map(|dir| dir.join(word))
        .filter(|path| is_executable(path))
        .collect();
    let started = programs.first().and_then(|first| behind_script(first)).filter(|path| is_elf(path));
    if let Some(program) = started.as_ref().or_else(|| programs.iter().find(|path| is_elf(path))) {
        let program = &open(program)?;
        if !is_elf(&programs[0]) {
            notes.push(format!(
                "`{}` is a script{}; the probe is in `{}`. Give the path of another file to probe that",
                programs[0].display(),
                if started.is_some() { " that starts another program" } else { "" },
                program.display()
            ));
        }
        let own = own_library(program, library);
        notes.extend(own.iter().map(|own| {
            format!(
                "`{}` keeps functions in its library `{}`: these are probed, too",
                program.display(),
                own.display()
            )
        }));
        return Ok([program.clone()].into_iter().chain(own).collect());
    }
    if let Some(library) = library(word) {
        return Ok(vec![open(&library)?]);
    }
    match programs.first() {
        Some(script) => bail!("`{}` is a script; give the path of its interpreter", script.display()),
        None => bail!("there is no program or library `{word}`; give a path, such as ./{word}"),
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let is_file = fs::metadata(path).is_ok_and(|meta| meta.is_file());
    is_file
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// Finds a library of this machine, the newest of several versions.
fn library(word: &str) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    let mut add = |name: &[u8], path: PathBuf| {
        let version = std::str::from_utf8(name).ok().and_then(|name| version(word, name));
        found.extend(version.map(|version| (version, path)));
    };
    let mut cache = Vec::new();
    let read = File::open(CACHE).and_then(|file| file.take(MAX_CACHE_BYTES).read_to_end(&mut cache));
    for (name, path) in read.ok().and_then(|_| listed(&cache)).unwrap_or_default() {
        add(name, Path::new(OsStr::from_bytes(path)).to_owned());
    }
    let of_arch = ["/usr/lib", "/lib"].map(|lib| format!("{lib}/{}-linux-gnu", std::env::consts::ARCH));
    for folder in of_arch.iter().map(String::as_str).chain(FOLDERS) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            add(entry.file_name().as_bytes(), entry.path());
        }
    }
    // Stable: of equal versions the one of the loader comes first.
    found.sort_by(|(a, _), (b, _)| b.cmp(a));
    found.into_iter().map(|(_, path)| path).find(|path| is_of_this_machine(path))
}

/// Returns the version of a library if it is the one that a word names: `libssl`, `libssl.so` and `libssl.so.3` all name
/// `libssl.so.3`.
fn version(word: &str, name: &str) -> Option<Vec<u64>> {
    let rest = name.strip_prefix(word)?;
    let version = if word.contains(".so") { rest } else { rest.strip_prefix(".so")? };
    let is_version = version.is_empty() || version.starts_with('.');
    is_version.then(|| version.split('.').skip(1).map(|part| part.parse().unwrap_or(0)).collect())
}

fn is_of_this_machine(path: &Path) -> bool {
    let Some(layout) = File::open(path).ok().and_then(|file| Layout::read(&ReadCache::new(file))) else {
        return false;
    };
    let own = Machine::of_uname(std::env::consts::ARCH).map(Machine::elf);
    layout.is_little_64() && own.is_none_or(|own| layout.machine.0 == own)
}

/// Lists names and paths of libraries. Skips variants for certain processors, which the loader prefers only there.
///
/// # Source   glibc, sysdeps/generic/dl-cache.h: `struct cache_file_new`, `struct file_entry_new`; also after the older
/// `struct cache_file`
fn listed(cache: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    const OLD: &[u8] = b"ld.so-1.7.0\0";
    const NEW: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_LEN: usize = 48;
    const ENTRY_LEN: usize = 24;
    let u32_at = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes) as usize)
    };
    let begin = if cache.starts_with(OLD) {
        u32_at(cache, OLD.len())?.checked_mul(12)?.checked_add(OLD.len() + 4)?.checked_next_multiple_of(8)?
    } else {
        0
    };
    let cache = cache.get(begin..).filter(|cache| cache.starts_with(NEW))?;
    let entries_len = u32_at(cache, NEW.len())?.checked_mul(ENTRY_LEN)?;
    let entries = cache.get(HEADER_LEN..)?.get(..entries_len)?;
    let text = |entry: &[u8], at| cache.get(u32_at(entry, at)?..)?.split(|byte| *byte == 0).next();
    let is_plain = |entry: &&[u8]| entry[16..].iter().all(|byte| *byte == 0);
    let listed = |entry| Some((text(entry, 4)?, text(entry, 8)?));
    Some(entries.chunks_exact(ENTRY_LEN).filter(is_plain).filter_map(listed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of libraries as ldconfig writes it: name, path, whether it is for certain processors.
    fn cache(rows: &[(&str, &str, bool)]) -> Vec<u8> {
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend((rows.len() as u32).to_ne_bytes());
        bytes.resize(48, 0);
        let (mut entries, mut strings) = (Vec::new(), Vec::new());
        for (name, path, is_special) in rows {
            let at = 48 + rows.len() * 24 + strings.len();
            entries
                .extend([0x303, at as u32, (at + name.len() + 1) as u32, 0].map(u32::to_ne_bytes).concat());
            entries.extend(u64::from(*is_special).to_ne_bytes());
            strings.extend(format!("{name}\0{path}\0").into_bytes());
        }
        [bytes, entries, strings].concat()
    }

    #[test]
    fn the_list_of_the_loader_is_read_in_both_formats() {
        let new = cache(&[("libx.so.1", "/lib/libx.so.1", false), ("libx.so.1", "/lib/v3/libx.so.1", true)]);
        let expected = Some(vec![(&b"libx.so.1"[..], &b"/lib/libx.so.1"[..])]);
        assert_eq!(listed(&new), expected);
        let mut both = b"ld.so-1.7.0\0\x01\0\0\0".to_vec();
        both.resize(32, 0);
        both.extend(&new);
        assert_eq!(listed(&both), expected);
        assert_eq!(listed(b"ld.so-1.7.0\0\xff\xff\xff\xff"), None);
        assert_eq!(listed(b""), None);
    }

    #[test]
    fn a_library_has_several_names() {
        for (word, name, expected) in [
            ("libssl", "libssl.so.3", Some(vec![3])),
            ("libssl.so", "libssl.so.1.1", Some(vec![1, 1])),
            ("libssl.so.1", "libssl.so.1.1", Some(vec![1])),
            ("libssl.so.1", "libssl.so.11", None),
            ("libssl", "libssl3.so", None),
            ("libssl", "libssl.so", Some(vec![])),
            ("libc", "libc++.so.1", None),
            ("libpython3.11", "libpython3.11.so.1.0", Some(vec![1, 0])),
        ] {
            assert_eq!(version(word, name), expected, "{word} {name}");
        }
    }

    #[test]
    fn files_are_found_by_path_on_path_and_as_libraries() {
        let mut notes = Vec::new();
        let of =
            |word: &str, notes: &mut Vec<String>| find(word, notes).map_err(|error| format!("{error:#}"));
        let own = fs::canonicalize("/proc/self/exe").expect("we are running");
        assert_eq!(of("/proc/self/exe", &mut notes), Ok(vec![own]));
        assert!(of("sh", &mut notes).is_ok_and(|paths| is_elf(&paths[0]) && paths[0].is_absolute()));
        let libc = of("libc", &mut notes).expect("this program uses it");
        assert_eq!(of("libc.so.6", &mut notes).unwrap_or(libc.clone()), libc);
        for (word, expected) in [
            ("/nowhere/x", "cannot open `/nowhere/x`"),
            ("./Cargo.toml", "`./Cargo.toml` is no ELF file"),
            ("no_such_program", "give a path, such as ./no_such_program"),
        ] {
            assert!(of(word, &mut notes).is_err_and(|error| error.contains(expected)), "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_list_makes_it_panic(bytes: Vec<u8>, at: usize, new: bool) {
            let mut cache = cache(&[("a", "b", false)]);
            let at = at % cache.len();
            cache.splice(at..(at + bytes.len()).min(cache.len()), bytes);
            let _ = listed(&cache[if new { 0 } else { at }..]);
        }
    }
}
