//! The way to files and memory of others: every answer comes within [`PATIENCE`], or there is none; to find out whose fault that is may take as
//! long again.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

use super::devices::{Answers, PATIENCE, Whom};
use super::reader::{receive, send, serve};
use super::request::{MAX_ANSWER, Meta, Request, answer};
use crate::sys::fork::fork;
use crate::sys::rights::{self, Part};

/// How long the keeper waits for the last readers.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The process that starts readers. It was started before the recorder had threads, memory, or anything open.
#[derive(Debug)]
pub struct Keeper {
    pid: Pid,
    shared: Arc<Shared>,
}

/// What all doors share.
#[derive(Debug)]
struct Shared {
    /// The way to the keeper; `None` when it is to end.
    keeper: Mutex<Option<Asked>>,
    answers: Mutex<Answers>,
}

/// The way to the keeper.
#[derive(Debug)]
struct Asked {
    socket: OwnedFd,
    /// How many readers it was asked for.
    count: u64,
}

/// A way to the files and the memory of others. Each thread has its own, so that none waits for what another one asks; a clone is one for
/// another thread.
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    reader: Mutex<Option<Reader>>,
}

/// A process that carries out requests.
#[derive(Debug)]
struct Reader {
    socket: OwnedFd,
    process: OwnedFd,
}

impl Keeper {
    /// Starts the process that starts readers.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn start() -> io::Result<Self> {
        let (socket, other) = pair()?;
        let pid = fork(c"icecore-keeper", other, |socket| keep(&socket))?;
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidData)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let keeper = Mutex::new(Some(Asked { socket, count: 0 }));
        let shared = Shared { keeper, answers: Mutex::default() };
        Ok(Self { pid, shared: Arc::new(shared) })
    }

    /// Lists the processes of this room: the keeper, and the readers that have not ended.
    ///
    /// # Source
    /// proc_tid_children(5)
    pub(crate) fn processes(&self) -> Vec<u32> {
        let keeper = self.pid.as_raw_nonzero().get().cast_unsigned();
        let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"));
        let children = children.unwrap_or_default();
        std::iter::once(keeper).chain(children.split(' ').filter_map(|pid| pid.parse().ok())).collect()
    }

    /// Opens a way to files and memory. After the end of the keeper it leads nowhere.
    pub fn door(&self) -> Door {
        Door { shared: Arc::clone(&self.shared), reader: Mutex::default() }
    }
}

impl Shared {
    /// Starts a reader.
    fn reader(&self) -> io::Result<Reader> {
        let (socket, other) = pair()?;
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let process = keeper.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.reader(other.as_fd())?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Reader { socket, process })
    }
}

impl Asked {
    /// Asks for a reader with this end of a socket. An answer that was too late for an earlier one is left out.
    fn reader(&mut self, of_reader: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.count += 1;
        let number = self.count.to_ne_bytes();
        send(&self.socket, &number, Some(of_reader))?;
        loop {
            let mut answered = [0; 8];
            match receive(&self.socket, &mut answered)? {
                (0, _) => return Err(io::ErrorKind::BrokenPipe.into()),
                (_, process) if answered == number => {
                    return process.ok_or_else(|| io::ErrorKind::BrokenPipe.into());
                }
                _ => {}
            }
        }
    }
}

impl Drop for Keeper {
    /// Lets it end, and waits for that: it never waits for a file system.
    fn drop(&mut self) {
        let socket = self.shared.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A command whose exec hangs has the other end of its socket, too, so that closing it is not enough.
        socket.iter().for_each(|Asked { socket, .. }| _ = send(socket, &[0], None));
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Makes two ends of a socket for messages, which have room for an answer.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_send_buffer_size(&other, 2 * MAX_ANSWER)?;
    Ok((one, other))
}

/// Starts a reader for each socket that arrives, and answers with its process and the number that came with the socket; ends when a message
/// comes without one. At the end all readers end that can, and none of these is left to whoever collects orphans here.
fn keep(socket: &OwnedFd) {
    rights::keep(Part::Keeper);
    let (mut readers, mut number) = (Vec::new(), [0; 8]);
    while let Ok((1.., Some(of_reader))) = receive(socket, &mut number) {
        let work = |socket| {
            rights::keep(Part::Reader);
            serve(&socket);
        };
        let process = fork(c"icecore-reader", of_reader, work).ok().and_then(|pid| {
            let pid = Pid::from_raw(pid.cast_signed())?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        });
        if send(socket, &number, process.as_ref().map(OwnedFd::as_fd)).is_err() {
            break;
        }
        readers.extend(process);
    }
    readers.iter().for_each(|reader| _ = pidfd_send_signal(reader, Signal::KILL));
    let until = Instant::now() + LAST_WAIT;
    while matches!(waitpid(None, WaitOptions::NOHANG), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Clone for Door {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), reader: Mutex::default() }
    }
}

