//! Unwinds stacks from registers and a copy of stack memory, by the unwind tables (CFI) of images: docs/UNWINDING.md.
//!
//! ```text
//! pc ─► image, SVMA ─► row: cache, or ─► index ─► tables ─► CFA, return address, registers of the caller ─► pc …
//!       (Modules)                        (UnwindTables)    (StackMemory)
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `registers` | registers of a frame, each known or not |
//! | `tables`, `index` | unwind tables of one image: sections, functions by address |
//! | `row`, `cache` | the rules of one address, compact; the ones that were used last |
//! | `engine` | the loop: one frame after the other |
//! | `full`, `expression` | rules that do not fit a compact row |
//! | `without_tables` | code without unwind tables: stubs, link register, frame pointer |
//! | `growth` | checks that stacks grow |
//!
//! The library opens no file, knows no recording, and allocates nothing per frame. Its input is hostile: every loop is bounded, and
//! every input leads to an [`End`].
//!
//! # Example
//! A stack of code that keeps frame pointers and has no tables:
//! ```
//! use icecore_elf::{Avma, Svma};
//! use icecore_unwind::{By, Limits, Machine, Miss, Modules, ModuleAddress, Registers, StackMemory, Unwinder};
//!
//! /// Words from address 0x7000 on.
//! struct Stack(&'static [u64]);
//! impl StackMemory for Stack {
//!     fn read_u64(&self, address: Avma) -> Result<u64, Miss> {
//!         let word = address.0.checked_sub(0x7000).ok_or(Miss::Elsewhere)? / 8;
//!         self.0.get(word as usize).copied().ok_or(Miss::Beyond)
//!     }
//! }
//!
//! /// One image, whose code lies from 0x1000 on.
//! struct Process;
//! impl Modules for Process {
//!     fn find(&self, address: Avma) -> Option<ModuleAddress<'_>> {
//!         let at = Svma(address.0);
//!         (0x1000..0x2000).contains(&at.0).then_some(ModuleAddress { module: Some(0), at, tables: None })
//!     }
//! }
//!
//! let rbp = Some(0x7008);
//! let (sp, pc) = (Avma(0x7000), Avma(0x1234));
//! let registers = Registers::known(Machine::X86_64, sp, pc, |register| rbp.filter(|_| register == 6));
//! // A local, the caller's frame pointer, a return address; and the same of the caller, which is the outermost.
//! let stack = Stack(&[42, 0x7018, 0x1567, 0, 0, 0]);
//! let mut frames = Vec::new();
//! let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
//! unwinder.unwind(registers, &stack, &Process, &mut frames);
//! let found: Vec<(Avma, By)> = frames.iter().map(|frame| (frame.address, frame.by)).collect();
//! assert_eq!(found, [(pc, By::Registers), (Avma(0x1567), By::FramePointer)]);
//! assert!(By::FramePointer.is_guess(), "nothing proves that the code keeps frame pointers");
//! ```

mod cache;
mod code;
mod compact_row;
mod engine;
mod expression;
mod full;
mod growth;
mod index;
mod registers;
mod tables;
mod without_tables;

pub use code::{CallersFp, Edge, Shape};
pub use engine::{GoingOn, Unwinder};
pub use icecore_elf::Machine;
pub use registers::Registers;
pub use tables::{UnwindSections, UnwindTables};

use icecore_elf::{Avma, Svma};

/// The default limit of frames.
pub const MAX_FRAMES: usize = 1024;

/// Limits of one stack, and the bits of addresses that the recorded machine changes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most frames of a stack.
    pub frames: usize,
    /// Bits of a return address that are no part of the address ([`Machine::signature_bits`]).
    pub not_address: u64,
}

impl Limits {
    /// The defaults: [`MAX_FRAMES`], and the bits that the machine signs.
    pub fn new(machine: Machine) -> Self {
        Self { frames: MAX_FRAMES, not_address: machine.signature_bits() }
    }

    /// Returns the return address that a word holds.
    #[inline]
    fn address(&self, word: u64) -> Avma {
        Avma(word & !self.not_address)
    }
}

/// The stack memory that was copied with a sample.
pub trait StackMemory {
    /// Reads 8 bytes, little-endian.
    ///
    /// # Errors
    /// Why they are missing.
    fn read_u64(&self, address: Avma) -> Result<u64, Miss>;
}

/// Why memory is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// It belongs to the stack, but the copy ended before it: a longer copy would hold it.
    Beyond,
    /// It does not belong to the stack, or could not be read when the sample was taken.
    Elsewhere,
    /// It was copied, but held no address (a number, or zero), so it was not stored.
    NoAddress,
}

/// The code of a process at the time of a sample.
pub trait Modules {
    /// Finds the place at an address; `None` if no executable memory is there.
    fn find(&self, address: Avma) -> Option<ModuleAddress<'_>>;

