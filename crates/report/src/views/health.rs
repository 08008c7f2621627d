//! `health`: how good the data is, and how to improve it.

mod audit;

use std::collections::BTreeMap;

use serde::Serialize;

use super::lost::{self, LostRow};
use super::rates::RateSummary;
use super::{Needs, Result, Screen, Shown, View};
use crate::cli::Select;
use icecore_analysis::account::Account;
use icecore_analysis::clock::achieved_hz;
use icecore_analysis::quality::{Break, Quality, Verdict, breaks};
use icecore_profile::named::Taken;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::losses::losses;
use icecore_text::path::shown;
use icecore_text::quantity::ratio;
use icecore_text::quantity::{count, duration, percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The arguments of `health`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report health [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report health demo.icecore
  icecore-report health demo.icecore --strict || exit 1    in a script
  icecore-report health demo.icecore --json | jq -r '.advice[]'

The verdict is that of summary, by the same thresholds. A stack counts as rooted if unwinding, or a walk that the unwind tables of its \
code confirm, came to an outermost frame: the entry point of a program or thread. A walk along frame pointers alone (--unwind fp) \
proves no root: code that keeps no frame pointers may hide callers, and the walk may come to a root all the same.")]
pub struct Args {
    /// Exit with 1 unless the verdict is good
    #[arg(long)]
    pub strict: bool,
    /// Show this many places where stacks end; 0: all [default: 10, with --json all]
    #[arg(short = 'n', long = "rows", value_name = "N")]
    pub rows: Option<usize>,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        Needs { tells_quality: true, ..Needs::default() }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let rows = self.rows.unwrap_or(if screen.json { 0 } else { 10 });
        let health = Health::new(shown.report, rows);
        screen.emit(&health, |page| health.text(shown.report, page))?;
        Ok(!self.strict || health.is_good())
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Health {
    schema: &'static str,
    file: String,
    samples: u64,
    /// The requested rate, by event; 0 if a sample was taken every so many units.
    asked_hz: Vec<u64>,
    /// CPU time by the kernel's own account, and by samples; `None` if they cannot be compared.
    cpu_time: Option<Account>,
    /// Why they cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_time_unknown: Option<&'static str>,
    /// Samples of CPU time per second of it; `None` if no sample represents CPU time.
    achieved_hz: Option<f64>,
    /// All losses, by cause.
    lost: BTreeMap<String, u64>,
    lost_share: f64,
    /// The share of the weight of the shown events.
    lost_weight_share: f64,
    /// Lost samples of known events.
    lost_by_event: Vec<LostRow>,
    /// The lost samples that only the receipt counts: their blocks are missing.
    samples_missing: u64,
    #[serde(flatten)]
    quality: Quality,
    /// User stacks that were unwound by the unwind tables of their code, from a snapshot or by the sampler.
    unwound_share: f64,
    /// User stacks that show more than the walk along frame pointers.
    repaired_share: f64,
    /// Where the user stacks end that reach no root.
    images: Vec<ImageRow>,
    /// The number of all such places; `images` may have fewer.
    images_count: u64,
    /// How to improve the next recording, or this report.
    advice: Vec<String>,
    /// All samples represent CPU time.
    #[serde(skip)]
    is_cpu_time: bool,
}

/// A place at which stacks end.
#[derive(Debug, Serialize)]
struct ImageRow {
    image: Option<String>,
    ended: &'static str,
    samples: u64,
    share: f64,
}

impl Health {
    /// Judges a recording, with this many places where stacks end; 0: all.
    pub fn new(report: &Report<'_>, rows: usize) -> Self {
        let tables = &report.loaded.tables;
        let whole = report.profile.whole();
        let mut quality = Quality::new(report);
        let cpu_time = std::mem::replace(&mut quality.cpu_time, Err(""));
        let walked = report.profile.taken(Taken::is_walked).samples;
        let of_walked = |which: fn(Taken) -> bool| {
            let samples = report.profile.taken(|taken| taken.is_walked() && which(taken)).samples;
            ratio(samples as f64, walked as f64)
        };
        let row =
            |Break { image, end, samples, share }| ImageRow { image, ended: end.name(), samples, share };
        let mut images: Vec<ImageRow> = breaks(&report.profile).into_iter().map(row).collect();
        let images_count = images.len() as u64;
        images.truncate(if rows > 0 { rows } else { usize::MAX });
        Self {
            schema: "icecore.health/1",
            file: report.loaded.path.display().to_string(),
            samples: whole.samples,
            cpu_time_unknown: cpu_time.as_ref().err().copied(),
            cpu_time: cpu_time.ok(),
            asked_hz: tables.parts.events().iter().map(|event| event.frequency_hz).collect(),
            achieved_hz: achieved_hz(report),
            lost: losses(tables),
            lost_share: quality.lost.share,
            lost_weight_share: quality.lost.share_of_weight,
            lost_by_event: LostRow::list(tables, &quality.lost),
            samples_missing: tables.samples_missing,
            advice: quality.problems.clone(),
            quality,
            unwound_share: of_walked(Taken::is_unwound),
            repaired_share: of_walked(Taken::is_repaired),
            images,
            images_count,
            is_cpu_time: report.profile.measure.is_cpu_time,
        }
    }

    /// Returns true if the data supports conclusions without reservations.
    pub fn is_good(&self) -> bool {
        self.quality.verdict == Verdict::Good
    }

    /// Writes the page.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        let style = match self.quality.verdict {
            Verdict::Good => Style::Good,
            Verdict::Usable => Style::Warn,
            Verdict::Misleading => Style::Bad,
        };
        page.styled(Style::Dim, &format!("{}: how good this data is", shown(report.loaded.path)));
        page.gap();
        page.item("verdict", &page.style(style, &self.quality.said()));
        self.advice.iter().for_each(|line| page.item("", line));
        page.item("samples", &self.samples_text());
        super::events::unshown(report).into_iter().for_each(|line| page.item("", &line));
        if let Some(rate) = RateSummary::new(&report.loaded.tables, &report.loaded.filter) {
            page.item("rate", &rate.text());
        }
        page.item("lost", &self.lost_text());
        page.item("CPU time", &self.cpu_time_text());
        self.quality.restrictions.iter().for_each(|line| page.item("restricted", line));
        self.quality.refused().into_iter().for_each(|line| page.item("refused", &line));
        self.stacks_text(page);
        let named = self
            .quality
            .named_share
            .map_or("no frames".to_owned(), |share| format!("{} of the frames have a name", percent(share)));
        let unnamed =
            self.quality.unnamed.iter().map(|(reason, share)| format!("{} {reason}", percent(*share)));
        let unnamed: Vec<String> = unnamed.collect();
        page.item(
            "names",
            &if unnamed.is_empty() { named } else { format!("{named}; {}", unnamed.join(", ")) },
        );
        self.images_text(page);
        self.quality.audit.iter().for_each(|audit| audit::text(audit, page));
    }

    fn samples_text(&self) -> String {
        let asked: Vec<String> =
            self.asked_hz.iter().filter(|hz| **hz > 0).map(|hz| format!("{} Hz", count(*hz))).collect();
        let asked =
            if asked.is_empty() { String::new() } else { format!(", asked for {}", asked.join(", ")) };
        let achieved = self.achieved_hz.map(|hz| match self.is_cpu_time {
            true => format!("; one stands for 1/{hz:.0} s of CPU time"),
            false => format!("; those of CPU time stand for 1/{hz:.0} s each"),
        });
        format!("{}{asked}{}", things(self.samples, "sample"), achieved.unwrap_or_default())
    }

    fn cpu_time_text(&self) -> String {
        match (&self.cpu_time, self.quality.cpu_time_agreement) {
            (Some(account), Some(agreement)) => format!(
                "samples stand for {} of {} by the kernel's account: {}",
                duration(account.sampled_ns),
                duration(account.kernel_ns),
                percent(agreement)
            ),
            _ => {
                let why = self
                    .cpu_time_unknown
                    .unwrap_or("its readings, one a second, tell nothing of what is looked at");
                format!("not compared with the kernel's account: {why}")
            }
        }
    }

    fn lost_text(&self) -> String {
        if self.lost.is_empty() {
            return "nothing".to_owned();
        }
        let causes: Vec<String> =
            self.lost.iter().map(|(cause, n)| format!("{} {cause}", count(*n))).collect();
        let text = format!("{} of the samples; {}", percent(self.lost_share), causes.join(", "));
        match lost::by_event(&self.lost_by_event, self.lost_share) {
            Some(events) => format!("{text}; of weight: {events}"),
            None => text,
        }
    }

    fn stacks_text(&self, page: &mut Page) {
        let Some(rooted) = self.quality.rooted_share else {
            page.item("stacks", "no user stacks, or none that tells how it ended");
            return;
        };
        page.item("stacks", &format!("{} of the user stacks reach a root", percent(rooted)));
        if self.unwound_share > 0.0 {
            let [unwound, repaired] = [self.unwound_share, self.repaired_share].map(percent);
            page.item("", &format!("{unwound} were unwound; {repaired} show more than frame pointers did"));
        }
        if let Some(guessed) = self.quality.guessed_share.filter(|share| *share > 0.0) {
            page.item("", &format!("{} hold frames that were found by a guess", percent(guessed)));
        }
        if let Some(moved) = self.quality.moved_share {
            let text = "are of code that its program has moved, with the bytes of the file";
            page.item("", &format!("{} {text}", percent(moved)));
        }
        if let Some(suspect) = self.quality.suspect_share.filter(|share| *share > 0.0) {
            let text = "lack callers: they pass through code without frame pointers, or a signal handler";
            page.item("", &format!("{} {text}", percent(suspect)));
        }
        self.impossible_text(page);
        let ends = self.quality.user_ends.iter().map(|(end, n)| format!("{} {end}", count(*n)));
        page.item("ended", &ends.collect::<Vec<_>>().join(", "));
        self.quality.audit.iter().for_each(|audit| page.item("walks", &audit.text()));
        self.quality.interpreted.iter().for_each(|it| page.item("interpreted", &it.text()));
    }

    fn impossible_text(&self, page: &mut Page) {
        let Some(found) = &self.quality.impossible else { return };
        let [calls, checked, impossible] = [found.calls, found.checked, found.impossible].map(count);
        let checked = format!("{checked} of {calls} calls could be checked");
        let text = match self.quality.impossible_share {
            None => format!("none of the {calls} calls could be checked: the code is not here (--symbols)"),
            Some(0.0) => format!("none is known to hold a call that the code does not make ({checked})"),
            Some(share) => format!(
                "at least {} are wrong: {impossible} calls are none that the code makes ({checked})",
                percent(share)
            ),
        };
        page.item("", &text);
    }

    fn images_text(&self, page: &mut Page) {
        if self.images.is_empty() {
            return;
        }
        page.gap();
        page.styled(Style::Bold, "user stacks that reach no root, by where they end");
        let columns = [
            ("SHARE", Align::Right),
            ("SAMPLES", Align::Right),
            ("ENDED", Align::Left),
            ("IMAGE OF THE OUTERMOST FRAME", Align::Left),
        ];
        let mut table = Table::new(0, &columns);
        for row in &self.images {
            let image = row.image.clone().unwrap_or_else(|| "[none]".to_owned());
            table.row(vec![percent(row.share), count(row.samples), row.ended.to_owned(), image]);
        }
        page.table(&table);
        if (self.images.len() as u64) < self.images_count {
            let shown = count(self.images.len() as u64);
            page.styled(
                Style::Dim,
                &format!("{shown} of {} shown (-n 0: all)", things(self.images_count, "row")),
            );
        }
    }
}
