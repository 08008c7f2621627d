//! Follows a recording while it is written: which functions the samples of the last seconds hit.
//!
//! ```text
//! blocks ─► GrowingTables ─┐
//!                          ├► selection ─► leaf ─► place ─► last seconds ─► named ─► Now
//! blocks of samples ───────┘                          └───► all samples ──────┘
//! ```
//!
//! Only the innermost frame of a sample is looked at: it is where the CPU was, whatever unwinding would make of its callers. A place is named
//! when it is shown for the first time, by the same rules as in every other view. Opening images and reading their debug information is most
//! of the cost of following, so on request new places wait for each other ([`Follower::unhurried`]).

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Instant;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::growing::Growing;
use icecore_format::records::{EndReason, Sample, SamplesV1};
use icecore_symbolize::image::Finder;

use crate::map::{Interned, Map};
use crate::named::Amount;
use crate::named::names::{Function, Names, Side, name};
use crate::recording::cgroups::Cgroups;
use crate::recording::filter::Filter;
use crate::recording::load::Tables;
use crate::recording::load::growing::GrowingTables;
use crate::recording::spaces::Spaces;
use crate::stacks::hits::{Key, Selection};
use crate::stacks::locate::{CodeLocation, Locator, steps};

/// The most samples of the last seconds that are kept; beyond that, the oldest leave earlier.
const MAX_SAMPLES: usize = 1 << 20;
/// The follower tells at most so many places apart over the whole recording, and so many pairs of process and place; it counts samples of
/// others as one.
const MAX_PLACES: usize = 256 << 10;
/// How many times as long as names were looked up none are looked up, so that this takes a hundredth of the time.
const PAUSE: u32 = 100;
/// Stands for functions of an image whose names were not looked up yet.
const NOT_YET: &str = "(not looked up yet)";
/// Places with equal functions become one when there are so many places, and then when they have doubled.
const LEAST_PLACES: usize = 8192;
/// Samples are counted at the latest when blocks of so many bytes have been read, so that few wait in memory.
const STEP_BYTES: u64 = 16 << 20;

/// A recording that is followed.
#[derive(Debug)]
pub struct Follower {
    growing: Growing,
    grown: GrowingTables,
    filter: Filter,
    /// Blocks of samples that are not counted yet.
    blocks: Vec<Entry>,
    /// Places of the current file, by location.
    known: Map<CodeLocation, u32>,
    /// The images of the current file that others resemble: see [`Identity::has_double`](icecore_symbolize::image::Identity).
    doubles: usize,
    /// The paths of the images of the current file.
    images: Vec<Box<str>>,
    places: Vec<Place>,
    functions: Interned<LiveFunction>,
    processes: Interned<Box<str>>,
    recent: VecDeque<Recent>,
    whole: Map<(u32, u32), Amount>,
    /// Samples without any frame.
    without_frames: u64,
    units: Interned<String>,
    /// The latest moment that a block tells, ns.
    newest_ns: u64,
    window_ns: u64,
    /// Samples that were lost in files before the current one.
    lost_before: u64,
    /// When the first file began, ns.
    began_ns: Option<u64>,
    /// New places wait until then for their names.
    pause: Option<Instant>,
    /// The place that stands for those that are not told apart.
    other: Option<u32>,
    /// How many places there may be before those with equal functions become one.
    room: usize,
    is_unhurried: bool,
}

/// Where samples hit.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In an image, and nobody has asked for its name yet.
    Unnamed(CodeLocation),
    /// A position in the functions; of a place in an image of the current file also the location.
    Named(u32, Option<CodeLocation>),
}

/// One sample of the last seconds.
#[derive(Debug, Clone, Copy)]
struct Recent {
    time_ns: u64,
    process: u32,
    place: u32,
    weight: u64,
}

/// A function as a row shows it, and what tells it apart from others of its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LiveFunction {
    /// Its name, or the substitute of an unnamed one.
    pub name: Box<str>,
    /// The path of its image.
    pub image: Option<Box<str>>,
    /// The mode in which it ran.
    pub side: Side,
    /// Why it has no name.
    pub reason: Option<icecore_symbolize::Reason>,
    start: Option<u64>,
    declared: Option<(Box<str>, u32)>,
}

