//! Files in a bucket of an object store that speaks the protocol of Amazon S3.
//!
//! A file is published by one request with `If-None-Match: *`: the store takes it whole or not at all, and only if its name is free. Requests
//! that fail are sent again. If an answer is lost, and the file was taken, the second request finds that the name is taken: whoever publishes
//! must be content with that, as with a neighbour that was faster.

mod answers;
mod signature;

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use tempfile::NamedTempFile;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::store::{Local, Store, Stored, Tail, no_temporary};
use answers::{Page, page, refusal};
use signature::{Signed, Signer, encoded, hexadecimal};

/// How often a request is sent.
const TRIES: u32 = 6;
/// What is waited before the second time; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// To connect, and until more bytes are sent or answered, no more is waited.
const SILENCE: Duration = Duration::from_secs(30);
/// The largest file that one request may publish, bytes.
const MOST_BYTES: u64 = 5 << 30;
/// The longest answer in XML: a page of a listing has 1,000 files, whose names have at most 1,024 bytes.
const MOST_XML: u64 = 8 << 20;

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It has no name.
    #[error("`s3://{0}` names no bucket: write s3://BUCKET or s3://BUCKET/PREFIX")]
    Name(String),
    /// Nobody said who asks.
    #[error(
        "{0} is not set: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN for temporary keys; \
         `eval \"$(aws configure export-credentials --format env)\"` sets them from a profile"
    )]
    Missing(&'static str),
    /// The address of the store is none.
    #[error("`{0}` in AWS_ENDPOINT_URL is no address: write http://HOST:PORT or https://HOST:PORT")]
    Endpoint(String),
}

/// A part of a bucket.
pub(crate) struct Bucket {
    agent: Agent,
    signer: Signer,
    /// `https://HOST`, and the path of the bucket there.
    origin: String,
    path: String,
    bucket: String,
    /// How all names of files begin: empty, or with a slash at the end.
    prefix: String,
}

/// What is sent with a request.
enum Sent<'a> {
    Nothing,
    File(&'a File),
}

/// A request.
struct Request<'a> {
    method: &'a str,
    /// The name of the file in the bucket; empty for the bucket itself.
    key: &'a str,
    /// Names and values, in the order of the names.
    query: &'a [(&'a str, &'a str)],
    headers: &'a [(&'a str, String)],
    sent: Sent<'a>,
}

impl<'a> Request<'a> {
    fn new(method: &'a str, key: &'a str) -> Self {
        Self { method, key, query: &[], headers: &[], sent: Sent::Nothing }
    }
}

