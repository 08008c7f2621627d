use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::app::{App, Wish};
use super::draw::draw;
use super::keys::action;
use super::*;
use icecore_format::records::Language;
use icecore_profile::named::names::Side;
use icecore_profile::named::{Profile, Thread, fixture};
use icecore_profile::stacks::hits::Moment;

/// Two processes of one thread each; each sample weighs 10 ns, and comes 10 ns after the one before it.
fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = fixture::profile(stacks);
    let thread = |tid, name: &str| {
        let (comm, process) = (name.into(), name.into());
        Thread { part: 0, tgid: tid, tid, comm, process, cgroup: 0, field: None }
    };
    profile.threads = vec![thread(7, "make"), thread(8, "cc1")];
    for (number, row) in (0..).zip(&mut profile.rows) {
        row.thread = number % 2;
        let moment = Moment { time_ns: 0, row: number, hit: 0, cpu: 0, lasted_ns: 0, late_ns: 0, weight: 10 };
        profile.moments.extend(std::iter::repeat_n(moment, row.samples as usize));
    }
    (0..).zip(&mut profile.moments).for_each(|(number, moment)| moment.time_ns = number * 10);
    profile
}

fn facts() -> Facts {
    let owned = |id: &str, name: &str| Owned { id: id.into(), name: name.into() };
    let clock = Event {
        name: "cpu-clock".into(),
        unit: "ns".into(),
        is_cpu_time: true,
        is_wait: false,
        is_usual: true,
    };
    Facts {
        path: "x.icecore".into(),
        events: vec![clock],
        processes: vec![owned("7", "make"), owned("8", "cc1")],
        threads: vec![owned("7/7", "make"), owned("8/8", "cc1")],
        verdict: Some((Verdict::Good, "good".to_owned())),
        in_file: 10,
        ..Facts::default()
    }
}

fn explorer(profile: &Profile) -> Explorer<'_> {
    let (process_of_thread, thread_of_thread) = (vec![0, 1], vec![0, 1]);
    let units = vec!["ns".into()];
    Explorer::new(
        profile,
        explore::Owners { process_of_thread, thread_of_thread, processes: 2, threads: 2, units },
    )
}

fn screen(app: &mut App<'_>, (width, height): (u16, u16), color: bool) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| draw(app, color, frame)).expect("memory");
    terminal.backend().to_string()
}

fn shown(app: &mut App<'_>) -> String {
    screen(app, (80, 24), false)
}

/// Presses keys: letters, or the names of keys in angle brackets.
fn press(app: &mut App<'_>, keys: &str) {
    for word in keys.split(' ') {
        let codes: Vec<KeyCode> = match word {
            "Enter" => vec![KeyCode::Enter],
            "Esc" => vec![KeyCode::Esc],
            "Left" => vec![KeyCode::Left],
            "Right" => vec![KeyCode::Right],
            "Down" => vec![KeyCode::Down],
            "End" => vec![KeyCode::End],
            "Space" => vec![KeyCode::Char(' ')],
            letters => letters.chars().map(KeyCode::Char).collect(),
        };
        for code in codes {
            let action = action(KeyEvent::new(code, KeyModifiers::NONE), app.mode());
            action.map(|action| app.act(action));
            // Drawing knows how many columns and lines there are.
            shown(app);
        }
    }
}

fn assert_has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in\n{text}");
    }
}

const STACKS: [(&str, u64); 4] = [("main;a;b", 1), ("main;c", 5), ("main;a", 2), ("x;b", 2)];

#[test]
fn the_first_screen_says_what_everything_is_a_share_of() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    let text = shown(&mut app);
    assert_has(
        &text,
        &[
            "100% is 100 ns in 10 samples of cpu-clock · x.icecore",
            "CPUs at most",
            "  50.0%   50.0%         50 ns          5  x                 c",
            "filters: none",
            "data good · 10 samples in the file, none lost",
            "? help  q quit",
        ],
    );
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("SELF↓")).skip(1).take(5).collect();
    let names =
        rows.iter().map(|row| row.trim_end_matches(['"', ' ']).rsplit(' ').next().unwrap_or_default());
    assert_eq!(names.collect::<Vec<_>>(), ["c", "b", "a", "main", "x"]);
    press(&mut app, "s");
    assert_has(&shown(&mut app), &["TOTAL↓", "1/5"]);
}

