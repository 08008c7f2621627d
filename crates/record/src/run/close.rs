//! Ends a recording: the receipt, the summary, and the exit code of the command.

use std::process::Child;
use std::time::Duration;

use icecore_format::records::{Cause, ReceiptV1, TriggerCause};
use icecore_text::quantity;

use super::FAILED;
use super::disk::why_not;
use super::flight::{self, Rest, Saver};
use super::rotate::{Last, Spent};
use super::ship::Queue;
use super::view::View;
use crate::cli::output::{Output, Settled};
use crate::cli::summary::{self, Ended};
use crate::kernel::feed::Feed;
use crate::settings::{Embed, Event, Options};
use crate::sys::pty::Relay;
use crate::sys::{child, usage};
use crate::threads::closing::left_out;
use crate::threads::digest::Digested;
use crate::threads::pump::{Pumped, Reason};
use crate::threads::store::Stored;
use crate::threads::triggers::Trigger;

/// The results of sampling.
pub(super) struct End<'a> {
    pub(super) events: &'a [Event],
    pub(super) elapsed: Duration,
    pub(super) pumped: Pumped,
    pub(super) digested: Digested,
    pub(super) exit_code: Option<u8>,
    /// A terminal sent Ctrl-C to the recorder and to all other processes of its group.
    pub(super) by_terminal: bool,
    /// Descendants of the targets that existed already and were not recorded.
    pub(super) left_out: usize,
    /// What shows the recording.
    pub(super) view: Option<View>,
}

/// Writes the receipt, closes the file, prints the summary, and waits for the command.
pub(super) fn close(
    options: &Options,
    sampler: &Feed<'_>,
    (Last { mut stored, output, before, turned }, saver, queue): (Last, Option<Saver>, Option<&Queue>),
    mut end: End<'_>,
    command: Option<(Child, Option<Relay>)>,
) -> anyhow::Result<u8> {
    let end_ns = end.pumped.end_ns;
    // If the command ended the recording, its exit code is known; otherwise it is waited for below.
    let (mut command, mut relay) = command.map_or((None, None), |(child, relay)| (Some(child), relay));
    let mut trigger = turned.trigger.clone();
    if let (Some(child), Reason::Command) = (command.as_mut(), end.pumped.ended_by) {
        let status = child.wait()?;
        end.exit_code = Some(child::exit_code(status));
        trigger = trigger.or(child::ended_by(status)
            .map(|signal| Trigger::new(TriggerCause::COMMAND, format!("{signal} ended the command"))));
        // The terminal is as it was before the summary is printed.
        drop(relay.take());
    }
    let refused = stored.refused();
    let last_losses = stored.last_losses(end_ns, &end.digested.embedded);
    let lost =
        end.digested.losses.iter().filter(|(cause, _)| cause.is_sample()).map(|(_, count)| count).sum();
    if refused > 0 {
        *end.digested.losses.entry(Cause::WRITE_FAILED).or_default() += refused;
    }
    let spent = ReceiptV1 {
        end_ns,
        end_reason: end.pumped.ended_by.recorded(),
        exit_code: end.exit_code.map_or(-1, i32::from),
        ring_high_water_bytes: end.pumped.ring_high_water_bytes,
        ..Spent::now(sampler).receipt_since(before)
    };
    let receipt = stored.receipt(end.digested.totals.samples, lost, spent);
    let left_out = left_out(&end.digested.embedded);
    let (is_signal, exit_code) = (end.pumped.ended_by == Reason::Signal, end.exit_code);
    let by_terminal = end.by_terminal;
    let is_written = match saver {
        None => {
            stored.complete(&left_out, &last_losses, None, &receipt);
            finish(options, sampler, (stored, &output, queue), end, &receipt)
        }
        Some(saver) => {
            let is_written = saver.end(trigger.map(|trigger| {
                let rest = Rest::Receipt { left_out, losses: last_losses, receipt: Box::new(receipt) };
                (flight::Part::last(stored, &turned, end_ns, rest), trigger)
            }));
            if is_written == Ok(false) && !options.quiet {
                summary::tell(
                    "icecore-record: nothing asked for the history (--flight): no file was written",
                );
            }
            is_written.is_ok()
        }
    };
    let code = match (exit_code, command) {
        (Some(code), _) => code,
        (None, None) => 0,
        (None, Some(mut child)) => {
            // A program may handle Ctrl-C, and takes SIGTERM for another request.
            match &relay {
                // The terminal has sent it Ctrl-C, too.
                _ if is_signal && by_terminal && child::is_in_own_group(&child) => {}
                Some(relay) if is_signal && by_terminal => relay.interrupt(),
                None if is_signal && by_terminal && options.run_as.is_some() => child::interrupt(&child),
                _ if is_signal => child::terminate(&child),
                _ => {}
            }
            if (!is_signal || by_terminal) && !options.quiet && child.try_wait()?.is_none() {
                summary::tell(&format!(
                    "icecore-record: waiting for the command to end (process {})\n",
                    child.id()
                ));
            }
            child::exit_code(child.wait()?)
        }
    };
    Ok(if is_written { code } else { FAILED })
}

