//! Turns the frames of stacks into places: file offsets in images, or addresses in the kernel.
//!
//! The recorder stored most code by its offset in a file; the report looks up the rest in the mappings:
//!
//! ```text
//!   AVMA   0x7f3a_0000_1240   in the process
//!        − mapping.start      0x7f3a_0000_1000
//!        + mapping.file_off   0x0002_6000
//!   offset 0x0002_6240        in the file: the same for every process that maps it
//! ```
//!
//! The leaf of a stack is where the CPU was. Every other frame is a return address: the instruction *after* the call. It may
//! already belong to the next line or, after a call that never returns, to the next function. So a caller is looked up one byte
//! earlier: [`Role`] owns that −1.
//!
//! If a sample hit in the kernel, the leaf of its user stack is the user instruction pointer that was saved at kernel entry: the
//! faulting or interrupted instruction itself, or the one after `syscall`, which is in the same function. It is exact as well. So
//! are a frame that a signal interrupted, and the signal trampoline, whose return address the kernel made: the marks of nodes
//! identify them.

mod trie;

use icecore_format::limits;
use icecore_format::read::Recording;
use icecore_format::records::{ImageKind, JitCode, Location, Mapping, Mark, Origin};

use crate::map::{Interned, Map};
use crate::recording::EmbeddedFiles;
use crate::recording::load::Tables;
use crate::recording::spaces::{SpaceId, Spaces, offset_in};
use icecore_elf::Avma;
use icecore_symbolize::image::{FileOff, Identity, Inode, Kind};
pub use trie::{Located, Spot, locate};

/// What an address on a stack means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The instruction that was interrupted.
    Leaf,
    /// The instruction after a call.
    Return,
    /// An instruction of a frame that is no leaf: [`Mark::INTERRUPTED`].
    Interrupted,
}

impl Role {
    /// Returns the address by which the name is looked up.
    pub fn lookup(self, address: Avma) -> Avma {
        Avma(address.0.saturating_sub(self.back_bytes()))
    }

    /// Returns the offset by which the name is looked up.
    pub fn lookup_off(self, off: FileOff) -> FileOff {
        FileOff(off.0.saturating_sub(self.back_bytes()))
    }

    fn back_bytes(self) -> u64 {
        match self {
            Self::Leaf | Self::Interrupted => 0,
            Self::Return => 1,
        }
    }
}

/// A piece of code, the same for all processes that run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeLocation {
    /// In an image, a position in [`Locator::images`].
    Image(u32, FileOff),
    /// At an address in the kernel of the part with this number.
    Kernel(u32, Avma),
    /// In JIT code: a position in [`Tables::jit`], and a position among its lines; `u32::MAX` if no line holds it.
    Jit(u32, u32),
    /// Code of an interpreter that was gone when its name was read.
    Gone,
    /// In no mapping of its process.
    Unmapped,
    /// Unknown: a block with this frame, or with the rest of the stack, is missing.
    Lost,
}

/// One frame of a stack on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its node, a stack id.
    pub node: u32,
    /// The position of the node among all loaded nodes; `None` if its block is missing.
    pub position: Option<usize>,
    /// Its code; `None` if its block is missing. Then no step follows.
    pub location: Option<Location>,
    /// Leaf, return address or interrupted instruction.
    pub role: Role,
    /// Further facts about the frame.
    pub mark: Mark,
}

/// The most frames that are shown of a stack: machine frames, and as many functions that interpreters run.
const MAX_STEPS: usize = 2 * limits::MAX_FRAMES as usize;

/// Lists the frames of a stack, leaf first.
pub fn steps(tables: &Tables, stack: u32) -> impl Iterator<Item = Step> + '_ {
    let mut next = stack;
    std::iter::from_fn(move || {
        if next == 0 {
            return None;
        }
        let (position, node) = tables.nodes.find_at(next).unzip();
        let mark = tables.mark(next);
        let location = node.map(|n| n.location);
        let role = match mark.has(Mark::INTERRUPTED) {
            _ if next == stack => Role::Leaf,
            true => Role::Interrupted,
            // An interpreter keeps the instruction that calls, and not the one after it.
            false if location.is_some_and(|it| it.interpreted().is_some()) => Role::Interrupted,
            false => Role::Return,
        };
        let step = Step { node: next, position, location, role, mark };
        next = node.map_or(0, |n| n.parent);
        Some(step)
    })
    .take(MAX_STEPS)
}