impl Bucket {
    /// Names `BUCKET` or `BUCKET/PREFIX`; who asks, and where, is in the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`.
    ///
    /// # Errors
    /// If the name or the environment is wrong.
    pub(crate) fn from_env(name: &str) -> Result<Self, SettingsError> {
        let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
        let is_right = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
        if bucket.is_empty() || !bucket.bytes().all(is_right) {
            return Err(SettingsError::Name(name.to_owned()));
        }
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let needed = |name: &'static str| set(name).ok_or(SettingsError::Missing(name));
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let signer = Signer {
            access_key: needed("AWS_ACCESS_KEY_ID")?,
            secret_key: needed("AWS_SECRET_ACCESS_KEY")?,
            session_token: set("AWS_SESSION_TOKEN"),
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
        };
        let (origin, path) = match set("AWS_ENDPOINT_URL_S3").or_else(|| set("AWS_ENDPOINT_URL")) {
            Some(url) => {
                let origin = url.trim_end_matches('/');
                let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
                if host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                    return Err(SettingsError::Endpoint(url));
                }
                (origin.to_owned(), format!("/{bucket}"))
            }
            // Certificates are for one name below that of the store.
            None if bucket.contains('.') => {
                (format!("https://s3.{}.amazonaws.com", signer.region), format!("/{bucket}"))
            }
            None => (format!("https://{bucket}.s3.{}.amazonaws.com", signer.region), String::new()),
        };
        // The system's certificates: a company's own store may have one of the company.
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("icecore-report/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(2 * SILENCE))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .build();
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { agent: agent.into(), signer, origin, path, bucket: bucket.to_owned(), prefix })
    }

    /// The name of a file in the bucket.
    fn key(&self, name: &Path) -> io::Result<String> {
        let name = name.to_str().ok_or_else(|| io::Error::other("its name is no UTF-8"))?;
        Ok(format!("{}{name}", self.prefix))
    }

    /// Sends a request until an answer is whole, or will not be. `take` reads it. Answers that refuse the request are errors.
    fn ask<T>(
        &self,
        request: &Request<'_>,
        mut take: impl FnMut(&mut Response<Body>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (mut tries, mut wait) = (1, FIRST_WAIT);
        loop {
            let answer = self.ask_once(request).and_then(|mut answer| match answer.status().as_u16() {
                200..300 => take(&mut answer).map_err(Failure::passing),
                _ => Err(self.failure(&mut answer)),
            });
            match answer {
                Ok(taken) => return Ok(taken),
                Err(failure) if !failure.may_pass || tries == TRIES => return Err(failure.error),
                Err(_) => sleep(wait),
            }
            (tries, wait) = (tries + 1, 2 * wait);
        }
    }

    fn ask_once(&self, request: &Request<'_>) -> Result<Response<Body>, Failure> {
        let Request { method, key, query, headers, sent } = request;
        let slash = if self.path.is_empty() || !key.is_empty() { "/" } else { "" };
        let path = format!("{}{slash}{}", self.path, encoded(key, "/"));
        let pairs = query.iter().map(|(name, value)| format!("{}={}", encoded(name, ""), encoded(value, "")));
        let query = pairs.collect::<Vec<_>>().join("&");
        let body_hash = match sent {
            Sent::Nothing => hexadecimal(Context::new(&SHA256).finish().as_ref()),
            Sent::File(file) => hash(file).map_err(Failure::lasting)?,
        };
        let (scheme, host) = self.origin.split_once("://").unwrap_or_default();
        // The port that the scheme has anyway is not sent.
        let host = host.strip_suffix(if scheme == "https" { ":443" } else { ":80" }).unwrap_or(host);
        let signed = Signed { method, host, path: &path, query: &query, headers, body_hash: &body_hash };
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{query}", self.origin);
        let mut built = ureq::http::Request::builder().method(*method).uri(url);
        for (name, value) in self.signer.headers(&signed, Timestamp::now()) {
            built = built.header(name, value);
        }
        let failed = |error: ureq::Error| Failure::passing(cause(error));
        let wrong = |error: ureq::http::Error| Failure::lasting(io::Error::other(error));
        match sent {
            Sent::Nothing => self.agent.run(built.body(()).map_err(wrong)?).map_err(failed),
            Sent::File(file) => self.agent.run(built.body(*file).map_err(wrong)?).map_err(failed),
        }
    }

    /// What an answer means that refuses a request.
    fn failure(&self, answer: &mut Response<Body>) -> Failure {
        let status = answer.status().as_u16();
        let region = answer.headers().get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        let region = region.map(str::to_owned);
        let said = refusal(&xml(answer).unwrap_or_default());
        let bucket = &self.bucket;
        let lasting = |kind: io::ErrorKind, cause: String| Failure::lasting(io::Error::new(kind, cause));
        let described = match (&*said.code, &*said.message) {
            ("", _) => format!("the object store answers {status}"),
            (code, message) => format!("the object store answers {code} ({status}): {message}"),
        };
        match (status, &*said.code) {
            (_, "NoSuchBucket") => {
                lasting(io::ErrorKind::Other, format!("there is no bucket `{bucket}`: make it first"))
            }
            (404, "NoSuchKey" | "") => lasting(io::ErrorKind::NotFound, "it is not there".to_owned()),
            // The name is taken.
            (412, _) => lasting(io::ErrorKind::AlreadyExists, described),
            (301 | 307 | 400, _) if region.as_ref().is_some_and(|region| *region != self.signer.region) => {
                let region = region.unwrap_or_default();
                lasting(
                    io::ErrorKind::Other,
                    format!("the bucket `{bucket}` is in another region: set AWS_REGION={region}"),
                )
            }
            (401 | 403, _) => lasting(
                io::ErrorKind::PermissionDenied,
                format!("{described}; check the AWS_ variables, the clock, and what this key may do"),
            ),
            // 409: two publish the same name at this moment.
            (408 | 409 | 429 | 500.., _) => Failure::passing(io::Error::other(described)),
            _ => lasting(io::ErrorKind::Other, described),
        }
    }

    /// Reads a page of a listing.
    fn page(&self, prefix: &str, token: Option<&str>) -> io::Result<Page> {
        let token = token.map(|token| ("continuation-token", token));
        let query: Vec<(&str, &str)> =
            token.into_iter().chain([("list-type", "2"), ("prefix", prefix)]).collect();
        self.ask(&Request { query: &query, ..Request::new("GET", "") }, |answer| {
            let text = xml(answer)?;
            page(&text, &self.prefix).map_err(|error| {
                let cause = format!("the object store does not answer with a listing: {error}");
                io::Error::new(io::ErrorKind::InvalidData, cause)
            })
        })
    }

    /// Sends a file. False: its name is taken.
    fn put(&self, file: &File, name: &Path, replaces: bool) -> io::Result<bool> {
        let (key, size) = (self.key(name)?, file.metadata()?.len());
        if size > MOST_BYTES {
            return Err(io::Error::other(format!(
                "it has {size} bytes, and object stores take at most {MOST_BYTES} at once"
            )));
        }
        let headers = if replaces { Vec::new() } else { vec![("if-none-match", "*".to_owned())] };
        let request = Request { headers: &headers, sent: Sent::File(file), ..Request::new("PUT", &key) };
        match self.ask(&request, rest) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Reads a part of a file: what a header `Range` asks for, or all. Returns it, and the size of the file.
    fn get(&self, name: &Path, range: Option<String>) -> io::Result<Tail> {
        let key = self.key(name)?;
        let range: Vec<(&str, String)> = range.map(|range| ("range", range)).into_iter().collect();
        self.ask(&Request { headers: &range, ..Request::new("GET", &key) }, |answer| {
            // `bytes 0-9/443`
            let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let of = header("content-range").and_then(|range| range.rsplit_once('/'));
            let size = of.and_then(|(_, size)| size.parse().ok());
            let length = header("content-length").and_then(|length| length.parse().ok());
            let mut last = Vec::new();
            let read = answer.body_mut().as_reader().read_to_end(&mut last)? as u64;
            whole(read, length)?;
            Ok(Tail { size: size.unwrap_or(read), last: last.into() })
        })
    }
}

/// Why there is no answer, or none that helps.
struct Failure {
    error: io::Error,
    /// The same request may succeed later.
    may_pass: bool,
}

impl Failure {
    fn passing(error: io::Error) -> Self {
        Self { error, may_pass: true }
    }

    fn lasting(error: io::Error) -> Self {
        Self { error, may_pass: false }
    }
}

/// What went wrong, without the kinds by which others know that a file is not there, or is there already.
fn cause(error: ureq::Error) -> io::Error {
    let error = error.into_io();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => io::Error::other(error),
        _ => error,
    }
}

