//! The socket of the server, and who may ask: a request must know the token, and come from this machine and from a page that may ask.
//!
//! | limit | value |
//! |---|---|
//! | connections that have shown no token yet | [`STRANGERS`]; a further one ends the oldest |
//! | other connections | [`CONNECTIONS`]; further ones get the status 503 |
//! | requests that wait for an answer | [`WAITING`]; further ones get the status 503 |
//! | body of a request | [`BODY_BYTES`] |
//! | until the headers of a request are whole | [`HEADERS`] |
//! | until its body is | [`REQUEST`] |
//! | until a connection ends | [`CONNECTION`] |

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::digest::{SHA256, digest};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The most connections that have not shown a token yet. Anybody on this machine can open them; who has a token shows it at once.
pub const STRANGERS: usize = 128;
/// The most connections that have shown one.
pub const CONNECTIONS: usize = 256;
/// The most requests that wait while another is answered.
pub const WAITING: usize = 32;
/// The longest body of a request.
pub const BODY_BYTES: usize = 16 << 20;
/// The time in which the headers of a request must arrive: until then, anybody on this machine may hold a connection.
pub const HEADERS: Duration = Duration::from_secs(3);
/// The time in which its body must arrive.
pub const REQUEST: Duration = Duration::from_secs(20);
/// The time after which a connection ends, whatever it does.
pub const CONNECTION: Duration = Duration::from_secs(600);

/// How long an answer that is being made is waited for when the user ends the program.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// A request that may be answered.
#[derive(Debug)]
pub struct Asked {
    /// The path after the token, with its leading slash.
    pub path: String,
    /// The query string, without its question mark.
    pub query: String,
    /// The body of a POST; `None` for a GET.
    pub body: Option<Bytes>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    kind: &'static str,
    is_gzip: bool,
    body: Bytes,
}

impl Answer {
    fn new(status: StatusCode, kind: &'static str, body: Bytes) -> Self {
        Self { status, kind, is_gzip: false, body }
    }

    /// A page.
    pub fn html(body: Bytes) -> Self {
        Self::new(StatusCode::OK, "text/html; charset=utf-8", body)
    }

    /// JSON; `is_gzip` if it is compressed.
    pub fn json(body: Bytes, is_gzip: bool) -> Self {
        Self { is_gzip, ..Self::new(StatusCode::OK, "application/json", body) }
    }

    /// Data that only the page understands.
    pub fn bytes(body: Bytes) -> Self {
        Self::new(StatusCode::OK, "application/octet-stream", body)
    }

    /// There is nothing at the path.
    pub fn nothing() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            Bytes::from_static(b"nothing is here\n"),
        )
    }

    /// The server cannot answer.
    pub fn failed(why: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", why.to_owned().into())
    }

    fn refused(status: StatusCode, why: &'static str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", Bytes::from_static(why.as_bytes()))
    }
}

/// The open socket, and what a request must know.
#[derive(Debug)]
pub struct Socket {
    listener: TcpListener,
    /// The address of the page: with the token.
    pub url: String,
    /// The addresses for the Profiler, without a slash at their ends.
    pub shared: Shared,
    gate: Gate,
}

/// Addresses with tokens of their own, because a public site sees them as a part of its own address.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Each answers to one path of [`PROFILES`], and once.
    pub profiles: [String; PROFILES.len()],
    /// It answers to [`SYMBOLS`].
    pub symbols: String,
}

/// The paths of the samples of the first and the second recording.
pub const PROFILES: [&str; 2] = ["/profile.json", "/profile-2.json"];
/// The paths of the symbol server.
pub const SYMBOLS: [&str; 3] = ["/symbolicate/v5", "/source/v1", "/asm/v1"];

/// Decides who may ask.
#[derive(Debug)]
struct Gate {
    /// A random path, so that other users of this machine and pages of other servers do not know it.
    token: String,
    /// The tokens of [`Shared::profiles`], and whether the samples were loaded.
    profiles: [(String, AtomicBool); PROFILES.len()],
    /// The token of [`Shared::symbols`].
    symbols: String,
    /// The pages that may ask besides the own one.
    origin: String,
}

