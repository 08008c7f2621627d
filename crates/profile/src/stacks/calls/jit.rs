//! Checks calls in JIT code by the bytes that the recorder has read around return addresses.
//!
//! ```text
//! readings of one address    ▪ no call   ▪   ▪      ▪ call
//! time                    ───┼───────────────┼──────┼───
//! before it           a call │ none          │ a call, if any reading found one
//! ```
//!
//! | before the return address there is | the edge is |
//! |---|---|
//! | a direct call whose target lies in the callee's piece of code | [`Edge::Calls`] |
//! | any other call: runtimes patch call sites, and builtins jump to other functions | [`Edge::MayCall`] |
//! | no call in any reading, the sample lies between two readings, and the instruction before the address runs on into it | [`Edge::Impossible`] |
//! | no call but a jump, return or padding: the address may be an entry that an interpreter has pushed | [`Edge::Unknown`] |
//! | no call, and the instruction at the address may fault: a handler pushes its address, as for Java's safepoints | [`Edge::Unknown`] |
//! | unknown: nothing was read | [`Edge::Unknown`] |

use std::ops::RangeInclusive;

use iced_x86::{FlowControl, Mnemonic, OpKind};

use super::{Judge, aarch64, before, x86_64};
use crate::map::Map;
use crate::recording::load::Tables;
use crate::recording::spaces::{SpaceId, Spaces};
use crate::stacks::locate::Locator;
use icecore_elf::Avma;
use icecore_elf::calls::Before;
use icecore_unwind::{Edge, Machine};

/// Memory that holds no code: four zeros.
const ZEROS: [u8; 4] = [0; 4];

/// The readings of all return addresses.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// The keys are the life of the address space, and the address.
    known: Map<(u32, Avma), Site>,
}

/// The readings of one return address.
#[derive(Debug, Default)]
struct Site {
    /// The call, if any reading found one.
    call: Option<Before>,
    /// The times at which there was no call, and whether the instruction before the address runs on into it.
    none: Vec<(RangeInclusive<u64>, bool)>,
}

/// What lay before a return address at the time of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    Call(Before),
    /// No call: the instruction before the address runs on into it.
    Passed,
    /// No call: the address may be an entry, or that of an instruction that faulted.
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
        let Some(machine) = tables.machine() else { return Self::default() };
        let mut known: Map<(u32, Avma), Site> = Map::default();
        for row in &tables.call_sites {
            let Some(life) = spaces.life(row.tgid, row.first_ns) else { continue };
            let site = known.entry((life, Avma(row.address))).or_default();
            let found = before(machine, &row.front, row.address);
            if found.is_some() {
                // The site was patched, and the readings do not say which version made the call.
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

    fn front(&self, spaces: &Spaces, at: Moment, address: Avma) -> Front {
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
    /// Returns whether a call ends at an address of JIT code; `None` if that is unknown.
    pub(crate) fn is_behind_made_call(&self, at: Moment, address: Avma) -> Option<bool> {
        match self.sites().front(self.spaces(), at, address) {
            Front::Call(_) => Some(true),
            Front::Passed => Some(false),
            Front::Entry | Front::Unknown => None,
        }
    }

    /// Judges a call in JIT code. `callee` is the address of an instruction of the callee, or of the last byte of a call in it. `may_begin` is true
    /// if the return address may be the first byte of a function: it is the outermost one, or a frame pointer leads to it.
    pub(crate) fn made_edge(
        &self,
        at: Moment,
        return_address: Avma,
        callee: Avma,
        may_begin: bool,
        files: Option<&dyn Judge>,
    ) -> Edge {
        match self.sites().front(self.spaces(), at, return_address) {
            Front::Call(Before { direct: Some(target), is_indirect: false }) => {
                if self.leads(at.space, Avma(target), callee, files) { Edge::Calls } else { Edge::MayCall }
            }
            Front::Call(_) => Edge::MayCall,
            Front::Passed => Edge::Impossible,
            Front::Entry => {
                let made = self.made(at.space, return_address);
                let is_named = made.is_some_and(|made| made.start == return_address.0);
                if is_named && !may_begin { Edge::Impossible } else { Edge::Unknown }
            }
            Front::Unknown => Edge::Unknown,
        }
    }

    /// Returns true if the target of a call lies in the callee's function.
    fn leads(&self, space: SpaceId, target: Avma, callee: Avma, files: Option<&dyn Judge>) -> bool {
        if let Some(made) = self.made(space, callee) {
            return (made.start..made.end).contains(&target.0);
        }
        let place = |address| {
            let (image, off) = self.mapped(space, address)?;
            Some((image?, off))
        };
        let reaches = || Some(files?.leads(place(target)?, place(callee)?));
        reaches() == Some(true)
    }
}

/// Returns true if the code after these bytes may be an entry: the bytes end with a jump, a return or padding, or memory begins after them.
/// Every instruction that may end there is tried.
fn may_be_entry(machine: Machine, bytes: &[u8]) -> bool {
    if bytes.is_empty() || bytes.ends_with(&ZEROS) {
        return true;
    }
    match machine {
        Machine::Aarch64 => aarch64::ends_block(bytes) || bytes.ends_with(&aarch64::NOP),
        Machine::X86_64 => (0..bytes.len()).any(|begin| {
            let Some(instruction) = x86_64::decode(&bytes[begin..], 0) else { return false };
            let is_whole = instruction.len() == bytes.len() - begin;
            // Java's handlers, to which it makes frames return, lie after a `hlt`.
            let is_end = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Hlt);
            is_whole && (is_end || leaves(instruction.flow_control()))
        }),
    }
}

/// Returns true if the first instruction of these bytes may fault: it accesses memory, divides, or traps.
fn may_fault(machine: Machine, bytes: &[u8]) -> bool {
    let instruction = match machine {
        Machine::X86_64 => x86_64::decode(bytes, 0),
        Machine::Aarch64 => None,
    };
    let Some(instruction) = instruction else { return true };
    let is_memory = |kind| (OpKind::MemorySegSI..=OpKind::Memory).contains(&kind);
    let has_memory = instruction.op_kinds().any(is_memory);
    let is_address = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let traps = matches!(instruction.flow_control(), FlowControl::Exception | FlowControl::Interrupt);
    has_memory && !is_address || divides || traps
}

/// Returns true if an instruction never runs on into the next one.
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
    /// `add %rax, %rbx` runs on into the next instruction.
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
        let at = Moment { space, span_ns: (at_ns, at_ns) };
        locator.made_edge(at, Avma(return_address), Avma(callee), may_begin, None)
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