/// Refuses an answer that has ended before its end.
fn whole(read: u64, length: Option<u64>) -> io::Result<()> {
    match length {
        Some(length) if length != read => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer has ended before its end"))
        }
        _ => Ok(()),
    }
}

/// Reads an answer that says nothing; the connection serves the next request then.
fn rest(answer: &mut Response<Body>) -> io::Result<()> {
    io::copy(&mut answer.body_mut().as_reader(), &mut io::sink()).map(drop)
}

/// Reads an answer in XML.
fn xml(answer: &mut Response<Body>) -> io::Result<String> {
    let mut text = String::new();
    answer.body_mut().as_reader().take(MOST_XML).read_to_string(&mut text)?;
    Ok(text)
}

/// Hashes a file, and goes back to its begin.
fn hash(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    file.rewind()?;
    Ok(hexadecimal(context.finish().as_ref()))
}

impl Store for Bucket {
    fn list(&self, part: &Path) -> io::Result<Vec<Stored>> {
        let part = self.key(part)?;
        let part = if part.is_empty() || part.ends_with('/') { part } else { format!("{part}/") };
        let (mut found, mut next): (Vec<Stored>, Option<String>) = (Vec::new(), None);
        loop {
            let listed = self.page(&part, next.as_deref())?;
            found.extend(listed.files);
            match listed.next {
                Some(token) => next = Some(token),
                None => break,
            }
        }
        found.sort();
        Ok(found)
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.page(&self.prefix, None)?.files.is_empty())
    }

    fn read(&self, name: &Path) -> io::Result<Bytes> {
        self.get(name, None).map(|tail| tail.last)
    }

    fn tail(&self, name: &Path, most: u64) -> io::Result<Tail> {
        self.get(name, Some(format!("bytes=-{most}")))
    }

    fn local(&self, name: &Path) -> io::Result<Local> {
        let key = self.key(name)?;
        let mut file = self.temporary()?;
        self.ask(&Request::new("GET", &key), |answer| {
            let length = answer.headers().get("content-length").and_then(|length| length.to_str().ok());
            let length = length.and_then(|length| length.parse().ok());
            let to = file.as_file_mut();
            to.rewind()?;
            to.set_len(0)?;
            whole(io::copy(&mut answer.body_mut().as_reader(), to)?, length)
        })?;
        Ok(Local::Copy(file))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::with_prefix("icecore-").map_err(no_temporary)
    }

    fn publish(&self, file: NamedTempFile, name: &Path, replaces: bool) -> io::Result<bool> {
        self.put(file.as_file(), name, replaces)
    }

    /// The file is sent as it is: a copy would take room here.
    fn take(&self, from: &File, name: &Path) -> io::Result<bool> {
        self.put(from, name, false)
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        let key = self.key(name)?;
        match self.ask(&Request::new("DELETE", &key), rest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn unfinished(&self) -> io::Result<Vec<Stored>> {
        // A file that was not published was never there.
        Ok(Vec::new())
    }
}
