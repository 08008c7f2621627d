//! The unwind rules of images: those that the recording has, else those of the files.
//!
//! With the recording's own rules, one recording has the same stacks on every machine, and no file need be opened.

mod recorded;

use icecore_format::records::{Location, UnwindRule};
use rayon::prelude::*;

use crate::image::{FileOff, Finder, Layout, Sections, Svma};
use crate::locate::Locator;
use crate::map::Map;
use crate::unwind::{Machine, Place, UnwindSections, UnwindTables};
pub(super) use recorded::Recorded;

/// What is known of the images that stacks are in.
pub(super) struct Rules {
    machine: Machine,
    /// By position in [`Locator::images`].
    images: Vec<Option<Source>>,
}

enum Source {
    Recorded(Recorded),
    Files(Opened),
}

/// What is read of the files of an image.
struct Opened {
    layout: Layout,
    sections: Sections,
    /// `.debug_frame` of the debug file.
    debug: Option<Sections>,
}

/// The rules, by position in [`Locator::images`].
pub(super) struct Tables<'a> {
    machine: Machine,
    images: Vec<Option<(&'a Source, UnwindTables<'a>)>>,
}

impl Rules {
    /// Finds the rules of all images of which stacks hold addresses.
    pub(super) fn find(locator: &Locator<'_>, finder: &Finder<'_>) -> Self {
        let tables = locator.tables;
        let mut of_images: Map<u32, Vec<&UnwindRule>> = Map::default();
        for rule in &tables.unwind_rules {
            if let Some(image) = locator.image(rule.image) {
                of_images.entry(image).or_default().push(rule);
            }
        }
        let mut is_wanted = vec![false; locator.images.len()];
        let leaves = tables.nodes.iter().map(|(_, node)| &node.location);
        for location in tables.held.code.iter().map(|(_, location)| location).chain(leaves) {
            if let Location::Image { image, .. } = location
                && let Some(position) = locator.image(*image)
            {
                is_wanted[position as usize] = true;
            }
        }
        let images = locator.images.par_iter().zip(is_wanted).enumerate();
        let images = images.map(|(position, (image, is_wanted))| {
            let recorded = of_images.get(&(position as u32)).and_then(|rules| Recorded::new(rules));
            match recorded {
                Some(recorded) => Some(Source::Recorded(recorded)),
                None if is_wanted => Some(Source::Files(Opened::of(finder.look(image).files.ok()?)?)),
                None => None,
            }
        });
        Self { machine: Machine::of(&tables.session.arch), images: images.collect() }
    }

    /// Prepares them for looking up.
    pub(super) fn tables(&self) -> Tables<'_> {
        let images = self.images.par_iter().map(|source| {
            let source = source.as_ref()?;
            Some((source, UnwindTables::new(source.sections(self.machine))))
        });
        Tables { machine: self.machine, images: images.collect() }
    }
}

impl Opened {
    fn of(files: crate::image::Files) -> Option<Self> {
        let (file, layout) = (&files.image.file, files.image.layout);
        let sections = Sections::open(file, &layout, is_rule_section)?;
        let debug = files.debug.as_ref().filter(|_| sections.bytes(".debug_frame").is_empty());
        let debug =
            debug.and_then(|debug| Sections::open(&debug.file, &debug.layout, |name| name == ".debug_frame"));
        Some(Self { layout, sections, debug })
    }
}

impl Source {
    fn sections(&self, machine: Machine) -> UnwindSections<'_> {
        let Opened { layout, sections, debug } = match self {
            Self::Recorded(recorded) => return recorded.sections(machine),
            Self::Files(opened) => opened,
        };
        let at = |name| layout.section(name).map(|section| section.at);
        let own = sections.bytes(".debug_frame");
        let stubs = layout.sections.iter().filter(|section| section.name.starts_with(b".plt"));
        UnwindSections {
            machine,
            eh_frame: sections.bytes(".eh_frame"),
            eh_frame_at: at(".eh_frame").unwrap_or(Svma(0)),
            eh_frame_hdr: sections.bytes(".eh_frame_hdr"),
            eh_frame_hdr_at: at(".eh_frame_hdr").unwrap_or(Svma(0)),
            debug_frame: debug
                .as_ref()
                .filter(|_| own.is_empty())
                .map_or(own, |debug| debug.bytes(".debug_frame")),
            text: at(".text"),
            got: at(".got"),
            stubs: stubs.map(|section| section.at..Svma(section.at.0.saturating_add(section.len))).collect(),
        }
    }

    fn svma(&self, off: FileOff) -> Option<Svma> {
        match self {
            Self::Recorded(recorded) => Some(recorded.svma(off)),
            Self::Files(opened) => opened.layout.svma(off),
        }
    }
}

impl Tables<'_> {
    /// The instruction set.
    pub(super) fn machine(&self) -> Machine {
        self.machine
    }

    /// The place of an offset in an image.
    pub(super) fn place(&self, image: Option<u32>, off: FileOff) -> Place<'_> {
        let found = image.and_then(|image| self.images.get(image as usize)?.as_ref());
        match found.and_then(|(source, tables)| Some((source.svma(off)?, tables))) {
            Some((at, tables)) => Place { module: image, at, tables: Some(tables) },
            None => Place { module: image, at: Svma(off.0), tables: None },
        }
    }
}

/// Tells of a section whether unwinding needs it.
fn is_rule_section(name: &str) -> bool {
    matches!(name, ".eh_frame" | ".eh_frame_hdr" | ".debug_frame")
}
