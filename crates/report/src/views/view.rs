//! Defines a command that shows the samples of one recording: its arguments implement [`View`].

use std::fmt::Display;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::Result;
use crate::cli::{Select, Source};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::tree::Root;
use icecore_profile::recording::events::EventChoice;
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::hits::{Apart, WaitsApart};
use icecore_profile::stacks::locate::Located;
use icecore_text::Page;

/// The command line of a view: its own arguments, then the recording and the filters, which are alike for all views.
#[derive(Debug, Args)]
pub struct Typed<V: Args> {
    /// The view.
    #[command(flatten)]
    pub view: V,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// A command that shows the samples of one recording. Its arguments implement this; `run/commands.rs` lists all commands.
pub trait View {
    /// Refuses what the view cannot do with this screen, before anything is loaded.
    ///
    /// # Errors
    /// If it cannot.
    fn check(&self, _screen: &Screen<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns what must be counted of the selected samples before [`show`](Self::show), on a page that is `width` characters wide.
    fn needs(&self, _select: &Select, _width: u32) -> Needs {
        Needs::default()
    }

    /// Shows the view, as text or as JSON. Returns false if a check that the user requested has failed.
    ///
    /// # Errors
    /// If the samples give no such view, or the output cannot be written.
    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool>;
}

/// What a view needs.
#[derive(Debug, Default)]
pub struct Needs {
    /// What is counted apart.
    pub apart: Apart,
    /// The view itself says how good the data is, or shows no stack, so no warning precedes it.
    pub tells_quality: bool,
    /// The text is no page that begins with what was left out.
    pub is_no_page: bool,
    /// The view lists samples, and adds up no weights.
    pub lists_samples: bool,
    /// The events that the view shows unless others are requested, if they are not the usual ones.
    pub events: Option<EventChoice>,
}

impl Needs {
    /// Requests the samples of each thread with `threads`, else those of each process.
    pub fn threads(threads: bool) -> Self {
        Self { apart: Apart { threads, ..Apart::default() }, ..Self::default() }
    }

    /// Requests what stacks begin with.
    pub fn root(root: Root) -> Self {
        let (threads, fields) = (root == Root::Thread, root == Root::Field);
        Self { apart: Apart { threads, fields, ..Apart::default() }, ..Self::default() }
    }

    /// Requests what of waits is apart, and these waits unless other events are requested.
    #[must_use]
    pub fn with_waits(self, waits: WaitsApart, events: EventChoice) -> Self {
        Self { apart: Apart { waits, ..self.apart }, events: Some(events), ..self }
    }

    /// Requests the stacks of wakers, if the user does.
    #[must_use]
    pub fn with_wakers(self, wakers: bool) -> Self {
        if wakers { self.with_waits(WaitsApart::Wakers, EventChoice::Blocked) } else { self }
    }
}

/// The data that a view shows.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    /// The samples, with names.
    pub report: &'a Report<'a>,
    /// The distinct stacks as locations.
    pub located: &'a Located,
    /// The arguments that select the samples.
    pub select: &'a Select,
    /// The characters on a line of the terminal, or of a page.
    pub width: u32,
}

/// The streams to which a command writes.
pub struct Screen<'a> {
    /// The view.
    pub out: &'a mut (dyn Write + Send),
    /// Warnings.
    pub err: &'a mut (dyn Write + Send),
    /// JSON is requested instead of text.
    pub json: bool,
    /// Text is colored.
    pub color: bool,
    /// Names are cut to fit into lines of so many characters; `None`: names are whole.
    pub width: Option<u32>,
}

impl Screen<'_> {
    /// Writes a document, as indented JSON or as the text that `text` puts on a page.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn emit(&mut self, document: &impl Serialize, text: impl FnOnce(&mut Page)) -> Result<()> {
        if self.json {
            serde_json::to_writer_pretty(&mut *self.out, document)?;
            writeln!(self.out)?;
        } else {
            let mut page = Page::new(self.color).of_width(self.width);
            text(&mut page);
            self.out.write_all(page.finish().as_bytes())?;
        }
        Ok(self.out.flush()?)
    }

    /// Writes a document as JSON on one line.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn one_line(&mut self, document: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut *self.out, document)?;
        writeln!(self.out)?;
        Ok(self.out.flush()?)
    }

    /// Writes warnings. `--quiet` hides none: they say what makes the data doubtful.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = impl Display>) {
        self.remark(warnings.into_iter().map(|warning| format!("warning: {warning}")));
    }

    /// Writes lines beside the view.
    pub fn remark(&mut self, remarks: impl IntoIterator<Item = String>) {
        for remark in remarks {
            // stderr may be gone.
            drop(writeln!(self.err, "{}", clean(remark.as_bytes())));
        }
    }
}
