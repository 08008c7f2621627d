//! Gives every place its frames: one function, or several where some were inlined into it.

use std::collections::HashMap;

use crate::image::{FileOff, Identity, Search};
use crate::kernel::KernelSymbols;
use crate::load::{Tables, clean};
use crate::locate::{Interned, Place};
use crate::symbolize::{self, Answer, Reason, Wanted, symbolize};

/// Where a frame ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// In user mode.
    User,
    /// In the kernel.
    Kernel,
}

/// A function of an image, or what stands for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name; for an unnamed one what is known: `cc1+0x5a3b40`, `[unmapped]`.
    pub name: Box<str>,
    /// Its image, a position in [`Names::images`]; `None` if no image is known.
    pub image: Option<u32>,
    /// Where it ran.
    pub side: Side,
    /// Why it has no name; `None` if it has one.
    pub reason: Option<Reason>,
}

/// One frame of a named stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// A position in [`Names::functions`].
    pub function: u32,
    /// Source file, a position in [`Names::files`].
    pub file: Option<u32>,
    /// Line in the source file: where the function was, or called the next one.
    pub line: Option<u32>,
    /// The function was inlined into its caller.
    pub inlined: bool,
}

/// The name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageName {
    /// Whole path as the process saw it, `[kernel]`, or `[module]`.
    pub path: Box<str>,
}

/// Functions and frames, each once, and what each place has of them.
#[derive(Debug, Default)]
pub struct Names {
    /// Images, first those of [`crate::locate::Locator::images`], then the kernel's.
    pub images: Vec<ImageName>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Source files.
    pub files: Vec<Box<str>>,
    /// Frames.
    pub frames: Vec<Frame>,
    /// Frames of each place, innermost first, never empty; in the order of the places.
    pub of_place: Vec<Vec<u32>>,
}

impl Names {
    /// The function of a frame.
    pub fn function(&self, frame: u32) -> &Function {
        &self.functions[self.frames[frame as usize].function as usize]
    }

    /// The image of a function.
    pub fn image(&self, function: &Function) -> Option<&ImageName> {
        function.image.map(|image| &self.images[image as usize])
    }

    /// The source line of a frame as `file:line`, `None` if the file is unknown.
    pub fn file_line(&self, frame: &Frame) -> Option<(&str, Option<u32>)> {
        frame.file.map(|file| (&*self.files[file as usize], frame.line))
    }
}

/// Names all places; `tick` is told how many addresses were done.
pub fn name(
    places: &[Place],
    images: &[Identity],
    tables: &Tables,
    search: &Search,
    tick: &(dyn Fn(u64) + Sync),
) -> Names {
    let kernel = KernelSymbols::new(&tables.kernel_symbols);
    let answers = ask(places, images, search, tick);
    let mut book = Book::new(images);
    let of_place = places
        .iter()
        .map(|place| match place {
            Place::Image(image, off) => {
                let path = &images[*image as usize].path;
                book.answered(*image, path, *off, answers.get(&(*image, *off)))
            }
            Place::Kernel(part, address) => match kernel.find(*part, *address) {
                Some(row) => book.kernel(tables.text(row.name), tables.text(row.module), None),
                None => {
                    let name = format!("[kernel]+{address:#x}");
                    book.kernel(&name, "", Some(Reason::KernelSymbolMissing))
                }
            },
            Place::Unmapped => book.nowhere("[unmapped]", Reason::Unmapped),
            Place::Lost => book.nowhere("[stack lost]", Reason::StackLost),
        })
        .collect();
    Names {
        images: book.images.items,
        functions: book.functions.items,
        files: book.files.items,
        frames: book.frames.items,
        of_place,
    }
}

