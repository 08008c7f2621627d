//! `serve`: what it answers to the Firefox Profiler about a program of which the truth is known, and to whom it does not answer.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::exports::{Ours, Theirs, read};
use icecore_tests::listed::{Listed, SOURCE, objdump};
use icecore_tests::machine::{program, python};
use serde_json::{Value, json};

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) serving: Value,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves none behind.
        drop(self.child.kill());
    }
}

/// An answer: status, headers and body as they came.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Server {
    fn start(dir: &Path, options: &[&str]) -> Self {
        Self::run(dir, &[&["serve", "--quiet"], options].concat())
    }

    pub(crate) fn run(dir: &Path, command_line: &[&str]) -> Self {
        let mut command = Command::new(program("icecore-report"));
        command.args(command_line).arg("--json").current_dir(dir);
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let out = child.stdout.as_mut().expect("piped");
        let serving = serde_json::Deserializer::from_reader(out).into_iter::<Value>().next();
        Self { serving: serving.expect("a document").expect("JSON"), child }
    }

    fn of(told: &Listed) -> Self {
        Self::start(told.dir.path(), &["r.icecore"])
    }

    fn page(&self) -> &str {
        self.serving["page"].as_str().expect("an address")
    }

    /// Host and port, and the path with the token.
    fn place(&self) -> (&str, &str) {
        let rest = self.page().strip_prefix("http://").expect("http");
        let (host, path) = rest.split_at(rest.find('/').expect("a path"));
        (host, &path[..=path.rfind('/').expect("a path")])
    }

    /// Sends a request as it is, and reads until the server has closed the connection.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.place().0).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        // The server may answer and close before it has read everything.
        drop(stream.write_all(request));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        let split = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(all.len());
        let head = String::from_utf8_lossy(&all[..split]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head, body: all.get(split + 4..).unwrap_or_default().to_vec() }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let (host, token) = self.place();
        let length = body.len();
        let path = format!("{}{path}", token.trim_end_matches('/'));
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.raw(format!("{head}{body}").as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "")
    }

    /// Asks as the Firefox Profiler does.
    fn ask(&self, path: &str, body: &Value) -> Value {
        let answer = self.send("POST", path, "Content-Type: text/plain;charset=UTF-8\r\n", &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.head);
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    fn profile(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert!(answer.status == 200 && answer.head.contains("content-encoding: gzip"), "{}", answer.head);
        let mut gunzip =
            Command::new("gunzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gunzip");
        let mut stdin = gunzip.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || stdin.write_all(&answer.body));
        let out = gunzip.wait_with_output().expect("it ends").stdout;
        writer.join().expect("a thread").expect("written");
        serde_json::from_slice(&out).expect("JSON")
    }

    /// Ends the server as Ctrl-C does; returns its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        let mut said = String::new();
        self.child.stderr.as_mut().expect("piped").read_to_string(&mut said).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), said)
    }
}

/// The program is linked to 0x400000: addresses of the Profiler are relative to that.
const BASE: u64 = 0x40_0000;

/// The module of the program in a profile.
fn module(profile: &Value) -> &Value {
    profile["libs"].as_array().expect("libs").iter().find(|lib| lib["name"] == "p").expect("the program")
}

