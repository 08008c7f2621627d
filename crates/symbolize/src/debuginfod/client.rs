//! Asks servers for one file.

use std::fmt::Display;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};

use super::budget::Spending;
use super::{Artifact, Settings};
use crate::image::{ElfFile, hex};

/// The most redirections that are followed.
const MAX_REDIRECTS: u32 = 5;
/// A server that has failed this often gets no further requests.
const MAX_FAILURES: u32 = 3;
/// A server that has sent nothing for so long, or for [`Settings::stall`], is silent.
const SILENCE: Duration = Duration::from_secs(5);
/// How many bytes must arrive within [`Settings::stall`]; elfutils requires the same.
const STALL_BYTES: u64 = 100 << 10;
/// The bytes that are read at once.
const STEP: usize = 1 << 16;

/// The outcome of asking the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    /// The file is in the cache.
    Stored,
    /// No server has the file.
    NotServed,
    /// A server failed, which may have the file.
    Failed,
    /// The file costs more than the rest of the budget.
    TooDear,
}

/// Why one server gave no file.
enum Refusal {
    NotFound,
    TooDear,
    /// Nothing came.
    Silent,
    /// The server fails for every file: it gets no further requests.
    Down(String),
    Bad(String),
}

/// Asks the servers, and counts their failures.
#[derive(Debug)]
pub(super) struct Client<'s> {
    settings: &'s Settings,
    agent: Agent,
    /// The number of failures of each server.
    failures: Vec<AtomicU32>,
    /// The first failure of each server.
    warnings: Mutex<Vec<String>>,
}

impl<'s> Client<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        // The system's certificates: a company's own server may have one of the company.
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("icecore-report/", env!("CARGO_PKG_VERSION")))
            .max_redirects(MAX_REDIRECTS)
            .max_redirects_will_error(true)
            .timeout_per_read(Some(settings.stall))
            .timeout_connect(Some(settings.stall))
            .build();
        let mut warnings = Vec::new();
        let failures = settings.servers.iter().map(|server| match settings.cache.silence(server) {
            Some((note, left)) => {
                let (left, note) = (left.as_secs(), note.display());
                warnings.push(format!(
                    "debuginfod server `{server}` was silent a short time ago: it is asked again in {left} s; to ask it now: rm -f {note}"
                ));
                AtomicU32::new(MAX_FAILURES)
            }
            None => AtomicU32::new(0),
        });
        let failures = failures.collect();
        Self { settings, agent: agent.into(), failures, warnings: Mutex::new(warnings) }
    }

    /// Asks the servers in turn, and stores the file that one of them gives.
    pub(super) fn get(&self, build_id: &[u8], what: Artifact, spending: &Spending) -> Got {
        let mut got = Got::NotServed;
        for (server, failures) in self.settings.servers.iter().zip(&self.failures) {
            if failures.load(Ordering::Relaxed) >= MAX_FAILURES {
                got = Got::Failed;
                continue;
            }
            match self.ask(server, build_id, what, spending) {
                Ok(()) => return Got::Stored,
                Err(Refusal::NotFound) => {}
                Err(Refusal::TooDear) => return Got::TooDear,
                Err(Refusal::Silent) => {
                    // If the cache cannot be written, the next report waits again.
                    drop(self.settings.cache.note_silence(server));
                    self.note(server, failures, Refusal::Down("it sends nothing".to_owned()));
                    got = Got::Failed;
                }
                Err(refusal) => {
                    self.note(server, failures, refusal);
                    got = Got::Failed;
                }
            }
        }
        if got == Got::NotServed {
            // If the cache cannot be written, the next report asks again.
            drop(self.settings.cache.note_miss(build_id, what));
        }
        got
    }

    /// Returns the messages about servers that failed.
    pub(super) fn warnings(self) -> Vec<String> {
        self.warnings.into_inner().unwrap_or_default()
    }

    fn note(&self, server: &str, failures: &AtomicU32, refusal: Refusal) {
        let (cause, count) = match refusal {
            Refusal::Down(cause) => (cause, MAX_FAILURES),
            Refusal::Bad(cause) => (cause, 1),
            Refusal::NotFound | Refusal::TooDear | Refusal::Silent => return,
        };
        if failures.fetch_add(count, Ordering::Relaxed) == 0 {
            let warning = format!("cannot fetch from debuginfod server `{server}`: {cause}");
            if let Ok(mut warnings) = self.warnings.lock() {
                warnings.push(warning);
            }
        }
    }

    fn ask(&self, server: &str, build_id: &[u8], what: Artifact, spending: &Spending) -> Result<(), Refusal> {
        let time = spending.left_time().ok_or(Refusal::TooDear)?;
        let most_time = self.settings.max_time.map_or(time, |most| most.min(time));
        let limit = self.settings.max_bytes.unwrap_or(u64::MAX);
        let url = format!("{server}/buildid/{}/{}", hex(build_id), what.name());
        let mut request = self.agent.get(&url);
        if let Some(most) = self.settings.max_bytes {
            request = request.header("X-DEBUGINFOD-MAXSIZE", most.to_string());
        }
        let begun = Instant::now();
        let answer = request.config().timeout_global(Some(most_time)).build().call();
        let answer = answer.map_err(|error| match error {
            ureq::Error::Timeout(_) if begun.elapsed() >= SILENCE.min(self.settings.stall) => Refusal::Silent,
            ureq::Error::Timeout(_) if most_time == time && spending.left_time().is_none() => {
                Refusal::TooDear
            }
            other => refusal(&other),
        })?;
        if let Some(len) = length(&answer) {
            if len > limit {
                return Err(Refusal::Bad(format!(
                    "{what:?} of {len} bytes is larger than DEBUGINFOD_MAXSIZE"
                )));
            }
            if len > spending.left_bytes() {
                return Err(Refusal::TooDear);
            }
        }
        let mut file = self.settings.cache.begin(build_id, what).map_err(|error| local(&error))?;
        let body = answer.into_body().into_reader();
        self.receive(body, file.as_file_mut(), limit, spending)?;
        prove(file.path(), build_id)?;
        self.settings.cache.finish(file, build_id, what).map_err(|error| local(&error))
    }

    fn receive(
        &self,
        mut body: impl Read,
        to: &mut impl Write,
        limit: u64,
        spending: &Spending,
    ) -> Result<(), Refusal> {
        let mut step = vec![0; STEP];
        let (mut len, mut window) = (0u64, (Instant::now(), 0u64));
        loop {
            let read = match body.read(&mut step) {
                Ok(0) => return Ok(()),
                Ok(read) => read as u64,
                Err(_) if spending.left_time().is_none() => return Err(Refusal::TooDear),
                Err(error) => return Err(Refusal::Bad(error.to_string())),
            };
            len += read;
            if !spending.pay(read) {
                return Err(Refusal::TooDear);
            }
            if len > limit {
                return Err(Refusal::Bad(format!("more than {limit} bytes came (DEBUGINFOD_MAXSIZE)")));
            }
            if window.0.elapsed() > self.settings.stall {
                if len - window.1 < STALL_BYTES {
                    return Err(Refusal::Bad(stalled(self.settings.stall)));
                }
                window = (Instant::now(), len);
            }
            to.write_all(&step[..read as usize]).map_err(|error| local(&error))?;
        }
    }
}

