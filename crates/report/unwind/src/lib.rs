//! Makes a stack of registers and a copy of stack memory, by the unwind tables (CFI) of images: docs/UNWINDING.md.
//!
//! ```text
//! pc ─► image, SVMA ─► row: cache, or ─► index ─► rules ─► CFA, return address, registers of the caller ─► pc …
//!       (Modules)                        (UnwindTables)    (StackMemory)
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `registers` | registers of a frame, each known or not |
//! | `tables`, `index` | rules of one image: sections, functions by address |
//! | `row`, `cache` | rules of one address, compact; the ones that were used last |
//! | `engine` | the loop: one frame after the other |
//! | `full`, `expression` | rules that do not fit a compact row |
//! | `without_rules` | code without rules: stubs, link register, frame pointer |
//! | `growth` | stacks grow; what else may happen to a CFA |
//!
//! The room opens no file, knows no recording, and allocates nothing per frame. What it reads is hostile: every loop
//! is bounded, and whatever it is given ends with an [`End`].
//!
//! # Example
//! A stack of code that keeps frame pointers and has no tables:
//! ```
//! use icecore_elf::Svma;
//! use icecore_unwind::{By, Limits, Machine, Miss, Modules, Place, Registers, StackMemory, Unwinder};
//!
//! /// Words from address 0x7000 on.
//! struct Stack(&'static [u64]);
//! impl StackMemory for Stack {
//!     fn read_u64(&self, address: u64) -> Result<u64, Miss> {
//!         let word = address.checked_sub(0x7000).ok_or(Miss::Elsewhere)? / 8;
//!         self.0.get(word as usize).copied().ok_or(Miss::Beyond)
//!     }
//! }
//!
//! /// One image, whose code lies from 0x1000 on.
//! struct Process;
//! impl Modules for Process {
//!     fn find(&self, address: u64) -> Option<Place<'_>> {
//!         (0x1000..0x2000).contains(&address).then_some(Place { module: Some(0), at: Svma(address), tables: None })
//!     }
//! }
//!
//! let rbp = Some(0x7008);
//! let registers = Registers::known(Machine::X86_64, 0x7000, 0x1234, |register| rbp.filter(|_| register == 6));
//! // A local, the caller's frame pointer, a return address; and the same of the caller, which is the outermost.
//! let stack = Stack(&[42, 0x7018, 0x1567, 0, 0, 0]);
//! let mut frames = Vec::new();
//! let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
//! unwinder.unwind(registers, &stack, &Process, &mut frames);
//! let found: Vec<(u64, By)> = frames.iter().map(|frame| (frame.address, frame.by)).collect();
//! assert_eq!(found, [(0x1234, By::Registers), (0x1567, By::FramePointer)]);
//! assert!(By::FramePointer.is_guess(), "nothing proves that the code keeps frame pointers");
//! ```

mod cache;
mod code;
mod engine;
mod expression;
mod full;
mod growth;
mod index;
mod registers;
mod row;
mod tables;
mod without_rules;

pub use code::{CallersFp, Edge, Shape};
pub use engine::{GoingOn, Unwinder};
pub use icecore_elf::Machine;
pub use registers::Registers;
pub use tables::{UnwindSections, UnwindTables};

use icecore_elf::Svma;

/// The most frames of a stack, if nothing else is asked for.
pub const MAX_FRAMES: usize = 1024;

/// Bounds of one stack, and what the machine of the recording does to addresses.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most frames of a stack.
    pub frames: usize,
    /// Bits of a return address that are no part of the address ([`Machine::signature_bits`]).
    pub not_address: u64,
}

impl Limits {
    /// The limits of stacks of a machine: [`MAX_FRAMES`], and the bits that it signs.
    pub fn new(machine: Machine) -> Self {
        Self { frames: MAX_FRAMES, not_address: machine.signature_bits() }
    }
}

/// The stack memory that was captured with a sample.
pub trait StackMemory {
    /// Reads 8 bytes, little-endian.
    ///
    /// # Errors
    /// Why they are not there.
    fn read_u64(&self, address: u64) -> Result<u64, Miss>;
}

/// Why memory is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// It belongs to the stack, but the copy ended before: a longer copy would hold it.
    Beyond,
    /// It does not belong to the stack, or could not be read when the sample was taken.
    Elsewhere,
    /// It was copied and held no address, so it was not kept: a number, or zero.
    NoAddress,
}

