//! Calls in code that was made at run time: what the recorder has read in front of return addresses.
//!
//! ```text
//! readings of one address    ▪ no call   ▪   ▪      ▪ call
//! time                    ───┼───────────────┼──────┼───
//! in front of it      a call │ none          │ a call, whenever one was read
//! ```
//!
//! | in front of the address | says |
//! |---|---|
//! | a direct call, and the callee is in the piece that is called | [`Edge::Calls`] |
//! | any other call: call sites are patched, and builtins jump on | [`Edge::MayCall`] |
//! | no call, whenever it was read and the sample lies in between, and control passes by | [`Edge::Impossible`] |
//! | no call, behind a jump or in front of what may be an entry: interpreters push such addresses, and jump | [`Edge::Unknown`] |
//! | no call, in front of an instruction that may fault: handlers push its address, as for safepoints of Java | [`Edge::Unknown`] |
//! | nothing was read | [`Edge::Unknown`] |

use std::ops::RangeInclusive;

use icecore_format::calls::Before;
use iced_x86::{FlowControl, Mnemonic, OpKind};

use super::{Edge, Judge, aarch64, before, x86_64};
use crate::image::FileOff;
use crate::load::Tables;
use crate::locate::Locator;
use crate::map::Map;
use crate::spaces::{SpaceId, Spaces};
use crate::unwind::Machine;

/// So many zeros are no instruction that goes on.
const ZEROS: [u8; 4] = [0; 4];

/// What was read in front of return addresses.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// By the life of the address space, and address.
    known: Map<(u32, u64), Site>,
}

/// What was read in front of one.
#[derive(Debug, Default)]
struct Site {
    /// A call, if there was one at any time.
    call: Option<Before>,
    /// When no call was there, and whether control passes by.
    none: Vec<(RangeInclusive<u64>, bool)>,
}

/// What lay in front of an address at the time of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    Call(Before),
    /// No call: control comes to the address from the instruction in front of it, and goes on.
    Passed,
    /// No call: the address may be an entry, or that of an instruction that a fault has interrupted.
    Entry,
    Unknown,
}

/// Samples of one address space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) space: SpaceId,
    /// The earliest and latest time, ns.
    pub(crate) span_ns: (u64, u64),
}

impl Sites {
    pub(crate) fn new(tables: &Tables, spaces: &Spaces) -> Self {
        let machine = Machine::of(&tables.session.arch);
        let mut known: Map<(u32, u64), Site> = Map::default();
        for row in &tables.call_sites {
            let Some(life) = spaces.life(row.tgid, row.first_ns) else { continue };
            let site = known.entry((life, row.address)).or_default();
            let found = before(machine, &row.front, row.address);
            if found.is_some() {
                // Where it was patched nothing tells which of them made the call.
                let is_same = site.call.is_none_or(|call| call == found) && site.none.is_empty();
                site.call = Some(if is_same { found } else { Before { direct: None, is_indirect: true } });
            } else {
                if let Some(call) = &mut site.call {
                    *call = Before { direct: None, is_indirect: true };
                }
                let may_be = may_be_entry(machine, &row.front) || may_fault(machine, &row.behind);
                site.none.push((row.first_ns..=row.last_ns, !may_be));
            }
        }
        Self { known }
    }

    fn front(&self, spaces: &Spaces, at: Moment, address: u64) -> Front {
        let site = || self.known.get(&(spaces.life_of(at.space)? as u32, address));
        let Some(site) = (!self.known.is_empty()).then(site).flatten() else { return Front::Unknown };
        if let Some(call) = site.call {
            return Front::Call(call);
        }
        let (first_ns, last_ns) = at.span_ns;
        let during = site.none.iter().find(|(read, _)| read.contains(&first_ns) && read.contains(&last_ns));
        during.map_or(Front::Unknown, |(_, is_passed)| if *is_passed { Front::Passed } else { Front::Entry })
    }
}