/// A row of the table of now.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The function.
    pub function: LiveFunction,
    /// The name of the process.
    pub process: Box<str>,
    /// Samples and their weight.
    pub amount: Amount,
}

/// The table of now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// The heaviest functions of processes; equal ones by name.
    pub rows: Vec<Row>,
    /// The number of all rows.
    pub row_count: usize,
    /// All samples of the stretch.
    pub whole: Amount,
    /// The unit of weights; `samples` if every sample counts as one.
    pub unit: String,
    /// The stretch, ns after the beginning of the first file.
    pub span_ns: (u64, u64),
    /// Samples without any frame, since following began.
    pub without_frames: u64,
    /// Samples that the recorder lost.
    pub lost: u64,
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// When sampling ended, ns of the recording's clock; the next file of a rotation begins at this moment.
    pub end_ns: u64,
}

impl Follower {
    /// Follows a file. Samples of the last `window_ns` are kept one by one.
    pub fn new(growing: Growing, filter: Filter, window_ns: u64) -> Self {
        let (grown, blocks, known, doubles, functions, processes, recent, whole) = Default::default();
        let (without_frames, units, newest_ns, lost_before) = Default::default();
        let (places, began_ns, pause) = (Vec::new(), None, None);
        Self {
            growing,
            grown,
            filter,
            blocks,
            known,
            doubles,
            images: Vec::new(),
            places,
            functions,
            processes,
            recent,
            whole,
            without_frames,
            units,
            newest_ns,
            window_ns,
            lost_before,
            began_ns,
            pause,
            other: None,
            room: LEAST_PLACES,
            is_unhurried: false,
        }
    }

    /// Looks up names in at most a hundredth of the time. Meanwhile the functions of new places in an image are one row, until the recording
    /// has ended.
    #[must_use]
    pub fn unhurried(self) -> Self {
        Self { is_unhurried: true, ..self }
    }

    /// Goes on with the next file of the same recording. What was counted stays.
    pub fn go_on(&mut self, growing: Growing, finder: &Finder<'_>) {
        self.forget_session(finder);
        self.growing = growing;
    }

    /// Forgets the tables of a session that has ended. What was counted stays.
    fn forget_session(&mut self, finder: &Finder<'_>) {
        let unnamed = 0..self.places.len() as u32;
        self.name_places(unnamed.collect(), finder);
        for place in &mut self.places {
            if let Place::Named(_, location) = place {
                *location = None;
            }
        }
        self.compact();
        self.images.clear();
        self.lost_before = self.lost_before.saturating_add(self.grown.lost);
        (self.grown, self.known, self.doubles) = (GrowingTables::default(), Map::default(), 0);
    }

    /// Returns the file that is followed.
    pub fn file(&self) -> &Growing {
        &self.growing
    }

    /// Returns why the session ended whose blocks were read last.
    fn end_reason(&self) -> Option<EndReason> {
        self.grown.receipt.as_ref().map(|receipt| receipt.end_reason)
    }

    /// Returns true if the recorder takes no samples now, and may go on.
    pub fn is_paused(&self) -> bool {
        self.grown.receipt.is_none() && self.grown.is_paused
    }

    /// Reads what was written since the last call; returns how the recording ended, if it has. Sessions that follow each other in one
    /// file are one recording.
    ///
    /// # Errors
    /// If the file has become shorter, is damaged, or too large to be followed.
    pub fn read(&mut self, finder: &Finder<'_>) -> Result<Option<End>, Error> {
        let mut bytes = 0;
        while self.end_reason().is_none_or(|end| end == EndReason::ROTATED)
            && let Some(entry) = self.growing.next_block()?
        {
            let header = &entry.header;
            if self.end_reason().is_some() {
                if header.kind != Kind::SESSION {
                    // The index, or what is no part of this recording.
                    break;
                }
                self.count(finder)?;
                self.forget_session(finder);
            }
            if [Kind::SAMPLES, Kind::LIFECYCLE, Kind::CPU_TIMES].contains(&header.kind) {
                self.newest_ns = self.newest_ns.max(header.last_ns);
            }
            bytes += u64::from(header.raw_len);
            match header.kind {
                Kind::SAMPLES => self.blocks.push(entry),
                _ => self.grown.add(&self.growing, &entry)?,
            }
            if bytes > STEP_BYTES {
                bytes = 0;
                self.count(finder)?;
            }
        }
        self.count(finder)?;
        if self.grown.has_session() {
            let start_ns = self.grown.tables.session.start_ns;
            self.began_ns.get_or_insert(start_ns);
            self.newest_ns = self.newest_ns.max(start_ns);
        }
        let end = |receipt: &icecore_format::records::ReceiptV1| End {
            reason: receipt.end_reason,
            end_ns: receipt.end_ns,
        };
        Ok(self.grown.receipt.as_ref().map(end))
    }

