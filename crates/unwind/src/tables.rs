//! Holds the unwind tables of one image, and finds the rules of an address.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::{BaseAddresses, DebugFrame, EhFrame, Encoding, LittleEndian, UnwindSection, Vendor};

use icecore_elf::go::Kind;
use icecore_elf::{Machine, Svma};

use super::index::{self, Functions, Index, Slice};

/// Sections of one image, as [`UnwindTables`] need them. A missing section is empty.
#[derive(Debug, Clone)]
pub struct UnwindSections<'d> {
    /// The machine of the code.
    pub machine: Machine,
    /// `.eh_frame`. It may be followed by other bytes if `.eh_frame_hdr` is there: the section marks its own end.
    pub eh_frame: &'d [u8],
    /// The address of `.eh_frame`; see [`eh_frame_at`](icecore_elf::eh_frame_at).
    pub eh_frame_at: Svma,
    /// `.eh_frame_hdr`.
    pub eh_frame_hdr: &'d [u8],
    /// The address of `.eh_frame_hdr`.
    pub eh_frame_hdr_at: Svma,
    /// `.debug_frame`, decompressed; of the image or its debug file.
    pub debug_frame: &'d [u8],
    /// Entries made from Go's own tables ([`icecore_elf::go`]), after their common part.
    pub of_go: &'d [u8],
    /// The address of `.text`, if there is one.
    pub text: Option<Svma>,
    /// The address of `.got`, if there is one.
    pub got: Option<Svma>,
    /// The sections of PLT stubs: those whose names begin with `.plt`.
    pub stubs: Vec<Range<Svma>>,
}

impl<'d> UnwindSections<'d> {
    /// Makes sections of the entries of an `.eh_frame` alone, which lies at 0.
    pub fn of_entries(machine: Machine, eh_frame: &'d [u8]) -> Self {
        Self {
            machine,
            eh_frame,
            eh_frame_at: Svma(0),
            eh_frame_hdr: &[],
            eh_frame_hdr_at: Svma(0),
            debug_frame: &[],
            of_go: &[],
            text: None,
            got: None,
            stubs: Vec::new(),
        }
    }
}

/// Storage for evaluating rules: 64 registers; up to seven nested `DW_CFA_remember_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage;

impl gimli::UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, gimli::RegisterRule<usize>); 64];
    type Stack = Box<[gimli::UnwindTableRow<usize, Self>; 8]>;
}

pub(super) type Context = gimli::UnwindContext<usize, Storage>;
pub(super) type GimliRow = gimli::UnwindTableRow<usize, Storage>;

/// The unwind tables of one image. Bytes are borrowed; one index serves all threads.
#[derive(Debug)]
pub struct UnwindTables<'d> {
    machine: Machine,
    bases: BaseAddresses,
    eh_frame: EhFrame<Slice<'d>>,
    eh_frame_at: Svma,
    functions: Index<'d>,
    debug_frame: DebugFrame<Slice<'d>>,
    /// Built at the first lookup that `.eh_frame` does not answer.
    debug_functions: OnceLock<Functions>,
    of_go: DebugFrame<Slice<'d>>,
    functions_of_go: Functions,
    stubs: Vec<Range<Svma>>,
    /// Tables that are searched if these do not cover an address.
    more: Option<Box<UnwindTables<'d>>>,
}

/// The rules of one address, as the tables have them.
pub(super) struct Full<'c, 'd> {
    pub(super) row: &'c GimliRow,
    /// The register number of the return address.
    pub(super) return_column: u16,
    /// The kernel made the frame, so its caller was interrupted.
    pub(super) is_signal: bool,
    /// The section to which offsets of expressions refer.
    pub(super) section: &'d [u8],
    pub(super) encoding: Encoding,
    /// What Go says of the function, if the entry was made from Go's tables.
    pub(super) of_go: Option<Kind>,
}

