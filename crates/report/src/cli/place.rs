//! A place where files are kept, as a user types it.

use std::path::Path;

use anyhow::bail;
use icecore_archive::folder::is_bucket;

/// A folder that a user typed: of this machine, in a bucket, or on another host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// Of this machine, or in a bucket.
    Folder(&'a Path),
    /// On another host, to which ssh has a way.
    Remote { host: &'a str, port: Option<&'a str>, path: &'a str },
}

impl<'a> Place<'a> {
    /// `PATH`, `s3://BUCKET/PREFIX`, `HOST:PATH`, or `ssh://HOST[:PORT]/PATH`.
    ///
    /// # Errors
    /// If it is neither.
    pub(crate) fn new(typed: &'a str) -> anyhow::Result<Self> {
        if is_bucket(Path::new(typed)) {
            return Ok(Self::Folder(Path::new(typed)));
        }
        let (host, port, path) = if let Some(rest) = typed.strip_prefix("ssh://") {
            let Some((host, path)) = rest.find('/').map(|at| rest.split_at(at)) else {
                bail!("`{typed}` names no folder: write ssh://HOST/PATH");
            };
            match host.rsplit_once(':') {
                Some((host, port)) => (host, Some(port), path),
                None => (host, None, path),
            }
        } else {
            match typed.split_once(':') {
                Some((host, path)) if !host.contains('/') => (host, None, path),
                _ => return Ok(Self::Folder(Path::new(typed))),
            }
        };
        // It would be an option of ssh.
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('-');
        if !is_name(host)
            || path.is_empty()
            || port.is_some_and(|port| !port.bytes().all(|it| it.is_ascii_digit()))
        {
            bail!(
                "`{typed}` names no folder: write a folder, s3://BUCKET/PREFIX, HOST:PATH or ssh://HOST:PORT/PATH"
            );
        }
        Ok(Self::Remote { host, port, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(typed: &str) -> Option<(String, Option<String>, String)> {
        match Place::new(typed) {
            Ok(Place::Remote { host, port, path }) => {
                Some((host.to_owned(), port.map(str::to_owned), path.to_owned()))
            }
            Ok(Place::Folder(folder)) => Some((String::new(), None, folder.display().to_string())),
            Err(_) => None,
        }
    }

    #[test]
    fn hosts_and_folders_are_told_apart_and_no_host_is_an_option() {
        let is = |host: &str, port: Option<&str>, path: &str| {
            Some((host.to_owned(), port.map(str::to_owned), path.to_owned()))
        };
        assert_eq!(parts("/var/archive"), is("", None, "/var/archive"));
        assert_eq!(parts("./a:b"), is("", None, "./a:b"));
        assert_eq!(parts("s3://bucket/a"), is("", None, "s3://bucket/a"));
        assert_eq!(parts("me@host:archive"), is("me@host", None, "archive"));
        assert_eq!(parts("ssh://host:22/var/a"), is("host", Some("22"), "/var/a"));
        for wrong in ["-oProxyCommand=x:a", "ssh://-x/a", "ssh://host", "host:", "ssh://host:2x/a"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
