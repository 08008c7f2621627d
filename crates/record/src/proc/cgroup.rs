//! Control groups: where their hierarchy is mounted, what is in it, and what `/proc/PID/cgroup` says.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// At most this many cgroups are read in one walk; large machines have a few thousand.
const MAX_CGROUPS: usize = 64 << 10;
/// Hierarchies of version 1 whose paths show the purpose of a process, best first.
const TELLING: [&[u8]; 4] = [b"name=systemd", b"memory", b"cpu", b"pids"];
/// What `/proc/PID/cgroup` adds to the path of a cgroup that was removed.
const REMOVED: &[u8] = b" (deleted)";
/// At most this many similar names are suggested for a cgroup that does not exist.
const OFFERED: usize = 5;

/// A cgroup whose tasks are to be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// In the hierarchy; begins with `/`.
    pub path: String,
    /// In the file system.
    pub folder: PathBuf,
}

impl Cgroup {
    /// Finds a cgroup by its path in the hierarchy, or by that of its folder.
    ///
    /// # Errors
    /// If there is no such cgroup; the message suggests similar names.
    pub(crate) fn find(typed: &str) -> anyhow::Result<Self> {
        let Some(mount) = mount() else {
            bail!(
                "cannot sample the cgroup `{typed}`: no cgroup2 file system is mounted here; \
                 record everything with -a, and choose later with icecore-report --cgroup"
            );
        };
        Self::below(&mount, typed)
    }

    fn below(mount: &Path, typed: &str) -> anyhow::Result<Self> {
        let folders = [mount.join(typed.trim_start_matches('/')), PathBuf::from(typed)];
        let found = folders.into_iter().filter(|folder| folder.is_dir()).find_map(|folder| {
            // Neither `..` nor a symbolic link leads out of the hierarchy.
            let folder = fs::canonicalize(folder).ok()?;
            let path = Path::new("/").join(folder.strip_prefix(mount).ok()?);
            Some(Self { path: path.display().to_string(), folder })
        });
        found.with_context(|| {
            let alike = alike(mount, typed);
            let alike = if alike.is_empty() {
                "`systemd-cgls` and `find` list them".to_owned()
            } else {
                format!("there is {}", alike.join(", "))
            };
            format!("cannot sample the cgroup `{typed}`: there is none below `{}`; {alike}", mount.display())
        })
    }
}

/// Returns the names of cgroups that are similar to the typed one.
fn alike(mount: &Path, typed: &str) -> Vec<String> {
    let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_lowercase();
    let wanted = last(typed);
    let stem = wanted.split('.').next().unwrap_or_default();
    let mut paths: Vec<String> = walk(mount)
        .into_iter()
        .map(|(_, path)| String::from_utf8_lossy(&path).into_owned())
        .filter(|path| !stem.is_empty() && last(path).contains(stem))
        .collect();
    paths.sort_by_key(|path| (path.len(), path.clone()));
    paths.truncate(OFFERED);
    paths.iter().map(|path| format!("`{path}`")).collect()
}

/// Returns where the hierarchy of cgroup2 is mounted.
pub(crate) fn mount() -> Option<PathBuf> {
    mounted(&fs::read("/proc/self/mountinfo").ok()?)
}

/// Finds the hierarchy of cgroup2 in a list of mounts; prefers a mount of the whole hierarchy to one of a part.
///
/// # Source
/// proc(5) `/proc/PID/mountinfo`: root and mount point are the fourth and fifth field, the type follows ` - `
pub fn mounted(mountinfo: &[u8]) -> Option<PathBuf> {
    let of_line = |line: &[u8]| {
        let dash = line.windows(3).position(|three| three == b" - ")?;
        let mut behind = line[dash + 3..].split(|&b| b == b' ');
        let mut fields = line[..dash].split(|&b| b == b' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let point = PathBuf::from(std::ffi::OsStr::from_bytes(&unescaped(point)));
        (behind.next()? == b"cgroup2").then_some((root.len(), point))
    };
    let mounts = mountinfo.split(|&b| b == b'\n').filter_map(of_line);
    mounts.min_by_key(|(root, _)| *root).map(|(_, point)| point)
}

/// Replaces octal escapes such as `\040` by their bytes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<3>().filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        out.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    out
}

/// Lists the cgroups below a folder, and itself: ids and paths in the hierarchy.
///
/// # Source
/// The id of a cgroup is the inode number of its folder (kernfs, since 5.5)
pub(crate) fn walk(mount: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![(mount.to_owned(), b"/".to_vec())];
    while let Some((folder, path)) = waiting.pop() {
        let Ok(meta) = fs::metadata(&folder) else { continue };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let name = entry.file_name();
            let separator: &[u8] = if path == b"/" { b"" } else { b"/" };
            waiting.push((entry.path(), [&path, separator, name.as_bytes()].concat()));
        }
        found.push((meta.ino(), path));
        if found.len() == MAX_CGROUPS {
            break;
        }
    }
    found
}

