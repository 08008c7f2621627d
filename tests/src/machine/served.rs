//! A file on a file system that a program serves (FUSE).

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{send, skip};

/// A served file; its file system is unmounted when this is dropped.
#[derive(Debug)]
pub struct Served {
    server: Child,
    /// The file.
    pub file: PathBuf,
}

/// Who gets an answer.
#[derive(Debug, Clone, Copy)]
pub enum ServedTo {
    /// All users.
    All,
    /// One user alone: not even root may open the file.
    User(u32),
    /// All, until they open the file.
    NobodyOpens,
    /// All, until they read the file.
    NobodyReads,
    /// All, until they write to the file.
    NobodyWrites,
}

impl Served {
    /// Serves a program in a new folder.
    pub fn new(folder: &Path, program: &Path, to: ServedTo) -> Self {
        if let Err(error) = File::open("/dev/fuse") {
            skip(&format!("there is no FUSE here: {error}"));
        }
        std::fs::create_dir(folder).expect("room");
        let mut server = Command::new("python3");
        server.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/fuse.py")).arg(folder).arg(program);
        server.args(match to {
            ServedTo::All => None,
            ServedTo::User(user) => Some(user.to_string()),
            ServedTo::NobodyOpens => Some("unopened".to_owned()),
            ServedTo::NobodyReads => Some("unread".to_owned()),
            ServedTo::NobodyWrites => Some("unwritten".to_owned()),
        });
        let mut server = server.stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut said = String::new();
        BufReader::new(server.stdout.take().expect("piped")).read_line(&mut said).expect("it says something");
        assert_eq!(said, "ready\n");
        Self { server, file: folder.join("program") }
    }

    /// Lets whoever asks for the file wait from now on.
    pub fn fall_silent(&self) {
        send(libc::SIGUSR1, self.server.id());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        send(libc::SIGTERM, self.server.id());
        let _ = self.server.wait();
    }
}
