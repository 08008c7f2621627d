//! Another host: sshd on loopback, with keys and settings of its own. Its files are those of this machine.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{needs, text, wait_until};

/// The host, which ends with the test.
pub struct Host {
    dir: tempfile::TempDir,
    port: u16,
    running: Option<Child>,
}

impl Host {
    /// Starts it.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        for name in ["host", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            let made =
                keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.path().join(name)).status();
            assert!(made.expect("ssh-keygen runs").success());
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a port").port();
        let host = Self { dir, port, running: None };
        let at = |name: &str| host.dir.path().join(name).display().to_string();
        let of_server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nSubsystem sftp internal-sftp\nMaxStartups 100\n",
            at("host"),
            at("key.pub")
        );
        let key = fs::read_to_string(at("host.pub")).expect("made");
        let of_client = format!(
            "Host *\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            at("key"),
            at("known")
        );
        for (name, lines) in [
            ("sshd_config", of_server),
            ("ssh_config", of_client),
            ("known", format!("[127.0.0.1]:{port} {key}")),
        ] {
            fs::write(at(name), lines).expect("room");
        }
        // Debian's folder for the processes of sshd that may do nothing; only root needs it.
        let _ = fs::create_dir("/run/sshd");
        needs(SSHD, &["-t", "-f", &at("sshd_config")]);
        let mut host = host;
        host.begin();
        host
    }

    /// Starts sshd, also after [`Host::cut`].
    pub fn begin(&mut self) {
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f"]).arg(self.dir.path().join("sshd_config"));
        self.running = Some(sshd.stderr(Stdio::null()).spawn().expect("sshd runs"));
        wait_until("sshd answers", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Ends sshd, and all connections at once.
    pub fn cut(&mut self) {
        if let Some(mut running) = self.running.take() {
            // Each connection has processes of its own.
            let mut all = vec![running.id()];
            let mut at = 0;
            while at < all.len() {
                all.extend(children(all[at]));
                at += 1;
            }
            let _ = Command::new("kill").arg("-9").args(all.iter().map(u32::to_string)).output();
            let _ = running.wait();
        }
    }

    /// Names a folder of the host.
    pub fn folder(&self, path: &Path) -> String {
        let user = Command::new("id").arg("-un").output().expect("id runs");
        format!("ssh://{}@127.0.0.1:{}{}", text(&user.stdout).trim(), self.port, path.display())
    }

    /// Returns the program that copies to it, with its options, for ICECORE_SFTP.
    pub fn sftp(&self) -> String {
        format!("sftp -F {}", self.settings().display())
    }

    fn settings(&self) -> PathBuf {
        self.dir.path().join("ssh_config")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.cut();
    }
}

fn children(process: u32) -> Vec<u32> {
    let list = Command::new("pgrep").args(["-P", &process.to_string()]).output().expect("procps");
    text(&list.stdout).lines().filter_map(|line| line.parse().ok()).collect()
}

const SSHD: &str = "/usr/sbin/sshd";
