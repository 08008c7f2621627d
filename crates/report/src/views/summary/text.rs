//! Writes the first screen as text.

use std::path::Path;

use super::{Cgroup, Process, Quality, Summary, Verdict, gaps, memory};
use crate::views::flame::file::default_name;
use crate::views::{left_out, lost};
use icecore_profile::named::pipeline::{Loaded, Report};
use icecore_text::fit::cut;
use icecore_text::name;
use icecore_text::path::{command, quoted, shown};
use icecore_text::quantity::{bytes, count, duration, percent, ranges, things, utc, weight};
use icecore_text::{Align, Page, Style, Table};

/// Longer names of functions and images are cut; `top` shows them whole.
const NAME_LEN: usize = 72;
const IMAGE_LEN: usize = 24;
/// How many cgroups are listed.
const CGROUPS: usize = 3;
/// How many reasons for missing names are listed.
const REASONS: usize = 3;

/// How much the screen says. A terminal gets as much as its smallest kind shows, everything else all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Detail {
    /// A problem, and what cannot be left out: `health` and `info` have the rest.
    Least,
    /// Two problems, and neither sessions, labels nor cgroups: `info` and `top` have those.
    Less,
    All,
}

impl Detail {
    fn problems(self) -> usize {
        match self {
            Self::Least => 1,
            Self::Less => 2,
            Self::All => usize::MAX,
        }
    }

    /// So many functions are shown, whatever else there is.
    fn functions(self) -> usize {
        if self == Self::Least { 3 } else { 5 }
    }
}