/// Symbolizes the distinct offsets of each image.
fn ask(
    places: &[Place],
    images: &[Identity],
    search: &Search,
    tick: &(dyn Fn(u64) + Sync),
) -> HashMap<(u32, FileOff), Answer> {
    let mut offsets = vec![Vec::new(); images.len()];
    for place in places {
        if let Place::Image(image, off) = place {
            offsets[*image as usize].push(*off);
        }
    }
    offsets.iter_mut().for_each(|offsets| offsets.sort_unstable());
    let used = (0u32..).zip(images).zip(&offsets).filter(|(_, offsets)| !offsets.is_empty());
    let (numbers, wanted): (Vec<u32>, Vec<Wanted<'_>>) =
        used.map(|((number, image), offsets)| (number, Wanted { image, offsets })).unzip();
    let answers = symbolize(&wanted, search, tick);
    let mut by_place = HashMap::new();
    for ((number, wanted), answers) in numbers.iter().zip(&wanted).zip(answers) {
        by_place.extend(wanted.offsets.iter().zip(answers).map(|(off, answer)| ((*number, *off), answer)));
    }
    by_place
}

/// What is interned while names are given.
struct Book {
    images: Interned<ImageName>,
    functions: Interned<Function>,
    files: Interned<Box<str>>,
    frames: Interned<Frame>,
    /// Position in `images` by position in the identities: two identities can have one path.
    image_of: Vec<u32>,
}

impl Book {
    fn new(identities: &[Identity]) -> Self {
        let mut images = Interned::default();
        let image_of = identities.iter().map(|i| images.intern(ImageName { path: i.path.as_str().into() }));
        let image_of = image_of.collect();
        Self {
            images,
            functions: Interned::default(),
            files: Interned::default(),
            frames: Interned::default(),
            image_of,
        }
    }

    fn answered(&mut self, image: u32, path: &str, off: FileOff, answer: Option<&Answer>) -> Vec<u32> {
        let image = Some(self.image_of[image as usize]);
        match answer {
            Some(Answer::Named(functions)) if !functions.is_empty() => {
                let physical = functions.len() - 1;
                let named = functions.iter().enumerate();
                named.map(|(depth, function)| self.named(image, function, depth < physical)).collect()
            }
            Some(Answer::Unnamed { reason, start, at }) => {
                let address = start.or(*at).map_or(off.0, |svma| svma.0);
                let name = match reason {
                    Reason::Jit => "[jit]".to_owned(),
                    Reason::Vdso => "[vdso]".to_owned(),
                    Reason::Special if !path.is_empty() => path.to_owned(),
                    _ => format!("{}+{address:#x}", short(path)),
                };
                self.alone(Function { name: name.into(), image, side: Side::User, reason: Some(*reason) })
            }
            _ => {
                let name = format!("{}+{:#x}", short(path), off.0).into();
                self.alone(Function { name, image, side: Side::User, reason: Some(Reason::NoSymbol) })
            }
        }
    }

    fn named(&mut self, image: Option<u32>, function: &symbolize::Function, inlined: bool) -> u32 {
        let file = function.file.as_ref().map(|file| self.files.intern(clean(file.as_bytes())));
        let name = clean(function.name.as_bytes());
        let named = Function { name, image, side: Side::User, reason: None };
        let named = self.functions.intern(named);
        self.frames.intern(Frame { function: named, file, line: function.line, inlined })
    }

    fn kernel(&mut self, name: &str, module: &str, reason: Option<Reason>) -> Vec<u32> {
        let path = if module.is_empty() { "[kernel]".to_owned() } else { format!("[{module}]") };
        let image = Some(self.images.intern(ImageName { path: path.into() }));
        self.alone(Function { name: name.into(), image, side: Side::Kernel, reason })
    }

    fn nowhere(&mut self, name: &str, reason: Reason) -> Vec<u32> {
        self.alone(Function { name: name.into(), image: None, side: Side::User, reason: Some(reason) })
    }

    fn alone(&mut self, function: Function) -> Vec<u32> {
        let function = self.functions.intern(function);
        vec![self.frames.intern(Frame { function, file: None, line: None, inlined: false })]
    }
}

/// The last part of a path, without the kernel's remark that the file was deleted.
pub(crate) fn short(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    match path.rsplit('/').next() {
        Some(last) if !last.is_empty() => last,
        _ => path,
    }
}
