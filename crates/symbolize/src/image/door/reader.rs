//! The process that opens and reads files for the report. Each of its system calls may wait for ever, and it does nothing else.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::PATIENCE;
use crate::Reason;
use crate::image::{ElfFile, FileOff, Inode};

/// The name with which the program of a reader is started.
pub const READER: &str = "icecore-reader";
/// The most bytes of a path: more than the kernel takes.
const MAX_PATH: u64 = 1 << 16;
/// The bytes of a file that are sent at once.
const STEP: u64 = 1 << 18;
/// The numbers at the beginning of an answer: status, length, two times, device and inode of the file, whether it is layered, length of
/// its path.
type Head = [u64; 8];

/// A process that opens files, and the way to it.
#[derive(Debug)]
pub(super) struct Reader {
    process: Child,
    socket: UnixStream,
}

/// Returns true if an error means that there was no answer in time.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Reader {
    /// Starts the process, which holds none of the report's files.
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let (socket, other) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.arg0(READER).current_dir("/").stdin(OwnedFd::from(other));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { process, socket })
    }

    /// Asks for a file, and copies it until a moment; a file of more bytes than `most` counts as one without an answer.
    pub(super) fn ask(
        &mut self,
        (root, path): (Option<&Path>, &Path),
        until: Instant,
        most: u64,
    ) -> io::Result<Result<ElfFile, Reason>> {
        let paths = [root.unwrap_or(Path::new("")), path].map(|path| path.as_os_str().as_bytes());
        let lengths = paths.map(|path| (path.len() as u64).to_ne_bytes());
        self.socket.write_all(&[&lengths.concat(), paths[0], paths[1]].concat())?;
        let mut head = [0; size_of::<Head>()];
        self.fill(&mut head, until)?;
        let [status, len, modified_unix_ns, changed_unix_ns, device, number, is_layered, path_len] =
            numbers(&head);
        if let Some(reason) = (status as usize).checked_sub(1) {
            return Ok(Err(Reason::ALL.get(reason).copied().unwrap_or(Reason::ImageUnreadable)));
        }
        if len > most {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut real_path = vec![0; path_len.min(MAX_PATH) as usize];
        self.fill(&mut real_path, until)?;
        let mut file = tempfile::tempfile()?;
        let mut left = len;
        let mut bytes = vec![0; STEP.min(len) as usize];
        while left > 0 {
            let bytes = &mut bytes[..STEP.min(left) as usize];
            self.fill(bytes, until)?;
            file.write_all(bytes)?;
            left -= bytes.len() as u64;
        }
        let real_path = OsStr::from_bytes(&real_path).into();
        let inode = Some(Inode { device, number });
        let (present, is_layered) = (None, is_layered != 0);
        Ok(Ok(ElfFile {
            file,
            real_path,
            len,
            modified_unix_ns,
            present,
            inode,
            changed_unix_ns,
            is_layered,
        }))
    }

    /// Reads bytes of an answer.
    fn fill(&self, bytes: &mut [u8], until: Instant) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let wait = until.saturating_duration_since(Instant::now()).min(PATIENCE);
            if wait.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(wait))?;
            match (&self.socket).read(&mut bytes[filled..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// Kills the process. It may never end, and nobody waits for it.
    pub(super) fn give_up(mut self) {
        let _ = self.process.kill();
    }
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let words = bytes.as_chunks::<8>().0;
    std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word)))
}

/// Opens and sends files, as they are requested through standard input, until that is closed. A program calls this at once if it was
/// started as [`READER`].
pub fn answer_requests() {
    // Nobody may wait for what a process holds that never ends.
    leave_everything();
    let socket = io::stdin().as_fd().try_clone_to_owned();
    // The end of the socket is the end of the work; nobody is there to hear of an error.
    let _ = socket.and_then(|socket| serve(&mut UnixStream::from(socket)));
}

fn serve(socket: &mut UnixStream) -> io::Result<()> {
    loop {
        let mut lengths = [0; 16];
        socket.read_exact(&mut lengths)?;
        let [root, path] = numbers(&lengths)
            .map(|len: u64| vec![0; len.min(MAX_PATH) as usize])
            .map(|mut path| socket.read_exact(&mut path).map(|()| path));
        let (root, path) = (root?, path?);
        let path = Path::new(OsStr::from_bytes(&path));
        let opened = match root.is_empty() {
            true => ElfFile::open(path),
            false => ElfFile::open_beneath(Path::new(OsStr::from_bytes(&root)), path),
        };
        match opened {
            Ok(file) => send(socket, &file)?,
            Err(reason) => {
                let mut head = Head::default();
                head[0] = reason as u64 + 1;
                socket.write_all(&head.map(u64::to_ne_bytes).concat())?;
            }
        }
    }
}

fn send(socket: &mut UnixStream, file: &ElfFile) -> io::Result<()> {
    let path = file.real_path.as_os_str().as_bytes();
    let (device, number) = file.inode.map_or((0, 0), |inode| (inode.device, inode.number));
    let (is_layered, path_len) = (file.is_layered.into(), path.len() as u64);
    let head: Head =
        [0, file.len, file.modified_unix_ns, file.changed_unix_ns, device, number, is_layered, path_len];
    socket.write_all(&[&head.map(u64::to_ne_bytes).concat()[..], path].concat())?;
    let mut off = 0;
    while off < file.len {
        // A file that became shorter ends the connection.
        let bytes = file.bytes(FileOff(off), STEP.min(file.len - off)).ok_or(ErrorKind::UnexpectedEof)?;
        socket.write_all(&bytes)?;
        off += bytes.len() as u64;
    }
    Ok(())
}

/// Leaves the session of the report, and closes what a shell or a build may have handed down to it.
fn leave_everything() {
    let _ = rustix::process::setsid();
    // SAFETY: this process has just begun, and nothing in it has opened a file that it still uses.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
    }
}
