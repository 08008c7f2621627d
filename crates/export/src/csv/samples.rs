//! csv-samples: a row for every sample, in the order of time.
//!
//! A stack is root first, as in folded lines: `;` is between frames, and `:` stands for it in names. `complete` is empty if the recorder did not
//! walk the stack of a program, or does not say how the walk ended; `guessed` is true if the stack has a frame that nothing proves.

use std::io::{self, Write};

use icecore_profile::named::merged::Labels;
use icecore_profile::named::waits::{RowWait, Waker};
use icecore_text::csv::quoted;
use icecore_text::shorten::line;

use crate::exported::{Exported, ExportedSample};
use crate::format::Format;
use crate::kept::Fact;

/// The format.
#[derive(Debug)]
pub struct CsvSamples;

impl Format for CsvSamples {
    fn name(&self) -> &'static str {
        "csv-samples"
    }

    fn is_text(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [Fact] {
        &[
            Fact::Times,
            Fact::Cpus,
            Fact::Threads,
            Fact::Processes,
            Fact::Cgroups,
            Fact::Hosts,
            Fact::Events,
            Fact::Units,
            Fact::Samples,
            Fact::Waits,
            Fact::Incomplete,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "time_s,host,process,pid,thread,tid,cgroup,cpu,event,weight,unit,wait,waker,waker_tid,\
             stack_end,complete,guessed,stack"
        )?;
        let labels = Labels::own(of.names(), false);
        let mut text = String::new();
        for sample in of.samples() {
            row(of, &sample, &labels, &mut text);
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// Makes the row of a sample.
fn row(of: &Exported<'_>, sample: &ExportedSample<'_>, labels: &Labels, text: &mut String) {
    let (moment, taken, thread) = (sample.moment, sample.row.taken, of.thread(sample.row));
    text.clear();
    let Some(event) = of.event(sample.row).map(|event| &of.events[event]) else { return };
    let ns = of.after_begin_ns(moment.time_ns);
    let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let cgroup = of.report.loaded.cgroups.path(thread.cgroup).unwrap_or_default();
    let wait = sample.row.wait.map(|wait| &of.report.profile.waits[wait as usize]);
    let [kind, waker, waker_tid] = waited(wait);
    let complete = if taken.is_walked() { taken.rooted.to_string() } else { String::new() };
    let mut frames: Vec<&str> = of.stack(sample.site).map(|frame| labels.of(frame)).collect();
    frames.reverse();
    let mut stack = String::new();
    line(&frames, &mut stack);
    let fields = [
        time,
        quoted(&of.part(thread).session.host),
        quoted(&thread.process),
        thread.tgid.to_string(),
        quoted(&thread.comm),
        thread.tid.to_string(),
        quoted(cgroup),
        moment.cpu.to_string(),
        quoted(&event.name),
        moment.weight.to_string(),
        quoted(&event.unit),
        quoted(&kind),
        quoted(&waker),
        waker_tid,
        taken.end.name().to_owned(),
        complete,
        taken.guessed.to_string(),
        quoted(&stack),
    ];
    text.push_str(&fields.join(","));
    text.push('\n');
}

/// Says for what a thread waited, and what ended the wait.
fn waited(wait: Option<&RowWait>) -> [String; 3] {
    let Some(wait) = wait else { return Default::default() };
    let (waker, tid) = match &wait.waker {
        Waker::Thread(waker) => (waker.comm.to_string(), waker.tid.to_string()),
        other => (other.words().unwrap_or_default().to_owned(), String::new()),
    };
    [wait.kind.name(), waker, tid]
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::stacks::waits::kinds::WaitKind;

    #[test]
    fn a_sample_that_is_no_wait_has_empty_fields() {
        assert_eq!(waited(None).concat(), "");
        let wait = RowWait { kind: WaitKind::Sleep, waker: Waker::HardInterrupt };
        assert_eq!(waited(Some(&wait))[1..], ["hard interrupt", ""]);
    }
}