/// Finishes the file and prints the summary; returns false if the recording is not where it was asked for.
fn finish(
    options: &Options,
    sampler: &Feed<'_>,
    (stored, output, queue): (Stored, &Output, Option<&Queue>),
    mut end: End<'_>,
    receipt: &ReceiptV1,
) -> bool {
    let (kept, pieces_bytes, refused) = (receipt.file_bytes, stored.pieces_bytes, stored.refused());
    let finished = stored.finish();
    let settled = output.settle();
    // It gives the terminal back before the summary is printed.
    end.view.take().into_iter().for_each(View::end);
    if let Err(error) = &finished {
        let takes_files = [Embed::Sections, Embed::All].contains(&options.embed);
        // Files are written after all samples.
        let what_is_lost = if takes_files && refused == 0 {
            "; what is missing is of files that were to be embedded"
        } else {
            ""
        };
        summary::tell(&format!(
            "error: cannot write {}: {}. \
             What was written before ({}) can be read; lost after it: {}{what_is_lost}",
            output.called(),
            why_not(error),
            quantity::bytes(kept),
            quantity::things(refused, "sample"),
        ));
    } else if !options.quiet && !matches!(settled, Settled::Gone(_)) {
        let mut losses: Vec<(Cause, u64)> = end.digested.losses.into_iter().collect();
        losses.sort_unstable();
        let ended = Ended {
            path: settled.path().or(output.path()),
            elapsed: end.elapsed,
            paused: Duration::from_nanos(end.pumped.paused_ns),
            events: end.events,
            cpus: options.cpus.len(),
            command_cpu: end.exit_code.map(|_| usage::of_children()),
            has_begun: end.pumped.has_begun,
            left_out: end.left_out,
            is_restricted: options.some_cpus || !(options.user && options.kernel),
            file_bytes: *finished.as_ref().unwrap_or(&kept),
            pieces_bytes,
            receipt,
            losses: &losses,
            embedded: end.digested.embedded,
        };
        summary::lines(&ended).iter().for_each(|line| summary::tell(line));
        let refused = sampler.refused_task_work();
        if refused > 0 {
            summary::tell(&format!(
                "icecore-record: the kernel had no memory for {} to take their user stacks after waits; since then at most 2 KiB of such stacks were copied\n",
                quantity::things(refused, "thread")
            ));
        }
    }
    if let Some(text) = settled.text(&output.called()).filter(|_| settled.is_failure() || !options.quiet) {
        let kind = if settled.is_failure() { "error" } else { "icecore-record" };
        summary::tell(&format!("{kind}: {text}"));
    }
    queue.inspect(|queue| queue.push(output.path(), &settled));
    finished.is_ok() && !settled.is_failure()
}
