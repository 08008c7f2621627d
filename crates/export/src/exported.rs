//! A report as all formats write it.
//!
//! A report has its stacks twice: as functions with names, of which filters have removed some, and as places of code with addresses. A *site*
//! has both: a place, and those of its functions that the filters leave.
//!
//! ```text
//! spot    main@0x10 ◄─ helper@0x20 {inlined: fast, helper} ◄─ [kernel]     as located
//! site    main@0x10 ◄─ helper@0x20 {fast, helper}                          with --hide of what is in the kernel
//! ```

use icecore_analysis::quality::Quality;
use icecore_format::records::EventV1;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::{Frame, Function, Names};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, ProfileRow, Thread};
use icecore_profile::recording::events::Meaning;
use icecore_profile::recording::load::parts::{Part, recorder};
use icecore_profile::stacks::hits::{Apart, Moment, WaitsApart};
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator};

/// The name of the frame of samples without any stack, in formats whose readers drop samples without frames.
pub(crate) const NO_STACK: &str = "[no stack]";

/// What must be counted apart of a recording that is exported.
pub fn needs() -> Apart {
    Apart { threads: true, events: true, moments: true, waits: WaitsApart::Rows, ..Apart::default() }
}

/// A report that is exported. It counts [`needs`] apart.
pub struct Exported<'a> {
    /// The report.
    pub report: &'a Report<'a>,
    /// Its stacks as places.
    pub located: &'a Located,
    /// Its images.
    pub locator: Locator<'a>,
    /// How good the data is, by the events that views show.
    pub quality: &'a Quality,
    /// The events that samples have, in the order of the recording.
    pub events: Vec<ExportedEvent>,
    /// The trie of sites. A caller comes before its callees; entry 0 is the empty stack.
    pub sites: Vec<Site>,
    /// The innermost site of each row of the hits.
    site_of_hit: Vec<u32>,
    /// The frames that the filters leave of each place, one after the other, and the end of each list.
    frames: Vec<u32>,
    ends: Vec<usize>,
}

/// An event that samples have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedEvent {
    /// Its position in the events of the recording.
    pub event: u8,
    /// Its name: `cpu-clock`.
    pub name: String,
    /// The unit of its weights as other tools write it: `nanoseconds`, `bytes`, `count`.
    pub unit: String,
    /// What its samples tell.
    pub meaning: Meaning,
    /// It is one of those that views show unless others are asked for.
    pub is_usual: bool,
    /// The mean distance of its samples in its unit, if the recorder was asked for one; else 0.
    pub period: u64,
    /// What its samples add up to.
    pub amount: Amount,
}

/// A place of code in a stack, with the functions that filters leave of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// The caller's site, a position; 0 at the outermost one.
    pub caller: u32,
    /// A position in [`Located::places`].
    pub place: u32,
    /// The place was guessed and nothing proves it.
    pub guessed: bool,
}

/// Samples of one thread and event with one stack.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// Who ran it, how its stack was taken, which event it is. Its number and weight may be those of more samples.
    pub row: &'a ProfileRow,
    /// The innermost site.
    pub site: u32,
    /// The number of samples, and their weight.
    pub amount: Amount,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
pub struct ExportedSample<'a> {
    /// When, where and how long.
    pub moment: &'a Moment,
    /// Who ran it, how its stack was taken, which event it is.
    pub row: &'a ProfileRow,
    /// The innermost site.
    pub site: u32,
}

