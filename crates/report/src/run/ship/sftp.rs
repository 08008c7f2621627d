//! Ships to another host by the program `sftp` of OpenSSH, which asks nothing.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail, ensure};
use icecore_profile::random_uuid;
use icecore_symbolize::image::hex;
use tempfile::NamedTempFile;

use super::Source;

/// The variable that names another program, and its options.
const VARIABLE: &str = "ICECORE_SFTP";
/// Seconds to connect, and of silence, after which a connection counts as lost.
const OPTIONS: [&str; 8] = [
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=20",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=2",
];
/// The file that says that a folder is an archive.
const MARK: &str = "icecore-archive";

/// A folder of another host.
pub(super) struct Host<'a> {
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
}

/// What the program said, and whether all that it was told is done.
struct Said {
    is_done: bool,
    out: String,
    err: String,
}

impl<'a> Host<'a> {
    pub(super) fn new(host: &'a str, port: Option<&'a str>, path: &'a str) -> anyhow::Result<Self> {
        quoted(path)?;
        Ok(Self { host, port, path })
    }

    /// Returns true if the file was there before.
    pub(super) fn take(&self, source: &Source<'_>) -> anyhow::Result<bool> {
        let (folder, name) = (quoted(self.path)?, quoted(text(source.name)?)?);
        let enter = format!("cd {folder}");
        let looked = self.run(&[&enter, &format!("-ls -ln {MARK}"), &format!("-ls -ln {name}")])?;
        ensure!(looked.is_done, "cannot look into `{}` on {}: {}", self.path, self.host, looked.cause());
        if looked.size_of(MARK).is_some() {
            bail!(
                "`{}` on {} is an archive, to which only a program there adds: name another folder, and there run `icecore-report archive {} add`",
                self.path,
                self.host,
                self.path
            );
        }
        let begin = format!(".icecore-{}-", text(source.name)?);
        let made = format!("{begin}{}.part", hex(&random_uuid()?));
        let (begin, part) = (quoted(&begin)?, quoted(&made)?);
        if let Some(size) = looked.size_of(text(source.name)?) {
            source.has_size(size)?;
            let copy = NamedTempFile::new().context("cannot compare it with the file of its name there")?;
            let empty = NamedTempFile::new().context("cannot compare it with the file of its name there")?;
            let [to, nothing] = [quoted(text(copy.path())?)?, quoted(text(empty.path())?)?];
            // An empty file shows whether this is the folder of the source.
            let got = self.run(&[&enter, &format!("get {name} {to}"), &format!("put {nothing} {part}")])?;
            let is_elsewhere = source.is_elsewhere(made.as_ref());
            let removed = self.run(&[&enter, &format!("-rm {begin}*.part")])?;
            ensure!(
                got.is_done && removed.is_done,
                "cannot compare it with the file of its name there: {}",
                got.cause()
            );
            is_elsewhere?;
            source.equals(&fs::File::open(copy.path())?)?;
            return Ok(true);
        }
        let from = quoted(text(&fs::canonicalize(source.path)?)?)?;
        // Of this file, what earlier attempts have left goes. A name that is taken stays (`-l`).
        let sent = self.run(&[
            &enter,
            &format!("-rm {begin}*.part"),
            &format!("put -f {from} {part}"),
            &format!("rename -l {part} {name}"),
        ])?;
        ensure!(sent.is_done, "cannot write into `{}` on {}: {}", self.path, self.host, sent.cause());
        Ok(false)
    }

    /// Runs commands on the host until one fails that does not begin with `-`.
    fn run(&self, commands: &[&str]) -> anyhow::Result<Said> {
        let named = std::env::var(VARIABLE).ok().filter(|named| !named.trim().is_empty());
        let named = named.as_deref().unwrap_or("sftp");
        let mut words = named.split_whitespace();
        let program = words.next().unwrap_or(named);
        let mut command = Command::new(program);
        command.args(words).args(OPTIONS).args(["-b", "-"]);
        if let Some(port) = self.port {
            command.args(["-P", port]);
        }
        command.arg("--").arg(self.host).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start `{program}`: install the client of OpenSSH"))?;
        // A few lines fit into the pipe, whether somebody reads them or not.
        let script: String = commands.iter().map(|line| format!("{line}\n")).collect();
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(script.as_bytes()));
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let is_done = status.success() && written.is_some_and(|written| written.is_ok());
        Ok(Said { is_done, out: text(stdout), err: text(stderr) })
    }
}

impl Said {
    /// Returns the size of a file that was listed.
    fn size_of(&self, name: &str) -> Option<u64> {
        // -rw-------    ? 0        0            4711 Nov 30 09:34 NAME
        let is_it = |line: &&str| line.strip_suffix(name).is_some_and(|rest| rest.ends_with(' '));
        let mut lines = self.out.lines().filter(|line| !line.starts_with("sftp> "));
        lines.find(is_it)?.split_whitespace().nth(4)?.parse().ok()
    }

    /// Returns why the last command failed.
    fn cause(&self) -> String {
        let is_expected = |line: &str| line.starts_with("Can't ls: ") || line.starts_with("remote delete ");
        let lines = self.err.lines().map(str::trim).filter(|line| !line.is_empty() && !is_expected(line));
        let said: Vec<&str> = lines.collect();
        let said = said.join("; ");
        let remedy = if said.contains("Host key verification failed") || said.contains("Permission denied (")
        {
            " (nothing is asked here: connect once by hand, with a key)"
        } else {
            ""
        };
        if said.is_empty() { "sftp does not say why".to_owned() } else { format!("{said}{remedy}") }
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("`{}` is no UTF-8, which sftp needs", path.display()))
}

/// Quotes a path for `sftp`, which understands no other escape inside of quotes.
fn quoted(path: &str) -> anyhow::Result<String> {
    let is_wrong = |letter: char| letter == '"' || letter == '\\' || letter.is_control();
    if path.contains(is_wrong) {
        bail!("`{path}` has a quote, a backslash or a control character, which sftp cannot be told");
    }
    Ok(format!("\"{path}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sftp_cannot_be_told_are_refused() {
        assert_eq!(quoted("a b[*]?#'").ok().as_deref(), Some("\"a b[*]?#'\""));
        for wrong in ["a\"b", "a\\b", "a\nb"] {
            assert!(quoted(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_of_the_file_with_the_whole_name() {
        let out = "sftp> ls -ln \"x\"\n-rw-------    ? 0        0            4711 Nov 30 09:34 x\n\
                   -rw-------    1 0        0            7 Nov 30 09:34 a-x\n";
        let said = Said { is_done: true, out: out.to_owned(), err: String::new() };
        assert_eq!((said.size_of("x"), said.size_of("a-x"), said.size_of("-x")), (Some(4711), Some(7), None));
    }
}