/// The code of a process at the time of a sample.
pub trait Modules {
    /// Finds what is at an address (AVMA); `None` if no executable memory is.
    fn find(&self, address: u64) -> Option<Place<'_>>;

    /// Tells from machine code whether a call stands in front of an address; `None` if the code is not at hand.
    fn is_behind_call(&self, _address: u64) -> Option<bool> {
        None
    }

    /// Tells of a return address into code that is known without rules how far above the stack pointer the return address of
    /// that code lies, bytes.
    fn known_frame(&self, _return_address: u64) -> Option<u64> {
        None
    }

    /// Tells of a return address whether the code shows that nothing called its function: it lies behind a call in the first
    /// instructions of a program, or of a thread.
    fn is_start(&self, _return_address: u64) -> bool {
        false
    }

    /// Judges whether the code in front of a return address can have called the function at another address. If it may begin a
    /// stack, no call need be there.
    fn edge(&self, _return_address: u64, _callee: u64, _may_begin: bool) -> Edge {
        Edge::Unknown
    }

    /// Reads from the code of a function what its frame is at a program counter; `None` if its code is not at hand, or it
    /// cannot be told where it begins.
    fn shape(&self, _pc: u64, _is_interrupted: bool) -> Option<Shape> {
        None
    }

    /// The same of the function that is called directly in front of a return address; `None` also if the program counter is in another
    /// one.
    fn shape_behind(&self, _return_address: u64, _pc: u64, _is_interrupted: bool) -> Option<Shape> {
        None
    }
}

/// Code at an address.
#[derive(Debug, Clone, Copy)]
pub struct Place<'t> {
    /// The image, by a number that stands for its tables as long as the [`Unwinder`] lives; `None` for code that is in no file.
    pub module: Option<u32>,
    /// The address as the image has it.
    pub at: Svma,
    /// Rules of the image; `None` if there are none, or the image could not be found.
    pub tables: Option<&'t UnwindTables<'t>>,
}

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The program counter (AVMA): the return address as it was found, without signature.
    pub address: u64,
    /// The stack pointer when this frame goes on: for all but the first, the CFA of the frame before. Two samples of a thread
    /// with the same address and stack pointer have the same frames from there on.
    pub sp: u64,
    /// How it was found.
    pub by: By,
}

impl Frame {
    /// Tells whether the address is of an instruction that was interrupted. Else it is one behind a call, which may
    /// belong to the next function already: the call is at the address before.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        matches!(self.by, By::Registers | By::Signal)
    }
}

/// How a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// It is the first one, and the sample has its registers.
    Registers,
    /// Unwind tables of the frame before.
    Rules,
    /// Unwind tables of the frame before, which the kernel made for a signal: this one was interrupted by it.
    Signal,
    /// The code: the stack of a program or thread begins with this return address, a few words above the frame before, which
    /// has no rules.
    Start,
    /// Any of the above, and the code: no call stands in front of its address, which is the first one of a function. A program has
    /// put it on the stack, to begin a stack there.
    Begun,
    /// The frame pointer: the frame before has no rules.
    FramePointer,
    /// The link register: the frame before has no rules and is the first one.
    LinkRegister,
    /// The top of the stack: the frame before has no rules and is the first one, a stub of the linker or assembly.
    TopOfStack,
    /// The code of the frame before, which has no rules: its instructions tell where its return address is.
    Proven,
}

impl By {
    /// Tells whether it is a guess: nothing proves that the frame before was called from there.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::FramePointer | Self::LinkRegister | Self::TopOfStack)
    }
}

/// Why a stack has no more frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The outermost frame: rules say that there is no return address, or it is zero.
    Root,
    /// What is needed next lies in the stack, but was not copied.
    LeftSnapshot,
    /// What is needed next lies in memory that is no stack, or could not be read.
    Unreadable,
    /// The last frame lies in code without rules, and neither a frame pointer nor anything else leads on.
    NoRules(Option<u32>),
    /// The rules of the last frame cannot be read, or need what they themselves declare lost.
    BadRules(Option<u32>),
    /// The return address of the last frame is in no executable memory, or no address at all.
    Unmapped,
    /// As many frames as were asked for.
    Depth,
    /// The stack would not grow: by its rules the caller of the last frame is deeper in the stack than the frame itself.
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