#[test]
fn names_lines_and_inlined_functions_are_those_of_the_program() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    let profile = server.profile("/profile.json");
    let module = module(&profile);
    let (name, id) = (&module["debugName"], &module["breakpadId"]);
    let addresses = [told.leaf - BASE, told.behind - 1 - BASE, 0x7fff_0000];
    let stack: Vec<[u64; 2]> = addresses.iter().map(|address| [0, *address]).collect();
    let job = json!({ "memoryMap": [[name, id], ["other", "0".repeat(33)]], "stacks": [stack, [[1, 5], [-1, 9], [7, 7]]] });
    let answer = server.ask("/symbolicate/v5", &json!({ "jobs": [job, job] }));
    let results = answer["results"].as_array().expect("results");
    assert_eq!((results.len(), &results[0]), (2, &results[1]));
    let [leaf, caller, nothing] = [0, 1, 2].map(|frame| &results[0]["stacks"][0][frame]);
    assert_eq!(
        (&leaf["function"], &leaf["function_offset"], &leaf["line"]),
        (&"leaf".into(), &"0x0".into(), &1.into())
    );
    let begin = objdump(&told.program(), "caller")[0].0;
    assert_eq!(caller["function"], "caller");
    assert_eq!(caller["function_offset"], format!("{:#x}", told.behind - 1 - begin));
    assert_eq!(
        (&caller["line"], &caller["inlines"][0]["function"], &caller["inlines"][0]["line"]),
        (&6.into(), &"inlined".into(), &3.into())
    );
    assert!(nothing["function"].is_null() && nothing["module_offset"] == "0x7fff0000", "{nothing}");
    let found = &results[0]["found_modules"];
    assert_eq!(found[format!("p/{}", id.as_str().expect("text"))], true, "{found}");
    assert_eq!(found[format!("other/{}", "0".repeat(33))], false);
    // The Profiler takes the answer for wrong if a value is null.
    assert!(!answer.to_string().contains("null"), "{answer}");
    // One job may stand alone.
    assert_eq!(&server.ask("/symbolicate/v5", &job)["results"][0], &results[0]);
}

#[test]
fn a_profile_has_the_samples_of_the_recording() {
    let told = Listed::new("cc");
    let profile = Server::of(&told).profile("/profile.json");
    let meta = &profile["meta"];
    assert_eq!((&meta["symbolicated"], &meta["preprocessedProfileVersion"]), (&true.into(), &70.into()));
    let thread = &profile["threads"][0];
    assert_eq!((&thread["name"], thread["samples"]["length"].as_u64()), (&"p".into(), Some(6)));
    let column = |table: &Value, name: &str| table[name].as_array().expect("a column").clone();
    let times = column(&thread["samples"], "time");
    let last = times.last().and_then(Value::as_f64).expect("a time");
    assert!((last - 0.06).abs() < 1e-9, "the last sample was taken after 60 µs: {times:?}");
    let shared = &profile["shared"];
    let (frames, addresses) =
        (column(&shared["stackTable"], "frame"), column(&shared["frameTable"], "address"));
    let at = |row: &Value| usize::try_from(row.as_u64().expect("a row")).expect("small");
    let address = |stack: usize| addresses[at(&frames[stack])].clone();
    let stacks: Vec<usize> = column(&thread["samples"], "stack").iter().map(at).collect();
    let leaves: Vec<Value> = stacks.iter().map(|stack| address(*stack)).collect();
    let (leaf, last) = (json!(told.leaf - BASE), json!(told.last - BASE));
    assert_eq!(leaves, [&leaf, &leaf, &leaf, &leaf, &last, &last].map(Value::clone));
    let caller = stacks[0] - at(&shared["stackTable"]["prefixOffset"][stacks[0]]);
    assert_eq!(address(caller), told.behind - 1 - BASE, "a caller is looked up at its call");
    let names = column(&shared["funcTable"], "name");
    let name = |stack: usize| {
        let function = at(&shared["frameTable"]["func"][at(&frames[stack])]);
        shared["stringArray"][at(&names[function])].clone()
    };
    assert_eq!((name(stacks[0]), name(caller)), ("leaf".into(), "inlined".into()));
}

#[test]
fn the_profiler_loads_what_is_served_with_the_sums_of_our_views() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    let url = server.serving["profiles"][0].as_str().expect("an address");
    let read = read(
        "firefox",
        url.as_ref(),
        &["--symbol-server", server.serving["symbol_server"].as_str().expect("an address")],
    );
    let ours = Ours::new(&told.dir.path().join("r.icecore"), "*", &[]);
    let event = read["totals"].as_object().and_then(|totals| totals.keys().next()).expect("an event").clone();
    let unit = if event == "tracing-ms" { 1e6 } else { 1.0 };
    ours.assert_equal("serve", &Theirs::of(&read, &event), unit, str::to_owned);
}