impl Locator<'_> {
    /// Tells whether a call stands in front of an address of code made at run time; `None` if it cannot be told.
    pub(crate) fn is_behind_made_call(&self, at: Moment, address: u64) -> Option<bool> {
        match self.sites().front(self.spaces(), at, address) {
            Front::Call(_) => Some(true),
            Front::Passed => Some(false),
            Front::Entry | Front::Unknown => None,
        }
    }

    /// Judges a call in code made at run time, by the return address and an address of the callee: that of an instruction, or of the last byte of
    /// its call. If it may begin a stack, or a frame pointer leads to it, it may be the first byte of a function.
    pub(crate) fn made_edge(
        &self,
        at: Moment,
        return_address: u64,
        callee: u64,
        may_begin: bool,
        files: Option<&dyn Judge>,
    ) -> Edge {
        match self.sites().front(self.spaces(), at, return_address) {
            Front::Call(Before { direct: Some(target), is_indirect: false }) => {
                if self.leads(at.space, target, callee, files) { Edge::Calls } else { Edge::MayCall }
            }
            Front::Call(_) => Edge::MayCall,
            Front::Passed => Edge::Impossible,
            Front::Entry => {
                let made = self.made(at.space, return_address);
                let is_named = made.is_some_and(|made| made.start == return_address);
                if is_named && !may_begin { Edge::Impossible } else { Edge::Unknown }
            }
            Front::Unknown => Edge::Unknown,
        }
    }

    /// Tells whether the target of a call is in the function of the callee.
    fn leads(&self, space: SpaceId, target: u64, callee: u64, files: Option<&dyn Judge>) -> bool {
        if let Some(made) = self.made(space, callee) {
            return (made.start..made.end).contains(&target);
        }
        let place = |address: u64| -> Option<(u32, FileOff)> {
            let mapping = self.mapping(space, address)?;
            let off = FileOff((address - mapping.start).wrapping_add(mapping.file_off));
            Some((self.image(mapping.image)?, off))
        };
        let reaches = || Some(files?.leads(place(target)?, place(callee)?));
        reaches() == Some(true)
    }
}

/// Tells of bytes that are no call whether what follows them may be entered from elsewhere alone: they end a function or a piece of
/// one, are padding, or memory begins behind them. All ways to read them are tried.
fn may_be_entry(machine: Machine, bytes: &[u8]) -> bool {
    if bytes.is_empty() || bytes.ends_with(&ZEROS) {
        return true;
    }
    match machine {
        Machine::Aarch64 => aarch64::ends_block(bytes) || bytes.ends_with(&aarch64::NOP),
        Machine::X86_64 => (0..bytes.len()).any(|begin| {
            let Some(instruction) = x86_64::decode(&bytes[begin..], 0) else { return false };
            let is_whole = instruction.len() == bytes.len() - begin;
            // Behind `hlt` Java has the handlers to which it makes frames return.
            let is_end = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Hlt);
            is_whole && (is_end || leaves(instruction.flow_control()))
        }),
    }
}

/// Tells whether the instruction at the beginning of some bytes may fault: it accesses memory, divides, or is there to fault.
fn may_fault(machine: Machine, bytes: &[u8]) -> bool {
    let Machine::X86_64 = machine else { return true };
    let Some(instruction) = x86_64::decode(bytes, 0) else { return true };
    let is_memory = |kind| (OpKind::MemorySegSI..=OpKind::Memory).contains(&kind);
    let has_memory = instruction.op_kinds().any(is_memory);
    let is_address = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let traps = matches!(instruction.flow_control(), FlowControl::Exception | FlowControl::Interrupt);
    has_memory && !is_address || divides || traps
}

