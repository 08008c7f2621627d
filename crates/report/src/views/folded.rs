//! `folded`: one line per distinct stack, root first, for flame graph tools.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use crate::cli::{Select, Weight, root};
use crate::views::events::weight_of_stacks;
use crate::views::{Needs, Result, Screen, Shown, View};
use icecore_profile::named::merged::{Labels, MergedStacks};
use icecore_profile::named::tree::Root;
use icecore_profile::named::{Amount, Profile};
use icecore_text::quantity::things;
use icecore_text::shorten::fitted;

/// The arguments of `folded`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report folded [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report folded demo.icecore > demo.folded
  icecore-report folded demo.icecore | inferno-flamegraph > demo.svg
  icecore-report folded demo.icecore --wakers             as offwaketime prints them

A line is `process;outermost;…;innermost count`. Kernel frames end with _[k], inlined ones with _[i], and \
frames that were found by a guess, so that they and their callers may be wrong, with _[?].")]
pub struct Args {
    /// Count samples or period (their weight) [default: samples; period for waits, sizes and several events]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub weight: Option<Weight>,
    /// Begin stacks with the name of the process, the thread, the field of a tracepoint (top --by field), or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true, value_parser = root())]
    pub root: Root,
    /// Leave out the marks after the names of kernel, inlined and guessed frames
    #[arg(long)]
    pub no_annotations: bool,
    /// Put the stack and the name of the thread that ended each wait on top of its stack; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let needs = Needs::root(self.root).with_wakers(self.wakers);
        Needs { is_no_page: true, ..needs }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let folded = Folded::new(&shown.report.profile, self);
        screen.warn(folded.remark());
        if screen.json {
            screen.emit(&folded, |_| ())?;
        } else {
            folded.text(screen.out)?;
        }
        Ok(true)
    }
}

/// The document. Each stack is composed when it is written.
#[derive(Debug, Serialize)]
pub struct Folded {
    schema: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    /// The number of stacks with frames left out, because they are longer than a megabyte.
    stacks_shortened: u64,
    stacks: Stacks,
    #[serde(skip)]
    weight: Weight,
}

#[derive(Debug)]
struct Stacks(MergedStacks);

/// One distinct stack.
#[derive(Debug, Serialize)]
struct FoldedLine<'a> {
    frames: Vec<Cow<'a, str>>,
    weight: u64,
    samples: u64,
}

impl Serialize for Stacks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.lines()))?;
        self.0.each(|frames, amount| {
            let (weight, samples) = (amount.weight, amount.samples);
            list.serialize_element(&FoldedLine { frames: fitted(frames), weight, samples })
        })?;
        list.end()
    }
}

impl Folded {
    /// Merges the stacks of a profile.
    pub fn new(profile: &Profile, options: &Args) -> Self {
        let whole = profile.whole();
        let labels = Labels::own(&profile.names, !options.no_annotations);
        let stacks = MergedStacks::new(profile, options.root, &labels);
        Self {
            schema: "icecore.folded/1",
            unit: profile.measure.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            stacks_shortened: stacks.too_long(),
            stacks: Stacks(stacks),
            weight: weight_of_stacks(options.weight, &profile.measure),
        }
    }

    /// Writes the lines.
    ///
    /// # Errors
    /// As the stream.
    pub fn text(&self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        let number = |amount: Amount| match self.weight {
            Weight::Samples => amount.samples,
            Weight::Period => amount.weight,
        };
        self.stacks.0.write(number, out)
    }

    /// Describes what was left out.
    pub fn remark(&self) -> Option<String> {
        let count = self.stacks_shortened;
        (count > 0).then(|| {
            format!("{} longer than 1 MiB: frames in their middle are left out", things(count, "stack"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;
    use icecore_profile::named::names::Side;
    use icecore_profile::named::tree::Root;
    use icecore_text::shorten::line;

    fn lines(profile: &Profile, root: Root, annotate: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let merged = MergedStacks::new(profile, root, &Labels::own(&profile.names, annotate));
        let handed = merged.each(|frames, amount| {
            let mut text = String::new();
            line(frames, &mut text);
            lines.push(format!("{text} {}", amount.samples));
            Ok::<(), ()>(())
        });
        handed.expect("nothing fails");
        lines
    }

    #[test]
    fn a_separator_in_a_name_separates_nothing() {
        let mut profile = fixture::profile(&[("main;a", 2)]);
        profile.names.functions[1].name = "a;b".into();
        profile.threads[0].process = "x;y".into();
        assert_eq!(lines(&profile, Root::Process, true), ["x:y;main;a:b 2"]);
    }

    #[test]
    fn kernel_and_inlined_frames_are_marked() {
        let mut profile = fixture::profile(&[("main;inl;sys", 2)]);
        profile.names.frames[1].inlined = true;
        profile.names.functions[2].side = Side::Kernel;
        assert_eq!(lines(&profile, Root::None, true), ["main;inl_[i];sys_[k] 2"]);
        assert_eq!(lines(&profile, Root::None, false), ["main;inl;sys 2"]);
    }

    #[test]
    fn stacks_that_are_called_alike_are_one_line_in_front_of_those_that_go_on_from_it() {
        let mut profile = fixture::profile(&[("f2", 1), ("f;g", 2), ("f", 4), ("h;g", 8)]);
        let named = profile.names.functions.iter().position(|function| &*function.name == "h");
        profile.names.functions[named.expect("a function")].name = "f".into();
        assert_eq!(lines(&profile, Root::None, true), ["f 4", "f;g 10", "f2 1"]);
    }

    #[test]
    fn what_a_picture_cannot_show_counts_for_what_it_can() {
        let profile = fixture::profile(&[("a;b;c", 1), ("a;b", 20), ("a;d;e", 40), ("x;y", 1)]);
        let merged = MergedStacks::new(&profile, Root::None, &Labels::own(&profile.names, true));
        let totals = merged.totals();
        let kept =
            merged.kept(|node, depth| totals[node].samples > 1 && depth < 3, |text| text.to_uppercase());
        let mut lines = Vec::new();
        let handed = kept.each(|frames, amount| {
            lines.push((frames.join(";"), amount.samples));
            Ok::<(), ()>(())
        });
        handed.expect("nothing fails");
        assert_eq!(
            lines,
            [("A;B", 21), ("A;D", 40), ("[too narrow to be drawn]", 1)].map(|(s, n)| (s.to_owned(), n))
        );
    }
}