#[test]
fn instructions_and_sources_are_those_of_the_program() {
    let told = Listed::new("clang");
    let server = Server::of(&told);
    let profile = server.profile("/profile.json");
    let module = module(&profile);
    let caller = objdump(&told.program(), "caller");
    let (begin, last) = (caller[0].0, caller[caller.len() - 1].0);
    let asm = |size: u64, more: bool| {
        server.ask("/asm/v1", &json!({
            "debugName": module["debugName"], "debugId": module["breakpadId"], "name": "p", "codeId": module["codeId"],
            "startAddress": format!("{:#x}", begin - BASE), "size": format!("{size:#x}"), "continueUntilFunctionEnd": more,
        }))
    };
    let whole = asm(1, true);
    let offsets = |asm: &Value| -> Vec<u64> {
        asm["instructions"].as_array().expect("rows").iter().filter_map(|row| row[0].as_u64()).collect()
    };
    assert_eq!(offsets(&whole), caller.iter().map(|(at, _)| at - begin).collect::<Vec<u64>>());
    assert!(whole["instructions"].to_string().contains("<leaf>") && whole["arch"] == "x86_64", "{whole}");
    assert_eq!(offsets(&asm(last - begin, false)).len(), caller.len() - 1);
    let file = told.dir.path().join("p.c").display().to_string();
    let source = |file: &str, at: u64| {
        let at = format!("{:#x}", at - BASE);
        server.ask(
            "/source/v1",
            &json!({ "debugName": "p", "debugId": module["breakpadId"], "moduleOffset": at, "file": file }),
        )
    };
    assert_eq!(source(&file, told.leaf)["source"], SOURCE);
    for (file, at) in [("/etc/passwd", told.leaf), (&*file, BASE), ("p.c", told.leaf)] {
        assert!(source(file, at)["error"].is_string() && source(file, at)["source"].is_null(), "{file}");
    }
    std::fs::write(&file, format!("{SOURCE}// changed\n")).expect("room");
    assert!(source(&file, told.leaf)["error"].as_str().expect("an error").contains("another version"));
    assert_eq!(server.end(), (Some(0), String::new()), "a proven text needs no remark");
}

#[test]
fn a_text_that_nothing_proves_is_sent_only_from_a_folder_of_the_user() {
    let told = Listed::new("cc");
    let file = told.dir.path().join("p.c").display().to_string();
    let ask = |server: &Server| {
        let profile = server.profile("/profile.json");
        let at = format!("{:#x}", told.leaf - BASE);
        let id = &module(&profile)["breakpadId"];
        server
            .ask("/source/v1", &json!({ "debugName": "p", "debugId": id, "moduleOffset": at, "file": file }))
    };
    let server = Server::of(&told);
    assert!(ask(&server)["error"].as_str().expect("an error").contains("--source-dir"));
    let elsewhere = Server::start(told.dir.path(), &["r.icecore", "--source-dir", "/usr"]);
    assert!(ask(&elsewhere)["error"].is_string());
    let server = Server::start(told.dir.path(), &["r.icecore", "--source-dir", "."]);
    assert_eq!(ask(&server)["source"], SOURCE);
    let (code, said) = server.end();
    assert!(code == Some(0) && said.contains("p.c: unchecked, nothing proves"), "{said}");
}