impl Door {
    /// Opens a way whose keeper stays until the test ends.
    #[cfg(test)]
    pub(crate) fn of_test() -> Arc<Self> {
        Arc::new(std::mem::ManuallyDrop::new(Keeper::start().expect("a process")).door())
    }

    /// Finds a file. Returns a descriptor of it, the device that is asked from now on, and what it is.
    pub(super) fn found(&self, whom: Whom, request: &Request<'_>) -> io::Result<(OwnedFd, u64, Meta)> {
        let (bytes, found) = self.ask(whom, request, None)?;
        let meta = Meta::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        let asks = match whom {
            Whom::Device(dev) | Whom::Mapped(_, dev) => dev,
            Whom::Path | Whom::Process(_) => meta.dev,
        };
        if meta.is_local {
            self.answers().is_local(asks);
        }
        Ok((found.ok_or(io::ErrorKind::InvalidData)?, asks, meta))
    }

    /// Reads memory of a process: the first bytes of a range, or with `present` the first ones that are in memory, so that no file system is asked
    /// for them. Returns how many come before them as well.
    ///
    /// # Errors
    /// As [`Self::mapped`].
    pub(super) fn memory(&self, tgid: u32, at: u64, len: u64, present: bool) -> io::Result<(u64, Vec<u8>)> {
        let request = Request::Memory { tgid, at, len, present };
        let (mut bytes, _) = self.ask(Whom::Process(tgid), &request, None)?;
        let skipped = *bytes.first_chunk::<8>().ok_or(io::ErrorKind::InvalidData)?;
        bytes.drain(..skipped.len());
        Ok((u64::from_ne_bytes(skipped), bytes))
    }

    /// Returns true if a device has not answered once.
    pub(crate) fn is_silent(&self, dev: u64) -> bool {
        self.answers().is_silent(dev)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks somebody, and returns the answer and the descriptor with it.
    pub(super) fn ask(
        &self,
        whom: Whom,
        request: &Request<'_>,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        if !self.answers().may_ask(whom, Instant::now()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let asked = self.ask_anyway(request, beside);
        if asked.as_ref().is_err_and(is_late) {
            let whom = self.to_blame(whom);
            self.answers().did_not_answer(whom, Instant::now());
        }
        asked
    }

    /// Returns who has not answered. To open the file that a process has mapped, the kernel asks the process first.
    fn to_blame(&self, whom: Whom) -> Whom {
        match whom {
            Whom::Mapped(tgid, _)
                if self.ask_anyway(&Request::Maps { tgid, from: 0 }, None).as_ref().is_err_and(is_late) =>
            {
                Whom::Process(tgid)
            }
            whom => whom,
        }
    }

    /// Asks, whoever has not answered before.
    fn ask_anyway(
        &self,
        request: &Request<'_>,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let mut kept = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = match kept.take() {
            Some(reader) => reader,
            None => self.shared.reader()?,
        };
        let mut whole = vec![0; size_of::<i32>() + MAX_ANSWER];
        send(&reader.socket, &request.encode(), beside)?;
        match receive(&reader.socket, &mut whole) {
            Ok((0, _)) => Err(io::ErrorKind::BrokenPipe.into()),
            Ok((len, found)) => {
                *kept = Some(reader);
                Ok((answer(&whole[..len])?.to_vec(), found))
            }
            Err(rustix::io::Errno::AGAIN) => {
                // It may never end, and nobody waits for it.
                let _ = pidfd_send_signal(&reader.process, Signal::KILL);
                Err(io::ErrorKind::TimedOut.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns true if there was no answer in time.
fn is_late(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use rustix::process::kill_process;

    use super::*;

    #[test]
    fn a_late_answer_of_the_keeper_is_not_taken_for_the_next_one() {
        let keeper = Keeper::start().expect("a process");
        kill_process(keeper.pid, Signal::STOP).expect("ours");
        assert!(keeper.shared.reader().is_err(), "it does not answer");
        kill_process(keeper.pid, Signal::CONT).expect("ours");
        let reader = keeper.shared.reader().expect("it answers");
        let _ = pidfd_send_signal(&reader.process, Signal::KILL);
        let ended = receive(&reader.socket, &mut [0]);
        assert_eq!(ended.expect("this one has ended").0, 0);
    }
}
