//! Unwinds the stacks of a recording, or takes them from the cache.
//!
//! A report that finds its stacks in the cache need not load the copies of registers and stacks either. The stacks are the same as
//! without a cache: they belong to the very same recording, selection and build of this program, and every search for a file of an
//! image, made once more, finds the same file in the same state.

use icecore_format::read::Recording;
use icecore_format::records::Mark;

use super::cache::Cache;
use super::cache::unwound::{Judged, Unwound, UnwoundFile};
use crate::recording::cgroups::Cgroups;
use crate::recording::events::ChosenEvents;
use crate::recording::filter::Filter;
use crate::recording::load::{Tables, load, load_without_snapshots};
use crate::recording::spaces::Spaces;
use crate::stacks::calls::{Counts, Impossible};
use crate::stacks::hits::{Hit, Selection};
use crate::stacks::locate::{Located, Locator};
use crate::stacks::repair::{Look, Looks, RepairedStacks, Watched, are_valid, repair_stacks, trampolines};
use icecore_symbolize::image::{Finder, Search};

/// A recording as tables, and its stacks if they are known from an earlier report.
pub(super) struct Begun {
    pub(super) tables: Tables,
    pub(super) spaces: Spaces,
    pub(super) stacks: Stacks,
}

/// The stacks of a recording, before they are unwound.
#[derive(Default)]
pub(super) struct Stacks {
    /// The place where they are kept.
    file: Option<UnwoundFile>,
    known: Option<Unwound>,
}

impl Begun {
    /// Takes a recording that was loaded. Its stacks are neither looked up nor kept.
    pub(super) fn of(tables: Tables) -> Self {
        let spaces = Spaces::replay_with_code(&tables.lifecycle, &tables.mappings, &tables.jit);
        Self { tables, spaces, stacks: Stacks::default() }
    }

    /// Loads a recording, and looks up its stacks.
    pub(super) fn new(recording: &Recording, filter: &Filter, wakers: bool, search: &Search) -> Self {
        let folder = search.known.as_deref().and_then(|known| known.folder());
        let cache = folder.map(|folder| Cache::in_dir(folder.to_owned()));
        let file = cache.and_then(|cache| cache.unwound(recording, &selected(filter, wakers)));
        let known = file.as_ref().and_then(UnwoundFile::read);
        // With several sessions, ids follow from all blocks.
        let is_partial = known.as_ref().is_some_and(|known| known.sessions == 1);
        let begun = Self::of(if is_partial { load_without_snapshots(recording) } else { load(recording) });
        let known = known.filter(|known| begun.confirms(known, recording, search));
        let begun = if is_partial && known.is_none() { Self::of(load(recording)) } else { begun };
        Self { stacks: Stacks { file, known }, ..begun }
    }

    /// Returns true if unwinding would find these stacks again.
    fn confirms(&self, known: &Unwound, recording: &Recording, search: &Search) -> bool {
        let locator = Locator::new(&self.tables, &self.spaces);
        let embedded = locator.embedded(recording);
        let finder = Finder { search, embedded: Some(&embedded) };
        let is_behind = |first_id| known.new.nodes.is_empty() || known.new.first_id == first_id;
        first_new_id(&self.tables).is_some_and(is_behind)
            && known.sessions as usize == self.tables.parts.len()
            && are_valid(&known.looks, &locator.images, &finder)
    }
}

/// Names the threads and times that are unwound.
fn selected(filter: &Filter, wakers: bool) -> String {
    let Filter { pids, tids, from, to, .. } = filter;
    format!("{pids:?} {tids:?} {from:?} {to:?} {wakers}")
}

/// What stacks are unwound from, besides the tables of the recording.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) recording: &'a Recording,
    pub(super) spaces: &'a Spaces,
    pub(super) cgroups: &'a Cgroups,
    pub(super) filter: &'a Filter,
    pub(super) events: &'a ChosenEvents,
    pub(super) search: &'a Search,
}

