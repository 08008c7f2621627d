//! Which key does what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::pane::Pane;
use icecore_analysis::explore::filters::Verb;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Suspend,
    Redraw,
    Help,
    Remarks,
    Show(Pane),
    NextPane,
    PreviousPane,
    /// Move the cursor by so many lines; in time by so many columns.
    Move(i64),
    /// Move it by so many pages, in time by so many times ten columns.
    Page(i64),
    First,
    Last,
    Left,
    Right,
    /// Move the text by so many columns.
    Scroll(i32),
    Enter,
    Mark,
    Callers,
    /// Filter by what is under the cursor.
    Filter(Verb),
    /// Filter by what the search has found.
    FilterFound(Verb),
    OpenHeaviest,
    Sort,
    Inlined,
    Time,
    Zoom,
    ZoomOut,
    Search,
    Next,
    Previous,
    Undo,
    Reset,
    Escape,
    /// A letter for the line that is typed.
    Type(char),
    Erase,
    EraseAll,
}

/// The keys, for people: headings have no text.
pub(super) const HELP: [(&str, &str); 47] = [
    ("Panes", ""),
    ("1 … 9", "functions, tree, callers, processes, threads, images,"),
    (" ", "events, waits, filters; Tab, Shift-Tab: next, previous"),
    ("↑ ↓ j k", "one line; PgUp, PgDn: a page; Home, End, g, G: the ends"),
    ("< >", "move long lines; so do ← → where nothing is opened"),
    ("s", "sort by self, total or name"),
    ("i", "inlined functions: apart, or in the function around them"),
    ("", ""),
    ("Tree and callers", ""),
    ("Enter, → ←", "open or close; ← of what is closed: its parent"),
    ("o", "open the heaviest path from here"),
    ("c", "callers and callees of the function under the cursor"),
    (" ", "(Enter in functions); of a recursion the outermost call"),
    ("", ""),
    ("Filters: all of them hold together", ""),
    ("f", "only samples with what is under the cursor: a process,"),
    (" ", "thread, event, image, function, kind of waits"),
    ("x", "without these samples; in 9: without this filter"),
    ("h", "hide frames of the function or image in all stacks"),
    ("F X H", "the same with every function that the search matches"),
    ("Enter", "in 4, 5, 6, 8: only this one; in 7: select it or not"),
    ("u", "undo the last change of filters"),
    ("r, Esc", "reset all but the filters of the command line; u: undo"),
    ("", ""),
    ("Search", ""),
    ("/", "a regular expression: how many functions match, and how"),
    (" ", "much of the selection has one; in lists also their names"),
    ("n N", "next, previous match; in trees opens what leads to it"),
    ("", ""),
    ("Time", ""),
    ("t", "to the time line and back"),
    ("← →", "one column; PgUp, PgDn: ten; Home, End: the ends"),
    ("Space", "begin a range at the cursor; again: forget it"),
    ("Enter", "select the range: samples taken in it, and of each wait"),
    (" ", "the part in it; filters by time leave the time line alone"),
    ("z Z", "draw only the selected range; draw everything"),
    ("", ""),
    ("Other", ""),
    ("v", "verdict: what limits the data"),
    ("?", "this help"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("100 %", "is what the first line says: the current selection. A"),
    (" ", "function counts once a stack. Samples of events with"),
    (" ", "different units count as one each."),
];

/// What keys mean at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Panes.
    Normal,
    /// The time line.
    Time,
    /// A line is typed.
    Typing,
}

/// Returns what a key asks for.
pub(super) fn action(key: KeyEvent, mode: Mode) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let always = match key.code {
        KeyCode::Char('c') if control => Some(Action::Quit),
        KeyCode::Char('z') if control => Some(Action::Suspend),
        KeyCode::Char('l') if control => Some(Action::Redraw),
        KeyCode::Char('u') if control && mode == Mode::Typing => Some(Action::EraseAll),
        KeyCode::Esc => Some(Action::Escape),
        KeyCode::Enter => Some(Action::Enter),
        _ => None,
    };
    if always.is_some() || control {
        return always;
    }
    match (mode, key.code) {
        (Mode::Typing, KeyCode::Char(letter)) => Some(Action::Type(letter)),
        (Mode::Typing, KeyCode::Backspace) => Some(Action::Erase),
        (Mode::Typing, _) => None,
        (Mode::Time, KeyCode::Left) => Some(Action::Move(-1)),
        (Mode::Time, KeyCode::Right) => Some(Action::Move(1)),
        (Mode::Time, KeyCode::Char(' ')) => Some(Action::Mark),
        (Mode::Time, KeyCode::Up | KeyCode::Down) => None,
        (_, code) => normal(code),
    }
}

fn normal(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char(digit @ '1'..='9') => Action::Show(Pane::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => Action::NextPane,
        KeyCode::BackTab => Action::PreviousPane,
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Action::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Left => Action::Left,
        KeyCode::Right => Action::Right,
        KeyCode::Char('<') => Action::Scroll(-8),
        KeyCode::Char('>') => Action::Scroll(8),
        KeyCode::Char('c') => Action::Callers,
        KeyCode::Char('f') => Action::Filter(Verb::Only),
        KeyCode::Char('x') | KeyCode::Delete => Action::Filter(Verb::Without),
        KeyCode::Char('h') => Action::Filter(Verb::Hide),
        KeyCode::Char('F') => Action::FilterFound(Verb::Only),
        KeyCode::Char('X') => Action::FilterFound(Verb::Without),
        KeyCode::Char('H') => Action::FilterFound(Verb::Hide),
        KeyCode::Char('o') => Action::OpenHeaviest,
        KeyCode::Char('s') => Action::Sort,
        KeyCode::Char('i') => Action::Inlined,
        KeyCode::Char('t') => Action::Time,
        KeyCode::Char('z') => Action::Zoom,
        KeyCode::Char('Z') => Action::ZoomOut,
        KeyCode::Char('/') => Action::Search,
        KeyCode::Char('n') => Action::Next,
        KeyCode::Char('N') => Action::Previous,
        KeyCode::Char('u') => Action::Undo,
        KeyCode::Char('r') => Action::Reset,
        KeyCode::Char('v') => Action::Remarks,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    })
}