/// Lists the machine frames of a stack, leaf first: as [`steps`], without the functions that interpreters run.
pub fn machine_steps(tables: &Tables, stack: u32) -> impl Iterator<Item = Step> + '_ {
    let machine = steps(tables, stack).filter(|step| !step.is_interpreted());
    machine.enumerate().map(|(at, step)| match at {
        // The leaf of the machine may run functions of an interpreter.
        0 => Step { role: Role::Leaf, mark: step.mark.without(Mark::INTERRUPTED), ..step },
        _ => step,
    })
}

impl Step {
    /// Returns true if it is a function that an interpreter runs.
    pub fn is_interpreted(&self) -> bool {
        self.location.is_some_and(|location| location.interpreted().is_some())
    }
}

/// Converts the kind of an image. A kind that this version does not know counts as no file.
fn kind(recorded: ImageKind) -> Kind {
    match recorded {
        ImageKind::FILE => Kind::File,
        ImageKind::ANONYMOUS => Kind::Anonymous,
        ImageKind::VDSO => Kind::Vdso,
        _ => Kind::Special,
    }
}

/// Marks files that replaced each other: on one device, they have the same path, size and time. (One path may lead to equal files on
/// many devices, as in containers of one image.)
fn mark_doubles(images: &mut [Identity]) {
    let mut alike: Map<(&str, u64, u64, u64), Vec<usize>> = Map::default();
    for (position, image) in images.iter().enumerate() {
        if let Some(inode) = image.inode {
            let key = (&*image.path, image.size_bytes, image.modified_unix_ns, inode.device);
            alike.entry(key).or_default().push(position);
        }
    }
    let doubles: Vec<usize> = alike.into_values().filter(|alike| alike.len() > 1).flatten().collect();
    doubles.into_iter().for_each(|position| images[position].has_double = true);
}

/// Finds places.
#[derive(Debug)]
pub struct Locator<'a> {
    /// The recording as tables.
    pub tables: &'a Tables,
    spaces: &'a Spaces,
    /// Distinct identities of images.
    pub images: Vec<Identity>,
    /// Position in `images` by image id.
    image_of: Map<u32, u32>,
}

impl<'a> Locator<'a> {
    /// Prepares the images; images that were recorded twice become one. Of an image with a build-id, other recorders did not always know
    /// more: size and time are those of the first row that has them.
    pub fn new(tables: &'a Tables, spaces: &'a Spaces) -> Self {
        let (mut keys, mut images) = (Interned::new(), Vec::<Identity>::new());
        let image_of = tables.images.iter().map(|(id, image)| {
            let is_inode_known = image.kind == ImageKind::FILE && image.inode != 0;
            let identity = Identity {
                kind: kind(image.kind),
                path: tables.text(image.path).to_owned(),
                build_id: image.build_id.clone(),
                size_bytes: image.size_bytes,
                modified_unix_ns: image.modified_unix_ns,
                inode: is_inode_known.then_some(Inode { device: image.dev, number: image.inode }),
                has_double: false,
            };
            // Without its inode, nothing distinguishes a file from others with its build-id, which anybody can write.
            let key = if !identity.build_id.is_empty() && identity.inode.is_none() {
                Identity { size_bytes: 0, modified_unix_ns: 0, ..identity.clone() }
            } else {
                identity.clone()
            };
            let position = keys.intern(key);
            match images.get_mut(position as usize) {
                Some(known) if known.size_bytes == 0 => *known = identity,
                Some(_) => {}
                None => images.push(identity),
            }
            (id, position)
        });
        let image_of = image_of.collect();
        mark_doubles(&mut images);
        Self { tables, spaces, images, image_of }
    }

