//! The pipeline from a file to the data of every view, drawn once.
//!
//! ```text
//! open ─► load ─► replay ─► repair ─► count ─► locate ─► name ─► profile ─► narrow ─► view
//!         └────── Loaded ──────────────────┘ └── Named ──────┘ └──── Report ────┘
//! ```

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{StackRepair, WalkEnd};

use crate::named::found::NameIndex;
use crate::named::names::{Names, name};
use crate::named::unwound::{Begun, Extent, KeptCalls, Source};
use crate::named::{Counted, Patterns, Profile};
use crate::recording::cgroups::Cgroups;
use crate::recording::events::{ChosenEvents, EventChoice, Meaning};
use crate::recording::filter::Filter;
use crate::recording::load::{Tables, clean, load_nodes, load_without_nodes, needed};
use crate::recording::losses::Lost;
use crate::recording::spaces::Spaces;
use crate::stacks::calls::Impossible;
use crate::stacks::fields::Fields;
use crate::stacks::hits::{self, Apart, Hit, Hits, Key, Selection, WaitsApart};
use crate::stacks::idle::IdleWaits;
use crate::stacks::locate::{CodeLocation, Located, Locator, locate};
use crate::stacks::machinery::machinery;
use crate::stacks::repair::{Looks, RepairedStacks, Suspects, skips_interrupted, suspects};
use crate::stacks::tracing::{Tracing, has_tracepoints};
use crate::stacks::waits::WaitGroups;
use crate::stacks::waits::wakers::WakerStacks;
use crate::stacks::weigh::weigh;
use crate::watch::{Unwatched, Watch};
use icecore_symbolize::debuginfod::{self, Fetched, Wish, fetch};
use icecore_symbolize::image::{Finder, Search};
use icecore_text::path::quoted;

/// The most files that a command line of a report names.
const MOST_WORDS: usize = 8;

/// A recording with its samples counted.
pub struct Loaded<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its path, or what stands for the paths of several files that are read as one.
    pub path: &'a Path,
    /// These files; empty if it is one.
    files: &'a [PathBuf],
    /// Everything but samples.
    pub tables: Tables,
    /// Address spaces.
    pub spaces: Spaces,
    /// Cgroups.
    pub cgroups: Cgroups,
    /// Which samples are requested.
    pub filter: Filter,
    /// Which events are requested.
    pub events: ChosenEvents,
    /// Which functions select samples and frames.
    pub patterns: Patterns,
    /// Stacks that were unwound.
    pub repaired: RepairedStacks,
    /// Samples, counted.
    pub hits: Hits,
    /// The groups of waits that the samples name; none unless waits are counted apart.
    pub waits: WaitGroups,
    /// The fields that the samples have; none unless fields are counted apart.
    pub fields: Fields,
    /// The waits of kernel threads without work, if they are left out.
    idle: Option<IdleWaits>,
    /// The functions of tracing in stacks of tracepoints, if they are left out.
    tracing: Option<Tracing>,
    /// Where files of images are searched.
    pub search: &'a Search,
    /// Walks that cannot be whole. Finding them takes time.
    suspects: OnceLock<(Suspects, Option<String>)>,
    /// The place where the judgment of calls is kept.
    calls: Option<KeptCalls>,
}

/// Places and their names.
pub struct Named {
    /// Distinct stacks as places.
    pub located: Located,
    /// Frames of the places.
    pub names: Names,
    /// What was downloaded to name the places.
    pub fetched: Fetched,
    /// Why names that the recording has could not be used.
    pub trouble: Option<String>,
}

/// The data of every view.
pub struct Report<'a> {
    /// The recording and what was counted.
    pub loaded: &'a Loaded<'a>,
    /// Named stacks.
    pub profile: Profile,
    /// Distinct stacks as places, if the view checks them.
    pub located: Option<&'a Located>,
    /// A description of the filters, for people.
    pub filtered: Option<String>,
}

impl<'a> Loaded<'a> {
    /// Names the files of which the recording was made for this report.
    #[must_use]
    pub fn of_files(self, files: &'a [PathBuf]) -> Self {
        Self { files, ..self }
    }