impl<'a> Source<'a> {
    /// Returns the selection of samples.
    pub(super) fn selection(self, tables: &'a Tables) -> Selection<'a> {
        let Self { spaces, cgroups, filter, events, .. } = self;
        Selection { tables, spaces, cgroups, filter, events, idle: None, tracing: None }
    }

    /// Marks signal trampolines on walks; returns the marks.
    pub(super) fn mark_trampolines(self, tables: &mut Tables, looks: &Looks) -> Vec<(u32, Mark)> {
        let marks = self.watched(tables, looks, trampolines);
        tables.mark_nodes(&marks);
        marks
    }

    /// Counts edges of user stacks that the code does not make, or takes what an earlier report has counted.
    pub(super) fn impossible(
        self,
        tables: &Tables,
        located: &Located,
        rows: &[Hit],
        kept: Option<&KeptCalls>,
    ) -> Impossible {
        let locator = Locator::new(tables, self.spaces);
        let embedded = locator.embedded(self.recording);
        let finder = Finder { search: self.search, embedded: Some(&embedded) };
        let known = kept.and_then(|kept| kept.known.as_ref());
        if let Some(known) = known.filter(|known| are_valid(&known.looks, &locator.images, &finder)) {
            return known.counts.named(&locator);
        }
        let looks = Looks::begin();
        let counts =
            self.watched(tables, &looks, |locator, finder| Counts::find(locator, finder, located, rows));
        let impossible = counts.named(&locator);
        if let (Some(kept), Some(looks)) = (kept, looks.proven(&locator.images)) {
            let counted = kept.counted.clone();
            kept.file.add(&kept.looks, Judged { counted, counts, looks });
        }
        impossible
    }

    /// Does work that needs files of images, and remembers which were found.
    fn watched<T>(
        self,
        tables: &Tables,
        looks: &Looks,
        work: impl FnOnce(&Locator<'_>, &Finder<'_>) -> T,
    ) -> T {
        let locator = Locator::new(tables, self.spaces);
        let embedded = locator.embedded(self.recording);
        let watched = Watched { files: &embedded, looks };
        let done = work(&locator, &Finder { search: self.search, embedded: Some(&watched) });
        if embedded.trouble().is_some() {
            looks.doubt();
        }
        done
    }
}

/// Where the judgment of calls is kept, and what is there.
pub(super) struct KeptCalls {
    file: UnwoundFile,
    /// The searches on which the stacks rest.
    looks: Vec<Look>,
    /// Which samples are counted.
    counted: String,
    known: Option<Judged>,
}

impl Stacks {
    /// Puts marks and nodes into the tables, and returns the repaired stacks: those of an earlier report, or unwound now. Also returns
    /// where the judgment of their calls is kept, if other reports will find the same stacks; `counted` says which samples are counted.
    pub(super) fn take(
        self,
        source: Source<'_>,
        tables: &mut Tables,
        has: Extent,
        counted: &str,
    ) -> (RepairedStacks, Option<KeptCalls>) {
        let Self { file, known } = self;
        let (found, is_kept) = match known {
            Some(known) => (known, true),
            None => Self::unwind(file.as_ref(), source, tables, has),
        };
        let Unwound { marks, repaired, new, looks, judged, .. } = found;
        let calls = file.filter(|_| is_kept).map(|file| KeptCalls {
            file,
            looks,
            counted: counted.to_owned(),
            known: judged.into_iter().find(|judged| judged.counted == counted),
        });
        tables.mark_nodes(&marks);
        tables.mark_nodes(&new.marks);
        tables.nodes.push(new.first_id, new.nodes);
        (repaired, calls)
    }

    /// Unwinds the stacks; also returns true if the file has them for later reports.
    fn unwind(
        file: Option<&UnwoundFile>,
        source: Source<'_>,
        tables: &mut Tables,
        has: Extent,
    ) -> (Unwound, bool) {
        let looks = Looks::begin();
        let marks = if has.nodes { source.mark_trampolines(tables, &looks) } else { Vec::new() };
        let selection = source.selection(tables);
        let (repaired, new) = source.watched(tables, &looks, |locator, finder| {
            let first_id = first_new_id(tables);
            let repair = |id| repair_stacks(source.recording, selection, locator, finder, has.wakers, id);
            first_id.map(repair).unwrap_or_default()
        });
        let images = Locator::new(tables, source.spaces).images;
        let sessions = tables.parts.len() as u32;
        let mut found = Unwound { sessions, marks, repaired, new, ..Unwound::default() };
        match (file, looks.proven(&images)) {
            (Some(file), Some(looks)) if tables.damage.is_empty() => {
                found.looks = looks;
                file.write(&found);
                (found, true)
            }
            _ => (found, false),
        }
    }
}

/// What is loaded and requested of a recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The trie of stacks is loaded.
    pub(super) nodes: bool,
    /// Stacks that ended waits are requested.
    pub(super) wakers: bool,
}

/// Returns the id of the first node that repaired stacks add; `None` if there are no more ids.
fn first_new_id(tables: &Tables) -> Option<u32> {
    tables.nodes.next_id().map(|id| id.max(1))
}
