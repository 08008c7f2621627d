//! Tests downloads against a small server that gives prepared replies.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::super::{Budget, Cache};
use super::*;
use crate::Reason;
use crate::image::fixture::{Fixture, identity};
use crate::image::{Files, Finder, Search, hex};

/// A reply of the server.
#[derive(Debug, Clone)]
enum Reply {
    File(PathBuf),
    /// States the length of the file, and sends only a part of it.
    Torn(PathBuf),
    /// Sends the first half of the file without a length.
    Half(PathBuf),
    Status(u16),
    Endless,
    Silence,
    /// Redirects to itself.
    Redirect,
    /// Redirects once, to this address.
    RedirectTo(String),
}

/// A server that answers every request for a debug file with the first reply, and every request for an executable with the
/// second.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers requests until the test ends.
    fn start(debuginfo: Reply, executable: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, debuginfo, executable) = (log.clone(), debuginfo.clone(), executable.clone());
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                    let Some(Ok(first)) = lines.next() else { return };
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                    let reply = if path.ends_with("/debuginfo") { debuginfo } else { executable };
                    log.lock().expect("no panic").push(path.clone());
                    // The client may have closed the connection.
                    drop(answer(stream, &reply, &path));
                });
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }
}

fn answer(mut to: TcpStream, reply: &Reply, path: &str) -> std::io::Result<()> {
    let read = |path: &Path| std::fs::read(path).expect("the fixture is there");
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}\r\n");
    match reply {
        Reply::File(file) | Reply::Torn(file) => {
            let bytes = read(file);
            let len = if matches!(reply, Reply::Torn(_)) { bytes.len() / 2 } else { bytes.len() };
            to.write_all(head("200 OK", &format!("Content-Length: {}\r\n", bytes.len())).as_bytes())?;
            to.write_all(&bytes[..len])
        }
        Reply::Half(file) => {
            let bytes = read(file);
            to.write_all(head("200 OK", "").as_bytes())?;
            to.write_all(&bytes[..bytes.len() / 2])
        }
        Reply::Status(code) => to.write_all(head(&format!("{code} X"), "Content-Length: 0\r\n").as_bytes()),
        Reply::Endless => {
            to.write_all(head("200 OK", "").as_bytes())?;
            loop {
                to.write_all(&[0; 1 << 16])?;
            }
        }
        Reply::Silence => {
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        }
        Reply::Redirect => {
            to.write_all(head("302 X", &format!("Location: {path}\r\nContent-Length: 0\r\n")).as_bytes())
        }
        Reply::RedirectTo(url) => {
            let more = format!("Location: {url}{path}\r\nContent-Length: 0\r\n");
            to.write_all(head("302 X", &more).as_bytes())
        }
    }
}

/// One report: its settings, an empty cache, and a search that finds no other files.
struct Trial {
    settings: Settings,
    search: Search,
    _dir: tempfile::TempDir,
}

impl Trial {
    fn new(servers: &[&Server], budget: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings {
            servers: servers.iter().map(|server| server.url.clone()).collect(),
            ignored: Vec::new(),
            cache: Cache::new(dir.path().join("cache")),
            stall: Duration::from_secs(20),
            max_bytes: None,
            max_time: None,
            budget: budget.parse().expect("a budget"),
        };
        let search = Search { downloads: Some(dir.path().join("cache")), ..Search::nowhere() };
        Self { settings, search, _dir: dir }
    }

    /// Shortens the wait for silent servers.
    fn impatient(mut self) -> Self {
        self.settings.stall = Duration::from_secs(2);
        self
    }

    fn finder(&self) -> Finder<'_> {
        Finder { search: &self.search, embedded: None }
    }

    fn run(&self, images: &[&Identity]) -> Fetched {
        let wishes: Vec<_> = images.iter().map(|image| Wish { image, weight: 1 }).collect();
        let ticks = AtomicU64::new(0);
        let tick = |n| {
            ticks.fetch_add(n, Ordering::Relaxed);
        };
        let fetched = fetch(&wishes, self.finder(), &self.settings, &tick);
        assert_eq!(ticks.into_inner(), wishes.len() as u64);
        fetched
    }

    fn files(&self, image: &Identity) -> Result<Files, Reason> {
        self.finder().look(image).files
    }
}

/// An image whose file is missing, its stripped file and its debug file.
fn gone(fixture: &Fixture) -> (Identity, Reply, Reply) {
    let wanted = Identity { path: "/no/such".into(), ..identity(&fixture.stripped) };
    let hex = hex(&wanted.build_id);
    let debug = fixture.search().debug_dirs[0].join(format!(".build-id/{}/{}.debug", &hex[..2], &hex[2..]));
    (wanted, Reply::File(debug), Reply::File(fixture.stripped.clone()))
}

#[test]
fn an_image_that_is_gone_gets_its_debug_file_and_itself_and_is_not_fetched_again() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let server = Server::start(debug, image);
    let trial = Trial::new(&[&server], "60s");
    let fetched = trial.run(&[&wanted]);
    assert_eq!((fetched.files, fetched.left_out, fetched.warnings), (2, 0, Vec::new()));
    let files = trial.files(&wanted).expect("it is among the downloads");
    assert_eq!(files.knowledge(), Knowledge::Dwarf);
    assert_eq!(trial.run(&[&wanted]), Fetched::default());
    assert_eq!(server.asked(), 2);
}