impl<'a> Exported<'a> {
    /// Prepares a report.
    ///
    /// # Cost    O(spots + rows of the hits)
    pub fn new(report: &'a Report<'a>, located: &'a Located, quality: &'a Quality) -> Self {
        let (loaded, names) = (report.loaded, &report.profile.names);
        let hidden = loaded.patterns.matches(names).hidden;
        let (mut frames, mut ends) = (Vec::new(), Vec::with_capacity(located.places.len()));
        for place in 0..located.places.len() {
            let all = names.of_places.of(place).iter();
            frames.extend(all.filter(|frame| !hidden[names.frames[**frame as usize].function as usize]));
            ends.push(frames.len());
        }
        let is_empty = |place: u32| {
            let begin = place.checked_sub(1).map_or(0, |before| ends[before as usize]);
            begin == ends[place as usize]
        };
        let mut sites: Interned<Site> = Interned::new();
        sites.intern(Site { caller: u32::MAX, place: u32::MAX, guessed: false });
        let mut of_spot = vec![0u32; located.spots.len()];
        for (position, spot) in located.spots.iter().enumerate().skip(1) {
            let caller = of_spot[spot.caller as usize];
            let site = Site { caller, place: spot.place, guessed: located.guessed[position] };
            of_spot[position] = if is_empty(spot.place) { caller } else { sites.intern(site) };
        }
        let site_of_hit = located.leaves.iter().map(|leaf| of_spot[*leaf as usize]).collect();
        Self {
            report,
            located,
            locator: Locator::new(&loaded.tables, &loaded.spaces),
            quality,
            events: events(report),
            sites: sites.into_items(),
            site_of_hit,
            frames,
            ends,
        }
    }

