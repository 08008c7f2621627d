//! Remembers which images keep frame pointers, as far as they have been judged.

use icecore_format::records::{ImageKind, Omission};
use rustc_hash::{FxHashMap, FxHashSet};

use super::go::GoPlaces;
use super::judge::{Answer, Judge, Judged, Request};
use crate::foreign::Door;
use crate::interpreters::Interpreter;
use crate::machine::identity::{Identity, MapFile};

/// The number of images that are remembered; further ones are not trusted.
const MAX_IMAGES: usize = 64 << 10;

/// Images by id. Images of one file are judged once.
pub(super) struct Images {
    judge: Judge,
    /// The image that is judged in its place; `None` if it is not trusted, whatever it contains.
    judged_as: FxHashMap<u32, Option<u32>>,
    by_file: FxHashMap<Identity, u32>,
    judged: FxHashMap<u32, Judged>,
    /// Images that hold an interpreter, or one of whose frames nothing is known.
    interpreters: FxHashMap<u32, Result<Interpreter, Omission>>,
    /// Images whose file could not be opened, or for which no room was left in the queue. They are tried again when they are
    /// mapped again.
    unread: FxHashSet<u32>,
}

impl Images {
    pub(super) fn new(door: Door) -> std::io::Result<Self> {
        let (judged_as, by_file, judged, interpreters, unread) = Default::default();
        Ok(Self { judge: Judge::start(door)?, judged_as, by_file, judged, interpreters, unread })
    }

    /// Has an image judged, unless that or another image of its file was judged already.
    pub(super) fn see(&mut self, image: u32, identity: &Identity, place: MapFile) {
        let judged_as = match self.judged_as.get(&image) {
            Some(known) => *known,
            None if self.judged_as.len() < MAX_IMAGES => self.meet(image, identity),
            None => None,
        };
        if let Some(judged_as) = judged_as.filter(|judged_as| self.unread.contains(judged_as))
            && self.judge.ask(Request { image: judged_as, identity: identity.clone(), place })
        {
            self.unread.remove(&judged_as);
        }
    }

    /// Notes a new image; returns the image that is judged in its place.
    fn meet(&mut self, image: u32, identity: &Identity) -> Option<u32> {
        let judged_as = match identity.kind {
            // An equal build-id proves nothing, and one file may have several paths.
            ImageKind::FILE => {
                let file = Identity { path: Vec::new(), ..identity.clone() };
                Some(*self.by_file.entry(file).or_insert(image))
            }
            ImageKind::VDSO => Some(image),
            _ => None,
        };
        self.judged_as.insert(image, judged_as);
        if identity.kind == ImageKind::VDSO {
            // The vDSO calls nobody.
            self.judged.insert(image, Judged { keeps: true, places: None });
        } else if judged_as == Some(image) {
            self.unread.insert(image);
        }
        judged_as
    }

    /// Returns whether the code of an image keeps frame pointers; `None` while it is being judged.
    pub(super) fn keeps(&self, image: u32) -> Option<bool> {
        match self.judged_as.get(&image) {
            Some(Some(judged_as)) if !self.unread.contains(judged_as) => {
                self.judged.get(judged_as).map(|judged| judged.keeps)
            }
            _ => Some(false),
        }
    }

    /// Returns where a Go program keeps the notes about its stacks, if the image is one and has been judged.
    pub(super) fn places(&self, image: u32) -> Option<GoPlaces> {
        self.judged(image)?.places
    }

    /// Returns the interpreter of an image, if it has one and has been judged.
    pub(super) fn interpreter(&self, image: u32) -> Option<&Interpreter> {
        let judged_as = self.judged_as.get(&image).copied()??;
        self.interpreters.get(&judged_as)?.as_ref().ok()
    }

    /// Lists the images with an interpreter of whose frames nothing is known, and why.
    pub(super) fn refused(&self) -> impl Iterator<Item = (u32, Omission)> + '_ {
        self.interpreters.iter().filter_map(|(image, found)| Some((*image, *found.as_ref().err()?)))
    }

    fn judged(&self, image: u32) -> Option<&Judged> {
        let judged_as = self.judged_as.get(&image).copied()??;
        self.judged.get(&judged_as)
    }

    /// Takes the answers that have arrived; returns true if there were any.
    pub(super) fn take_answers(&mut self) -> bool {
        let mut any = false;
        for (image, answer) in self.judge.answers() {
            any = true;
            match answer {
                Answer::Interpreter(found) => _ = self.interpreters.insert(image, found),
                Answer::Judged(judged) => _ = self.judged.insert(image, judged),
                Answer::Unread => _ = self.unread.insert(image),
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use icecore_elf::Avma;

    use super::*;
    use crate::proc::maps;

    fn answered(images: &mut Images) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !images.take_answers() {
            assert!(Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn images_of_one_file_are_judged_once_and_tried_again_if_it_was_not_there() {
        let (tgid, maps) = (std::process::id(), std::fs::read("/proc/self/maps").expect("we are running"));
        let line = maps::executable(&maps).find(|line| line.inode != 0).expect("a program");
        let identity = crate::machine::identity::Identities::new(Door::of_test()).of_maps_line(tgid, &line);
        let identity = Identity { build_id: b"of no file".to_vec(), ..identity };
        let mut images = Images::new((*Door::of_test()).clone()).expect("a thread");
        let place = MapFile { tgid, start: Avma(line.start), end: Avma(line.end) };
        images.see(1, &identity, place);
        let elsewhere = Identity { path: b"/elsewhere".to_vec(), ..identity.clone() };
        images.see(2, &elsewhere, place);
        let other = Identity { inode: identity.inode + 1, ..identity.clone() };
        assert_eq!((images.keeps(1), images.keeps(2), images.keeps(3)), (None, None, Some(false)));
        assert_eq!((images.meet(4, &other), images.meet(5, &elsewhere)), (Some(4), Some(1)));
        answered(&mut images);
        assert_eq!((images.keeps(1), images.keeps(2)), (Some(false), Some(false)), "it was not found");
        images.see(2, &identity, place);
        assert_eq!((images.keeps(1), images.keeps(2)), (None, None), "it is asked again");
    }

    #[test]
    fn what_is_no_file_is_not_judged() {
        let mut images = Images::new((*Door::of_test()).clone()).expect("a thread");
        let identity = |kind| Identity {
            kind,
            path: Vec::new(),
            build_id: Vec::new(),
            dev: 0,
            inode: 0,
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        images.see(1, &identity(ImageKind::VDSO), MapFile::NOWHERE);
        images.see(2, &identity(ImageKind::ANONYMOUS), MapFile::NOWHERE);
        assert_eq!((images.keeps(1), images.keeps(2)), (Some(true), Some(false)));
    }
}
