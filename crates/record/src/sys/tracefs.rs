//! Finds tracepoints in tracefs: their names and numbers.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where systems mount tracefs; the second is below debugfs.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder of tracepoints.
#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    events: PathBuf,
    /// A mount that only this process sees, and that ends with the handle.
    own: Option<OwnedFd>,
}

/// Where a field lies in what a tracepoint reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Offset, bytes.
    pub off: u16,
    /// Bytes: 1, 2, 4 or 8 of integers.
    pub size: u8,
    /// What it is.
    pub kind: FieldKind,
}

/// What a field of a tracepoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer without a sign.
    Unsigned,
    /// An integer with a sign.
    Signed,
    /// Characters.
    Text,
    /// The offset and the length of characters.
    Located,
    /// The same, and the offset counts from the end of the field.
    LocatedBehind,
}

impl Field {
    /// Returns true if it is an integer, by which hits can be weighed.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self.kind, FieldKind::Unsigned | FieldKind::Signed)
    }
}

/// A tracepoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tracepoint {
    pub(crate) category: String,
    pub(crate) name: String,
}

impl Tracefs {
    /// Finds tracefs. If it is not mounted, mounts it where nobody else sees it.
    ///
    /// # Errors
    /// If it is not mounted, and this process may not mount it.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let is_there =
            |root: &&str| !matches!(fs::metadata(Path::new(root).join("events")), Err(e) if is_missing(&e));
        if let Some(root) = MOUNTS.iter().copied().find(is_there) {
            return Ok(Self::at(root.into(), None));
        }
        let own = mount().with_context(|| {
            format!(
                "tracefs is not mounted: run `mount -t tracefs tracefs {}`, or the recorder as root",
                MOUNTS[0]
            )
        })?;
        Ok(Self::at(format!("/proc/self/fd/{}", own.as_raw_fd()).into(), Some(own)))
    }

    fn at(root: PathBuf, own: Option<OwnedFd>) -> Self {
        Self { events: root.join("events"), root, own }
    }

    /// Returns true if it was not mounted, and only this process sees it now.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Returns the folder in which the kernel's files of tracing lie.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the number of a tracepoint, which `perf_event_open` takes; `None` if the kernel has no such tracepoint.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub(crate) fn id(&self, tracepoint: &Tracepoint) -> anyhow::Result<Option<u64>> {
        let Tracepoint { category, name } = tracepoint;
        if [category, name].iter().any(|part| part.contains('/') || part.starts_with('.')) {
            return Ok(None);
        }
        let path = self.events.join(category).join(name).join("id");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(explained(error, &path)),
        }
    }

    /// Lists the fields of a tracepoint, and where they lie if they are integers or characters.
    ///
    /// # Errors
    /// If their file cannot be read.
    pub(crate) fn fields(
        &self,
        Tracepoint { category, name }: &Tracepoint,
    ) -> anyhow::Result<Vec<(String, Option<Field>)>> {
        let path = self.events.join(category).join(name).join("format");
        let text = fs::read_to_string(&path).map_err(|error| explained(error, &path))?;
        Ok(text.lines().filter_map(field).collect())
    }

    /// Lists all tracepoints, in the order of their names.
    ///
    /// # Errors
    /// If the folders cannot be read.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Tracepoint>> {
        let mut all = Vec::new();
        for category in folders(&self.events)? {
            for name in folders(&self.events.join(&category))? {
                all.push(Tracepoint { category: category.clone(), name });
            }
        }
        all.sort_unstable();
        Ok(all)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn explained(error: io::Error, path: &Path) -> anyhow::Error {
    let remedy = if error.kind() == io::ErrorKind::PermissionDenied { "; run as root (sudo)" } else { "" };
    anyhow::Error::new(error).context(format!("cannot read `{}`{remedy}", path.display()))
}

/// Lists the folders in a folder.
fn folders(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| explained(error, path))? {
        let entry = entry.map_err(|error| explained(error, path))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.extend(entry.file_name().into_string());
        }
    }
    Ok(folders)
}

