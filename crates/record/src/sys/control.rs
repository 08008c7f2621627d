//! Where the control sockets of recorders are, and who is at the other end of one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

/// How the name of a socket ends; before it stands the id of the recorder's process.
const SUFFIX: &str = ".sock";
/// The folder of root's recorders, and that of the unit in `packaging/systemd`.
const OF_ROOT: [&str; 2] = ["/run/icecore-record", "/run/icecore"];
/// How long the other end may take for a line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A socket that goes with this value.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Somebody may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the folders in which recorders of this user have their sockets; a new one is made in the first.
fn folders() -> Vec<PathBuf> {
    let of_service = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    if geteuid().is_root() {
        return of_service.into_iter().chain(OF_ROOT.map(PathBuf::from)).collect();
    }
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("icecore-record"));
    of_service.into_iter().chain(of_user).filter(|folder| folder.is_absolute()).collect()
}

/// Makes the socket of this process in its usual folder.
///
/// # Errors
/// As the operating system says; `NotFound` if this user has no such folder.
pub(crate) fn bind_usual() -> io::Result<Bound> {
    let folder = folders().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = fs::symlink_metadata(&folder)?;
    // Others could put sockets of their own there.
    if !meta.is_dir() || meta.uid() != geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    for socket in sockets(&folder) {
        if UnixStream::connect(&socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            // Its recorder was killed.
            let _ = fs::remove_file(&socket);
        }
    }
    bind(&folder.join(format!("{}{SUFFIX}", std::process::id())))
}

/// Makes a socket to which only this user and root have a way.
///
/// # Errors
/// As the operating system says; `AddrInUse` if something of the name exists.
pub(crate) fn bind(path: &Path) -> io::Result<Bound> {
    let bound = Bound { listener: UnixListener::bind(path)?, path: path.to_owned() };
    // Whoever connects before this is refused by `is_allowed`.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(bound)
}

/// Returns true if the other end is this user, or root.
pub(crate) fn is_allowed(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}

/// Connects to the recorder of a socket, whose end must be this user or root; root talks to everybody's.
///
/// # Errors
/// As the operating system says.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    if geteuid().is_root() || is_allowed(&stream) {
        Ok(stream)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
    }
}

/// Lists the sockets of this user's recorders that answer, with the ids of their processes.
pub(crate) fn found() -> Vec<(u32, PathBuf)> {
    let all = folders().into_iter().flat_map(|folder| sockets(&folder));
    let named = all.filter_map(|path| {
        let pid = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
        connect(&path).is_ok().then_some((pid, path))
    });
    named.collect()
}

fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "sock")).collect()
}
