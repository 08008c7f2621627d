//! Compares the machine code of changed functions: if it is the same on both sides, the change is not in that function.

use std::collections::HashMap;

use super::Difference;
use icecore_analysis::compare::Sided;
use icecore_analysis::matching::code::{Code, CodeVerdict, compare, is_same_build};
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::stacks::locate::Locator;
use icecore_symbolize::image::{Finder, Identity};

/// Compares the code of functions that both sides have, if the files of both are available.
pub(super) fn compare_code(reports: &[Sided<'_>], rows: &mut [&mut Difference]) {
    let first = |side: usize| reports.iter().find(|(_, of)| *of == side).map(|(report, _)| report.loaded);
    let (Some(before), Some(after)) = (first(0), first(1)) else { return };
    let (mut before, mut after) = (CodeFiles::new(before), CodeFiles::new(after));
    for row in rows {
        let Some(image) = row.image.clone() else { continue };
        let old_image = row.before_image.clone().unwrap_or_else(|| image.clone());
        let old_name = row.before_name.clone().unwrap_or_else(|| row.name.clone());
        let (Some(old), Some(new)) = (before.identity(&old_image), after.identity(&image)) else { continue };
        if is_same_build(old, new) {
            row.code = Some("same_build");
            continue;
        }
        let (Some(old), Some(new)) = (before.code(&old_image), after.code(&image)) else { continue };
        row.code = match compare((old, &old_name), (new, &row.name)) {
            CodeVerdict::Identical => Some("identical"),
            CodeVerdict::Different => Some("different"),
            CodeVerdict::Unknown(_) => None,
        };
    }
}

/// The images of a recording, by their paths; each is opened once.
struct CodeFiles<'a> {
    loaded: &'a Loaded<'a>,
    images: Vec<Identity>,
    opened: HashMap<String, Option<Code>>,
}

impl<'a> CodeFiles<'a> {
    fn new(loaded: &'a Loaded<'a>) -> Self {
        let images = Locator::new(&loaded.tables, &loaded.spaces).images;
        Self { loaded, images, opened: HashMap::new() }
    }

    /// Finds the image with a path; `None` if there are several.
    fn identity(&self, path: &str) -> Option<&Identity> {
        let mut of_path = self.images.iter().filter(|image| image.path == path);
        of_path.next().filter(|_| of_path.next().is_none())
    }

    fn code(&mut self, path: &str) -> Option<&Code> {
        if !self.opened.contains_key(path) {
            let code = self.open(path);
            self.opened.insert(path.to_owned(), code);
        }
        self.opened.get(path)?.as_ref()
    }

    fn open(&self, path: &str) -> Option<Code> {
        let Loaded { tables, spaces, recording, search, .. } = self.loaded;
        let locator = Locator::new(tables, spaces);
        let embedded = locator.embedded(recording);
        let finder = Finder { search, embedded: Some(&embedded) };
        Code::open(self.identity(path)?, &finder).ok()
    }
}
