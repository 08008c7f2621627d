//! Keeps what comes out of a pipe in a file without a name, so that it can be mapped and memory stays small.

use std::fs::File;
use std::io::{self, Read, Write};

use icecore_format::header;

use super::Cause;

/// Bytes that are moved at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads a pipe to its end, into a file that is gone when it is closed.
///
/// # Errors
/// If the pipe or the folder for temporary files fails. What `is_one` does not take by its first bytes is not read on: it may have
/// no end.
pub(super) fn spool(pipe: impl Read, is_one: impl Fn(&[u8]) -> bool) -> Result<File, Cause> {
    let mut pipe = Patient(pipe);
    let mut file = tempfile::tempfile().map_err(Cause::NoRoom)?;
    let mut head = Vec::with_capacity(header::LEN);
    pipe.by_ref().take(header::LEN as u64).read_to_end(&mut head)?;
    file.write_all(&head).map_err(Cause::NoRoom)?;
    if !is_one(&head) {
        // Whoever maps it says what is wrong.
        return Ok(file);
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = match pipe.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Cause::Pipe(error)),
        };
        file.write_all(&buffer[..len]).map_err(Cause::NoRoom)?;
    }
}

/// A pipe that somebody may have made non-blocking.
struct Patient<R>(R);

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::header::FileHeader;

    use super::*;

    /// A source that fails, or goes on for ever.
    struct Failing(Option<io::ErrorKind>);

    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0 {
                Some(kind) => Err(kind.into()),
                None => {
                    out.fill(b'y');
                    Ok(out.len())
                }
            }
        }
    }

    fn head() -> [u8; header::LEN] {
        FileHeader { mark: header::EndMark::Streamed, incompatible: 0, compatible: 0, uuid: [1; 16] }.encode()
    }

    fn is_recording(head: &[u8]) -> bool {
        FileHeader::decode(head).is_ok()
    }

    #[test]
    fn a_pipe_is_kept_byte_for_byte() {
        let bytes: Vec<u8> = head().into_iter().chain((0..1_000_000_u32).map(|n| n as u8)).collect();
        let mut file = spool(&bytes[..], is_recording).expect("room");
        let mut back = Vec::new();
        io::Seek::rewind(&mut file).and_then(|()| file.read_to_end(&mut back)).expect("ours");
        assert_eq!(back, bytes);
    }

    #[test]
    fn what_is_no_recording_is_not_read_to_its_end() {
        let file = spool(Failing(None), is_recording).expect("room");
        assert_eq!(file.metadata().expect("ours").len(), header::LEN as u64);
    }

    #[test]
    fn a_pipe_that_fails_is_an_error_with_its_cause() {
        let head = head();
        let broken = (&head[..]).chain(Failing(Some(io::ErrorKind::ConnectionReset)));
        let error = spool(broken, is_recording).expect_err("broken");
        assert_eq!(format!("{:#}", anyhow::Error::from(error)), "cannot read on: connection reset");
    }

    #[test]
    fn a_full_folder_for_temporary_files_is_named_with_the_variable_that_moves_it() {
        let text = Cause::NoRoom(io::ErrorKind::StorageFull.into()).to_string();
        assert!(text.contains("folder for temporary files `/") && text.contains("set TMPDIR"), "{text}");
    }
}
