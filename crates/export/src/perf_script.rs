//! perf-script: samples as `perf script --ns` prints them. Tools of flame graphs and the Firefox Profiler read this text.
//!
//! ```text
//! comm pid/tid [cpu] seconds.nanoseconds: weight event:
//!         address function (file)          leaf first
//!         address function (inlined)       as the next frame, into which it was inlined
//! ```
//!
//! The address of code in a file is its offset there, which is the same in all processes that map the file. The address of a caller is the last
//! byte of its call. Code that is in no file and not in the kernel has the address 0. Seconds are those of the clock `CLOCK_MONOTONIC`.
//!
//! Programs that read this text take `+0x` and digits at the end of a name for an offset in the function, and drop them. So a name that ends
//! like this gets the offset `+0x0`, which they drop in its place. inferno and stackcollapse-perf.pl also drop the arguments of functions, and
//! frames whose names begin with a bracket (`(anonymous namespace)::f`): this format has no way to keep them.

use std::borrow::Cow;
use std::io::{self, Write};

use icecore_profile::recording::events::EventChoice;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_text::clean::clean;

use crate::exported::{Exported, ExportedSample, NO_STACK};
use crate::format::Format;
use crate::kept::Fact;

/// The format.
#[derive(Debug)]
pub struct PerfScript;

impl Format for PerfScript {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn is_text(&self) -> bool {
        true
    }

    /// The programs that read this text show samples of the first event only (inferno), or of all events as if they were one (the Firefox Profiler).
    fn events(&self) -> EventChoice {
        EventChoice::Usual
    }

    fn keeps(&self) -> &'static [Fact] {
        &[
            Fact::Inlined,
            Fact::Images,
            Fact::Addresses,
            Fact::Sides,
            Fact::Times,
            Fact::Cpus,
            Fact::Threads,
            Fact::Events,
            Fact::Samples,
            Fact::Verdict,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        // perf begins with such a head, too, and so the Firefox Profiler knows what this is.
        writeln!(out, "# ========\n# written by icecore {}", env!("CARGO_PKG_VERSION"))?;
        for remark in of.remarks() {
            writeln!(out, "# {}", clean(remark.as_bytes()))?;
        }
        writeln!(out, "# addresses of code in files are offsets in the files\n# ========\n#")?;
        of.samples().try_for_each(|sample| self::sample(of, &sample, out))
    }
}

fn sample(of: &Exported<'_>, sample: &ExportedSample<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Some(event) = of.event(sample.row) else { return Ok(()) };
    let thread = of.thread(sample.row);
    let comm = comm(&thread.comm, thread.tid);
    let (seconds, ns) = (sample.moment.time_ns / 1_000_000_000, sample.moment.time_ns % 1_000_000_000);
    let (weight, name) = (sample.moment.weight, event_name(&of.events[event].name));
    write!(out, "{comm} {}/{} [{:03}] ", thread.tgid, thread.tid, sample.moment.cpu)?;
    writeln!(out, "{seconds}.{ns:09}: {weight:>10} {name}:")?;
    for (_, site) in of.walk(sample.site) {
        for frame in of.frames(site.place) {
            let (location, function) = (of.location(site.place), of.function(*frame));
            let address = match location {
                CodeLocation::Image(_, off) => off.0,
                CodeLocation::Kernel(_, address) => address.0,
                _ => 0,
            };
            let image = of.names().image(function).map(|image| &*image.path);
            let inlined = of.frame(*frame).inlined;
            self::frame(address, &function.name, if inlined { None } else { Some(image) }, out)?;
        }
    }
    if sample.site == 0 {
        frame(0, NO_STACK, Some(None), out)?;
    }
    writeln!(out)
}

/// Returns the name of an event with at most one colon, as perf's names have: inferno takes what follows a second one for a frame.
fn event_name(name: &str) -> String {
    match name.split_once(':') {
        Some((group, event)) => format!("{group}:{}", event.replace(':', "_")),
        None => name.to_owned(),
    }
}

/// Writes a frame; the image of an inlined function is not written.
fn frame(address: u64, name: &str, image: Option<Option<&str>>, out: &mut dyn Write) -> io::Result<()> {
    let file = match image {
        None => "inlined".into(),
        Some(None) => "[unknown]".into(),
        Some(Some("[kernel]")) => "[kernel.kallsyms]".into(),
        Some(Some(path)) => spaceless(path),
    };
    writeln!(out, "\t{address:>16x} {name}{} ({file})", if ends_in_offset(name) { "+0x0" } else { "" })
}

/// Returns true if programs would take the end of a name for an offset in the function.
fn ends_in_offset(name: &str) -> bool {
    let offset = name.rfind("+0x").map(|at| &name[at + 3..]);
    offset.is_some_and(|offset| offset.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Writes spaces of a path as /proc/mounts does: programs take the last word of a line for the file.
fn spaceless(path: &str) -> Cow<'_, str> {
    if path.contains(char::is_whitespace) {
        let escape = |c: char| match c {
            ' ' => "\\040".to_owned(),
            c if c.is_whitespace() => c.escape_unicode().to_string(),
            c => c.to_string(),
        };
        path.chars().map(escape).collect::<String>().into()
    } else {
        path.into()
    }
}

/// Returns the name of a thread; perf names one without a name by its number.
fn comm(comm: &str, tid: u32) -> Cow<'_, str> {
    match comm.trim() {
        "" => format!(":{tid}").into(),
        // A line that begins so is a comment.
        name if name.starts_with('#') => format!(":{name}").into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, image: Option<Option<&str>>) -> String {
        let mut out = Vec::new();
        frame(0x1f, name, image, &mut out).expect("memory can be written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn names_survive_programs_that_drop_offsets_and_split_at_spaces() {
        assert_eq!(line("cc1+0x5a3b40", Some(None)), "\t              1f cc1+0x5a3b40+0x0 ([unknown])\n");
        assert_eq!(line("a+0xg", None), "\t              1f a+0xg (inlined)\n");
        let path = Some(Some("/tmp/my (x) prog (deleted)"));
        assert_eq!(
            line("f(int, char)", path),
            "\t              1f f(int, char) (/tmp/my\\040(x)\\040prog\\040(deleted))\n"
        );
        assert_eq!(
            line("do_idle", Some(Some("[kernel]"))),
            "\t              1f do_idle ([kernel.kallsyms])\n"
        );
    }

    #[test]
    fn names_of_events_have_one_colon() {
        let names = ["cpu-clock", "sched:sched_switch", "uprobe:/bin/app:work"].map(event_name);
        assert_eq!(names, ["cpu-clock", "sched:sched_switch", "uprobe:/bin/app_work"]);
    }

    #[test]
    fn a_thread_always_has_a_name_and_begins_no_comment() {
        assert_eq!(["", "  ", "#x", "V8 Worker"].map(|name| comm(name, 7)), [":7", ":7", ":#x", "V8 Worker"]);
    }
}