/// Tells whether control does not go on behind an instruction.
fn leaves(flow: FlowControl) -> bool {
    matches!(
        flow,
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
            | FlowControl::Interrupt
    )
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{CallSite, Change, JitCode, Lifecycle};

    use super::*;

    const CODE: u64 = 0x1000_0000;
    /// `add %rax, %rbx` is what control passes.
    const ADD: [u8; 8] = [0x48, 0x01, 0xc3, 0x48, 0x01, 0xc3, 0x48, 0x01];

    fn site(address: u64, first_ns: u64, last_ns: u64, front: &[u8]) -> CallSite {
        CallSite { tgid: 7, address, first_ns, last_ns, front: front.to_vec(), behind: ADD.to_vec() }
    }

    fn piece(start: u64, name: &str) -> JitCode {
        JitCode { tgid: 7, start, end: start + 0x100, name: name.into(), ..JitCode::default() }
    }

    /// Judges a call of an address by one that was read, at a moment; the second program of the process begins at 900.
    fn edge(rows: &[CallSite], at_ns: u64, (return_address, callee): (u64, u64), may_begin: bool) -> Edge {
        let change =
            |time_ns, change| Lifecycle { time_ns, tgid: 7, tid: 7, parent_tgid: 1, change, comm: 0 };
        let changes = [change(1, Change::FOUND), change(900, Change::EXEC)];
        let jit = vec![piece(CODE, "caller"), piece(CODE + 0x100, "callee")];
        let spaces = Spaces::replay_with_code(&changes, &[], &jit);
        let mut tables = Tables { call_sites: rows.to_vec(), jit, ..Tables::default() };
        tables.session.arch = "x86_64".to_owned();
        let locator = Locator::new(&tables, &spaces);
        let space = spaces.space(7, at_ns).expect("it is known");
        locator.made_edge(Moment { space, span_ns: (at_ns, at_ns) }, return_address, callee, may_begin, None)
    }

    #[test]
    fn a_direct_call_of_the_piece_of_the_callee_proves_it_and_any_other_call_may_be_it() {
        let to_callee = [0x90, 0x90, 0x90, 0xe8, 0x00, 0x00, 0x00, 0x00];
        let here = CODE + 0x100 - 0x80;
        let call = |distance: u32| [&to_callee[..4], &distance.to_le_bytes()].concat();
        let of = |bytes: &[u8]| edge(&[site(here, 20, 20, bytes)], 10, (here, CODE + 0x110), false);
        assert_eq!(of(&call(0x80)), Edge::Calls);
        assert_eq!(of(&call(0x180)), Edge::MayCall, "of what is behind the piece");
        assert_eq!(of(&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]), Edge::MayCall);
        let patched = [site(here, 20, 20, &ADD), site(here, 40, 40, &call(0x80))];
        assert_eq!(edge(&patched, 20, (here, CODE + 0x110), false), Edge::MayCall);
        // The next program has its own code.
        assert_eq!(edge(&patched[1..], 901, (here, CODE + 0x110), false), Edge::Unknown);
    }

    #[test]
    fn where_no_call_was_read_before_and_after_a_sample_none_was() {
        let here = CODE + 0x40;
        let rows = [site(here, 20, 50, &ADD)];
        let at = |ns| edge(&rows, ns, (here, CODE + 0x110), false);
        assert_eq!(
            [19, 20, 50, 51].map(at),
            [Edge::Unknown, Edge::Impossible, Edge::Impossible, Edge::Unknown]
        );
    }

    #[test]
    fn what_is_behind_a_jump_may_have_been_pushed() {
        for end in [
            &[0x41, 0xff, 0x24, 0xda][..], // jmp *(%r10,%rbx,8): an interpreter goes on
            &[0xc3],                       // ret
            &[0xf4],                       // hlt
            &[0xcc],                       // int3
            &[0xe9, 1, 2, 3, 4],           // jmp
            &[0x0f, 0x1f, 0x40, 0x00],     // nop: padding
            &[0, 0, 0, 0],
        ] {
            let bytes = [&ADD[..8 - end.len()], end].concat();
            let here = CODE + 0x40;
            let found = edge(&[site(here, 20, 50, &bytes)], 30, (here, CODE + 0x110), false);
            assert_eq!(found, Edge::Unknown, "{bytes:x?}");
        }
        let here = CODE + 0x40;
        // `test %eax, (%r10)`: the poll of a safepoint.
        let polls = CallSite { behind: vec![0x41, 0x85, 0x02], ..site(here, 20, 50, &ADD) };
        assert_eq!(edge(&[polls], 30, (here, CODE + 0x110), false), Edge::Unknown);
        let begin = [site(CODE + 0x100, 20, 50, &[0xc3])];
        let first = |may_begin| edge(&begin, 30, (CODE + 0x100, CODE + 0x10), may_begin);
        assert_eq!(
            [false, true].map(first),
            [Edge::Impossible, Edge::Unknown],
            "the first byte of a function"
        );
    }
}
