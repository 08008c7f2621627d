//! The images of the whole run by ids of their own, whatever ids they have in a file.

use std::sync::Arc;

use icecore_format::records::Image;
use rustc_hash::{FxHashMap, FxHashSet};

use super::of_file::REMEMBERED;

/// Gives ids to images. The row of an image has path 0; its path stands beside it.
#[derive(Debug)]
pub(super) struct Images {
    ids: FxHashMap<(Image, Arc<[u8]>), u32>,
    rows: FxHashMap<u32, (Image, Arc<[u8]>)>,
    next: u32,
    /// With this many, those are forgotten that no process has mapped.
    room: usize,
}

impl Default for Images {
    fn default() -> Self {
        let (ids, rows) = Default::default();
        Self { ids, rows, next: 0, room: REMEMBERED }
    }
}

impl Images {
    /// Returns the id of an image.
    pub(super) fn id(&mut self, image: Image, path: &[u8]) -> u32 {
        let key = (Image { path: 0, ..image }, path.into());
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = self.next;
        self.next = id.checked_add(1).expect("bug: more than 2³² distinct images");
        self.rows.insert(id, key.clone());
        self.ids.insert(key, id);
        id
    }

    /// Returns the id of an image; `None` if it has none.
    pub(super) fn find(&self, image: Image, path: &[u8]) -> Option<u32> {
        self.ids.get(&(Image { path: 0, ..image }, path.into())).copied()
    }

    /// Returns an image and its path.
    pub(super) fn row(&self, id: u32) -> Option<&(Image, Arc<[u8]>)> {
        self.rows.get(&id)
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= self.room
    }

    /// Forgets all images but these. Ids go on counting, so a forgotten image gets another one.
    pub(super) fn keep_only(&mut self, kept: &FxHashSet<u32>) {
        self.rows.retain(|id, _| kept.contains(id));
        self.ids.retain(|_, id| kept.contains(id));
        self.room = (2 * self.rows.len()).max(REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::ImageKind;

    use super::*;

    #[test]
    fn images_that_are_mapped_keep_their_ids() {
        let image = |inode| Image {
            kind: ImageKind::FILE,
            path: 9,
            build_id: Vec::new(),
            dev: 1,
            inode,
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        let mut images = Images { room: 3, ..Images::default() };
        let ids = [1, 2, 1, 3].map(|inode| images.id(image(inode), b"/bin/x"));
        assert_eq!((ids, images.id(image(1), b"/bin/y"), images.is_full()), ([0, 1, 0, 2], 3, true));
        images.keep_only(&FxHashSet::from_iter([1, 3]));
        assert_eq!(images.find(image(2), b"/bin/x"), Some(1));
        assert_eq!((images.find(image(1), b"/bin/x"), images.row(0)), (None, None));
        assert_eq!(
            images.row(3).map(|(row, path)| (row.inode, row.path, &**path)),
            Some((1, 0, &b"/bin/y"[..]))
        );
        assert_eq!((images.id(image(1), b"/bin/x"), images.is_full()), (4, false));
    }
}