#[test]
fn a_download_that_is_torn_or_of_another_build_is_fetched_anew() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let Reply::File(path) = debug.clone() else { panic!("it is a file") };
    let whole = std::fs::read(&path).expect("the fixture is there");
    let other = std::fs::read(&fixture.without_build_id).expect("the fixture is there");
    let (good, poor) = (Server::start(debug, image), Server::start(Reply::Status(500), Reply::Status(404)));
    for bad in [&whole[..whole.len() / 2], &other, b"no program"] {
        let trial = Trial::new(&[&poor], "60s");
        let folder = trial.settings.cache.folder().join(hex(&wanted.build_id));
        std::fs::create_dir_all(&folder).expect("room");
        ["debuginfo", "executable"]
            .iter()
            .for_each(|name| std::fs::write(folder.join(name), bad).expect("room"));
        let fetched = trial.run(&[&wanted]);
        assert_eq!((fetched.files, fetched.warnings.len()), (0, 1));
        assert_eq!(trial.files(&wanted).err(), Some(Reason::ImageMissing), "it is never believed");
        assert_eq!(std::fs::read(folder.join("debuginfo")).expect("it is there"), bad, "nobody had another");
        let servers = vec![good.url.clone()];
        std::fs::write(folder.join("executable"), bad).expect("room");
        let trial = Trial { settings: Settings { servers, ..trial.settings }, ..trial };
        let asked = good.asked();
        assert_eq!((trial.run(&[&wanted]).files, good.asked() - asked), (2, 2));
        assert_eq!(trial.files(&wanted).expect("it is among the downloads").knowledge(), Knowledge::Dwarf);
        assert_eq!((trial.run(&[&wanted]), good.asked() - asked), (Fetched::default(), 2));
    }
}

#[test]
fn an_image_that_is_here_gets_its_debug_file_alone() {
    let fixture = Fixture::shared();
    let (_, debug, _) = gone(&fixture);
    let server = Server::start(debug, Reply::Status(404));
    let trial = Trial::new(&[&server], "60s");
    let here = identity(&fixture.stripped);
    assert_eq!(trial.run(&[&here, &identity(&fixture.with_debug)]).files, 1);
    assert_eq!(trial.files(&here).expect("here").knowledge(), Knowledge::Dwarf);
    assert_eq!(server.asked(), 1, "what has DWARF needs nothing");
}

#[test]
fn what_no_server_has_is_remembered_and_the_next_server_is_asked() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let poor = Server::start(Reply::Status(404), Reply::Status(404));
    let trial = Trial::new(&[&poor], "60s");
    assert_eq!(trial.run(&[&wanted]), Fetched::default(), "not found is no failure");
    assert_eq!(poor.asked(), 2);
    trial.run(&[&wanted]);
    assert_eq!(poor.asked(), 2, "it is not asked again");
    let rich = Server::start(debug, image);
    let both = Trial::new(&[&poor, &rich], "60s");
    assert_eq!(both.run(&[&wanted]).files, 2);
}

#[test]
fn a_server_that_fails_costs_one_warning_and_the_next_one_answers() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let other = fixture.without_build_id.clone();
    let Reply::File(path) = debug.clone() else { panic!("it is a file") };
    let cases = [
        (Reply::File(other), "another build-id"),
        (Reply::Torn(path.clone()), ""),
        (Reply::Half(path), "no whole ELF file"),
        (Reply::Status(500), "500"),
        (Reply::Redirect, "redirects"),
        (Reply::Silence, "it sends nothing"),
    ];
    let rich = Server::start(debug, image);
    for (reply, cause) in cases {
        let bad = Server::start(reply.clone(), reply.clone());
        let alone = Trial::new(&[&bad], "60s").impatient();
        let fetched = alone.run(&[&wanted]);
        assert_eq!((fetched.files, fetched.warnings.len()), (0, 1), "{reply:?}");
        assert!(fetched.warnings[0].contains(cause), "{reply:?}: {:?}", fetched.warnings);
        assert!(fetched.warnings[0].contains(&bad.url));
        assert_eq!(alone.files(&wanted).err(), Some(Reason::ImageMissing), "{reply:?}");
        let asked = bad.asked();
        alone.run(&[&wanted]);
        // A failure is not remembered as a miss; but a silent server is not waited for.
        assert_eq!(bad.asked() > asked, !matches!(reply, Reply::Silence), "{reply:?}");

        let both = Trial::new(&[&bad, &rich], "60s").impatient();
        assert_eq!(both.run(&[&wanted]).files, 2, "{reply:?}");
        assert_eq!(both.files(&wanted).expect("there").knowledge(), Knowledge::Dwarf);
    }
}

