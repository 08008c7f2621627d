//! The unwind tables in the files of an image.

use std::collections::BTreeMap;

use icecore_elf::{go, plt};
use icecore_symbolize::image::{FileOff, Layout, Sections, Svma};
use icecore_unwind::{Machine, UnwindSections};

/// The unwind sections of an image's files.
#[derive(Debug)]
pub struct Opened {
    pub(super) layout: Layout,
    pub(super) sections: Sections,
    /// `.debug_frame` of the debug file.
    debug: Option<Sections>,
    /// Entries made from Go's tables, for the functions on the stacks.
    of_go: Vec<u8>,
}

impl Opened {
    /// Adds entries for Go's functions around the requested offsets.
    pub fn of(files: &icecore_symbolize::image::Files, machine: Machine, wanted: &[u64]) -> Option<Self> {
        let (file, layout) = (&files.image.file, files.image.layout.clone());
        let sections = Sections::open(file, &layout, is_rule_section)?;
        let debug = files.debug.as_ref().filter(|_| sections.bytes(".debug_frame").is_empty());
        let debug =
            debug.and_then(|debug| Sections::open(&debug.file, &debug.layout, |name| name == ".debug_frame"));
        let of_go = made(&layout, &sections, machine, wanted).unwrap_or_default();
        Some(Self { layout, sections, debug, of_go })
    }

    /// Returns the sections by which the unwinder works.
    pub fn sections(&self, machine: Machine) -> UnwindSections<'_> {
        let Self { layout, sections, debug, of_go } = self;
        let at = |name| layout.section(name).map(|section| section.at);
        let own = sections.bytes(".debug_frame");
        let stubs = layout.sections.iter().filter(|section| plt::is_stubs(section));
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
            of_go,
            text: at(".text"),
            got: at(".got"),
            stubs: stubs.map(|section| section.at..Svma(section.at.0.saturating_add(section.len))).collect(),
        }
    }
}

/// Makes entries for Go's functions around offsets, after their common part.
fn made(layout: &Layout, sections: &Sections, machine: Machine, wanted: &[u64]) -> Option<Vec<u8>> {
    let table = go::open(sections.file(), layout)?;
    let (text_at, text) = (layout.section(".text")?.at.0, sections.bytes(".text"));
    let code = |at: u64, len: u64| {
        let begin = usize::try_from(at.checked_sub(text_at)?).ok()?;
        text.get(begin..begin.checked_add(usize::try_from(len).ok()?)?)
    };
    // A return address is looked up one byte earlier, in its call.
    let offs = wanted.iter().flat_map(|off| [FileOff(off.saturating_sub(1)), FileOff(*off)]);
    let functions = offs.filter_map(|off| table.function(layout.svma(off)?.0));
    let functions: BTreeMap<u64, go::Function<'_>> = functions.map(|it| (it.start, it)).collect();
    let rules = functions.values().filter_map(|it| go::rule(machine, &table, it, code));
    Some(go::shared(machine).into_iter().chain(rules.flat_map(|rule| rule.bytes)).collect())
}

/// Returns true if unwinding needs this section.
fn is_rule_section(name: &str) -> bool {
    matches!(name, ".eh_frame" | ".eh_frame_hdr" | ".debug_frame" | ".text")
}
