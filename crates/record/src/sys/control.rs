//! Where the control sockets of recorders are, and who is at the other end of one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{geteuid, umask};

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
    path: PathBuf,
    /// Its device and inode: somebody may have put another file there.
    file: (u64, u64),
}

impl Drop for Bound {
    fn drop(&mut self) {
        if file_at(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
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
    sockets(&folder).iter().for_each(|socket| remove_stale(socket));
    bind(&folder.join(format!("{}{SUFFIX}", std::process::id())))
}

/// Makes a socket to which only this user and root have a way. That of a recorder of this user that was killed is replaced.
///
/// # Errors
/// As the operating system says; `AddrInUse` if something of the name exists.
pub(crate) fn bind(path: &Path) -> io::Result<Bound> {
    remove_stale(path);
    // Setting the mode afterwards could change another file, to which somebody has led the path meanwhile.
    let before = umask(Mode::from_bits_retain(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    Ok(Bound { listener: listener?, path: path.to_owned(), file: file_at(path)? })
}

/// Removes a socket of this user to which nobody listens.
fn remove_stale(path: &Path) {
    let is_own = |meta: &fs::Metadata| meta.file_type().is_socket() && meta.uid() == geteuid().as_raw();
    if fs::symlink_metadata(path).is_ok_and(|meta| is_own(&meta))
        && reach(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        let _ = fs::remove_file(path);
    }
}

/// Connects to a socket, at once or not at all: who listens may have stopped, with as many waiting as may.
fn reach(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Returns true if the other end is this user, or root.
pub(crate) fn is_allowed(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == geteuid())
}

/// Returns the process at the other end; 0 if the kernel does not tell.
pub(crate) fn asker(stream: &UnixStream) -> u32 {
    socket_peercred(stream).map_or(0, |peer| peer.pid.as_raw_nonzero().get().cast_unsigned())
}

/// Connects to the recorder of a socket, whose end must be this user or root; root talks to everybody's.
///
/// # Errors
/// As the operating system says.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = reach(path)?;
    if geteuid().is_root() || is_allowed(&stream) {
        Ok(stream)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
    }
}

/// Lists the sockets of this user's recorders, with the ids of their processes.
pub(crate) fn found() -> Vec<(u32, PathBuf)> {
    let all = folders().into_iter().flat_map(|folder| sockets(&folder));
    let named = all.filter_map(|path| {
        let pid = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
        let is_stale = connect(&path).is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        (!is_stale).then_some((pid, path))
    });
    named.collect()
}

fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "sock")).collect()
}
