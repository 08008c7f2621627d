//! Takes the terminal, reads keys, draws, and gives the terminal back: at the end, before a panic is told, and on signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::style::force_color_output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, unregister};

use super::app::{App, Wish};
use super::draw::{draw, draw_lines};
use super::keys::action;

/// How long a signal may wait for an answer.
const SIGNALS: Duration = Duration::from_millis(100);

/// Shows the app until the user quits.
///
/// # Errors
/// If the terminal cannot be read or written.
pub(super) fn run(app: &mut App<'_>, color: bool) -> io::Result<()> {
    taken(color, |terminal, arrived| show(app, color, terminal, arrived))
}

/// What a picture is to show that is drawn again and again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picture {
    /// The columns of the terminal.
    pub(super) width: u16,
    /// Its lines.
    pub(super) lines: u16,
    /// The user has asked for everything instead of the last seconds, or the other way round.
    pub(super) is_turned: bool,
    /// The interval is over: look for something new.
    pub(super) is_due: bool,
}

/// Draws lines each `interval`, and when a key changes what is shown, until there are none or the user quits.
///
/// # Errors
/// If the terminal cannot be read or written.
pub(super) fn repeat(
    color: bool,
    interval: Duration,
    mut lines: impl FnMut(Picture) -> Option<Vec<String>>,
) -> io::Result<()> {
    taken(color, |terminal, arrived| {
        let (mut is_turned, mut due) = (false, Instant::now());
        loop {
            let size = terminal.size()?;
            let is_due = Instant::now() >= due;
            if is_due {
                due = Instant::now() + interval;
            }
            let picture = Picture { width: size.width, lines: size.height, is_turned, is_due };
            let Some(lines) = lines(picture) else { return Ok(()) };
            terminal.draw(|frame| draw_lines(&lines, frame))?;
            loop {
                let left = due.saturating_duration_since(Instant::now());
                if arrived.load(Ordering::Relaxed) != 0 {
                    return Ok(());
                }
                if left.is_zero() || event::poll(left.min(SIGNALS))? {
                    break;
                }
            }
            while event::poll(Duration::ZERO)? {
                let Event::Key(key) = event::read()? else { continue };
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    _ if key.kind == KeyEventKind::Release => {}
                    KeyCode::Char('q') => return Ok(()),
                    KeyCode::Char('c') if is_control => return Ok(()),
                    KeyCode::Char('z') if is_control => suspend(terminal)?,
                    KeyCode::Char('l') if is_control => terminal.clear()?,
                    KeyCode::Char('w') => is_turned = !is_turned,
                    _ => {}
                }
            }
        }
    })
}

/// Takes the terminal, and gives it back when `show` is over.
fn taken(
    color: bool,
    show: impl FnOnce(&mut DefaultTerminal, &AtomicUsize) -> io::Result<()>,
) -> io::Result<()> {
    force_color_output(color);
    let arrived = Arc::new(AtomicUsize::new(0));
    let signals = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    let register = |signal: i32| flag::register_usize(signal, arrived.clone(), signal as usize);
    let registered = signals.into_iter().map(register).collect::<io::Result<Vec<_>>>()?;
    let is_over = watch_for_end();
    let result = ratatui::try_init().and_then(|mut terminal| show(&mut terminal, &arrived));
    // Also if only half of the terminal was taken.
    let restored = ratatui::try_restore();
    is_over.store(true, Ordering::Relaxed);
    for id in registered {
        unregister(id);
    }
    match arrived.load(Ordering::Relaxed) {
        0 => result.and(restored),
        // The signal now does what it does to other programs.
        signal => emulate_default_handler(signal as i32),
    }
}

/// Ends the program when its terminal goes away, unless the returned flag says that the view is over. crossterm reads a terminal
/// that is gone again and again, for ever.
fn watch_for_end() -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    std::thread::spawn(move || {
        let stdout = io::stdout();
        while !over.load(Ordering::Relaxed) {
            // No events are asked for: poll says anyway that the other side has hung up.
            let mut terminal = [PollFd::new(&stdout, PollFlags::empty())];
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            let is_gone = matches!(poll(&mut terminal, Some(&second)), Ok(1..));
            if is_gone && !over.load(Ordering::Relaxed) {
                std::process::exit(128 + SIGHUP);
            }
        }
    });
    is_over
}

fn show(
    app: &mut App<'_>,
    color: bool,
    terminal: &mut DefaultTerminal,
    arrived: &AtomicUsize,
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| draw(app, color, frame))?;
        loop {
            if arrived.load(Ordering::Relaxed) != 0 {
                return Ok(());
            }
            if event::poll(SIGNALS)? {
                break;
            }
        }
        // Whatever waits is answered by one picture.
        while event::poll(Duration::ZERO)? {
            match answer(app, event::read()?) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Redraw) => terminal.clear()?,
                Some(Wish::Suspend) => suspend(terminal)?,
                None => {}
            }
        }
    }
}

fn answer(app: &mut App<'_>, event: Event) -> Option<Wish> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => app.act(action(key, app.mode())?),
        _ => None,
    }
}

/// Stops the program until the shell continues it.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    terminal.show_cursor()?;
    ratatui::try_restore()?;
    emulate_default_handler(SIGTSTP)?;
    *terminal = ratatui::try_init()?;
    terminal.clear()
}