#[test]
fn a_short_request_has_no_endless_answer_and_no_signal_waits_for_it() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    let many = |name: &str, count: usize| {
        let frames = vec!["[0,0]"; count].join(",");
        format!("{{\"memoryMap\":[[\"{name}\",\"0\"]],\"stacks\":[[{frames}]]}}")
    };
    for body in [many(&"x".repeat(1 << 20), 300), many("x", (1 << 20) + 1)] {
        let answer = server.send("POST", "/symbolicate/v5", "", &body);
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let why = answer["error"].as_str().expect("an error");
        assert!(why.contains("ask for fewer addresses") || why.contains("too many addresses"), "{why}");
    }
    let frames = server.send("POST", "/symbolicate/v5", "", &many("x", 100_000));
    let frames: Value = serde_json::from_slice(&frames.body).expect("JSON");
    assert_eq!(frames["results"][0]["stacks"][0].as_array().map(Vec::len), Some(100_000));
    // Nobody waits for these answers any more.
    let (host, token) = server.place();
    let body = many("x", 500_000);
    let request = format!(
        "POST {token}symbolicate/v5 HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut streams: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(host).expect("it listens")).collect();
    streams.iter_mut().for_each(|stream| drop(stream.write_all(request.as_bytes())));
    let began = Instant::now();
    assert_eq!(server.end().0, Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn only_who_knows_the_token_and_comes_from_an_allowed_page_gets_an_answer() {
    let told = Listed::new("cc");
    let server = Server::start(told.dir.path(), &["r.icecore", "--profiler", "http://localhost:4242/"]);
    let (host, token) = server.place();
    let ask =
        |path: &str, headers: &str| server.raw(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes());
    let page = ask(token, &format!("Host: {host}\r\n"));
    assert!(page.status == 200 && page.body.starts_with(b"<!DOCTYPE html>"), "{}", page.head);
    assert!(!page.head.contains("access-control"), "{}", page.head);
    for path in [
        "/",
        "/profile.json",
        &token[..token.len() - 2],
        "/../etc/passwd",
        &format!("{token}../../etc/passwd"),
        &format!("{token}etc"),
    ] {
        let answer = ask(path, &format!("Host: {host}\r\nOrigin: http://localhost:4242\r\n"));
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            path.starts_with(token) || !answer.head.contains("access-control"),
            "{path}: {}",
            answer.head
        );
    }
    assert_eq!(ask(token, "Host: rebound.example\r\n").status, 403);
    for origin in ["https://evil.example", "https://profiler.firefox.com", "null"] {
        let answer = ask(token, &format!("Host: {host}\r\nOrigin: {origin}\r\n"));
        assert!(answer.status == 403 && !answer.head.contains("access-control"), "{origin}: {}", answer.head);
    }
    // Firefox asks first whether it may send `User-Agent`.
    let headers = "Origin: http://localhost:4242\r\nAccess-Control-Request-Method: POST\r\n\
                   Access-Control-Request-Headers: user-agent\r\nAccess-Control-Request-Private-Network: true\r\n";
    let preflight = server.send("OPTIONS", "/symbolicate/v5", headers, "");
    assert_eq!(preflight.status, 204, "{}", preflight.head);
    for line in [
        "allow-origin: http://localhost:4242",
        "allow-headers: content-type, user-agent",
        "allow-private-network: true",
    ] {
        assert!(preflight.head.contains(&format!("access-control-{line}")), "{}", preflight.head);
    }
    assert_eq!(server.send("DELETE", "/", "", "").status, 405);
    assert_eq!(server.send("POST", "/", "", "x").status, 404);
}

#[test]
fn bad_and_endless_requests_are_refused_and_stop_nobody() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    let (host, token) = server.place();
    // Connections that say nothing, and one that never ends its headers.
    let idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(host).expect("it listens")).collect();
    let mut slow = TcpStream::connect(host).expect("it listens");
    slow.write_all(format!("GET {token} HTTP/1.1\r\nHost: ").as_bytes()).expect("sent");
    assert_eq!(server.get("/").status, 200);
    for path in ["/symbolicate/v5", "/source/v1", "/asm/v1"] {
        for body in ["", "{", "[]", "{\"jobs\":1}", "\u{0}"] {
            let answer = server.send("POST", path, "", body);
            let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert!(
                answer["error"].as_str().is_some_and(|why| why.contains("this is no request for")),
                "{path} {body}: {answer}"
            );
        }
    }
    for query in [
        "",
        "?side=0",
        "?side=9&function=0",
        "?side=0&function=999999",
        "?side=-1&function=x",
        "?function=0&side=0&side=9",
    ] {
        assert!([200, 404].contains(&server.get(&format!("/code{query}")).status), "{query}");
    }
    let long = server.raw(
        format!(
            "POST {token}asm/v1 HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999\r\n\r\n{}",
            "x".repeat(17 << 20)
        )
        .as_bytes(),
    );
    assert_eq!(long.status, 413, "{}", long.head);
    assert_eq!(server.raw(b"\x16\x03\x01 this is no HTTP\r\n\r\n").status, 400);
    assert_eq!(server.get("/").status, 200);
    drop((idle, slow));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn two_recordings_are_compared_and_each_has_a_profile() {
    let told = Listed::new("cc");
    std::fs::copy(told.dir.path().join("r.icecore"), told.dir.path().join("s.icecore")).expect("room");
    let server = Server::start(told.dir.path(), &["r.icecore", "s.icecore"]);
    assert_eq!(
        (&server.serving["samples"], server.serving["profiles"].as_array().map(Vec::len)),
        (&12.into(), Some(2))
    );
    assert_eq!(server.profile("/profile.json")["threads"], server.profile("/profile-2.json")["threads"]);
    let link = server.serving["firefox_profiler"][1].as_str().expect("a link");
    assert!(
        link.starts_with("https://profiler.firefox.com/from-url/http%3A%2F%2F127.0.0.1%3A")
            && link.contains("profile-2.json/?symbolServer=http%3A%2F%2F"),
        "{link}"
    );
    // The site of the Profiler sees the link, which opens once, and never the page.
    let plain = link.replace("%3A", ":").replace("%2F", "/");
    let (host, token) = server.place();
    let path =
        plain.split_once(host).and_then(|(_, rest)| rest.split_once("/?symbolServer=")).expect("a path").0;
    assert!(!plain.contains(token.trim_matches('/')), "{link}");
    let load = || server.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).status;
    assert_eq!([load(), load()], [200, 410]);
}

