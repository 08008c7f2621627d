//! Addresses of code as rows of `top`.

use serde::Serialize;

use super::by::By;
use super::subject::{Facts, Value};
use super::{Ranked, heaviest};
use crate::cli::Sort;
use icecore_listing::code::CodeFinder;
use icecore_listing::stacks::CountedStacks;
use icecore_profile::map::Map;
use icecore_profile::named::names::Side;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::code::StoredCode;
use icecore_profile::stacks::kernel::KernelSymbols;
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator};
use icecore_symbolize::image::{FileOff, Finder};

/// Where the code is.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct AddressOf {
    /// The offset in the file of the image; `None` for code that is in no file.
    offset: Option<u64>,
    /// The address as the image has it; in the kernel, that of the running one. `None` if the image is not available.
    address: Option<u64>,
    /// Bytes from the first instruction of the function; `None` if nothing tells where it begins.
    function_offset: Option<u64>,
}

/// Ranks places, and keeps at most those that can be among the `most` heaviest; also returns how many there are.
pub(super) fn rank(report: &Report<'_>, sort: Sort, most: usize) -> (Vec<Ranked>, u64) {
    let Some(located) = report.located else { return (Vec::new(), 0) };
    let groups: Vec<[u32; 1]> = (0..located.places.len() as u32).map(|place| [place]).collect();
    let stacks = CountedStacks::new(report, located);
    let sums = stacks.sums(groups.len(), |place| &groups[place as usize]);
    let (heavy, count) = heaviest(&sums, sort, most);
    let addresses = addresses(report, located, &heavy);
    let (names, whole) = (&report.profile.names, report.profile.whole());
    let row = |(at, place): (&usize, AddressOf)| {
        let frames = names.of_places.of(*at);
        let [innermost, outermost] =
            [frames.first(), frames.last()].map(|frame| frame.map(|frame| &names.frames[*frame as usize]));
        let function = &names.functions[outermost?.function as usize];
        let image = names.image(function).map(|image| image.path.to_string());
        let facts = Facts {
            side: Some(if function.side == Side::User { "user" } else { "kernel" }),
            reason: function.reason.map(|reason| reason.code()),
            file: Some(innermost?.file.map(|file| names.files[file as usize].to_string())),
            line: Some(innermost?.line),
            ..Facts::default()
        };
        let value = Value { by: By::Address.name(), name: function.name.to_string(), image, facts };
        Some(Ranked { place: Some(place), ..Ranked::new(vec![value], sums[*at], whole) })
    };
    (heavy.iter().zip(addresses).filter_map(row).collect(), count)
}

/// Finds the addresses of places. Each image is opened once.
fn addresses(report: &Report<'_>, located: &Located, places: &[usize]) -> Vec<AddressOf> {
    let loaded = report.loaded;
    let locator = Locator::new(&loaded.tables, &loaded.spaces);
    let embedded = locator.embedded(loaded.recording);
    let finder = Finder { search: loaded.search, embedded: Some(&embedded) };
    let stored = StoredCode::new(loaded.recording, &loaded.tables, |id| locator.image(id));
    let code = CodeFinder { images: &locator.images, finder: &finder, stored: &stored };
    let kernel = KernelSymbols::new(&loaded.tables.kernel_symbols);
    let mut of_images: Map<u32, Vec<FileOff>> = Map::default();
    for place in places {
        if let CodeLocation::Image(image, off) = located.places[*place] {
            of_images.entry(image).or_default().push(off);
        }
    }
    let mut found: Map<(u32, FileOff), AddressOf> = Map::default();
    for (image, mut offs) in of_images {
        offs.sort_unstable();
        for (off, at) in offs.iter().zip(code.extents(image, &offs)) {
            let address = at.as_ref().map(|(at, _)| at.0);
            let function_offset = at.and_then(|(at, extent)| at.0.checked_sub(extent?.start.0));
            found.insert((image, *off), AddressOf { offset: Some(off.0), address, function_offset });
        }
    }
    let of_place = |place: &usize| match located.places[*place] {
        CodeLocation::Image(image, off) => found.get(&(image, off)).cloned().unwrap_or_default(),
        CodeLocation::Kernel(part, at) => {
            let start = kernel.find(part, at).map(|row| row.start);
            let function_offset = start.and_then(|start| at.0.checked_sub(start));
            AddressOf { offset: None, address: Some(at.0), function_offset }
        }
        CodeLocation::Jit(..) | CodeLocation::Gone | CodeLocation::Unmapped | CodeLocation::Lost => {
            AddressOf::default()
        }
    };
    places.iter().map(of_place).collect()
}

impl AddressOf {
    /// Returns the address, else the offset in the file, and the offset in the function, as text.
    pub(super) fn cells(&self) -> (String, String) {
        let at = self.address.map(|at| format!("{at:#x}"));
        let at =
            at.or_else(|| self.offset.map(|off| format!("file+{off:#x}"))).unwrap_or_else(|| "-".to_owned());
        (at, self.function_offset.map(|offset| format!("+{offset:#x}")).unwrap_or_default())
    }
}