#[test]
fn a_server_that_is_not_there_is_asked_once() {
    let fixture = Fixture::shared();
    let (wanted, ..) = gone(&fixture);
    let mut trial = Trial::new(&[], "60s");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    trial.settings.servers = vec![format!("http://{port}")];
    let images: Vec<_> = (0..20).map(|i| Identity { build_id: vec![i; 20], ..wanted.clone() }).collect();
    let begun = Instant::now();
    let fetched = trial.run(&images.iter().collect::<Vec<_>>());
    assert_eq!((fetched.files, fetched.warnings.len(), fetched.left_out), (0, 1, 0));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_silent_server_is_not_waited_for_again() {
    let fixture = Fixture::shared();
    let (image, debuginfo, executable) = gone(&fixture);
    let silent = Server::start(Reply::Silence, Reply::Silence);
    // All time goes into waiting: the server is as silent as if there were more.
    let trial = Trial::new(&[&silent], "500M,6s");
    let [first, second] = [(); 2].map(|()| {
        let begun = Instant::now();
        (trial.run(&[&image]).warnings, begun.elapsed())
    });
    assert!(first.1 >= Duration::from_secs(5) && first.0[0].contains("it sends nothing"), "{first:?}");
    assert!(second.1 < Duration::from_secs(1) && second.0[0].contains("rm -f "), "{second:?}");
    let requests = silent.asked();
    let note = second.0[0].rsplit(' ').next().expect("a path").to_owned();
    std::fs::remove_file(note).expect("it is there");
    trial.run(&[&image]);
    assert!(silent.asked() > requests);
    let good = Server::start(debuginfo, executable);
    let trial = Trial::new(&[&good], "500M,6s");
    assert_eq!(trial.run(&[&image]).warnings, [""; 0]);
}

#[test]
fn redirections_are_followed_to_a_point() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let rich = Server::start(debug, image);
    let reply = Reply::RedirectTo(rich.url.clone());
    let trial = Trial::new(&[&Server::start(reply.clone(), reply)], "60s");
    assert_eq!(trial.run(&[&wanted]).files, 2);
}

#[test]
fn what_the_budget_does_not_cover_is_left_out_and_counted() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    let server = Server::start(debug, image);
    let trial = Trial::new(&[&server], "1k,60s");
    let fetched = trial.run(&[&wanted]);
    assert_eq!((fetched.files, fetched.left_out, fetched.bytes), (0, 1, 0), "its length told it");

    let endless = Server::start(Reply::Endless, Reply::Endless);
    let trial = Trial::new(&[&endless], "1M,60s");
    let other = Identity { build_id: vec![7; 20], ..wanted.clone() };
    let fetched = trial.run(&[&wanted, &other]);
    assert_eq!((fetched.files, fetched.left_out, fetched.warnings), (0, 2, Vec::new()));
    assert!(fetched.bytes <= (1 << 20) + 8 * (1 << 16), "{} bytes", fetched.bytes);
    let left = std::fs::read_dir(trial.settings.cache.folder().join(hex(&wanted.build_id)));
    assert_eq!(left.map_or(0, Iterator::count), 0, "nothing half is left");

    let slow = Server::start(Reply::Silence, Reply::Silence);
    let mut trial = Trial::new(&[&slow], "1s");
    let begun = Instant::now();
    assert_eq!(trial.run(&[&wanted]).left_out, 1);
    assert!(begun.elapsed() < Duration::from_secs(10));
    trial.settings.budget = Budget { time: Duration::ZERO, ..Budget::default() };
    let asked = slow.asked();
    assert_eq!((trial.run(&[&wanted]).left_out, slow.asked()), (1, asked));
}

#[test]
fn the_largest_size_is_told_to_the_server_and_held_against_it() {
    let fixture = Fixture::shared();
    let (wanted, debug, image) = gone(&fixture);
    for server in [Server::start(debug, image), Server::start(Reply::Endless, Reply::Endless)] {
        let mut trial = Trial::new(&[&server], "60s");
        trial.settings.max_bytes = Some(1000);
        let fetched = trial.run(&[&wanted]);
        assert_eq!((fetched.files, fetched.left_out), (0, 0));
        assert!(fetched.warnings[0].contains("DEBUGINFOD_MAXSIZE"), "{:?}", fetched.warnings);
    }
}

#[test]
fn the_heaviest_image_comes_first() {
    let fixture = Fixture::shared();
    let (wanted, ..) = gone(&fixture);
    let server = Server::start(Reply::Status(404), Reply::Status(404));
    let images: Vec<_> = (0..40u8).map(|i| Identity { build_id: vec![i; 20], ..wanted.clone() }).collect();
    let trial = Trial::new(&[&server], "60s");
    let wishes: Vec<_> =
        images.iter().map(|image| Wish { image, weight: u64::from(image.build_id[0]) }).collect();
    fetch(&wishes, trial.finder(), &trial.settings, &|_| ());
    let asked = server.asked.lock().expect("no panic");
    let position = |id: u8| asked.iter().position(|path| path.contains(&hex(&[id; 20]))).expect("asked");
    // Several requests run at once, so neighbours may change places.
    let mean = |ids: std::ops::Range<u8>| ids.map(position).sum::<usize>() / 20;
    assert!(mean(20..40) + 10 < mean(0..20), "{asked:?}");
}