#[test]
fn a_port_in_use_and_a_file_that_is_none_are_errors() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    let port = server.place().0.rsplit_once(':').expect("a port").1.to_owned();
    let run = |args: &[&str]| {
        let out = Command::new(program("icecore-report"))
            .arg("serve")
            .args(args)
            .current_dir(told.dir.path())
            .output();
        let out = out.expect("it runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = run(&["r.icecore", "--port", &port]);
    assert!(
        code == Some(2)
            && said.contains(&format!("cannot open port {port} of 127.0.0.1: give another --port")),
        "{said}"
    );
    assert_eq!(run(&["nothing.icecore"]).0, Some(2));
    let (code, said) = run(&["r.icecore", "--profiler", "profiler.firefox.com"]);
    assert!(code == Some(2) && said.contains("write its address as https://HOST"), "{said}");
}

/// Opens 2,500 connections without waiting for any, and holds them.
const CROWD: &str = "
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
crowd = [socket.socket() for _ in range(2500)]
for one in crowd:
    one.setblocking(False)
    one.connect_ex(('127.0.0.1', int(sys.argv[1])))
print('there', flush=True)
sys.stdin.read()
";

#[test]
fn many_who_know_no_token_delay_nobody() {
    let told = Listed::new("cc");
    let server = Server::of(&told);
    // They connect at once and say nothing. The server would wait 3 s for each.
    let (_, port) = server.place().0.rsplit_once(':').expect("a port");
    let mut crowd = python();
    let crowd = crowd.args(["-c", CROWD, port]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut crowd = crowd.expect("python3 is installed");
    let mut said = String::new();
    BufReader::new(crowd.stdout.take().expect("piped")).read_line(&mut said).expect("it says something");
    assert_eq!(said, "there\n");
    let begun = Instant::now();
    assert_eq!(server.get("/").status, 200);
    println!("{:?} among 2,500", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(crowd.stdin.take());
    crowd.wait().expect("it ends");
    let silent = || TcpStream::connect(server.place().0).expect("it listens");
    // And while more of them come, as fast as they can.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut crowd = std::collections::VecDeque::new();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                crowd.push_back(silent());
                if crowd.len() > 400 {
                    crowd.pop_front();
                }
            }
        });
        let begun = Instant::now();
        let answered = (0..20).filter(|_| server.get("/profile.json").status == 200).count();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(
            answered >= 18 && begun.elapsed() < Duration::from_secs(20),
            "{answered} in {:?}",
            begun.elapsed()
        );
    });
}