    /// Returns the files of images that travel with the recording.
    pub fn embedded<'r>(&self, recording: &'r Recording) -> EmbeddedFiles<'r>
    where
        'a: 'r,
    {
        let identity = |id| self.image(id).map(|image| &self.images[image as usize]);
        EmbeddedFiles::new(recording, self.tables, identity)
    }

    /// Lists the frames of a user stack that are shown, leaf first.
    pub fn shown(&self, stack: u32) -> impl Iterator<Item = Step> + '_ {
        let mut is_run = false;
        steps(self.tables, stack).filter(move |step| {
            let is_hidden = is_run && !step.is_interpreted() && !self.tables.shows_evaluators;
            is_run = step.is_interpreted();
            !is_hidden && !self.is_folded(step)
        })
    }

    /// Returns true if a frame is not shown, but counted to its caller. A guess stays, because what it is called by may be wrong.
    fn is_folded(&self, step: &Step) -> bool {
        let is_folded = step.position.is_some_and(|at| self.tables.folded.get(at) == Some(&true));
        is_folded && !step.mark.has(Mark::GUESSED)
    }

    /// Finds the position in [`Locator::images`] of an image id.
    pub fn image(&self, id: u32) -> Option<u32> {
        self.image_of.get(&id).copied()
    }

    /// Finds the image at an address, a position in [`Locator::images`] if its block is there, and the offset in it; `None` if no
    /// mapping holds the address.
    pub(crate) fn mapped(&self, space: SpaceId, address: Avma) -> Option<(Option<u32>, FileOff)> {
        let mapping = self.spaces.find(space, address)?;
        Some((self.image(mapping.image), offset_in(mapping, address)))
    }

    /// Finds the offset in its image of a location, without regard to its role.
    pub fn file_off(&self, space: Option<SpaceId>, location: Location) -> Option<FileOff> {
        match location {
            Location::Image { file_off, .. } => Some(FileOff(file_off)),
            Location::Address(address) => {
                let address = Avma(address);
                Some(offset_in(self.spaces.find(space?, address)?, address))
            }
        }
    }

    /// Finds the address of a frame; `None` if no known mapping shows its code.
    pub fn address(&self, space: Option<SpaceId>, step: Step) -> Option<u64> {
        match step.location? {
            location @ Location::Address(_) => location.address(),
            Location::Image { image, file_off } => {
                let lookup = step.role.lookup_off(FileOff(file_off));
                let address = self.spaces.address(space?, image, lookup)?;
                Some(address.0 + (file_off - lookup.0))
            }
        }
    }

    /// Returns true if a frame ran in memory without a file that had the bytes of its image: its program has moved the code.
    pub fn is_moved(&self, space: Option<SpaceId>, step: Step) -> bool {
        let address = space.and_then(|space| Some((space, self.address(Some(space), step)?)));
        let mapping =
            address.and_then(|(space, address)| self.spaces.find(space, step.role.lookup(Avma(address))));
        mapping.is_some_and(|mapping| mapping.origin == Origin::MOVED)
    }

    /// Finds the place of a frame of a user stack.
    pub fn user(&self, space: Option<SpaceId>, step: Step) -> CodeLocation {
        if let Some(address) = step.location.and_then(Location::interpreted) {
            return self.code_place(space, Avma(address)).unwrap_or(CodeLocation::Gone);
        }
        let (image, off) = match step.location {
            None => return CodeLocation::Lost,
            Some(Location::Image { image, file_off }) => (image, step.role.lookup_off(FileOff(file_off))),
            Some(Location::Address(address)) => {
                let lookup = step.role.lookup(Avma(address));
                let mapping = space.and_then(|space| self.spaces.find(space, lookup));
                if let Some(place) = self.jit_names(space, mapping, lookup) {
                    return place;
                }
                match mapping {
                    Some(mapping) => (mapping.image, offset_in(mapping, lookup)),
                    None => return CodeLocation::Unmapped,
                }
            }
        };
        self.image_of.get(&image).map_or(CodeLocation::Lost, |image| CodeLocation::Image(*image, off))
    }

    /// Finds the piece of JIT code at an address, and its position in [`Tables::jit`].
    pub(crate) fn made(&self, space: SpaceId, address: Avma) -> Option<(usize, &JitCode)> {
        let position = self.spaces.code(space, address)?;
        Some((position, self.tables.jit.get(position)?))
    }

    /// Finds the place of JIT code at an address, unless the mapping there shows a file.
    fn jit_names(
        &self,
        space: Option<SpaceId>,
        mapping: Option<&Mapping>,
        address: Avma,
    ) -> Option<CodeLocation> {
        let place = self.code_place(space, address)?;
        let image = mapping.and_then(|mapping| self.images.get(self.image(mapping.image)? as usize));
        let is_memory = image.is_none_or(|image| image.kind == Kind::Anonymous);
        is_memory.then_some(place)
    }

    /// Finds the named piece of code that its process has reported at an address.
    fn code_place(&self, space: Option<SpaceId>, address: Avma) -> Option<CodeLocation> {
        let code = self.spaces.code(space?, address)?;
        // Of code without a name only the unwind tables are known.
        let row = self.tables.jit.get(code).filter(|row| !row.name.is_empty())?;
        let line = row.line_at(address.0).map_or(u32::MAX, |line| line as u32);
        Some(CodeLocation::Jit(code as u32, line))
    }

    /// Finds the place of a frame of a kernel stack.
    pub fn kernel(&self, step: Step) -> CodeLocation {
        kernel_place(self.tables, step)
    }
}

/// Finds the place of a frame of a kernel stack.
pub(crate) fn kernel_place(tables: &Tables, step: Step) -> CodeLocation {
    match step.location {
        Some(Location::Address(address)) => {
            CodeLocation::Kernel(tables.parts.of_node(step.node), step.role.lookup(Avma(address)))
        }
        _ => CodeLocation::Lost,
    }
}

#[cfg(test)]
mod tests;
