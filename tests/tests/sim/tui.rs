//! `tui`, as a person sees it: in a terminal of tmux, on recordings whose functions and times are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_format::records::{Change, EndReason, ImageKind, Origin, ReceiptV1, Symbol};
use icecore_tests::inside::report as told;
use icecore_tests::machine::{needs, program, report_output, text, wait_until};
use icecore_tests::synthetic::{Builder, START_NS, named, waiting};

const MS: u64 = 1_000_000;

/// A terminal of a tmux server of its own, in which a shell runs.
struct Terminal {
    dir: tempfile::TempDir,
}

impl Terminal {
    fn new(recording: Builder) -> Self {
        needs("tmux", &["-V"]);
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        recording.write(&dir.path().join("x.icecore"), true).expect("written");
        let terminal = Self { dir };
        let shell = "env -i PATH=\"$PATH\" TERM=\"$TERM\" LC_ALL=C.UTF-8 PS1='ready> ' sh";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", shell]);
        terminal.wait("ready>");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        // Names may be wide characters.
        tmux.env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .arg("-u")
            .arg("-S")
            .arg(self.dir.path().join("tmux"));
        let output = tmux.args(args).output().expect("tmux runs");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows a text; returns the screen.
    fn wait(&self, what: &str) -> String {
        let mut screen = String::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::time::Instant::now() < deadline {
            screen = self.screen();
            if screen.contains(what) {
                return screen;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("`{what}` does not come:\n{screen}");
    }

    /// Presses keys, by the names that tmux gives them.
    fn press(&self, keys: &str) {
        self.tmux(&[&["send-keys"], &keys.split(' ').collect::<Vec<_>>()[..]].concat());
    }

    /// Presses keys, and waits until the screen shows a text.
    fn after(&self, keys: &str, what: &str) -> String {
        self.press(keys);
        self.wait(what)
    }

    fn recording(&self) -> PathBuf {
        self.dir.path().join("x.icecore")
    }

    /// Types a command line of the report, and waits for the first screen.
    fn start(&self, options: &str) -> String {
        let report = program("icecore-report");
        let line =
            format!("{} tui {} {options}; echo ended $?", report.display(), self.recording().display());
        self.tmux(&["send-keys", "-l", &line]);
        self.after("Enter", "q quit")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server is gone if the shell is.
        let socket = self.dir.path().join("tmux");
        drop(Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output());
    }
}

/// Makes two seconds of two processes. In the first one `make` runs `parse` and `emit`, in the second one `cc` runs `emit`:
///
/// | time | process | stack | samples |
/// |---|---|---|---|
/// | 0 to 1 s | make 100 | main → parse → scan | 600 |
/// | | | main → emit | 400 |
/// | 1 to 2 s | cc 200 | main → emit → flush | 1,000 |
fn phases() -> Builder {
    let mut b = Builder::default();
    let (make, cc) = (b.task(100, 100, "make"), b.task(200, 200, "cc"));
    let image = b.image(ImageKind::FILE, "/no/such/bin/tool");
    for (tgid, name) in [(100, "make"), (200, "cc")] {
        b.change(1_000, Change::FOUND, tgid, 1, name);
        b.map(2_000, tgid, 0x1_0000, image, Origin::SCAN);
    }
    for (start, name) in (0x1000..).step_by(0x100).zip(["main", "parse", "scan", "emit", "flush"]) {
        b.symbols.push(Symbol::new(image, start..start + 0x100, name.as_bytes()));
    }
    let [main, parse, scan, emit, flush] = [0x50u64, 0x150, 0x250, 0x350, 0x450].map(|off| 0x1_0000 + off);
    for n in 0..1000 {
        let stack: &[u64] = if n % 5 < 3 { &[scan, parse, main] } else { &[emit, main] };
        b.sample(n * MS, 0, make, stack, &[]);
        b.sample((1000 + n) * MS + MS / 10, 1, cc, &[flush, emit, main], &[]);
    }
    let (end_ns, samples) = (START_NS + 2_000 * MS, b.samples.len() as u64);
    b.receipt = Some(ReceiptV1 { end_ns, end_reason: EndReason::DURATION, samples, ..ReceiptV1::default() });
    b
}

/// Returns the first words after the numbers of the lines of a pane.
fn names(screen: &str) -> Vec<&str> {
    let lines = screen.lines().skip_while(|line| !line.contains("SAMPLES")).skip(1);
    let lines = lines.take_while(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    lines.filter_map(|line| line.split_whitespace().last()).collect()
}

#[test]
fn functions_are_ordered_filtered_and_searched() {
    let terminal = Terminal::new(phases());
    let first = terminal.start("");
    assert!(first.contains("100% is 2.00 s in 2,000 samples of cpu-clock"), "{first}");
    assert_eq!(names(&first), ["flush", "scan", "emit", "main", "parse"], "{first}");
    assert_eq!(names(&terminal.after("s", "TOTAL↓")), ["main", "emit", "flush", "scan", "parse"]);
    // Both processes have as many samples, so their names order them.
    let cc = terminal.after("4 Enter", "filters: only process 200 cc");
    assert!(cc.contains("100% is 1.00 s in 1,000 samples"), "{cc}");
    assert_eq!(names(&terminal.after("1", "FUNCTION")), ["flush", "emit", "main"]);
    let found = terminal.after("/ ^ f l Enter", "/^fl/: 1 function, 100.0% of the selection");
    assert!(found.contains("flush · /no/such/bin/tool"), "{found}");
    terminal.after("u", "/^fl/: 1 function, 50.0% of the selection");
    let hidden = terminal.after("h", "filters: hide flush");
    assert_eq!(names(&hidden), ["main", "emit", "scan", "parse"], "{hidden}");
    terminal.after("Escape", "filters: none");
    terminal.after("q", "ended 0");
}

#[test]
fn the_selection_of_a_range_is_that_of_from_and_to() {
    let terminal = Terminal::new(phases());
    terminal.start("");
    // 78 columns of 25.64 ms each: the first 39 are the first second.
    terminal.after("t Space", "Enter selects");
    let keys: Vec<&str> = std::iter::repeat_n("Right", 38).collect();
    let marked = terminal.after(&keys.join(" "), "Enter selects 0.000–1.000 s");
    assert!(marked.contains("100% is 2.00 s in 2,000 samples"), "a mark selects nothing: {marked}");
    let range = terminal.after("Enter", "filters: time 0.000–1.000 s");
    assert!(range.contains("100% is 1.00 s in 1,000 samples"), "{range}");
    assert_eq!(names(&range), ["scan", "emit", "main", "parse"], "{range}");
    let (dir, file) = (terminal.dir.path(), "DIR/x.icecore");
    let top = told(dir, &["top", file, "--to", "1"]);
    assert!(top.contains("1.00 s in 1,000 samples"), "{top}");
    terminal.after("u", "100% is 2.00 s in 2,000 samples");
    terminal.after("q", "ended 0");
}

#[test]
fn trees_and_callers_open_and_follow_the_selection() {
    let terminal = Terminal::new(phases());
    terminal.start("");
    let tree = terminal.after("2", "▾ main");
    for line in [
        " 70.0%   20.0%        1.40 s      1,400  ├─▾ emit",
        " 30.0%              600.0 ms        600  └─▾ parse",
    ] {
        assert!(tree.contains(line), "{line} is not in\n{tree}");
    }
    let callers = terminal.after("Down c", "══ emit ══");
    let at = |what: &str| callers.lines().position(|line| line.contains(what));
    assert!(at("· main") < at("══ emit") && at("══ emit") < at("· flush"), "{callers}");
    terminal.after("f", "filters: only emit");
    let tree = terminal.after("2", "100.0%   28.6%        1.40 s      1,400  ▾ emit");
    assert!(!tree.contains("parse"), "{tree}");
    terminal.after("q", "ended 0");
}

#[test]
fn waits_have_a_lane_and_their_part_in_a_range() {
    let terminal = Terminal::new(waiting(&["cpu-clock", "off-cpu", "run-delay"]));
    let first = terminal.start("");
    assert!(first.contains("100% is 300.0 ms in 300 samples of cpu-clock (2 more in 7)"), "{first}");
    assert!(first.contains("off-cpu 1.00 threads"), "{first}");
    terminal.after("7 Down Enter", "[x]            3         250.0 ms  off-cpu");
    let both = terminal.after("8", "futex");
    assert!(both.contains("100% is 550.0 ms in 303 samples of cpu-clock, off-cpu (1 more in 7)"), "{both}");
    assert!(both.contains(" 36.4%              200.0 ms          2  futex"), "{both}");
    let lines = both.lines().filter(|line| line.contains("sleep") && line.contains("50.0 ms")).count();
    assert_eq!(lines, 1, "{both}");
    terminal.after("q", "ended 0");
}

#[test]
fn every_size_is_laid_out_again() {
    let terminal = Terminal::new(phases());
    terminal.start("");
    for (width, height) in [("80", "24"), ("200", "50"), ("60", "20"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", width, "-y", height]);
        if width == "60" {
            terminal.wait("this terminal has 60×20 characters; tui needs 80×24");
            continue;
        }
        let end = "? help  q quit\n";
        wait_until("the screen has another size", || {
            let screen = terminal.screen();
            let last = screen.lines().nth(height.parse::<usize>().expect("a number") - 1).unwrap_or_default();
            last.chars().count() == width.parse::<usize>().expect("a number") && screen.ends_with(end)
        });
        let screen = terminal.screen();
        assert!(screen.contains("9filters") && screen.contains("flush"), "{screen}");
    }
    terminal.after("?", "keys");
    terminal.after("q", "filters: none");
    terminal.after("q", "ended 0");
}

#[test]
fn names_steer_no_terminal() {
    let terminal = Terminal::new(named("\x1b]0;stolen\x07\r\n\u{9b}31m\u{202e}~界"));
    let first = terminal.start("");
    let count = first.lines().count();
    for keys in ["1", "2", "4", "5", "6", "7", "1 c", "v", "v", "1 x", "9"] {
        terminal.press(keys);
        let screen = terminal.wait("icecore");
        assert_eq!(screen.lines().count(), count, "{screen}");
        assert!(!screen.contains('\u{202e}'), "{screen}");
    }
    assert_ne!(terminal.tmux(&["display-message", "-p", "#{pane_title}"]).trim(), "stolen");
    terminal.after("q", "ended 0");
}

/// Returns what tmux knows of its terminal: the other screen is shown, the cursor is.
fn state(terminal: &Terminal) -> String {
    terminal.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim().to_owned()
}

#[test]
fn the_terminal_is_given_back_also_on_signals() {
    let terminal = Terminal::new(phases());
    assert_eq!(state(&terminal), "0 1");
    for (end, code) in [("q", "ended 0"), ("C-c", "ended 0")] {
        terminal.start("--color never");
        assert_eq!(state(&terminal), "1 0");
        terminal.after(end, code);
        assert_eq!(state(&terminal), "0 1", "after {end}");
        terminal.press("clear Enter");
    }
    for (signal, code) in [("TERM", "ended 143"), ("HUP", "ended 129")] {
        terminal.start("");
        let file = terminal.recording();
        signal_to(&file, signal);
        terminal.wait(code);
        assert_eq!(state(&terminal), "0 1", "after {signal}");
        // The terminal echoes what is typed.
        terminal.after("e c h o Space b a c k Enter", "back\n");
        terminal.press("clear Enter");
    }
    terminal.start("");
    terminal.after("C-z", "ready>");
    assert_eq!(state(&terminal), "0 1", "suspended");
    terminal.after("f g Enter", "q quit");
}

#[test]
fn a_terminal_that_goes_away_ends_the_program() {
    let terminal = Terminal::new(phases());
    terminal.start("");
    let file = terminal.recording();
    assert!(!those_that_show(&file).is_empty(), "the report runs");
    terminal.tmux(&["kill-server"]);
    wait_until("the report to end", || those_that_show(&file).is_empty());
}

/// Sends a signal to the report that shows a file.
fn signal_to(file: &Path, signal: &str) {
    let pids = those_that_show(file);
    assert!(!pids.is_empty(), "the report runs");
    let sent = Command::new("kill").arg(format!("-{signal}")).args(pids).status();
    assert!(sent.expect("kill exists").success());
}

/// Returns the numbers of the reports that show a file.
fn those_that_show(file: &Path) -> Vec<String> {
    let found =
        Command::new("pgrep").arg("-f").arg(format!("icecore-report tui {}", file.display())).output();
    text(&found.expect("pgrep runs").stdout).lines().map(str::to_owned).collect()
}

#[test]
fn without_a_terminal_it_refuses_and_says_what_to_use() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("x.icecore");
    phases().write(&file, true).expect("written");
    for (option, words) in
        [("--quiet", "stdout is no terminal; use summary"), ("--json", "cannot print JSON")]
    {
        let output = report_output(&["tui".as_ref(), file.as_os_str(), option.as_ref()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: cannot ") && said.contains(words), "{said}");
    }
}

#[test]
fn a_recording_that_is_written_is_followed_until_q() {
    let terminal = Terminal::new(phases());
    let mut open = phases();
    open.receipt = None;
    open.write(&terminal.recording(), false).expect("written");
    let first = terminal.start("--follow --last 500ms --interval 200ms");
    // The last half second, of which the process `cc` has the samples.
    assert!(
        first.contains("100% is 500.0 ms in 500 samples of 500.0 ms, until 2.00 s after the start"),
        "{first}"
    );
    assert!(first.contains("tool+0x1450") && !first.contains("make"), "{first}");
    let whole = terminal.after("w", "w the last seconds");
    assert!(whole.contains("2,000 samples") && whole.contains("make"), "{whole}");
    terminal.after("w", "w the whole recording");
    let end = terminal.after("q", "ended 0");
    assert!(!end.contains("100% is"), "the terminal is as it was: {end}");
}