/// Checks that a download is an ELF file with the requested build-id.
fn prove(path: &std::path::Path, build_id: &[u8]) -> Result<(), Refusal> {
    let layout = ElfFile::open(path).and_then(|file| file.layout());
    match layout {
        Ok(layout) if layout.build_id == build_id => Ok(()),
        Ok(_) => Err(Refusal::Bad(format!("what it gave for {} has another build-id", hex(build_id)))),
        Err(_) => Err(Refusal::Bad(format!("what it gave for {} is no whole ELF file", hex(build_id)))),
    }
}

fn refusal(error: &ureq::Error) -> Refusal {
    match error {
        ureq::Error::StatusCode(404) => Refusal::NotFound,
        // The answer to DEBUGINFOD_MAXSIZE if the file is larger.
        ureq::Error::StatusCode(406) => Refusal::Bad("the file is larger than DEBUGINFOD_MAXSIZE".to_owned()),
        ureq::Error::StatusCode(_) | ureq::Error::TooManyRedirects => Refusal::Bad(error.to_string()),
        other => Refusal::Down(other.to_string()),
    }
}

/// Reports a failure on this machine.
fn local(error: &dyn Display) -> Refusal {
    Refusal::Down(format!("cannot write to the cache: {error}"))
}

fn stalled(stall: Duration) -> String {
    format!("less than {} KiB came in {} s", STALL_BYTES >> 10, stall.as_secs())
}

fn length(answer: &Response<ureq::Body>) -> Option<u64> {
    answer.headers().get("content-length")?.to_str().ok()?.parse().ok()
}