/// Mounts tracefs without attaching it to a folder.
fn mount() -> io::Result<OwnedFd> {
    /// uapi/linux/mount.h
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;

    let owned = |fd: libc::c_long| {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name ends with a zero and outlives the call; the other pointers are null, as this command demands; the
    // descriptors are open.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC))?;
        let context = context.as_raw_fd();
        if libc::syscall(libc::SYS_fsconfig, context, FSCONFIG_CMD_CREATE, none, none, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        owned(libc::syscall(libc::SYS_fsmount, context, FSMOUNT_CLOEXEC, 0))
    }
}

/// Reads a line of a list of fields; `None` if it is of no field. Pointers, structures and arrays of numbers are neither integers nor
/// characters.
///
/// ```text
/// field:pid_t prev_pid;  offset:24;  size:4;  signed:1;
/// ```
fn field(line: &str) -> Option<(String, Option<Field>)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix(':')?.parse::<u16>().ok();
    let (off, size, is_signed) = (number("offset")?, number("size")?, number("signed")? != 0);
    let (kind, name) = declared.rsplit_once(|c: char| c.is_whitespace() || c == '*')?;
    let (name, count) = name.split_once('[').map_or((name, None), |(name, count)| (name, Some(count)));
    let is_other = declared.contains('*') || ["struct ", "union "].iter().any(|other| kind.contains(other));
    let kind = match (kind.trim(), count, size) {
        _ if is_other => None,
        ("__data_loc char[]", None, 4) => Some(FieldKind::Located),
        ("__rel_loc char[]", None, 4) => Some(FieldKind::LocatedBehind),
        (kind, ..) if kind.starts_with("__data_loc") || kind.starts_with("__rel_loc") => None,
        ("char", Some(_), _) => Some(FieldKind::Text),
        (_, None, 1 | 2 | 4 | 8) => Some(if is_signed { FieldKind::Signed } else { FieldKind::Unsigned }),
        _ => None,
    };
    // Of more characters than that, the sampler sends the first ones.
    let size = u8::try_from(size).unwrap_or(u8::MAX);
    Some((name.to_owned(), kind.map(|kind| Field { off, size, kind })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_tracepoints_have_numbers_also_where_tracefs_is_not_mounted() {
        let of = |category: &str, name: &str| Tracepoint { category: category.into(), name: name.into() };
        let own = mount().expect("root may mount");
        let root = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        for tracefs in [Tracefs::at(root, Some(own)), Tracefs::open().expect("root may look")] {
            let id =
                tracefs.id(&of("sched", "sched_switch")).expect("readable").expect("every kernel has it");
            assert!(id > 0);
            for (category, name) in [("sched", "sched_witch"), ("sched", ".."), ("sched/x", "x"), ("", "")] {
                assert_eq!(tracefs.id(&of(category, name)).expect("readable"), None);
            }
            let all = tracefs.all().expect("readable");
            assert!(all.is_sorted() && all.contains(&of("sched", "sched_switch")), "{}", all.len());
        }
    }

    #[test]
    fn integers_and_characters_of_a_tracepoint_are_told_from_its_other_fields() {
        use FieldKind::{Located, LocatedBehind, Signed, Text, Unsigned};
        let place = |off, size, kind| Some(Field { off, size, kind });
        let tests = [
            ("pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;", "prev_pid", place(24, 4, Signed)),
            (
                "unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
                "common_type",
                place(0, 2, Unsigned),
            ),
            ("char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;", "prev_comm", place(8, 16, Text)),
            ("char name[IFNAMSIZ];\toffset:8;\tsize:300;\tsigned:1;", "name", place(8, 255, Text)),
            ("u8 bytes[8];\toffset:8;\tsize:8;\tsigned:0;", "bytes", None),
            ("const char * buf;\toffset:24;\tsize:8;\tsigned:0;", "buf", None),
            ("struct x y;\toffset:24;\tsize:8;\tsigned:0;", "y", None),
            ("__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;", "name", place(8, 4, Located)),
            ("__rel_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;", "name", place(8, 4, LocatedBehind)),
            ("__data_loc u32[] args;\toffset:8;\tsize:4;\tsigned:0;", "args", None),
            ("size_t count;\toffset:32;\tsize:8;\tsigned:0;", "count", place(32, 8, Unsigned)),
        ];
        for (line, name, place) in tests {
            assert_eq!(field(&format!("\tfield:{line}")), Some((name.to_owned(), place)), "{line}");
        }
        for line in
            ["name: sched_switch", "\tfield:int x;\toffset:99999;\tsize:4;\tsigned:1;", "print fmt: \"%s\""]
        {
            assert_eq!(field(line), None, "{line}");
        }
    }
}