    /// Returns the names.
    pub fn names(&self) -> &'a Names {
        &self.report.profile.names
    }

    /// Lists the frames of a place that the filters leave, innermost first, by their positions in the names' frames.
    pub fn frames(&self, place: u32) -> &[u32] {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.frames[begin..self.ends[place as usize]]
    }

    /// Returns a frame.
    pub fn frame(&self, frame: u32) -> &'a Frame {
        &self.names().frames[frame as usize]
    }

    /// Returns the function of a frame.
    pub fn function(&self, frame: u32) -> &'a Function {
        self.names().function(frame)
    }

    /// Returns the code of a place.
    pub fn location(&self, place: u32) -> CodeLocation {
        self.located.places[place as usize]
    }

    /// Lists a site and its callers, innermost first.
    pub fn walk(&self, site: u32) -> impl Iterator<Item = (u32, Site)> + '_ {
        let mut next = site;
        std::iter::from_fn(move || {
            let at = next;
            let site = (at != 0).then(|| self.sites[at as usize])?;
            next = site.caller;
            Some((at, site))
        })
    }

    /// Lists the frames of a stack, innermost first: inlined functions before those around them.
    pub fn stack(&self, site: u32) -> impl Iterator<Item = u32> + '_ {
        self.walk(site).flat_map(|(_, site)| self.frames(site.place).iter().copied())
    }

    /// Lists the samples by thread, event and stack.
    pub fn counted(&self) -> impl Iterator<Item = Counted<'a>> + '_ {
        let profile = &self.report.profile;
        let hits = self.report.loaded.hits.rows.iter().zip(&profile.of_hits).zip(&self.site_of_hit);
        hits.filter_map(|((hit, row), site)| {
            let row = &profile.rows[(*row)? as usize];
            let amount = Amount { samples: hit.samples, weight: hit.weight };
            Some(Counted { row, site: *site, amount })
        })
    }

    /// Lists every sample, in the order of time.
    pub fn samples(&self) -> impl Iterator<Item = ExportedSample<'a>> + '_ {
        (0..self.report.profile.moments.len() as u32).map(|moment| self.sample(moment))
    }

    /// Returns a sample by the position of its moment.
    pub fn sample(&self, moment: u32) -> ExportedSample<'a> {
        let profile = &self.report.profile;
        let moment = &profile.moments[moment as usize];
        let row = &profile.rows[moment.row as usize];
        ExportedSample { moment, row, site: self.site_of_hit[moment.hit as usize] }
    }

    /// Finds the event of a row, a position in [`Self::events`].
    pub fn event(&self, row: &ProfileRow) -> Option<usize> {
        self.events.iter().position(|event| event.event == row.event)
    }

    /// Returns the thread of a row.
    pub fn thread(&self, row: &ProfileRow) -> &'a Thread {
        &self.report.profile.threads[row.thread as usize]
    }

    /// Returns the session of a thread.
    pub fn part(&self, thread: &Thread) -> &'a Part {
        self.report.loaded.tables.parts.part(thread.part)
    }

    /// Returns the host of a thread, if there are several.
    pub fn host(&self, thread: &Thread) -> Option<&'a str> {
        let parts = &self.report.loaded.tables.parts;
        (parts.hosts().len() > 1).then(|| &*parts.hosts()[self.part(thread).host])
    }

    /// Returns a moment as ns after the begin of the recording.
    pub fn after_begin_ns(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.report.loaded.tables.parts.zero_ns())
    }

    /// Returns the begin of the recording, ns since 1970-01-01 UTC.
    pub fn begin_unix_ns(&self) -> u64 {
        self.report.loaded.tables.parts.start_unix_ns()
    }

    /// Returns the time from the begin of the recording to its last sample, or to its end if that is known, ns.
    pub fn lasted_ns(&self) -> u64 {
        let parts = &self.report.loaded.tables.parts;
        let ends = parts.iter().filter_map(|part| Some(part.time_ns(part.receipt.as_ref()?.end_ns)));
        let last = self.report.profile.span_ns().map(|(_, last)| last);
        self.after_begin_ns(ends.chain(last).max().unwrap_or(0))
    }

    /// Lists how the recording came about and how good it is, a sentence each, as formats have it that keep comments.
    pub fn remarks(&self) -> Vec<String> {
        let loaded = self.report.loaded;
        let mut remarks = vec![format!("verdict: {}", self.quality.said())];
        remarks.extend(self.quality.problems.iter().cloned());
        remarks.extend(self.quality.restrictions.iter().cloned());
        let lost = &self.quality.lost;
        remarks.push(format!("lost: {} samples ({:.3} %)", lost.samples, lost.share * 100.0));
        remarks.extend(self.report.filtered.iter().map(|filter| format!("filter: {filter}")));
        for part in loaded.tables.parts.iter() {
            let session = &part.session;
            let recorder = recorder(session.maker, &session.recorder);
            let (host, kernel) = (&session.host, &session.kernel_release);
            let labels = session.labels.iter().map(|label| format!(", {}={}", label.key, label.value));
            let labels: String = labels.collect();
            remarks.push(format!("recorded by {recorder} on {host}, Linux {kernel}{labels}"));
            if !session.command_line.is_empty() {
                remarks.push(format!("command: {}", session.command_line.join(" ")));
            }
        }
        remarks
    }
}

/// Lists the events that samples have.
fn events(report: &Report<'_>) -> Vec<ExportedEvent> {
    let (loaded, profile) = (report.loaded, &report.profile);
    let mut amounts: Map<u8, Amount> = Map::default();
    profile.rows.iter().for_each(|row| amounts.entry(row.event).or_default().add(row.amount()));
    let usual = loaded.usual_events();
    let seen = &loaded.hits.seen;
    let event = |(position, event): (u8, &EventV1)| {
        let unit = match &*event.unit {
            "ns" => "nanoseconds",
            "" | "samples" => "count",
            unit => unit,
        };
        let each_ns = 1_000_000_000u64.checked_div(event.frequency_hz).filter(|_| event.unit == "ns");
        ExportedEvent {
            event: position,
            name: event.name.clone(),
            unit: seen.unit_of_weights(unit),
            meaning: Meaning::of(event),
            is_usual: usual.has(position),
            period: each_ns.unwrap_or(event.period),
            amount: amounts.get(&position).copied().unwrap_or_default(),
        }
    };
    let all = (0..=u8::MAX).zip(loaded.tables.parts.events()).map(event);
    all.filter(|event| event.amount.samples > 0).collect()
}
