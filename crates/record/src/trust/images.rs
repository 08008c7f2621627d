//! Which images keep frame pointers, as far as they have been judged.

use icecore_format::records::ImageKind;
use rustc_hash::FxHashMap;

use super::judge::Judge;
use crate::identity::{Identity, Place};

/// Images that are remembered; those beyond are not trusted.
const MAX_IMAGES: usize = 64 << 10;

/// Images by id. Those of one build-id are judged once.
pub(super) struct Images {
    judge: Judge,
    /// The image that was judged for it; `None` if it is not to be judged.
    judged_as: FxHashMap<u32, Option<u32>>,
    by_build_id: FxHashMap<Vec<u8>, u32>,
    keeps: FxHashMap<u32, bool>,
}

impl Images {
    pub(super) fn new() -> std::io::Result<Self> {
        let (judged_as, by_build_id, keeps) = Default::default();
        Ok(Self { judge: Judge::start()?, judged_as, by_build_id, keeps })
    }

    /// Has an image judged, unless it or its like was seen before.
    pub(super) fn see(&mut self, image: u32, identity: &Identity, place: &Place<'_>) {
        if self.judged_as.contains_key(&image) || self.judged_as.len() >= MAX_IMAGES {
            return;
        }
        let build_id = Some(&identity.build_id).filter(|id| !id.is_empty());
        let like = build_id.and_then(|id| self.by_build_id.get(id)).copied();
        let judged_as = match (identity.kind, like) {
            (ImageKind::VDSO, _) => {
                self.keeps.insert(image, true);
                Some(image)
            }
            (ImageKind::FILE, Some(like)) => Some(like),
            (ImageKind::FILE, None) => {
                let is_asked = place.open(identity).is_some_and(|file| self.judge.ask(image, file));
                is_asked.then_some(image)
            }
            _ => None,
        };
        if let (Some(id), Some(judged_as)) = (build_id, judged_as) {
            self.by_build_id.insert(id.clone(), judged_as);
        }
        self.judged_as.insert(image, judged_as);
    }

    /// Tells whether the code of an image keeps frame pointers; `None` if it is being judged.
    pub(super) fn keeps(&self, image: u32) -> Option<bool> {
        match self.judged_as.get(&image) {
            Some(Some(judged_as)) => self.keeps.get(judged_as).copied(),
            _ => Some(false),
        }
    }

    /// Takes what has been judged meanwhile; tells whether anything was.
    pub(super) fn take_answers(&mut self) -> bool {
        let before = self.keeps.len();
        self.keeps.extend(self.judge.answers());
        self.keeps.len() > before
    }
}