/// The connections that have not shown a token yet, by when they came.
#[derive(Debug, Default)]
struct Strangers(Mutex<BTreeMap<u64, AbortHandle>>);

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; ends the oldest one if they are too many.
    fn add(&self, number: u64, connection: AbortHandle) {
        let mut all = self.lock();
        if all.len() >= STRANGERS
            && let Some((_, oldest)) = all.pop_first()
        {
            oldest.abort();
        }
        all.insert(number, connection);
    }

    /// The connection has shown a token, or has ended.
    fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }
}

/// One connection.
struct Connection {
    number: u64,
    strangers: Arc<Strangers>,
    room: Arc<Semaphore>,
    /// Its room, since it has shown a token.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Connection {
    /// Takes the room of a connection that has shown a token; returns false if there is none.
    fn enters(&self) -> bool {
        self.strangers.remove(self.number);
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_none() {
            *permit = self.room.clone().try_acquire_owned().ok();
        }
        permit.is_some()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.strangers.remove(self.number);
    }
}

/// Makes a token: 128 random bits.
fn token() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(icecore_symbolize::image::hex(&bytes))
}

impl Socket {
    /// Opens a socket on 127.0.0.1; port 0 is any free one. Pages of `origin` may ask, too.
    ///
    /// # Errors
    /// If the port is in use, or the system has no random numbers.
    pub fn open(port: u16, origin: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let gate = Gate {
            token: token()?,
            profiles: [(token()?, AtomicBool::new(false)), (token()?, AtomicBool::new(false))],
            symbols: token()?,
            origin: origin.to_owned(),
        };
        let place = format!("http://{}", listener.local_addr()?);
        let profile =
            |position: usize| format!("{place}/{}{}", gate.profiles[position].0, PROFILES[position]);
        let shared =
            Shared { profiles: std::array::from_fn(profile), symbols: format!("{place}/{}", gate.symbols) };
        Ok(Self { listener, url: format!("{place}/{}/", gate.token), shared, gate })
    }

    /// Answers requests one after the other in this thread, until the user ends the program. Requests of those who are gone are left
    /// out. If an answer takes long when the user ends the program, it is not waited for.
    ///
    /// # Errors
    /// If the system has no threads or signals left.
    pub fn serve(self, mut answer: impl FnMut(&Asked) -> Answer) -> io::Result<()> {
        let (questions, mut asked) = mpsc::channel::<(Asked, oneshot::Sender<Answer>)>(WAITING);
        let (is_idle, idle) = oneshot::channel::<()>();
        let is_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let front = std::thread::Builder::new().name("serve".to_owned());
            let front = front.spawn_scoped(scope, || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let ended = runtime.block_on(accept(self.listener, Arc::new(self.gate), questions));
                is_ended.store(true, Ordering::Relaxed);
                // This drops all senders, so that the answering thread comes to its end.
                runtime.shutdown_background();
                let wait = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                if wait.block_on(async { timeout(LAST_ANSWER, idle).await }).is_err() {
                    std::process::exit(0);
                }
                ended
            })?;
            while let Some((asked, reply)) = asked.blocking_recv() {
                if reply.is_closed() || is_ended.load(Ordering::Relaxed) {
                    continue;
                }
                let answered = std::panic::catch_unwind(AssertUnwindSafe(|| answer(&asked)));
                // Whoever asked may be gone.
                drop(
                    reply.send(
                        answered.unwrap_or_else(|_| {
                            Answer::failed("a bug of the server, which its terminal shows")
                        }),
                    ),
                );
            }
            drop(is_idle);
            front.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

type Questions = mpsc::Sender<(Asked, oneshot::Sender<Answer>)>;

/// Accepts connections until a signal.
async fn accept(listener: TcpListener, gate: Arc<Gate>, questions: Questions) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (room, strangers) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Strangers::default()));
    for number in 0.. {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // The system may have no descriptor left until a connection ends.
                _ => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        let (gate, questions) = (gate.clone(), questions.clone());
        let (strangers_of, room) = (strangers.clone(), room.clone());
        let serving = tokio::spawn(async move {
            let own = Connection { number, strangers: strangers_of, room, permit: Mutex::default() };
            let service = service_fn(|request| respond(request, &gate, &own, &questions));
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEADERS).keep_alive(false);
            // A client that goes away is no error of ours.
            drop(timeout(CONNECTION, connection.serve_connection(TokioIo::new(stream), service)).await);
        });
        strangers.add(number, serving.abort_handle());
        // Reads what the connection has sent before others can push it out.
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn respond(
    request: Request<Incoming>,
    gate: &Gate,
    connection: &Connection,
    questions: &Questions,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_private = request.headers().contains_key("access-control-request-private-network");
    let (answer, is_known) = match gate.judge(&request) {
        Err(answer) => (answer, false),
        Ok(_) if !connection.enters() => {
            let why = "too many connections: ask again later\n";
            (Answer::refused(StatusCode::SERVICE_UNAVAILABLE, why), true)
        }
        Ok(_) if request.method() == Method::OPTIONS => {
            (Answer::new(StatusCode::NO_CONTENT, "text/plain", Bytes::new()), true)
        }
        Ok(path) => (ask(path, request, questions).await, true),
    };
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, answer.kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::VARY, "origin"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    if answer.is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(origin) = origin.filter(|_| is_known) {
        allow(headers, origin, is_private);
    }
    Ok(response)
}

