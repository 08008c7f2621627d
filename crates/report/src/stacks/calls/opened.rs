//! Files whose code is looked at: each is opened when it is asked for, and once.

use std::sync::OnceLock;

use super::code::Code;
use crate::stacks::repair::rules;
use icecore_symbolize::image::{self, FileOff, Finder, Identity, Svma};
use icecore_unwind::{Edge, Machine, Shape, UnwindTables};

/// The files of images that have code.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    images: &'a [Identity],
    finder: &'a Finder<'a>,
    opened: Vec<OnceLock<Option<Opened>>>,
}

/// What is read of one image.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) machine: Machine,
    pub(super) files: image::Files,
    pub(super) map: memmap2::Mmap,
    pub(super) rules: Option<rules::Opened>,
}

/// The code of images, by position in [`Locator::images`](crate::stacks::locate::Locator::images).
#[derive(Debug)]
pub(crate) struct Calls<'a> {
    files: &'a Files<'a>,
    codes: Vec<OnceLock<Option<Code<'a>>>>,
}

/// What the code says; it hides how long files are open, which would bind whoever asks.
pub(crate) trait Judge: Sync {
    /// Judges a call by the offset in its image of its last byte, and the offset of an instruction of the callee in its own;
    /// `None` if that is in no image. Programs put an address in front of which no call is at the outermost frame, to begin a stack.
    fn edge(&self, caller: (u32, FileOff), callee: Option<(u32, FileOff)>, is_outermost: bool) -> Edge;

    /// Tells whether control comes from the target of a call to an instruction without another call.
    fn leads(&self, target: (u32, FileOff), callee: (u32, FileOff)) -> bool;

    /// The frame of the function that holds a program counter, or the byte before it if it is a return address.
    fn shape(&self, place: (u32, FileOff), is_interrupted: bool) -> Option<Shape>;

    /// The same of the function that is called directly by an instruction of the same image, of which the last byte is given.
    fn shape_behind(&self, caller: (u32, FileOff), at: FileOff, is_interrupted: bool) -> Option<Shape>;
}

impl<'a> Files<'a> {
    /// Prepares; nothing is opened yet.
    pub(crate) fn new(images: &'a [Identity], finder: &'a Finder<'a>) -> Self {
        Self { images, finder, opened: images.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Prepares for asking.
    pub(crate) fn calls(&'a self) -> Calls<'a> {
        Calls { files: self, codes: self.images.iter().map(|_| OnceLock::new()).collect() }
    }

    fn open(&self, image: u32) -> Option<&Opened> {
        let opened = self.opened.get(image as usize)?;
        opened.get_or_init(|| Opened::find(self.images.get(image as usize)?, self.finder)).as_ref()
    }
}

impl Opened {
    /// The image itself: what the recording brings along need not have code, and a debug file has none.
    fn find(image: &Identity, finder: &Finder<'_>) -> Option<Self> {
        let with_code = |finder: Finder<'_>| {
            let files = finder.look(image).files.ok()?;
            files.image.layout.has_code().then_some(files)
        };
        Self::of(with_code(*finder).or_else(|| with_code(Finder { embedded: None, ..*finder }))?)
    }

    /// Maps files; `None` if the machine is none whose calls are known.
    pub(super) fn of(files: image::Files) -> Option<Self> {
        let machine = Machine::of_elf(files.image.layout.machine.0)?;
        let map = files.image.file.map()?;
        let rules = rules::Opened::of(&files, machine, &[]);
        Some(Self { machine, files, map, rules })
    }
}

impl<'a> Calls<'a> {
    fn code(&self, image: u32) -> Option<&Code<'a>> {
        let code = self.codes.get(image as usize)?;
        let open = || {
            let opened = self.files.open(image)?;
            let tables = opened.rules.as_ref().map(|rules| UnwindTables::new(rules.sections(opened.machine)));
            Some(Code::new(opened, tables))
        };
        code.get_or_init(open).as_ref()
    }

    fn at(&self, (image, off): (u32, FileOff)) -> Option<(&Code<'a>, Svma)> {
        let code = self.code(image)?;
        Some((code, code.svma(off)?))
    }
}

impl Judge for Calls<'_> {
    fn edge(&self, caller: (u32, FileOff), callee: Option<(u32, FileOff)>, is_outermost: bool) -> Edge {
        let Some((code, last_byte)) = self.at(caller) else { return Edge::Unknown };
        let own = callee.filter(|callee| callee.0 == caller.0).and_then(|callee| code.svma(callee.1));
        let other = || self.at(callee.filter(|callee| callee.0 != caller.0)?);
        code.edge(Svma(last_byte.0.wrapping_add(1)), own, other, is_outermost)
    }

    fn leads(&self, target: (u32, FileOff), callee: (u32, FileOff)) -> bool {
        let found = self.at(target).filter(|_| target.0 == callee.0);
        found.is_some_and(|(code, target)| code.leads(target.0, code.svma(callee.1)) == Edge::Calls)
    }

    fn shape(&self, place: (u32, FileOff), is_interrupted: bool) -> Option<Shape> {
        let (code, at) = self.at(place)?;
        code.shape(at, is_interrupted)
    }

    fn shape_behind(&self, caller: (u32, FileOff), at: FileOff, is_interrupted: bool) -> Option<Shape> {
        let (code, last_byte) = self.at(caller)?;
        code.shape_behind(Svma(last_byte.0.wrapping_add(1)), code.svma(at)?, is_interrupted)
    }
}
