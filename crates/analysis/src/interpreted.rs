//! Whether the functions that interpreters run agree with the machine frames that run them.
//!
//! The recorder reads both on its own: the frames of the interpreter in its list, and those of the machine by unwind tables. A frame of
//! the interpreter's loop calls from few places. Where such a place ran a function in one stack, a frame that stands there in another stack and
//! runs none lacks its functions.

use std::collections::HashSet;

use icecore_format::records::Location;
use icecore_text::quantity::{count, percent, ratio};
use serde::Serialize;

use icecore_profile::map::Map;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::stacks::locate::{Role, steps};

/// How many stacks of interpreters agree. Counts are of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Interpreted {
    /// User stacks with frames of an interpreter's loop.
    pub stacks: u64,
    /// Those of which each such frame has its functions.
    pub agree: u64,
    /// Those of which none has: the interpreter was not known yet, or the stack was copied and not walked.
    pub unread: u64,
    /// Those of which the innermost lack functions: another interpreter of the process ran them, or the list was torn.
    pub inner: u64,
    /// Those of which the outer ones lack functions: a coroutine has a list of its own (greenlet), or the list was cut.
    pub outer: u64,
    /// Stacks with a function whose code was gone when its name was read.
    pub gone: u64,
}

impl Interpreted {
    /// Compares the user stacks of a recording; `None` if none of them has functions of an interpreter.
    ///
    /// # Cost
    /// Two steps for each frame of each distinct stack.
    pub fn new(loaded: &Loaded<'_>) -> Option<Self> {
        if !loaded.tables.nodes.iter().any(|(_, node)| node.location.interpreted().is_some()) {
            return None;
        }
        let rows = &loaded.hits.rows;
        let mut places: HashSet<Location> = HashSet::new();
        for row in rows {
            frames(loaded, row.key.user, |at| {
                places.extend(at.place.filter(|_| at.runs));
            });
        }
        let mut all = Self::default();
        let mut known: Map<u32, (Judged, bool)> = Map::default();
        for row in rows {
            let (judged, is_gone) = *known
                .entry(row.key.user)
                .or_insert_with(|| (judge(loaded, row.key.user, &places), is_gone(loaded, row.key.user)));
            let class = match judged {
                Judged::Other => continue,
                Judged::Agrees => &mut all.agree,
                Judged::Unread => &mut all.unread,
                Judged::Inner => &mut all.inner,
                Judged::Outer => &mut all.outer,
            };
            *class += row.samples;
            all.stacks += row.samples;
            all.gone += if is_gone { row.samples } else { 0 };
        }
        (all.stacks > 0).then_some(all)
    }

    /// The share of the stacks that agree, 0 to 1.
    pub fn agree_share(&self) -> f64 {
        ratio(self.agree as f64, self.stacks as f64)
    }

    /// Sums it up in a line.
    pub fn text(&self) -> String {
        let differ = self.stacks - self.agree;
        let classes = [
            (self.unread, "no functions were found"),
            (self.inner, "the innermost functions are missing"),
            (self.outer, "the outermost functions are missing"),
        ];
        let classes = classes.into_iter().filter(|(samples, _)| *samples > 0);
        let classes: Vec<String> =
            classes.map(|(samples, text)| format!("{}: {text}", count(samples))).collect();
        let agree = format!(
            "{} of {} stacks agree with the machine frames",
            percent(self.agree_share()),
            count(self.stacks)
        );
        let differ = if differ == 0 {
            String::new()
        } else {
            format!("; {} differ ({})", count(differ), classes.join(", "))
        };
        let gone = if self.gone == 0 {
            String::new()
        } else {
            format!("; {} have code that was gone", count(self.gone))
        };
        agree + &differ + &gone
    }
}

#[derive(Clone, Copy)]
enum Judged {
    /// It has no frame of an interpreter's loop.
    Other,
    Agrees,
    Unread,
    Inner,
    Outer,
}

/// A machine frame.
struct Frame {
    /// From where it has called; `None` of the leaf.
    place: Option<Location>,
    /// It runs functions of an interpreter.
    runs: bool,
}

/// Hands over the machine frames of a stack, the innermost first.
fn frames(loaded: &Loaded<'_>, stack: u32, mut each: impl FnMut(Frame)) {
    let (mut runs, mut is_leaf) = (false, true);
    for step in steps(&loaded.tables, stack) {
        if step.is_interpreted() {
            runs = true;
            continue;
        }
        let is_caller = !is_leaf && step.role == Role::Return;
        each(Frame { place: step.location.filter(|_| is_caller), runs });
        (runs, is_leaf) = (false, false);
    }
}

fn judge(loaded: &Loaded<'_>, stack: u32, places: &HashSet<Location>) -> Judged {
    // Whether each frame of the loop runs functions, the innermost first.
    let mut runs = Vec::new();
    frames(loaded, stack, |frame| {
        if frame.runs || frame.place.is_some_and(|place| places.contains(&place)) {
            runs.push(frame.runs);
        }
    });
    match (runs.first(), runs.last()) {
        _ if runs.is_empty() => Judged::Other,
        _ if runs.iter().all(|runs| *runs) => Judged::Agrees,
        _ if runs.iter().all(|runs| !*runs) => Judged::Unread,
        (Some(true), _) => Judged::Outer,
        _ => Judged::Inner,
    }
}

fn is_gone(loaded: &Loaded<'_>, stack: u32) -> bool {
    steps(&loaded.tables, stack).any(|step| step.location.and_then(Location::interpreted) == Some(0))
}