/// Lets a page of another origin read the answer, and ask with the headers that it needs.
fn allow(headers: &mut HeaderMap, origin: HeaderValue, is_private: bool) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type, user-agent"),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    if is_private {
        let name = HeaderName::from_static("access-control-allow-private-network");
        headers.insert(name, HeaderValue::from_static("true"));
    }
}

/// Hands a request on, and waits for its answer.
async fn ask(path: String, request: Request<Incoming>, questions: &Questions) -> Answer {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = match *request.method() {
        Method::GET => None,
        Method::POST => match timeout(REQUEST, Limited::new(request.into_body(), BODY_BYTES).collect()).await
        {
            Ok(Ok(body)) => Some(body.to_bytes()),
            Ok(Err(_)) => {
                return Answer::refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is longer than 16 MiB\n");
            }
            Err(_) => {
                return Answer::refused(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in 20 s\n");
            }
        },
        _ => return Answer::refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST\n"),
    };
    let (reply, answer) = oneshot::channel();
    if questions.try_send((Asked { path, query, body }, reply)).is_err() {
        return Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait: ask again later\n");
    }
    answer.await.unwrap_or_else(|_| Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "the server ends\n"))
}

impl Gate {
    /// Returns the path after the token, or the refusal of a client that may not ask.
    fn judge(&self, request: &Request<impl Sized>) -> Result<String, Answer> {
        // A name that an attacker lets point to 127.0.0.1 is none of these.
        let host =
            request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        // The port may be another one here, if it is forwarded.
        if !["127.0.0.1", "localhost"].contains(&name) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Answer::refused(StatusCode::FORBIDDEN, "ask for 127.0.0.1 or localhost\n"));
        }
        let path = request.uri().path();
        let (token, rest) = path
            .strip_prefix('/')
            .map_or(("", ""), |path| path.split_at(path.find('/').unwrap_or(path.len())));
        let profile = self.profiles.iter().position(|(known, _)| is_same(token, known));
        let may_ask = match profile {
            Some(position) => rest == PROFILES[position],
            None if is_same(token, &self.symbols) => SYMBOLS.contains(&rest),
            None => is_same(token, &self.token),
        };
        if !may_ask {
            return Err(Answer::nothing());
        }
        if let Some(origin) = request.headers().get(header::ORIGIN) {
            let own = format!("http://{host}");
            if origin != own.as_str() && origin != self.origin.as_str() {
                return Err(Answer::refused(StatusCode::FORBIDDEN, "pages of this origin may not ask\n"));
            }
        }
        // A browser may first ask whether it may ask.
        let is_loaded = |position: usize| self.profiles[position].1.swap(true, Ordering::Relaxed);
        if request.method() != Method::OPTIONS && profile.is_some_and(is_loaded) {
            let why =
                "this address has given its samples: it does so once. Start serve again for another link\n";
            return Err(Answer::refused(StatusCode::GONE, why));
        }
        Ok(rest.to_owned())
    }
}