    /// Returns the files that were read.
    pub fn files(&self) -> Vec<&'a Path> {
        match self.files {
            [_, _, ..] => self.files.iter().map(PathBuf::as_path).collect(),
            _ => vec![self.path],
        }
    }

    /// Returns true if several files are read as one.
    pub fn is_of_several(&self) -> bool {
        self.files.len() > 1
    }

    /// Returns the files as words of a command line; `FILES` if they are too many for a line.
    pub fn words(&self) -> String {
        let files = self.files();
        if files.len() > MOST_WORDS {
            return "FILES".to_owned();
        }
        files.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Adds up what is lost.
    pub fn lost(&self) -> Lost {
        Lost::new(self.recording, &self.tables, &self.events)
    }

    /// Loads all samples of a recording, as [`new`](Self::new) does.
    pub fn whole(path: &'a Path, recording: &'a Recording, search: &'a Search) -> Self {
        Self::new(path, recording, Filter::default(), Patterns::default(), search, Apart::default())
    }

    /// Loads a recording, unwinds its stacks and counts its samples.
    pub fn new(
        path: &'a Path,
        recording: &'a Recording,
        filter: Filter,
        patterns: Patterns,
        search: &'a Search,
        apart: Apart,
    ) -> Self {
        // Whether a thread has work is seen in its stack.
        let has_waits = recording.entries().iter().any(|entry| entry.header.kind == Kind::WAITS);
        let skips_idle = filter.skips_idle && has_waits;
        let skips_tracing = filter.skips_tracing && has_tracepoints(recording);
        let sees_all = skips_idle || skips_tracing;
        let is_part = filter.skips_blocks() && !sees_all && needed::is_possible(recording);
        let wakers = apart.waits == WaitsApart::Wakers;
        let Begun { mut tables, spaces, stacks } = if is_part {
            Begun::of(load_without_nodes(recording))
        } else {
            Begun::new(recording, &filter, wakers, search)
        };
        tables.shows_evaluators = patterns.native;
        let cgroups = Cgroups::replay(&tables);
        let events = filter.events.among(tables.parts.events());
        let source = Source {
            recording,
            spaces: &spaces,
            cgroups: &cgroups,
            filter: &filter,
            events: &events,
            search,
        };
        let counted = format!("{filter:?} {events:?} {apart:?}");
        let has = Extent { nodes: !is_part, wakers };
        let (repaired, calls) = stacks.take(source, &mut tables, has, &counted);
        let idle = skips_idle.then(|| IdleWaits::find(&tables));
        let tracing = skips_tracing.then(|| Tracing::find(&tables));
        let selection =
            Selection { idle: idle.as_ref(), tracing: tracing.as_ref(), ..source.selection(&tables) };
        let samples = |entry: &_| repaired.samples(recording, &tables, entry);
        let wakers = wakers.then(|| WakerStacks::find(selection, samples));
        let waits = if apart.needs_waits() {
            WaitGroups::new(&tables, &spaces, wakers)
        } else {
            WaitGroups::default()
        };
        let fields = if apart.fields { Fields::new(&tables) } else { Fields::default() };
        let mut hits = hits::count(selection, apart, (&waits, &fields), samples);
        if is_part {
            let stacks = hits.rows.iter().chain(waits.waker_stacks());
            let stacks = stacks.flat_map(|hit| [hit.key.user, hit.key.kernel]);
            let stacks = stacks.chain(hits.wall.iter().map(|sum| sum.kernel));
            match needed::nodes(recording, stacks) {
                Some(nodes) => tables.nodes = nodes,
                None => load_nodes(recording, &mut tables),
            }
            source.mark_trampolines(&mut tables, &Looks::begin());
        }
        if patterns.folds_interpreters {
            tables.folded = machinery(&tables);
        }
        tables.damage.append(&mut hits.damage);
        tables.damage.sort_by_key(|damage| damage.off);
        Self {
            recording,
            path,
            files: &[],
            tables,
            spaces,
            cgroups,
            filter,
            events,
            patterns,
            repaired,
            hits,
            waits,
            fields,
            idle,
            tracing,
            search,
            suspects: OnceLock::new(),
            calls,
        }
    }

    /// Returns the requested events, or the usual ones if all are.
    pub fn usual_events(&self) -> ChosenEvents {
        let events = self.tables.parts.events();
        match &self.filter.events {
            EventChoice::All => EventChoice::Usual.among(events),
            choice => choice.among(events),
        }
    }

    /// Returns the selection of samples.
    pub fn selection(&self) -> Selection<'_> {
        let (idle, tracing) = (self.idle.as_ref(), self.tracing.as_ref());
        Selection { idle, tracing, ..self.source().selection(&self.tables) }
    }

    /// Returns true if the outermost frame of a user stack is a proven start. `begins` is true if its name is that of an entry
    /// point.
    ///
    /// | the stack | it is |
    /// |---|---|
    /// | was unwound to a root, or walked to one by unwind tables | rooted |
    /// | is a walk, or continues with one, that passes a signal trampoline | not rooted: the interrupted function is missing |
    /// | has an entry point for its outermost frame, or ended at a frame pointer of 0 | rooted if it was unwound that far, or if
    /// unwind tables show that all functions of the walk keep frame pointers |
    pub fn is_rooted(&self, key: &Key, begins: bool) -> bool {
        match key.end {
            WalkEnd::UNWOUND | WalkEnd::BY_TABLES => true,
            WalkEnd::NONE | WalkEnd::UNSAID => false,
            // A filter has removed its frames.
            _ if key.user == 0 => key.end == WalkEnd::ROOT,
            end if !begins && end != WalkEnd::ROOT => false,
            _ if self.skips_interrupted(key) => false,
            _ if key.repair != StackRepair::NONE => key.repair.is_judged() && !key.repair.is_suspect(),
            _ => {
                let (suspects, _) = self.suspects();
                let known = if begins { &suspects.linked } else { &suspects.sound };
                known.contains(&(key.space, key.user))
            }
        }
    }

    /// Returns true if a user stack lacks the function that a signal interrupted.
    pub fn skips_interrupted(&self, key: &Key) -> bool {
        skips_interrupted(&self.tables, key.user)
    }

    /// Counts the suspect stacks of a recording that has only walks; also returns the path of the image that most of them pass
    /// through.
    pub fn suspects(&self) -> &(Suspects, Option<String>) {
        self.suspects.get_or_init(|| self.find_suspects())
    }

    fn find_suspects(&self) -> (Suspects, Option<String>) {
        let locator = Locator::new(&self.tables, &self.spaces);
        let embedded = locator.embedded(self.recording);
        let finder = Finder { search: self.search, embedded: Some(&embedded) };
        let suspects = suspects(&locator, &finder, &self.hits.rows, self.recording.len_bytes());
        let worst = suspects.worst.and_then(|image| locator.images.get(image as usize));
        (suspects, worst.map(|image| image.path.clone()))
    }

    /// Lists all stacks: those of samples, then those of wakers.
    fn stacks(&self) -> Cow<'_, [Hit]> {
        match self.waits.waker_stacks() {
            [] => Cow::Borrowed(&self.hits.rows),
            wakers => Cow::Owned([&self.hits.rows, wakers].concat()),
        }
    }

    /// Returns true if stacks of wakers are requested, and the recording has none.
    pub fn lacks_wakers(&self) -> bool {
        let events = self.tables.parts.events();
        self.waits.have_wakers() && !events.iter().any(|event| Meaning::of(event) == Meaning::Waker)
    }

    /// Counts edges of user stacks that the code does not make.
    pub fn impossible(&self, located: &Located) -> Impossible {
        self.source().impossible(&self.tables, located, &self.hits.rows, self.calls.as_ref())
    }

    fn source(&self) -> Source<'_> {
        let Self { recording, spaces, cgroups, filter, events, search, .. } = self;
        Source { recording, spaces, cgroups, filter, events, search }
    }

    /// Names every distinct place. If there are servers, first downloads files that the search does not find.
    pub fn name(&self, search: &Search, servers: Option<&debuginfod::Settings>, watch: &dyn Watch) -> Named {
        let locator = Locator::new(&self.tables, &self.spaces);
        let located = locate(&locator, &self.stacks());
        let embedded = locator.embedded(self.recording);
        let finder = Finder { search, embedded: Some(&embedded) };
        let fetched = servers.map(|servers| self.fetch(&locator, &located, finder, servers, watch));
        let fetched = fetched.unwrap_or_default();
        watch.begin("naming addresses", located.places.len() as u64);
        let names = name(&located.places, &locator, &finder, &|done| watch.tick(done));
        watch.end();
        Named { located, names, fetched, trouble: embedded.trouble() }
    }

    /// Downloads files that are missing here and would name something.
    pub fn fetch(
        &self,
        locator: &Locator<'_>,
        located: &Located,
        finder: Finder<'_>,
        servers: &debuginfod::Settings,
        watch: &dyn Watch,
    ) -> Fetched {
        let weights = weigh(located, &self.stacks(), locator.images.len());
        let wishes = locator.images.iter().zip(weights).map(|(image, weight)| Wish { image, weight });
        let open = with_open_places(locator, located);
        let wishes = wishes.zip(open).filter(|(wish, is_open)| *is_open && wish.weight > 0);
        let wishes: Vec<Wish<'_>> = wishes.map(|(wish, _)| wish).collect();
        watch.begin("fetching debug files", wishes.len() as u64);
        let fetched = fetch(&wishes, finder, servers, &|done| watch.tick(done));
        watch.end();
        fetched
    }

    /// Names all stacks by what is on this machine and in the recording.
    pub fn profile(&self) -> Profile {
        let Named { located, names, .. } = self.name(self.search, None, &Unwatched);
        self.report(&located, names).profile
    }

    /// Builds the profile from which views are made.
    pub fn report(&'a self, located: &Located, names: Names) -> Report<'a> {
        let is_rooted = |key: &Key, begins| self.is_rooted(key, begins);
        let counted = Counted { hits: &self.hits, waits: &self.waits, fields: &self.fields };
        let profile = Profile::build(self.selection(), counted, located, names, is_rooted);
        let profile = profile.narrow(&self.patterns);
        let parts = [self.filter.describe(), self.patterns.describe()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let filtered = (!parts.is_empty()).then(|| clean(parts.join(", ").as_bytes()).into());
        Report { loaded: self, profile, located: None, filtered }
    }
}

/// Returns for each image whether it has places that the recording itself cannot name fully.
fn with_open_places(locator: &Locator<'_>, located: &Located) -> Vec<bool> {
    let found = NameIndex::new(&locator.tables.names, |image| locator.image(image));
    let mut open = vec![false; locator.images.len()];
    for place in &located.places {
        if let CodeLocation::Image(image, off) = place {
            open[*image as usize] |= found.find(*image, *off).is_none_or(|place| place.frames().is_empty());
        }
    }
    open
}
