//! An object store on loopback, and connections to it that end at any byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Downloads a bucket into a folder.
const DOWNLOAD: &str = "
import boto3, sys
bucket = boto3.resource('s3').Bucket(sys.argv[1])
for item in bucket.objects.all():
    bucket.download_file(item.key, sys.argv[2] + '/' + item.key.split('/')[-1])
";

/// The Python that has moto and a client of others.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/engines/test/bin/python");
    assert!(python.exists(), "there is no moto in target/engines: run `make setup-test`");
    python
}

/// An object store on loopback, which ends with the test: moto's. It has the buckets `fleet` and `other`.
pub struct Server {
    child: Child,
    /// Where it serves.
    pub address: SocketAddr,
}

impl Server {
    /// Starts it.
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a port");
        let mut command = Command::new(python());
        command.args(["-c", "import sys; from moto.server import main; main(sys.argv[1:])"]);
        command.args(["-H", "127.0.0.1", "-p"]).arg(address.port().to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let server = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(60);
        for bucket in ["fleet", "other"] {
            while !server.makes(bucket).is_ok_and(|made| made) {
                assert!(Instant::now() < deadline, "moto does not serve");
                thread::sleep(Duration::from_millis(50));
            }
        }
        server
    }

    /// Writes what is in a bucket into a folder: each object under the last part of its name.
    pub fn download(&self, bucket: &str, to: &Path) {
        let mut command = Command::new(python());
        command.args(["-c", DOWNLOAD, bucket]).arg(to).env("AWS_DEFAULT_REGION", "us-east-1");
        finds(&mut command, self.address);
        assert!(command.status().expect("it runs").success(), "cannot download `{bucket}`");
    }

    /// Makes a bucket.
    fn makes(&self, bucket: &str) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.address)?;
        let host = self.address;
        write!(stream, "PUT /{bucket} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b"200"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Lets a program find the object store there, and nothing that the user of the tests has set for himself.
pub fn finds(command: &mut Command, endpoint: SocketAddr) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    command.env("AWS_ENDPOINT_URL", format!("http://{endpoint}")).env("NO_PROXY", "127.0.0.1");
}

/// Leaves one of three connections whole. The second ends after some bytes of its requests, the third after some bytes of its answers, each
/// pair after another number of bytes. For [`cutting`].
pub fn two_of_three(number: u64) -> [u64; 2] {
    let after = (number * 7_919) % 12_000;
    match number % 3 {
        0 => [u64::MAX, u64::MAX],
        1 => [after, u64::MAX],
        _ => [u64::MAX, after],
    }
}

/// Passes connections on. Of each, by its number, it passes at most so many bytes to the server, and so many back. Returns where, and how many
/// were ended.
pub fn cutting(server: SocketAddr, budgets: fn(u64) -> [u64; 2]) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let cut = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&cut);
    thread::spawn(move || {
        for (number, client) in (0..).zip(listener.incoming()) {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
            let ways = [(&client, &server), (&server, &client)];
            for ((from, to), budget) in ways.into_iter().zip(budgets(number)) {
                let (mut from, mut to) =
                    (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                let counted = Arc::clone(&counted);
                thread::spawn(move || {
                    let passed = std::io::copy(&mut (&mut from).take(budget), &mut to).unwrap_or(0);
                    if passed == budget {
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
                });
            }
        }
    });
    (address, cut)
}
