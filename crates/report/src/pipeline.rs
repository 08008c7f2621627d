//! The pipeline, drawn once: from a file to everything that a view may show.
//!
//! ```text
//! open ─► load ─► replay ─► count ─► locate ─► name ─► profile ─► narrow ─► view
//!         └────── Loaded ──────────┘ └── Named ──────┘ └──── Report ────┘
//! ```

use std::path::Path;

use icecore_format::read::Recording;

use crate::cgroups::Cgroups;
use crate::cli::Source;
use crate::filter::Filter;
use crate::hits::{self, Apart, Hits, Selection};
use crate::image::{EmbeddedFiles, Search};
use crate::load::{Tables, clean, load, load_nodes, load_without_nodes, needed};
use crate::locate::{Located, Locator, locate};
use crate::names::{Names, name};
use crate::profile::{Patterns, Profile};
use crate::term::progress::Progress;
use crate::timeline::Timeline;

/// A recording with its samples counted.
pub struct Loaded<'a> {
    /// The file.
    pub recording: &'a Recording,
    /// Its name.
    pub path: &'a Path,
    /// Everything but samples.
    pub tables: Tables,
    /// Address spaces.
    pub timeline: Timeline,
    /// Cgroups.
    pub cgroups: Cgroups,
    /// Which samples are wanted.
    pub filter: Filter,
    /// Which functions decide.
    pub patterns: Patterns,
    /// Samples, counted.
    pub hits: Hits,
}

/// Places and their names.
pub struct Named {
    /// Distinct stacks as places.
    pub located: Located,
    /// Frames of the places.
    pub names: Names,
    /// What kept names away that the recording has.
    pub trouble: Option<String>,
}

/// Everything that a view may show.
pub struct Report<'a> {
    /// The recording and what was counted.
    pub loaded: &'a Loaded<'a>,
    /// Named stacks.
    pub profile: Profile,
    /// What the filters keep, for people.
    pub filtered: Option<String>,
}

impl<'a> Loaded<'a> {
    /// Loads a recording and counts its samples.
    pub fn new(source: &'a Source, recording: &'a Recording, apart: Apart) -> Self {
        let filter = source.filter();
        let is_part = filter.skips_blocks() && needed::is_possible(recording);
        let mut tables = if is_part { load_without_nodes(recording) } else { load(recording) };
        let timeline = Timeline::replay_with_code(&tables.lifecycle, &tables.mappings, &tables.jit);
        let cgroups = Cgroups::replay(&tables);
        let selection =
            Selection { tables: &tables, timeline: &timeline, cgroups: &cgroups, filter: &filter };
        let mut hits = hits::count(recording, selection, apart);
        if is_part {
            let stacks = hits.rows.iter().flat_map(|hit| [hit.key.user, hit.key.kernel]);
            match needed::nodes(recording, stacks) {
                Some(nodes) => tables.nodes = nodes,
                None => load_nodes(recording, &mut tables),
            }
        }
        tables.damage.append(&mut hits.damage);
        tables.damage.sort_by_key(|damage| damage.off);
        let (path, patterns) = (&*source.file, source.patterns());
        Self { recording, path, tables, timeline, cgroups, filter, patterns, hits }
    }

    /// Decides about samples.
    pub fn selection(&self) -> Selection<'_> {
        let Self { tables, timeline, cgroups, filter, .. } = self;
        Selection { tables, timeline, cgroups, filter }
    }

    /// Names every distinct place.
    pub fn name(&self, search: &Search, progress: bool) -> Named {
        let locator = Locator::new(&self.tables, &self.timeline);
        let located = locate(&locator, &self.hits.rows);
        let progress = Progress::begin(located.places.len() as u64, progress);
        let identity = |id| locator.image(id).map(|image| &locator.images[image as usize]);
        let embedded = EmbeddedFiles::new(self.recording, &self.tables, identity);
        let names = name(&located.places, &locator, Some(&embedded), search, &|done| progress.tick(done));
        progress.finish();
        Named { located, names, trouble: embedded.trouble() }
    }

    /// Builds the profile that views are made of.
    pub fn report(&'a self, source: &Source, named: Named) -> Report<'a> {
        let profile = Profile::build(self.selection(), &self.hits, &named.located, named.names);
        let profile = profile.narrow(&self.patterns);
        let parts = [self.filter.describe(), source.patterns().describe()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let filtered = (!parts.is_empty()).then(|| clean(parts.join(", ").as_bytes()).into());
        Report { loaded: self, profile, filtered }
    }
}