impl Summary {
    /// Writes the screen.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        for detail in [Detail::All, Detail::Less, Detail::Least] {
            let mut tried = page.clone();
            self.write(report, detail, &mut tried);
            if tried.fits_terminal() || detail == Detail::Least {
                *page = tried;
                return;
            }
        }
    }

    fn write(&self, report: &Report<'_>, detail: Detail, page: &mut Page) {
        for trigger in &self.triggers {
            if detail == Detail::Least {
                page.short_item("trigger", &trigger.text());
            } else {
                page.item("trigger", &trigger.text());
            }
        }
        if let Some(rate) = &self.rate {
            if detail == Detail::Least {
                page.short_item("rate", &rate.text());
            } else {
                page.item("rate", &rate.text());
            }
        }
        // Problems come first.
        if self.quality.verdict == Verdict::Good {
            self.what(detail, page);
            page.gap();
            self.how_good(&report.loaded.words(), detail, page);
        } else {
            self.how_good(&report.loaded.words(), detail, page);
            page.gap();
            self.what(detail, page);
        }
        match detail {
            // That the file is damaged is one of the problems.
            Detail::Least => super::super::selection(report, page),
            Detail::Less | Detail::All => super::super::caveats(report, page),
        }
        let costs = [("memory", memory::text(&self.peak_memory)), ("cost", self.cost())];
        let costs: Vec<(&str, String)> =
            costs.into_iter().filter_map(|(label, text)| Some((label, text?))).collect();
        // What follows the functions: their heading, a gap, these, and what to do next.
        self.where_time_went(detail, page, 3 + costs.len());
        if !costs.is_empty() && page.rows_left().is_none_or(|rows| rows > 1 + costs.len()) {
            page.gap();
            costs.iter().for_each(|(label, text)| page.item(label, text));
        }
        page.styled(Style::Dim, &format!("next: {}", self.next(report.loaded)));
    }

    fn what(&self, detail: Detail, page: &mut Page) {
        let mut recording = vec![shown(Path::new(&self.file)).to_string(), bytes(self.file_bytes)];
        let mut length = duration((self.duration_s * 1e9) as u64);
        if self.rate.as_ref().is_some_and(|rate| rate.pauses > 0) {
            let whole = duration(self.end_unix_ns.saturating_sub(self.start_unix_ns));
            length = format!("{length} sampled, until {whole} after the start");
        }
        if self.sessions.is_empty() {
            recording.extend([utc(self.start_unix_ns), length]);
        }
        if !self.closed {
            recording.push("not closed".to_owned());
        }
        page.item("recording", &recording.join(" · "));
        // What asked for the recording is one more line, and so are changes of the rate.
        let more = usize::from(!self.triggers.is_empty()) + usize::from(self.rate.is_some());
        let has_room = more == 0 || detail > Detail::Least;
        let machine = |page: &mut Page| {
            let host = self.hosts.join(", ");
            let machine = machine(&host, &self.kernel_release, &self.arch, &self.cpus);
            has_room.then(|| page.item("machine", &machine));
        };
        if self.sessions.is_empty() {
            machine(page);
        } else {
            self.made(page);
            gaps::text(&self.gaps).into_iter().for_each(|gaps| page.item("gaps", &gaps));
            if self.are_of_one {
                machine(page);
            } else if detail == Detail::All {
                self.each_session(page);
            }
        }
        // Each session has its own.
        if !self.command_line.is_empty() && detail > Detail::Least {
            page.short_item("command", &command(&self.command_line));
        }
        if more < 2 || detail > Detail::Least {
            page.item("sampled", &self.sampled());
        }
        if !self.labels.is_empty() && detail == Detail::All {
            let labels: Vec<String> = self.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            page.item("labels", &labels.join(" "));
        }
        if let Some(filter) = &self.filter {
            page.item("filtered", filter);
        }
    }

    fn made(&self, page: &mut Page) {
        let length = |seconds: f64| duration((seconds * 1e9) as u64);
        let sessions = self.sessions.len() as u64;
        let sessions = match self.recordings {
            Some(1) => format!("one recording in {}", things(sessions, "part")),
            Some(n) if n < sessions => format!("{} in {}", things(n, "recording"), things(sessions, "part")),
            _ => things(sessions, "session"),
        };
        let span = format!("{} to {}", utc(self.start_unix_ns), utc(self.end_unix_ns));
        let ran = match (self.duration_s, self.sessions_s) {
            (any, sum) if (sum - any).abs() < 1e-6 => format!("{} in all", length(sum)),
            (any, sum) => format!("{} in all, {} in which any ran", length(sum), length(any)),
        };
        page.item("made", &format!("{sessions} · {span} · {ran}"));
    }

    fn each_session(&self, page: &mut Page) {
        for row in &self.sessions {
            let machine = machine(&row.host, &row.kernel_release, &row.arch, &row.cpus);
            let length = duration((row.duration_s * 1e9) as u64);
            let samples = format!("{}, {:.0} per second", things(row.samples, "sample"), row.rate_hz);
            let began = utc(row.start_unix_ns);
            page.item("session", &format!("{machine} · {began} · {length} · {samples}"));
            if self.command_line.is_empty() {
                page.item("", &command(&row.command_line));
            }
        }
    }

    fn sampled(&self) -> String {
        let events = self.events.iter().map(|event| match (event.frequency_hz, event.period) {
            (0, 0 | 1) => event.name.clone(),
            (0, period) if event.is_wait => format!("{} ≥ {}", event.name, duration(period)),
            (0, period) => format!("{} every {}", event.name, weight(period, &event.unit)),
            (hz, _) => format!("{} at {hz} Hz per CPU", event.name),
        });
        let mut parts = vec![self.target.clone()];
        parts.extend(events);
        // That the rate was achieved that was in force is no news.
        let requested = self.events.iter().map(|event| event.frequency_hz).max().unwrap_or(0) as f64;
        let (lowest, highest) =
            self.rate.as_ref().map_or((1.0, 1.0), |rate| (rate.lowest_share, rate.highest_share));
        let wanted = requested * (lowest - 0.05 * lowest)..=requested * (highest + 0.05 * highest);
        if let Some(hz) = self.achieved_hz.filter(|hz| !wanted.contains(hz)) {
            parts.push(format!("{hz:.0} Hz achieved per busy CPU"));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }

    fn how_good(&self, file: &str, detail: Detail, page: &mut Page) {
        let Quality { verdict, problems, .. } = &self.quality;
        let style = match verdict {
            Verdict::Good => Style::Good,
            Verdict::Usable => Style::Warn,
            Verdict::Misleading => Style::Bad,
        };
        let verdict = page.style(style, &self.quality.said());
        page.item("quality", &verdict);
        for problem in problems.iter().take(detail.problems()) {
            page.sentence(style, 2, problem);
        }
        let more = problems.len().saturating_sub(detail.problems()) as u64;
        let has_others = detail == Detail::Least && self.other_losses.values().any(|n| *n > 0);
        let left_out =
            [(more > 0).then(|| things(more, "more problem")), has_others.then(|| "other losses".to_owned())];
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            page.sentence(style, 2, &format!("{left_out}: icecore-report health {file}"));
        }
        if !self.closed && detail > Detail::Least {
            let text =
                "the recorder was stopped before it closed this file: the last second or so may be missing";
            page.sentence(Style::Warn, 2, text);
        }
        // What is as it should be, `health` tells.
        let agreement = self.quality.cpu_time_agreement.filter(|_| self.quality.verdict != Verdict::Good);
        let agreement =
            agreement.map(|share| format!(" · CPU time {} of the kernel's account", percent(share)));
        page.item("  samples", &(self.samples_and_losses(detail) + &agreement.unwrap_or_default()));
        // The filters stand before it.
        let restrictions = self.quality.restrictions.iter().filter(|line| !line.starts_with("filtered"));
        restrictions.for_each(|line| page.item("  restricted", line));
        self.quality.refused().into_iter().for_each(|line| page.item("  refused", &line));
        match (self.stacks(detail), self.names(detail)) {
            (Some(stacks), Some(names)) if self.quality.verdict == Verdict::Good || detail < Detail::All => {
                page.item("  stacks", &format!("{stacks} · {names}"));
            }
            (stacks, names) => {
                stacks.into_iter().for_each(|stacks| page.item("  stacks", &stacks));
                names.into_iter().for_each(|names| page.item("  names", &names));
            }
        }
        self.quality.interpreted.iter().for_each(|it| page.item("  interpreted", &it.text()));
        if let Some(told) = left_out::told(self.left_out.iter().filter(|row| row.is_of_interpreters())) {
            page.item("  left out", &told);
        }
        // If files were reduced to sections, all names are there.
        let nameless = self.left_out.iter().filter(|row| row.costs_names());
        if let Some(left_out) = left_out::told(nameless).filter(|_| !self.quality.unnamed.is_empty()) {
            page.item("  left out", &left_out);
        }
    }

    fn samples_and_losses(&self, detail: Detail) -> String {
        let mut text = count(self.samples);
        if self.samples != self.samples_in_file {
            text = format!("{text} of {} in the file", count(self.samples_in_file));
        }
        let told = |causes: &mut dyn Iterator<Item = (&String, &u64)>| -> Vec<String> {
            let some = causes.filter(|(_, n)| **n > 0);
            some.map(|(cause, n)| format!("{cause} {}", count(*n))).collect()
        };
        let samples =
            &mut self.lost_by_cause.iter().filter(|(cause, _)| !self.other_losses.contains_key(*cause));
        let causes = told(samples);
        text = match self.lost {
            0 => format!("{text}, none lost"),
            lost => {
                let share = self.quality.lost.share;
                let events = lost::by_event(&self.lost_by_event, share);
                let events = events.map_or_else(String::new, |events| format!("; of weight: {events}"));
                format!("{text}, {} lost ({}): {}{events}", count(lost), percent(share), causes.join(", "))
            }
        };
        // These cost callers, names or precision, and no samples.
        let others = told(&mut self.other_losses.iter());
        if others.is_empty() || detail == Detail::Least {
            text
        } else {
            format!("{text}; besides: {}", others.join(", "))
        }
    }

    fn stacks(&self, detail: Detail) -> Option<String> {
        let rooted = percent(self.quality.rooted_share?);
        let cut = self.quality.cut_share.filter(|cut| *cut > 0.0);
        let cut = cut.map(|cut| format!(", {} cut by the depth limit", percent(cut))).unwrap_or_default();
        let (reach, why) = match (self.quality.is_walked_only, detail) {
            (false, _) => ("reach", ""),
            (true, Detail::Least) => ("seem to reach", ""),
            (true, _) => ("reach", "; code without frame pointers can look so, too"),
        };
        Some(format!("{rooted} of user stacks {reach} a root{cut}{why}"))
    }

    fn names(&self, detail: Detail) -> Option<String> {
        let named = percent(self.quality.named_share?);
        let mut reasons: Vec<(&str, f64)> = self.quality.unnamed.iter().map(|(r, s)| (*r, *s)).collect();
        reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
        let reasons: Vec<String> = reasons
            .iter()
            .take(if detail == Detail::All { REASONS } else { 0 })
            .map(|(reason, share)| format!("{reason} {}", percent(*share)))
            .collect();
        let rest = if reasons.is_empty() { String::new() } else { format!("; not: {}", reasons.join(", ")) };
        Some(format!("{named} of frames are named{rest}"))
    }

    /// Says which processes and functions took the time; `after` lines follow.
    fn where_time_went(&self, detail: Detail, page: &mut Page, after: usize) {
        if self.samples == 0 {
            return;
        }
        page.gap();
        let of = weight(self.total_weight, &self.unit);
        let side = |name: &str, share: Option<f64>| match share {
            Some(share) => format!("{name} {}", percent(share)),
            None => format!("{name} not sampled"),
        };
        let sides = match (self.user_share, self.kernel_share) {
            (None, None) => "whether of user or kernel is unknown".to_owned(),
            (user, kernel) => [side("user", user), side("kernel", kernel)].join(", "),
        };
        let is_time = self.unit == "ns";
        page.item(if is_time { "time" } else { "weight" }, &format!("{of}: {sides}"));
        if self.events_shown.len() > 1 {
            self.events_shown.iter().for_each(|event| page.item("", &event.text()));
        }
        if let Some(wall) = &self.wall_time {
            page.item("wall time", &wall.text());
        }
        let process = |row: &Process| match row.pids {
            1 => format!("{} {}", row.comm, percent(row.share)),
            pids => format!("{} ×{} {}", row.comm, count(pids), percent(row.share)),
        };
        page.item("processes", &self.processes.iter().map(process).collect::<Vec<_>>().join(", "));
        if detail == Detail::All {
            self.each_cgroup(page);
        }
        page.gap();
        let columns = [
            ("SELF", Align::Right),
            ("TOTAL", Align::Right),
            ("IMAGE", Align::Left),
            ("FUNCTION", Align::Left),
        ];
        let mut table = Table::of_names(2, &columns);
        let fitting =
            page.rows_left().map_or(usize::MAX, |rows| rows.saturating_sub(after).max(detail.functions()));
        for row in self.functions.iter().take(fitting) {
            let [own, total, image, name] = row.cells();
            let (image, name) =
                (cut(&image, IMAGE_LEN).into_owned(), name::short(&name, NAME_LEN).into_owned());
            table.row(vec![own, total, image, name]);
        }
        page.table(&table);
    }

    fn each_cgroup(&self, page: &mut Page) {
        let cgroup = |row: &Cgroup| {
            let host = row.host.as_ref().map(|host| format!("{host}:")).unwrap_or_default();
            format!("{host}{} {}", row.cgroup.as_deref().unwrap_or("-"), percent(row.share))
        };
        let shown: Vec<String> = self.cgroups.iter().take(CGROUPS).map(cgroup).collect();
        if !shown.is_empty() {
            page.item("cgroups", &shown.join(" · "));
        }
    }

    /// Says what the recording cost; `info` has more.
    fn cost(&self) -> Option<String> {
        // With several sessions this would be the cost of the first: `info` and --json have each.
        let cost = self.receipt.as_ref().filter(|cost| cost.is_known() && self.sessions.is_empty())?;
        let share = cost.cpu_share?;
        let mut parts = vec![format!("recorder {} of one CPU", percent(share))];
        parts.extend(cost.cpu_ns_per_sample.map(|ns| format!("{:.1} µs per sample", ns / 1e3)));
        // A probe or a switch that is no sample costs time, too.
        let bpf = cost.bpf_ns_per_run.zip(cost.bpf_share);
        parts.extend(bpf.map(|(ns, _)| format!("BPF {:.1} µs per run", ns / 1e3)));
        Some(parts.join(" · "))
    }

    fn next(&self, loaded: &Loaded<'_>) -> String {
        if self.samples == 0 && !self.events_left_out.is_empty() {
            return "choose other events: those that are shown have no samples".to_owned();
        }
        if self.samples == 0 && self.samples_in_file > 0 {
            return "loosen the filters: none of the samples is left".to_owned();
        }
        if loaded.is_of_several() {
            return format!("icecore-report timeline {}", loaded.words());
        }
        let file = loaded.path;
        let page = default_name(file, "html");
        // The page of a recording that is called *.html needs another name.
        let page = if Some(page.as_os_str()) == file.file_name() { "page.html".into() } else { page };
        format!("icecore-report html {} -o {}", quoted(file), quoted(&page))
    }
}

fn machine(host: &str, kernel_release: &str, arch: &str, cpus: &[u32]) -> String {
    let known = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
    let machine = format!("{} · Linux {} · {arch}", known(host), known(kernel_release));
    match cpus {
        // perf may not record which CPUs it sampled.
        [] => machine,
        cpus => format!("{machine} · {} ({})", things(cpus.len() as u64, "CPU"), ranges(cpus)),
    }
}