#[test]
fn filters_are_listed_undone_and_reset() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "4 Down Enter");
    let text = shown(&mut app);
    assert_has(&text, &["100% is 30 ns in 3 samples", "filters: only process 7 make"]);
    press(&mut app, "1 Down x");
    let text = shown(&mut app);
    assert_has(
        &text,
        &["100% is 20 ns in 2 samples", "filters (2, 9 lists them): only process 7 make · without b"],
    );
    press(&mut app, "u");
    assert_has(&shown(&mut app), &["100% is 30 ns in 3 samples"]);
    press(&mut app, "r");
    assert_has(&shown(&mut app), &["100% is 100 ns in 10 samples", "filters: none"]);
    press(&mut app, "u");
    assert_has(&shown(&mut app), &["filters: only process 7 make"]);
    press(&mut app, "9 x");
    assert_has(&shown(&mut app), &["filters: none", "no filters: f, x and h"]);
    press(&mut app, "7 Enter");
    assert_has(
        &shown(&mut app),
        &["100% is 0 samples of no event (1 more in 7)", "filters: events none", "[ ]"],
    );
    press(&mut app, "1");
    assert_has(&shown(&mut app), &["no samples are selected: u takes"]);
}

#[test]
fn a_range_of_time_is_marked_and_selected() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "t Space");
    assert_has(&shown(&mut app), &["Enter selects"]);
    // A column is 2 ns long, and a sample comes each 10 ns.
    press(&mut app, "Right Right Enter");
    assert_has(&shown(&mut app), &["100% is 10 ns in 1 sample of", "filters: time 0.000–0.000 s", "▀▀▲"]);
    press(&mut app, "Esc 1");
    assert_has(&shown(&mut app), &[" 100.0%  100.0%         10 ns          1  x                 b"]);
    press(&mut app, "z");
    assert_has(&shown(&mut app), &["▀▀▀▀▀▀"]);
    press(&mut app, "u");
    assert_has(&shown(&mut app), &["100% is 100 ns in 10 samples"]);
}

#[test]
fn where_nobody_sampled_the_time_line_has_a_mark() {
    // Ten samples at 0, 10 … 90 ns; then a pause, and the end.
    let profile = profile(&[("main", 10)]);
    let facts = Facts { span_ns: (0, 400), ran_ns: vec![(0, 100), (300, 400)], ..facts() };
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    let screen = shown(&mut app);
    let marked: Vec<&str> = screen.lines().filter(|line| line.contains("····")).collect();
    assert_eq!(marked.len(), 1, "{screen}");
    // A column is 7 ns: so many lie in the pause from end to end.
    assert_eq!(marked[0].matches('·').count(), 27, "{screen}");
    press(&mut app, &format!("t{}", " Right".repeat(20)));
    assert_has(&shown(&mut app), &["· nobody sampled"]);
}

#[test]
fn a_search_moves_the_cursor_and_says_the_share() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "/ ^[bx]$ Enter");
    let text = shown(&mut app);
    assert_has(&text, &["/^[bx]$/: 2 functions, 30.0% of the selection", "2/5", "b · /bin/x"]);
    press(&mut app, "n");
    assert_has(&shown(&mut app), &["5/5", "x · /bin/x"]);
    press(&mut app, "n N");
    assert_has(&shown(&mut app), &["5/5"]);
    press(&mut app, "F");
    assert_has(
        &shown(&mut app),
        &["100% is 30 ns in 3 samples", "filters: only /^[bx]$/", "100.0% of the selection"],
    );
    press(&mut app, "/ ( Enter");
    assert_has(&shown(&mut app), &["cannot search `(`: no function has this name"]);
}

#[test]
fn trees_open_and_close_and_lead_to_callers() {
    let (profile, facts) = (profile(&[("main;a;b;c", 1), ("main;d", 99)]), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "2");
    assert_has(&shown(&mut app), &["▾ main", "├─· d", "└─▸ a", "1/3"]);
    press(&mut app, "End o");
    assert_has(&shown(&mut app), &["└─▾ a", "  ▾ b", "  · c", "5/5", "c · /bin/x"]);
    press(&mut app, "Left Left Left");
    assert_has(&shown(&mut app), &["▸ b", "3/4", "a · /bin/x"]);
    press(&mut app, "Left");
    assert_has(&shown(&mut app), &["└─▸ a", "3/3"]);
    press(&mut app, "c");
    let text = shown(&mut app);
    assert_has(&text, &["· main", "══ a ══ callers above, callees below", "▾ b", "· c"]);
    press(&mut app, "x");
    assert_has(&shown(&mut app), &["filters: without a", "100% is 990 ns"]);
}