/// Compares secrets in a time that says nothing of them: their digests, which nobody can choose.
fn is_same(a: &str, b: &str) -> bool {
    digest(&SHA256, a.as_bytes()).as_ref() == digest(&SHA256, b.as_bytes()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &str, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        judged_by(&gate(), path, headers)
    }

    fn gate() -> Gate {
        Gate {
            token: "secret".to_owned(),
            profiles: ["first", "second"].map(|token| (token.to_owned(), AtomicBool::new(false))),
            symbols: "symbols".to_owned(),
            origin: "https://profiler.example".to_owned(),
        }
    }

    fn judged_by(gate: &Gate, path: &str, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.judge(&request.body(()).expect("a request")).map_err(|answer| answer.status)
    }

    #[test]
    fn only_who_knows_the_token_and_comes_from_here_may_ask() {
        let here = ("host", "127.0.0.1:3000");
        assert_eq!(judged("/secret/profile.json?x", &[here]), Ok("/profile.json".to_owned()));
        assert_eq!(judged("/secret/", &[("host", "localhost:9")]), Ok("/".to_owned()));
        assert_eq!(judged("/secret/", &[("host", "localhost")]), Ok("/".to_owned()));
        for path in ["/", "/secre/", "/secrets/", "//secret/", "/x/secret/"] {
            assert_eq!(judged(path, &[here]), Err(StatusCode::NOT_FOUND), "{path}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:80",
            "localhost.evil.example",
            "localhost:x.evil.example",
            "",
        ] {
            assert_eq!(judged("/secret/", &[("host", host)]), Err(StatusCode::FORBIDDEN), "{host}");
        }
        assert_eq!(judged("/secret/", &[]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn what_a_public_site_sees_opens_the_samples_once_and_no_page() {
        let (gate, here) = (gate(), [("host", "127.0.0.1:3000")]);
        let ask = |path: &str| judged_by(&gate, path, &here);
        for path in [
            "/first/",
            "/first/code?side=0",
            "/first/profile-2.json",
            "/first/asm/v1",
            "/symbols/",
            "/symbols/profile.json",
        ] {
            assert_eq!(ask(path), Err(StatusCode::NOT_FOUND), "{path}");
        }
        for (path, rest) in
            [("/first/profile.json", "/profile.json"), ("/second/profile-2.json", "/profile-2.json")]
        {
            assert_eq!(ask(path), Ok(rest.to_owned()));
            assert_eq!(ask(path), Err(StatusCode::GONE), "{path}");
        }
        for _ in 0..2 {
            assert!(
                SYMBOLS.iter().all(|path| ask(&format!("/symbols{path}")).is_ok()),
                "the Profiler asks often"
            );
            assert!(ask("/secret/profile.json").is_ok(), "the token of the user stays");
        }
    }

    #[test]
    fn only_the_own_page_and_the_profiler_may_ask() {
        let here = ("host", "127.0.0.1:3000");
        let of = |origin| judged("/secret/", &[here, ("origin", origin)]);
        assert!(of("http://127.0.0.1:3000").is_ok() && of("https://profiler.example").is_ok());
        for origin in
            ["http://127.0.0.1:3001", "http://profiler.example", "https://profiler.example.evil", "null"]
        {
            assert_eq!(of(origin), Err(StatusCode::FORBIDDEN), "{origin}");
        }
    }
}