    /// Returns how many rows of processes are kept: changes, mappings, cgroups, JIT code.
    pub fn rows_of_processes(&self) -> usize {
        self.grown.rows_of_processes()
    }

    /// Returns the boot of the recorded machine.
    pub fn boot_id(&self) -> &str {
        &self.grown.tables.session.boot_id
    }

    /// Counts the samples of the blocks that wait.
    fn count(&mut self, finder: &Finder<'_>) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        if !blocks.is_empty() {
            let grown = std::mem::take(&mut self.grown);
            let counted = self.count_samples(&grown.tables, &blocks, finder);
            self.grown = grown;
            counted?;
        }
        self.grown.forget()
    }

    fn count_samples(&mut self, tables: &Tables, blocks: &[Entry], finder: &Finder<'_>) -> Result<(), Error> {
        let spaces = Spaces::replay_with_code(&tables.lifecycle, &tables.mappings, &tables.jit);
        let cgroups = Cgroups::replay(tables);
        let described = tables.parts.events();
        let events = self.filter.events.among(described);
        let filter = self.filter.clone();
        let (idle, tracing) = (None, None);
        let selection = Selection {
            tables,
            spaces: &spaces,
            cgroups: &cgroups,
            filter: &filter,
            events: &events,
            idle,
            tracing,
        };
        let locator = Locator::new(tables, &spaces);
        let new = locator.images.iter().skip(self.images.len());
        self.images.extend(new.map(|image| image.path.clone().into()));
        let doubles = locator.images.iter().filter(|image| image.has_double).count();
        if doubles != std::mem::replace(&mut self.doubles, doubles) {
            self.forget_names();
        }
        let mut named_now = Vec::new();
        for entry in blocks {
            let samples = self.growing.payload(entry)?.view::<SamplesV1>()?.rows()?;
            for sample in &samples {
                let Some(key) = selection.key(sample).filter(|key| !selection.is_emptied(key)) else {
                    continue;
                };
                let Some(location) = leaf(&locator, &key) else {
                    self.without_frames += 1;
                    continue;
                };
                let process = selection.process_name(&tables.task(key.task), key.space);
                let process = self.process(process);
                let unit = described.get(usize::from(sample.event)).map_or("samples", |event| &event.unit);
                self.units.intern(unit.to_owned());
                let is_new = !self.known.contains_key(&location);
                let place = self.place(location);
                if is_new && !matches!(location, CodeLocation::Image(..)) {
                    named_now.push(place);
                }
                let Sample { time_ns, weight, .. } = *sample;
                self.newest_ns = self.newest_ns.max(time_ns);
                let mut key = (process, place);
                if self.whole.len() >= MAX_PLACES && !self.whole.contains_key(&key) {
                    key = (self.process("(others)"), self.other());
                }
                self.whole.entry(key).or_default().add(Amount { samples: 1, weight });
                self.recent.push_back(Recent { time_ns, process, place, weight });
            }
            self.evict();
        }
        self.name_with(&locator, named_now, finder);
        // The positions of JIT code change when code of ended processes is forgotten.
        self.known
            .retain(|location, _| matches!(location, CodeLocation::Image(..) | CodeLocation::Kernel(..)));
        if self.places.len() > self.room {
            self.compact();
        }
        Ok(())
    }

    /// Removes samples that are too old, or too many.
    fn evict(&mut self) {
        let from_ns = self.newest_ns.saturating_sub(self.window_ns);
        while self.recent.len() > MAX_SAMPLES || self.recent.front().is_some_and(|old| old.time_ns <= from_ns)
        {
            self.recent.pop_front();
        }
    }

    /// Returns the number of a place.
    fn place(&mut self, location: CodeLocation) -> u32 {
        if let Some(known) = self.known.get(&location) {
            return *known;
        }
        if self.places.len() >= MAX_PLACES {
            return self.other();
        }
        self.places.push(Place::Unnamed(location));
        let place = self.places.len() as u32 - 1;
        self.known.insert(location, place);
        place
    }

    /// Returns the function that stands for those of an image whose names were not looked up yet.
    fn not_yet(&mut self, location: CodeLocation) -> u32 {
        let image = match location {
            CodeLocation::Image(image, _) => self.images.get(image as usize).cloned(),
            _ => None,
        };
        self.functions.intern(LiveFunction { image, ..LiveFunction::substitute(NOT_YET) })
    }

    /// Returns the place that stands for those that are not told apart.
    fn other(&mut self) -> u32 {
        if let Some(other) = self.other {
            return other;
        }
        let function = self.functions.intern(LiveFunction::substitute("(others: more than 262,144 places)"));
        self.places.push(Place::Named(function, None));
        *self.other.insert(self.places.len() as u32 - 1)
    }

    /// Returns the number of a process name.
    fn process(&mut self, name: &str) -> u32 {
        let is_full = self.processes.len() >= MAX_PLACES;
        let name: Box<str> = name.into();
        match self.processes.find(&name) {
            Some(known) => known,
            None if is_full => self.processes.intern("(others)".into()),
            None => self.processes.intern(name),
        }
    }

    /// Makes the places one that are not looked up any more and have the same function.
    fn compact(&mut self) {
        let (mut kept, mut moved) = (Vec::new(), Vec::with_capacity(self.places.len()));
        let mut of_function: Map<u32, u32> = Map::default();
        for place in &self.places {
            let next = kept.len() as u32;
            let at = match place {
                Place::Named(function, None) => *of_function.entry(*function).or_insert(next),
                Place::Named(_, Some(_)) | Place::Unnamed(_) => next,
            };
            if at == next {
                kept.push(*place);
            }
            moved.push(at);
        }
        self.places = kept;
        let to = |place: &mut u32| *place = moved[*place as usize];
        self.recent.iter_mut().for_each(|one| to(&mut one.place));
        self.known.values_mut().chain(&mut self.other).for_each(to);
        for ((process, place), amount) in std::mem::take(&mut self.whole) {
            self.whole.entry((process, moved[place as usize])).or_default().add(amount);
        }
        self.room = (2 * self.places.len()).max(LEAST_PLACES);
    }

    /// Forgets the names of places in images: a file that proved them may prove nothing any more.
    fn forget_names(&mut self) {
        for place in &mut self.places {
            if let Place::Named(_, Some(location)) = place {
                *place = Place::Unnamed(*location);
            }
        }
    }

    fn name_places(&mut self, places: Vec<u32>, finder: &Finder<'_>) {
        let is_unnamed = |place: &u32| matches!(self.places[*place as usize], Place::Unnamed(_));
        let places: Vec<u32> = places.into_iter().filter(is_unnamed).collect();
        if places.is_empty() {
            return;
        }
        let grown = std::mem::take(&mut self.grown);
        // Places in images need no address space.
        let spaces = Spaces::default();
        self.name_with(&Locator::new(&grown.tables, &spaces), places, finder);
        self.grown = grown;
    }

    fn name_with(&mut self, locator: &Locator<'_>, mut places: Vec<u32>, finder: &Finder<'_>) {
        places.retain(|place| matches!(self.places[*place as usize], Place::Unnamed(_)));
        let location = |place: &u32| match self.places[*place as usize] {
            Place::Unnamed(location) => location,
            Place::Named(..) => unreachable!("bug: it was just filtered"),
        };
        let locations: Vec<CodeLocation> = places.iter().map(location).collect();
        if locations.is_empty() {
            return;
        }
        let names = name(&locations, locator, finder, &|_| {});
        for (at, (place, location)) in places.into_iter().zip(locations).enumerate() {
            // What is inlined counts for the function around it.
            let outermost = names.of_places.of(at).last().expect("bug: a place without a frame");
            let function = self.functions.intern(LiveFunction::new(names.function(*outermost), &names));
            let again = matches!(location, CodeLocation::Image(..)).then_some(location);
            self.places[place as usize] = Place::Named(function, again);
        }
    }

    /// Adds up the samples of the last seconds, or with `is_whole` all; keeps the `most` heaviest rows.
    pub fn now(&mut self, is_whole: bool, most: usize, finder: &Finder<'_>) -> Now {
        self.evict();
        let sums: Map<(u32, u32), Amount> = if is_whole {
            self.whole.clone()
        } else {
            let mut sums: Map<(u32, u32), Amount> = Map::default();
            let from_ns = self.newest_ns.saturating_sub(self.window_ns);
            for Recent { process, place, weight, .. } in
                self.recent.iter().filter(|one| one.time_ns > from_ns)
            {
                sums.entry((*process, *place)).or_default().add(Amount { samples: 1, weight: *weight });
            }
            sums
        };
        let is_pause = self.grown.receipt.is_none() && self.pause.is_some_and(|until| Instant::now() < until);
        if !is_pause {
            let begun = Instant::now();
            self.name_places(sums.keys().map(|(_, place)| *place).collect(), finder);
            self.pause = self.is_unhurried.then(|| Instant::now() + PAUSE * begun.elapsed());
        }
        // Weights of different units cannot be added: every sample counts as one.
        let is_mixed = self.units.len() > 1;
        let mut of_functions: Map<(u32, u32), Amount> = Map::default();
        let mut whole = Amount::default();
        for ((process, place), amount) in sums {
            let function = match self.places[place as usize] {
                Place::Named(function, _) => function,
                Place::Unnamed(location) => self.not_yet(location),
            };
            let weight = if is_mixed { amount.samples } else { amount.weight };
            let amount = Amount { weight, ..amount };
            of_functions.entry((process, function)).or_default().add(amount);
            whole.add(amount);
        }
        let row_count = of_functions.len();
        let row = |((process, function), amount): ((u32, u32), Amount)| {
            Some((self.functions.get(function)?, &**self.processes.get(process)?, amount))
        };
        let mut rows: Vec<Borrowed<'_>> = of_functions.into_iter().filter_map(row).collect();
        rows.sort_by(heavier);
        rows.truncate(most);
        let row = |(function, process, amount): Borrowed<'_>| Row {
            function: function.clone(),
            process: process.into(),
            amount,
        };
        let begin_ns = self.began_ns.unwrap_or(self.newest_ns);
        let from_ns = if is_whole { begin_ns } else { self.newest_ns.saturating_sub(self.window_ns) };
        Now {
            rows: rows.into_iter().map(row).collect(),
            row_count,
            whole,
            unit: match self.units.get(0) {
                Some(unit) if !is_mixed => unit.clone(),
                _ => "samples".to_owned(),
            },
            span_ns: (from_ns.saturating_sub(begin_ns), self.newest_ns.saturating_sub(begin_ns)),
            without_frames: self.without_frames,
            lost: self.lost_before.saturating_add(self.grown.lost),
        }
    }
}