#[test]
fn nothing_that_steers_a_terminal_is_drawn() {
    let hostile = "\u{1b}]0;x\u{7}\r\n\u{9b}31m\u{202e}\u{2066}~界界";
    let stack = format!("main;{hostile}");
    let (profile, mut facts) = (profile(&[(&stack, 3)]), facts());
    facts.path = hostile.to_owned();
    facts.remarks = vec![hostile.to_owned()];
    facts.events[0].name = hostile.into();
    facts.processes[0].name = hostile.into();
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    for keys in ["1", "2", "3", "1 c", "4", "4 f", "5", "6", "7", "9", "v", "/ ~ Enter"] {
        press(&mut app, keys);
        let text = screen(&mut app, (120, 40), true);
        let steers = |c: char| c != '\n' && icecore_text::clean::steers(c);
        assert!(!text.contains(steers), "{keys}: {text:?}");
    }
}

#[test]
fn names_of_any_length_fit_every_terminal() {
    let stack = format!("main;{};{}", "界".repeat(3_000), "f".repeat(4_000));
    let (profile, facts) = (profile(&[(&stack, 3), ("main;g", 1)]), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    for size in [(1, 1), (20, 5), (79, 24), (80, 23), (80, 24), (200, 50), (500, 200)] {
        for keys in ["1", "2", "3", "End", ">", "4", "t", "t", "?", "?", "v", "v"] {
            press(&mut app, keys);
            let text = screen(&mut app, size, false);
            assert!(size.0 < 80 || size.1 < 24 || text.contains("q quit") || app.popup.is_some(), "{text}");
        }
    }
    assert_has(&screen(&mut app, (60, 20), false), &["needs 80×24", "60×20"]);
}

#[test]
fn the_help_has_every_key_and_fits_a_small_terminal() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "?");
    let first = shown(&mut app);
    press(&mut app, "End");
    let last = shown(&mut app);
    assert_has(&first, &["Panes", "sort by self"]);
    assert_has(&last, &["q, Ctrl-C", "different units"]);
    let all: String =
        keys::HELP.iter().map(|(keys, text)| format!(" {keys} {text} ").replace([',', ':'], " ")).collect();
    for code in ('!'..='~').filter(|code| !code.is_ascii_digit()) {
        let does = action(KeyEvent::new(KeyCode::Char(code), KeyModifiers::NONE), keys::Mode::Normal);
        assert!(does.is_none() || all.contains(&format!(" {code} ")), "the help lacks `{code}`");
    }
    for (keys, text) in keys::HELP {
        assert!(text.chars().count() <= 58, "{keys}: {text}");
    }
}

/// Returns the color of the first text on the screen that reads so; panics if there is none.
fn color_of(app: &mut App<'_>, text: &str, color: bool) -> Color {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("memory");
    terminal.draw(|frame| draw(app, color, frame)).expect("memory");
    let cells = &terminal.backend().buffer().content;
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let is_it = |at: &usize| letters.iter().zip(&cells[*at..]).all(|(letter, cell)| cell.symbol() == letter);
    let at = (0..=cells.len() - letters.len()).find(is_it);
    let at = at.unwrap_or_else(|| panic!("`{text}` is not in {}", terminal.backend()));
    assert!(cells[at..at + letters.len()].iter().all(|cell| cell.fg == cells[at].fg), "{text}");
    cells[at].fg
}

#[test]
fn functions_have_the_color_of_their_language_and_the_help_says_which() {
    let (mut profile, facts) = (profile(&[("main;handler;page_fault", 2), ("main;other", 1)]), facts());
    for function in &mut profile.names.functions {
        match &*function.name {
            "handler" => function.language = Language::PYTHON,
            "page_fault" => function.side = Side::Kernel,
            _ => {}
        }
    }
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    for keys in ["1", "2 o"] {
        press(&mut app, keys);
        assert_eq!(color_of(&mut app, "handler", true), Color::LightBlue, "{keys}");
        assert_eq!(color_of(&mut app, "page_fault", true), Color::Yellow, "{keys}");
        assert_eq!(color_of(&mut app, "main", true), Color::Reset, "{keys}");
        assert_eq!(color_of(&mut app, "handler", false), Color::Reset, "{keys}");
    }
    press(&mut app, "?");
    app.act(keys::Action::Last);
    assert_eq!(color_of(&mut app, "blue", true), Color::LightBlue);
    assert!(!shown(&mut app).contains("blue"), "without color there is no legend");
}

#[test]
fn quitting_is_a_wish() {
    let (profile, facts) = (profile(&STACKS), facts());
    let explorer = explorer(&profile);
    let mut app = App::new(&facts, &explorer);
    press(&mut app, "? q");
    assert!(app.popup.is_none());
    assert_eq!(app.act(keys::Action::Quit), Some(Wish::Quit));
    press(&mut app, "/ q Esc");
    assert_has(&shown(&mut app), &["filters: none"]);
}
