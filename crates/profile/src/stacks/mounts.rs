//! Finds the mount namespace of recorded paths: the recorder's own, or another that has other files under the same paths, such as a
//! container's.

use crate::map::Map;
use crate::recording::load::Tables;
use crate::stacks::locate::Locator;

/// Images that were mapped only in other mount namespaces than the recorder's.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// The last process that mapped an image, by the position of the image in [`Locator::images`]; `None` if a process of the
    /// recorder's own namespace mapped it.
    process_of: Map<u32, Option<u32>>,
}

impl Elsewhere {
    /// Looks at all mappings, except those whose namespace is unknown.
    pub fn new(tables: &Tables, locator: &Locator<'_>) -> Self {
        let mut process_of: Map<u32, Option<u32>> = Map::default();
        for mapping in tables.mappings.iter().filter(|mapping| mapping.mount_ns != 0) {
            let (part, _) = tables.parts.of_image(mapping.image);
            let own = tables.parts.part(part).session.mount_ns;
            let Some(image) = locator.image(mapping.image).filter(|_| own != 0) else { continue };
            let process = process_of.entry(image).or_insert(Some(mapping.tgid));
            *process = process.and((mapping.mount_ns != own).then_some(mapping.tgid));
        }
        Self { process_of }
    }

    /// Returns the process id of the last process that mapped an image, unless the path of the image is valid in the recorder's own
    /// namespace.
    pub fn process(&self, image: u32, tables: &Tables) -> Option<u32> {
        self.process_of.get(&image).copied().flatten().map(|tgid| tables.parts.pid(tgid))
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{Image, ImageKind, Mapping, Origin};

    use super::*;
    use crate::recording::load::by_id::ById;
    use crate::recording::load::parts::Parts;
    use crate::recording::spaces::Spaces;

    const OWN: u64 = 4_026_531_841;
    const OTHER: u64 = 4_026_532_207;

    /// For each of four images, returns the process of another namespace that mapped it.
    fn processes(own: u64) -> [Option<u32>; 4] {
        let image = |dev| {
            let (kind, path, build_id) = (ImageKind::FILE, 0, vec![dev as u8]);
            Image { kind, path, build_id, dev, inode: 0, size_bytes: 0, modified_unix_ns: 0 }
        };
        let mapping = |(tgid, image, mount_ns)| {
            let (time_ns, start, len, file_off, origin) = (1, 0x1000, 0x1000, 0, Origin::EVENT);
            Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns }
        };
        let mappings = [
            (7, 0, OWN),
            (8, 0, OTHER),
            (8, 1, OTHER),
            (9, 1, 0),
            (10, 1, OTHER),
            (8, 2, OTHER),
            (7, 2, OWN),
            (9, 3, 0),
        ];
        let tables = Tables {
            images: ById::from_blocks(vec![(0, (0..4).map(image).collect())]),
            mappings: mappings.map(mapping).into(),
            parts: Parts::of_one(own),
            ..Tables::default()
        };
        let spaces = Spaces::replay(&[], &tables.mappings);
        let locator = Locator::new(&tables, &spaces);
        let elsewhere = Elsewhere::new(&tables, &locator);
        [0, 1, 2, 3].map(|image| elsewhere.process(locator.image(image).expect("it is there"), &tables))
    }

    #[test]
    fn an_image_is_elsewhere_if_nobody_mapped_it_in_the_namespace_of_the_recorder() {
        assert_eq!(processes(OWN), [None, Some(10), None, None]);
    }

    #[test]
    fn a_recorder_that_does_not_know_its_own_namespace_tells_nothing() {
        assert_eq!(processes(0), [None; 4]);
    }
}