/// What `/proc/PID/cgroup` says about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The path of the process: that of cgroup2, unless this is the root and a hierarchy of version 1 has another.
    pub path: &'a [u8],
    /// There are hierarchies of version 1.
    pub(crate) has_v1: bool,
}

/// Reads the text of `/proc/PID/cgroup`: lines of `number:controllers:path`, number 0 for cgroup2.
pub fn membership(text: &[u8]) -> Option<Membership<'_>> {
    let lines = || {
        text.split(|&b| b == b'\n').filter_map(|line| {
            let mut fields = line.splitn(3, |&b| b == b':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let path = path.strip_suffix(REMOVED).unwrap_or(path);
            path.starts_with(b"/").then_some((number == b"0", controllers, path))
        })
    };
    let unified = lines().find(|(is_unified, ..)| *is_unified).map(|(.., path)| path);
    if let Some(path) = unified.filter(|path| *path != b"/") {
        return Some(Membership { path, has_v1: lines().count() > 1 });
    }
    let v1 = || lines().filter(|(is_unified, ..)| !is_unified);
    let rank = |controllers: &[u8]| {
        let has = |telling: &&[u8]| controllers.split(|&b| b == b',').any(|one| one == *telling);
        TELLING.iter().position(has).unwrap_or(TELLING.len())
    };
    let telling = v1().filter(|(.., path)| *path != b"/").min_by_key(|(_, controllers, _)| rank(controllers));
    let path = telling.map(|(.., path)| path).or(unified).or_else(|| v1().next().map(|(.., path)| path))?;
    Some(Membership { path, has_v1: v1().next().is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_hierarchy_is_found_among_mounts() {
        let mounts = b"24 1 0:22 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs ro\n\
            25 24 0:23 /part /mnt rw - cgroup2 cgroup2 rw\n\
            26 24 0:23 / /sys/fs/cgroup/uni\\040fied rw shared:10 - cgroup2 cgroup2 rw\n\
            27 24 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(mounted(mounts), Some("/sys/fs/cgroup/uni fied".into()));
        assert_eq!(mounted(b"1 2 3 / /x rw - cgroup cgroup rw"), None);
        assert_eq!(mounted(b"\n - cgroup2\n1 - cgroup2 \\04"), None);
    }

    #[test]
    fn version_1_tells_what_the_root_of_version_2_does_not() {
        let path = |text: &'static [u8]| membership(text).map(|of| (of.path, of.has_v1));
        assert_eq!(path(b"0::/a.slice/b\n"), Some((&b"/a.slice/b"[..], false)));
        assert_eq!(path(b"0::/gone (deleted)\n"), Some((&b"/gone"[..], false)));
        assert_eq!(path(b"4:memory:/m\n1:name=systemd:/s\n0::/\n"), Some((&b"/s"[..], true)));
        assert_eq!(path(b"9:name=systemd:/\n3:devices:/d\n2:cpu,cpuacct:/c:x\n"), Some((&b"/c:x"[..], true)));
        assert_eq!(path(b"1:name=systemd:/s\n0::/u\n"), Some((&b"/u"[..], true)));
        assert_eq!(path(b"2:cpu:/\n"), Some((&b"/"[..], true)));
        assert_eq!([path(b""), path(b"0:"), path(b"0::relative")], [None; 3]);
    }

    #[test]
    fn a_name_that_does_not_exist_is_answered_by_those_that_look_like_it() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mount = fs::canonicalize(dir.path()).expect("just made");
        fs::create_dir_all(mount.join("system.slice/nginx.service")).expect("room");
        let find = |typed: &str| Cgroup::below(&mount, typed);
        let nginx = find("/system.slice/nginx.service").expect("it is there");
        assert_eq!(nginx.path, "/system.slice/nginx.service");
        assert_eq!(find(&nginx.folder.display().to_string()).expect("the same"), nginx);
        assert_eq!(find("/").expect("the root").path, "/");
        let said = find("nginx").expect_err("not there").to_string();
        assert!(said.ends_with("there is `/system.slice/nginx.service`"), "{said}");
        assert!(find("/../../etc").is_err() && find("/etc").is_err(), "not in the hierarchy");
        let walked: Vec<Vec<u8>> = walk(&mount).into_iter().map(|(_, path)| path).collect();
        assert_eq!(walked, [&b"/"[..], b"/system.slice", b"/system.slice/nginx.service"]);
    }
}