/// A row that is not copied yet.
type Borrowed<'a> = (&'a LiveFunction, &'a str, Amount);

/// Orders rows by weight, and equal ones by their texts.
fn heavier(a: &Borrowed<'_>, b: &Borrowed<'_>) -> Ordering {
    let weights = |row: &Borrowed<'_>| (row.2.weight, row.2.samples);
    let texts = |row: &Borrowed<'_>| (row.0.name.clone(), row.1.to_owned(), row.0.image.clone(), row.0.start);
    weights(b).cmp(&weights(a)).then_with(|| texts(a).cmp(&texts(b)))
}

impl LiveFunction {
    /// Makes what stands for several functions.
    fn substitute(name: &str) -> Self {
        let (image, side, reason, start, declared) = (None, Side::User, None, None, None);
        Self { name: name.into(), image, side, reason, start, declared }
    }

    fn new(function: &Function, names: &Names) -> Self {
        let file = |(file, line): (u32, u32)| Some((names.files.get(file as usize)?.clone(), line));
        Self {
            name: function.own_name().into(),
            image: names.image(function).map(|image| image.path.clone()),
            side: function.side,
            reason: function.reason,
            start: function.start,
            declared: function.declared.and_then(file),
        }
    }
}

/// Finds where a sample hit: the innermost frame that is shown.
fn leaf(locator: &Locator<'_>, key: &Key) -> Option<CodeLocation> {
    if key.kernel != 0 {
        return steps(locator.tables, key.kernel).next().map(|step| locator.kernel(step));
    }
    locator.shown(key.user).next().map(|step| locator.user(key.space, step))
}
