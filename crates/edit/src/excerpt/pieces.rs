//! Copies pieces of files for the images that are kept, under their new ids, one block at a time.

use std::collections::BTreeMap;

use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::ImagePartsV1;
use icecore_format::write::Writer;

use super::need::Renumbered;
use super::rows::SessionRows;
use icecore_profile::recording::load::damage;

/// Copies the blocks of a session; returns those that are damaged. Pieces of an image that is not kept go to a kept image with the
/// same build-id: the recorder wrote them once for both.
pub(super) fn copy(
    recording: &Recording,
    rows: &SessionRows,
    images: &Renumbered,
    writer: &mut Writer,
) -> Result<Vec<Damage>, icecore_format::Error> {
    let mut heirs = Heirs::new(rows, images);
    let mut lost = Vec::new();
    for entry in &rows.image_parts {
        if !heirs.may_want(entry) {
            continue;
        }
        match piece(recording, entry, images, &mut heirs) {
            Ok(Some(parts)) => drop(writer.append(&parts)?),
            Ok(None) => {}
            Err(error) => lost.push(damage(entry, &error)),
        }
    }
    Ok(lost)
}

/// Returns the pieces of a block, for the image that gets them.
fn piece(
    recording: &Recording,
    entry: &Entry,
    images: &Renumbered,
    heirs: &mut Heirs<'_>,
) -> Result<Option<ImagePartsV1>, icecore_format::Error> {
    let payload = recording.payload(entry)?;
    let view = payload.view::<ImagePartsV1>()?;
    let Some(heir) = heirs.of(view.image.to_native()) else { return Ok(None) };
    Ok(Some(ImagePartsV1::from_rows(images.new_id(heir), view.file_bytes.to_native(), &view.rows()?)))
}

/// Decides which image gets the pieces of another.
struct Heirs<'a> {
    rows: &'a SessionRows,
    images: &'a Renumbered,
    /// The first kept image of each build-id.
    by_build_id: BTreeMap<&'a [u8], u32>,
    /// If two images have one heir, the first provides the pieces: their files may differ.
    taken: BTreeMap<u32, u32>,
}

impl<'a> Heirs<'a> {
    fn new(rows: &'a SessionRows, images: &'a Renumbered) -> Self {
        let mut by_build_id = BTreeMap::new();
        for id in &images.old {
            if let Some(image) = rows.images.find(*id).filter(|image| !image.build_id.is_empty()) {
                by_build_id.entry(&image.build_id[..]).or_insert(*id);
            }
        }
        Self { rows, images, by_build_id, taken: BTreeMap::new() }
    }

    /// Returns true if some image may get pieces of a block, without opening it.
    fn may_want(&self, entry: &Entry) -> bool {
        let may_hold = |id| entry.header.processes.may_hold(id);
        self.rows.images.iter().any(|(id, _)| may_hold(id) && self.kept(id).is_some())
    }

    fn of(&mut self, image: u32) -> Option<u32> {
        let heir = self.kept(image)?;
        (*self.taken.entry(heir).or_insert(image) == image).then_some(heir)
    }

    /// Returns the image itself if it is kept, else a kept one with its build-id.
    fn kept(&self, image: u32) -> Option<u32> {
        if self.images.has(image) {
            return Some(image);
        }
        self.by_build_id.get(&self.rows.images.find(image)?.build_id[..]).copied()
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{IdTable, Image, ImageKind};

    use super::*;
    use icecore_profile::recording::load::by_id::ById;

    #[test]
    fn pieces_go_to_a_kept_image_with_the_same_build_id_and_never_to_two() {
        let image = |build_id: &[u8]| Image {
            kind: ImageKind::FILE,
            path: 1,
            build_id: build_id.to_vec(),
            dev: 0,
            inode: 0,
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        let images = [&b"a"[..], b"b", b"a", b"", b"", b"a"].map(image).to_vec();
        let rows = SessionRows { images: ById::from_blocks(vec![(0, images)]), ..SessionRows::default() };
        let kept = Renumbered::new([1, 2, 3, 5], IdTable::Images);
        let mut heirs = Heirs::new(&rows, &kept);
        assert_eq!([0, 0, 1, 3, 4].map(|image| heirs.of(image)), [Some(2), Some(2), Some(1), Some(3), None]);
        assert_eq!(heirs.of(2), None, "it has got those of 0");
        assert_eq!(heirs.of(5), Some(5), "it is kept itself");
        assert_eq!(heirs.of(77), None);
    }
}