/// Unwind tables cover the address, but are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl<'d> UnwindTables<'d> {
    /// Prepares the sections of an image.
    ///
    /// # Cost  O(rows of `.eh_frame_hdr`); one pass over `.eh_frame` where that is missing or not in order
    pub fn new(sections: UnwindSections<'d>) -> Self {
        let eh_frame_at = sections.eh_frame_at;
        let mut bases =
            BaseAddresses::default().set_eh_frame(eh_frame_at.0).set_eh_frame_hdr(sections.eh_frame_hdr_at.0);
        bases = sections.text.map_or(bases.clone(), |text| bases.set_text(text.0));
        bases = sections.got.map_or(bases.clone(), |got| bases.set_got(got.0));
        let vendor = match sections.machine {
            Machine::X86_64 => Vendor::Default,
            Machine::Aarch64 => Vendor::AArch64,
        };
        let mut eh_frame = EhFrame::new(sections.eh_frame, LittleEndian);
        eh_frame.set_address_size(8);
        eh_frame.set_vendor(vendor);
        let mut debug_frame = DebugFrame::new(sections.debug_frame, LittleEndian);
        debug_frame.set_address_size(8);
        debug_frame.set_vendor(vendor);
        let mut of_go = DebugFrame::new(sections.of_go, LittleEndian);
        of_go.set_address_size(8);
        of_go.set_vendor(vendor);
        let functions_of_go = Functions::of(&of_go, &bases);
        let functions = Index::of_header(sections.eh_frame_hdr, sections.eh_frame_hdr_at, eh_frame_at)
            .unwrap_or_else(|| Index::Own(Functions::of(&eh_frame, &bases)));
        Self {
            machine: sections.machine,
            bases,
            eh_frame,
            eh_frame_at,
            functions,
            debug_frame,
            debug_functions: OnceLock::new(),
            of_go,
            functions_of_go,
            stubs: sections.stubs,
            more: None,
        }
    }

    /// Adds tables of the same image, which are searched if these do not cover an address.
    pub fn with_more(self, more: Self) -> Self {
        Self { more: Some(Box::new(more)), ..self }
    }

    /// The instruction set.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Returns true if an address lies in a PLT stub.
    pub(super) fn is_stub(&self, at: Svma) -> bool {
        let is_here = self.stubs.iter().any(|stubs| stubs.contains(&at));
        is_here || self.more.as_ref().is_some_and(|more| more.is_stub(at))
    }

    /// Returns true if unwind tables cover an address.
    pub fn describes(&self, at: Svma) -> bool {
        self.function(at).is_some()
    }

    /// Returns true if an address lies in a signal trampoline, a function that the kernel calls for signals.
    pub fn is_trampoline(&self, at: Svma) -> bool {
        self.function(at).is_some_and(|fde| fde.is_signal_trampoline())
    }

    /// Returns true if an address is the first of a signal trampoline.
    pub(super) fn begins_trampoline(&self, at: Svma) -> bool {
        let is_it = |fde: Fde<'_>| fde.is_signal_trampoline() && fde.initial_address() == at.0;
        self.function(at).is_some_and(is_it)
    }

    /// Returns true if an address is the first of a function.
    pub(super) fn begins_function(&self, at: Svma) -> bool {
        self.function(at).is_some_and(|fde| fde.initial_address() == at.0)
    }

    /// Finds the description of the function that covers an address.
    fn function(&self, at: Svma) -> Option<Fde<'d>> {
        let in_eh_frame = self.functions.find(self.eh_frame_at, at);
        in_eh_frame.and_then(|off| fde(&self.eh_frame, &self.bases, off, at)).or_else(|| {
            let off = self.functions_of_go.find(at);
            let of_go = off.and_then(|off| fde(&self.of_go, &self.bases, off, at));
            let off = self.debug_functions().find(at);
            let here = off.and_then(|off| fde(&self.debug_frame, &self.bases, off, at));
            of_go.or(here).or_else(|| self.more.as_ref()?.function(at))
        })
    }

    fn debug_functions(&self) -> &Functions {
        self.debug_functions.get_or_init(|| Functions::of(&self.debug_frame, &self.bases))
    }

    /// Returns the addresses of the function that covers an address.
    pub fn extent(&self, at: Svma) -> Option<Range<Svma>> {
        let fde = self.function(at)?;
        Some(Svma(fde.initial_address())..Svma(fde.initial_address().saturating_add(fde.len())))
    }

    /// Returns true if a function can be called at its first address: it has no frame there yet. A part of a function that
    /// compilers put elsewhere begins in the middle of a frame.
    ///
    /// # Cost   evaluates rules, with its own storage
    pub fn is_entry(&self, start: Svma) -> bool {
        let at_entry = self.machine.cfa_at_entry();
        let sp = gimli::Register(self.machine.sp().into());
        let mut context = Context::new_in();
        let Ok(Some(full)) = self.find(start, &mut context) else { return true };
        matches!(full.row.cfa(), gimli::CfaRule::RegisterAndOffset { register, offset } if *register == sp && *offset == at_entry)
    }

    /// Finds the rules of an address: in `.eh_frame`, else in the entries made from Go's tables, else in `.debug_frame`, else in
    /// the added tables; `None` if none covers it.
    ///
    /// # Errors
    /// [`Broken`] if the entry of the function is malformed.
    pub(super) fn find<'c>(
        &self,
        at: Svma,
        context: &'c mut Context,
    ) -> Result<Option<Full<'c, 'd>>, Broken> {
        if let Some(off) = self.functions.find(self.eh_frame_at, at)
            && let Some(fde) = fde(&self.eh_frame, &self.bases, off, at)
        {
            return full(&self.eh_frame, &self.bases, &fde, at, context).map(Some);
        }
        if let Some(fde) =
            self.functions_of_go.find(at).and_then(|off| fde(&self.of_go, &self.bases, off, at))
        {
            let full = full(&self.of_go, &self.bases, &fde, at, context)?;
            return Ok(Some(Full { of_go: Kind::at(fde.cie().offset()), ..full }));
        }
        let section = &self.debug_frame;
        match self.debug_functions().find(at).and_then(|off| fde(section, &self.bases, off, at)) {
            Some(fde) => full(section, &self.bases, &fde, at, context).map(Some),
            None => self.more.as_ref().map_or(Ok(None), |more| more.find(at, context)),
        }
    }
}

type Fde<'d> = gimli::FrameDescriptionEntry<Slice<'d>>;

/// Reads the description at an offset, if its function covers an address.
fn fde<'d, S: UnwindSection<Slice<'d>>>(
    section: &S,
    bases: &BaseAddresses,
    off: usize,
    at: Svma,
) -> Option<Fde<'d>> {
    index::read(section, bases, off, &mut None).filter(|fde| fde.contains(at.0))
}

fn full<'c, 'd, S: UnwindSection<Slice<'d>>>(
    section: &S,
    bases: &BaseAddresses,
    fde: &Fde<'d>,
    at: Svma,
    context: &'c mut Context,
) -> Result<Full<'c, 'd>, Broken> {
    let row = fde.unwind_info_for_address(section, bases, context, at.0).map_err(|_| Broken)?;
    Ok(Full {
        row,
        return_column: fde.cie().return_address_register().0,
        is_signal: fde.is_signal_trampoline(),
        section: section.section().slice(),
        encoding: fde.cie().encoding(),
        of_go: None,
    })
}
