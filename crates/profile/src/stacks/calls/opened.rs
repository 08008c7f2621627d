//! Opens the files whose code is judged: each on demand, and once.

use std::sync::OnceLock;

use super::code::Opened;
use super::flow::calls_from;
use super::judged::JudgedCode;
use icecore_symbolize::Reason;
use icecore_symbolize::image::{self, Carried, ElfFile, FileOff, Finder, Identity, Looked, Svma};
use icecore_unwind::{Edge, Shape, UnwindTables};

/// The files of an image that has code.
#[derive(Debug)]
pub struct Files<'a> {
    images: &'a [Identity],
    finder: &'a Finder<'a>,
    opened: Vec<OnceLock<Option<Opened>>>,
}

/// The code of images, by position in [`Locator::images`](crate::stacks::locate::Locator::images).
#[derive(Debug)]
pub struct Calls<'a> {
    files: &'a Files<'a>,
    codes: Vec<OnceLock<Option<JudgedCode<'a>>>>,
}

/// Judges calls by the code. The trait hides the lifetime of the opened files from its callers.
pub trait Judge: Sync {
    /// Judges a call by the offset of its last byte in its image, and the offset of an instruction of the callee; `None` if the
    /// callee is in no image. Programs may begin a stack with an address that no call precedes: `is_outermost` allows that.
    fn edge(&self, caller: (u32, FileOff), callee: Option<(u32, FileOff)>, is_outermost: bool) -> Edge;

    /// Counts the calls that control may come to from an instruction, in its function; `None` if they are not all known.
    fn calls_from(&self, place: (u32, FileOff)) -> Option<usize>;

    /// Finds the frame of the function that holds a program counter, or, for a return address, the byte before it.
    fn shape(&self, place: (u32, FileOff), is_interrupted: bool) -> Option<Shape>;

    /// Returns true if code of an image is available.
    fn has_code(&self, image: u32) -> bool;

    /// Finds the frame of a function that an instruction of the same image calls directly; `caller` is the last byte of that call.
    fn shape_behind(&self, caller: (u32, FileOff), at: FileOff, is_interrupted: bool) -> Option<Shape>;
}

impl<'a> Files<'a> {
    /// Prepares the images; opens nothing yet.
    pub(crate) fn new(images: &'a [Identity], finder: &'a Finder<'a>) -> Self {
        Self { images, finder, opened: images.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Returns a judge of calls in these images.
    pub(crate) fn calls(&'a self) -> Calls<'a> {
        Calls { files: self, codes: self.images.iter().map(|_| OnceLock::new()).collect() }
    }

    fn open(&self, image: u32) -> Option<&Opened> {
        let opened = self.opened.get(image as usize)?;
        opened.get_or_init(|| Opened::find(self.images.get(image as usize)?, self.finder)).as_ref()
    }
}

/// A recording whose files are not used; it still learns what is found outside of it.
#[derive(Debug)]
struct Outside<'a>(&'a dyn Carried);

impl Carried for Outside<'_> {
    fn open(&self, _image: &Identity) -> Option<ElfFile> {
        None
    }

    fn note(&self, image: &Identity, is_carried: bool, found: &Looked) {
        self.0.note(image, is_carried, found);
    }
}

impl Opened {
    fn find(image: &Identity, finder: &Finder<'_>) -> Option<Self> {
        Self::of(with_code(image, finder).ok()?)
    }
}

/// Finds the file of an image itself: pieces in a recording may lack the code, and a debug file has none.
///
/// # Errors  why there is no file; `None` if there are only files without code
pub fn with_code(image: &Identity, finder: &Finder<'_>) -> Result<image::Files, Option<Reason>> {
    let look = |finder: Finder<'_>| {
        let files = finder.look(image).files.map_err(Some)?;
        if files.image.layout.has_code() { Ok(files) } else { Err(None) }
    };
    let outside = finder.embedded.map(Outside);
    let outside = outside.as_ref().map(|outside| outside as &dyn Carried);
    look(*finder).or_else(|first| look(Finder { embedded: outside, ..*finder }).map_err(|_| first))
}

impl<'a> Calls<'a> {
    fn code(&self, image: u32) -> Option<&JudgedCode<'a>> {
        let code = self.codes.get(image as usize)?;
        let open = || {
            let opened = self.files.open(image)?;
            let tables =
                opened.tables.as_ref().map(|tables| UnwindTables::new(tables.sections(opened.machine)));
            Some(JudgedCode::new(opened, tables))
        };
        code.get_or_init(open).as_ref()
    }

    fn at(&self, (image, off): (u32, FileOff)) -> Option<(&JudgedCode<'a>, Svma)> {
        let code = self.code(image)?;
        Some((code, code.code.svma(off)?))
    }
}

impl Judge for Calls<'_> {
    fn calls_from(&self, place: (u32, FileOff)) -> Option<usize> {
        let (code, at) = self.at(place)?;
        calls_from(&code.code, at)
    }

    fn edge(&self, caller: (u32, FileOff), callee: Option<(u32, FileOff)>, is_outermost: bool) -> Edge {
        let Some((code, last_byte)) = self.at(caller) else { return Edge::Unknown };
        let own = callee.filter(|callee| callee.0 == caller.0).and_then(|callee| code.code.svma(callee.1));
        let other = || self.at(callee.filter(|callee| callee.0 != caller.0)?);
        code.edge(last_byte.wrapping_add(1), own, other, is_outermost)
    }

    fn shape(&self, place: (u32, FileOff), is_interrupted: bool) -> Option<Shape> {
        let (code, at) = self.at(place)?;
        code.shape(at, is_interrupted)
    }

    fn has_code(&self, image: u32) -> bool {
        self.code(image).is_some()
    }

    fn shape_behind(&self, caller: (u32, FileOff), at: FileOff, is_interrupted: bool) -> Option<Shape> {
        let (code, last_byte) = self.at(caller)?;
        code.shape_behind(last_byte.wrapping_add(1), code.code.svma(at)?, is_interrupted)
    }
}