    /// Returns true if machine code shows a call before an address; `None` if the code is not available.
    fn is_behind_call(&self, _address: Avma) -> Option<bool> {
        None
    }

    /// Returns how many bytes above the stack pointer the return address of a known piece of code without unwind tables lies, given
    /// a return address into that code.
    fn known_frame(&self, _return_address: Avma) -> Option<u64> {
        None
    }

    /// Returns true if the code shows that nothing called the function of a return address: the address follows a call in the first
    /// instructions of a program or thread.
    fn is_start(&self, _return_address: Avma) -> bool {
        false
    }

    /// Judges whether the code before a return address can have called the function at another address. If the return address may
    /// begin a stack, no call need precede it.
    fn edge(&self, _return_address: Avma, _callee: Avma, _may_begin: bool) -> Edge {
        Edge::Unknown
    }

    /// Derives the frame of a function at a program counter from its code; `None` if the code is not available, or its beginning is
    /// unknown.
    fn shape(&self, _pc: Avma, _is_interrupted: bool) -> Option<Shape> {
        None
    }

    /// Returns false if the code at an address is not available, so that nothing has a [`Self::shape_behind`] there.
    fn has_code(&self, _address: Avma) -> bool {
        true
    }

    /// Derives the frame of the function that a direct call before a return address enters; `None` also if the program counter is
    /// in another function.
    fn shape_behind(&self, _return_address: Avma, _pc: Avma, _is_interrupted: bool) -> Option<Shape> {
        None
    }
}

/// Code at an address.
#[derive(Debug, Clone, Copy)]
pub struct ModuleAddress<'t> {
    /// The image, by a number that identifies its tables as long as the [`Unwinder`] lives; `None` for code that is in no file.
    pub module: Option<u32>,
    /// The address in the image.
    pub at: Svma,
    /// The unwind tables of the image; `None` if there are none, or the image was not found.
    pub tables: Option<&'t UnwindTables<'t>>,
}

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The program counter: the return address as it was found, without its signature.
    pub address: Avma,
    /// The stack pointer when this frame continues: for all but the first, the CFA of the frame before. Two samples of a thread
    /// with the same address and stack pointer have the same frames from there on.
    pub sp: Avma,
    /// How it was found.
    pub by: By,
}

impl Frame {
    /// Returns true if the address is that of an interrupted instruction. Otherwise the address follows a call and may already
    /// belong to the next function: the call is one byte earlier.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        matches!(self.by, By::Registers | By::Signal)
    }

    /// Returns the address by which the function is looked up.
    #[inline]
    pub fn lookup(&self) -> Avma {
        lookup(self.address, self.is_interrupted())
    }
}

/// Returns the address by which the function of a program counter is looked up: a return address may already belong to the next
/// function.
#[inline]
pub fn lookup(pc: Avma, is_interrupted: bool) -> Avma {
    pc.wrapping_sub(u64::from(!is_interrupted))
}

/// How a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// It is the first frame; its registers come with the sample.
    Registers,
    /// Unwind tables of the frame before.
    Tables,
    /// Unwind tables of the frame before, which the kernel made for a signal: the signal interrupted this frame.
    Signal,
    /// The code: the stack of a program or thread begins with this return address, a few words above the frame before, which has no
    /// unwind tables.
    Start,
    /// Any of the above, together with the code: no call precedes the address, which is the first one of a function. A program put
    /// it there to begin a stack.
    Begun,
    /// The frame pointer: the frame before has no unwind tables.
    FramePointer,
    /// The link register: the frame before is the first one and has no unwind tables.
    LinkRegister,
    /// The top of the stack: the frame before is the first one and has no unwind tables, as PLT stubs and assembly.
    TopOfStack,
    /// The code of the frame before, which has no unwind tables: its instructions show where its return address is.
    Proven,
}

impl By {
    /// Returns true for a guess: nothing proves that this function called the frame before.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::FramePointer | Self::LinkRegister | Self::TopOfStack)
    }
}

/// Why a stack has no more frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The outermost frame: the tables declare no return address, or it is zero.
    Root,
    /// Unwinding needs memory of the stack that was not copied.
    LeftSnapshot,
    /// Unwinding needs memory that is not part of the stack, or could not be read.
    Unreadable,
    /// The last frame has no unwind tables, and neither a frame pointer nor anything else leads on.
    NoTables(Option<u32>),
    /// The unwind tables of the last frame are malformed, or need a register that they declare lost.
    BadTables(Option<u32>),
    /// The return address of the last frame is in no executable memory, or is no address.
    Unmapped,
    /// The stack has as many frames as the limit allows.
    Depth,
    /// The stack would not grow: the tables put the caller of the last frame deeper in the stack than the frame itself.
    NotGrowing,
}

impl From<Miss> for End {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Beyond => Self::LeftSnapshot,
            Miss::Elsewhere => Self::Unreadable,
            Miss::NoAddress => Self::Unmapped,
        }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
