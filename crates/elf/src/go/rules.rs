//! Makes unwind tables from Go's own table of stack depths, which shows for each instruction where the return address lies.
//!
//! ```text
//! CFA            = sp + depth + 8            x86-64      sp + depth                 aarch64
//! return address = m[CFA - 8]                            m[CFA - depth]; x30 if depth is 0
//! caller's fp    = m[CFA - 16] in a frame                m[CFA - depth - 8]
//! ```
//!
//! A rule is an entry of `.debug_frame` (FDE). The entries that several functions share (CIE) are made here as well, and are
//! always the same; they show the kind of a function. [`shared`] stands before the entries.
//!
//! There are four kinds of functions. Since Go 1.17 the table marks them; before, only their names show them.

use super::pclntab::{Function, Pclntab, SectionBytes};
use crate::Machine;

/// The longest rule, bytes.
const MAX_RULE_BYTES: usize = 16 << 10;
/// The length of the shared entry of one kind.
const KIND_LEN: usize = 24;
/// The length of all shared entries.
pub const SHARED_LEN: usize = 4 * KIND_LEN;
/// An entry of `unwind_rules` at this address or above is not part of the image, but was made here. The rest of the number is the
/// address of its function.
pub const FDE_AT: u64 = 1 << 63;

/// The effect of a function on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It uses the stack, and changes nothing else about it.
    Frame,
    /// Stacks begin with it.
    Top,
    /// It switches to another stack. Go notes where it left the old one (`g.sched`).
    Switch,
    /// It marks the place where a stack was left, and calls nobody.
    Mark,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Frame, Self::Top, Self::Switch, Self::Mark];

    /// Returns the kind of the shared entry at this offset of [`shared`].
    pub fn at(off: usize) -> Option<Self> {
        off.is_multiple_of(KIND_LEN).then(|| Self::ALL.get(off / KIND_LEN).copied())?
    }
}

/// An unwind table entry of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeRule {
    /// The address of the function.
    pub start: u64,
    /// An entry of `.debug_frame`, which refers to its shared entry in [`shared`].
    pub bytes: Vec<u8>,
}

/// Makes the beginning of the section: the shared entries.
pub fn shared(machine: Machine) -> [u8; SHARED_LEN] {
    let mut section = [0; SHARED_LEN];
    for (kind, bytes) in Kind::ALL.into_iter().zip(section.as_chunks_mut::<KIND_LEN>().0) {
        bytes[0] = KIND_LEN as u8 - 4;
        bytes[4..8].fill(0xff);
        // The fields are: version 1, no augmentation, code unit 1, data unit -8, the column of the return address.
        bytes[8..13].copy_from_slice(&match machine {
            Machine::X86_64 => [1, 0, 1, 0x78, X86_64.link],
            Machine::Aarch64 => [1, 0, 1, 0x78, AARCH64.link],
        });
        let columns = columns(machine);
        let own = [DEF_CFA, columns.sp, columns.at_entry];
        let link =
            [OFFSET | columns.link & 0x3f, 1].into_iter().filter(|_| machine.link_register().is_none());
        let rules: Vec<u8> = match kind {
            Kind::Frame | Kind::Mark => own.into_iter().chain(link).collect(),
            Kind::Top => own.into_iter().chain([UNDEFINED, columns.link]).collect(),
            // This expression cannot be evaluated, because the caller is unknown.
            Kind::Switch => [DEF_CFA_EXPRESSION, 1, DROP].into_iter().chain(link).collect(),
        };
        bytes[13..13 + rules.len()].copy_from_slice(&rules);
    }
    section
}

/// The numbers of registers.
struct Columns {
    sp: u8,
    fp: u8,
    link: u8,
    /// The distance of the CFA from the stack pointer at the beginning of a function.
    at_entry: u8,
}

const X86_64: Columns = Columns { sp: 7, fp: 6, link: 16, at_entry: 8 };
const AARCH64: Columns = Columns { sp: 31, fp: 29, link: 30, at_entry: 0 };

fn columns(machine: Machine) -> &'static Columns {
    match machine {
        Machine::X86_64 => &X86_64,
        Machine::Aarch64 => &AARCH64,
    }
}

/// The instructions of entries, `DW_CFA_…`.
const ADVANCE: u8 = 0x40;
const OFFSET: u8 = 0x80;
const ADVANCE_4: u8 = 0x04;
const UNDEFINED: u8 = 0x07;
const SAME: u8 = 0x08;
const DEF_CFA: u8 = 0x0c;
const DEF_CFA_EXPRESSION: u8 = 0x0f;
/// `DW_OP_drop`, which fails on an empty stack.
const DROP: u8 = 0x13;

/// Returns the kind of functions that begin or switch stacks, but whose flags in the table do not say so, or say something else.
fn named(name: &[u8]) -> Option<Kind> {
    Some(match name {
        b"runtime.systemstack_switch" => Kind::Mark,
        // Their caller gave the stack up: another thread may run on it by now.
        b"runtime.mcall" | b"runtime.gopreempt_m" | b"runtime.preemptPark" => Kind::Top,
        name if is_of_signal(name) => Kind::Switch,
        b"runtime.morestack" | b"runtime.systemstack" | b"runtime.asmcgocall" => Kind::Switch,
        _ => return None,
    })
}

/// Returns true for functions that leave the stack of a goroutine for that of the thread. Since Go 1.21 they have frames, on the
/// stack that they leave; but that stack may move meanwhile, and then their frame pointer leads to memory that is another
/// goroutine's by now. What Go notes in `g.sched` moves with the stack.
fn leaves_goroutine(name: &[u8]) -> bool {
    matches!(name, b"runtime.systemstack" | b"runtime.asmcgocall" | b"runtime.morestack")
}

/// Returns true if a signal has interrupted the code outside of this function: Go's table says that a stack begins with it.
fn is_of_signal(name: &[u8]) -> bool {
    name.starts_with(b"runtime.sigtramp")
        || name.starts_with(b"runtime.sigreturn")
        || name == b"runtime.cgoSigtramp"
}

/// Returns the kind by the name, for versions of Go whose table has no flags.
fn named_before_flags(name: &[u8]) -> Kind {
    match name {
        b"runtime.goexit" | b"runtime.mstart" | b"runtime.rt0_go" => Kind::Top,
        b"gogo"
        | b"runtime.gogo"
        | b"runtime.cgocallback"
        | b"runtime.cgocallback_gofunc"
        | b"runtime.nanotime" => Kind::Switch,
        b"runtime.nanotime1" | b"runtime.walltime" | b"runtime.walltime1" | b"time.now" => Kind::Switch,
        b"runtime.jmpdefer" | b"runtime.reflectcall" | b"runtime.sigfwd" => Kind::Switch,
        _ => Kind::Frame,
    }
}

/// Makes the entry of a function; `None` if its depths are invalid. `code` reads machine code.
///
/// # Cost   one pass over the depths: 1 µs for most
pub fn rule<'d, 'c, S: SectionBytes<'d>>(
    machine: Machine,
    table: &Pclntab<'d, S>,
    function: &Function<'d>,
    code: impl Fn(u64, u64) -> Option<&'c [u8]>,
) -> Option<MadeRule> {
    let flagged = table.is_top_or_writes_sp(function).map(|flags| match flags {
        (true, _) => Kind::Top,
        (_, true) => Kind::Switch,
        _ => Kind::Frame,
    });
    let kind = named(function.name).or(flagged).unwrap_or_else(|| named_before_flags(function.name));
    let mut entry = Entry { start: function.start, at: function.start, rules: Vec::new() };
    let kind = match kind {
        Kind::Top if function.name == b"runtime.mcall" => match machine {
            Machine::X86_64 => entry.x86_64_switch(function, &table.depths(function)?, None, &code)?,
            Machine::Aarch64 => kind,
        },
        Kind::Top | Kind::Mark => kind,
        Kind::Switch if is_of_signal(function.name) => kind,
        Kind::Frame | Kind::Switch => {
            let depths = table.depths(function)?;
            match machine {
                Machine::X86_64 => entry.x86_64(kind == Kind::Switch, function, &depths, &code)?,
                Machine::Aarch64 => entry.aarch64(kind == Kind::Switch, &depths)?,
            }
        }
    };
    Some(MadeRule { start: function.start, bytes: entry.bytes(kind, function.end)? })
}

/// An entry that is being written.
struct Entry {
    start: u64,
    at: u64,
    rules: Vec<u8>,
}

/// The addresses from which on an x86-64 function has saved its caller's frame pointer, and has set its own.
struct Frame {
    saved: u64,
    made: u64,
}

impl Entry {
    fn advance(&mut self, to: u64) -> Option<()> {
        match to.checked_sub(self.at)? {
            0 => {}
            step @ 1..0x40 => self.rules.push(ADVANCE | step as u8),
            step => {
                self.rules.push(ADVANCE_4);
                self.rules.extend(u32::try_from(step).ok()?.to_le_bytes());
            }
        }
        self.at = to;
        (self.rules.len() <= MAX_RULE_BYTES).then_some(())
    }

    fn cfa(&mut self, register: u8, off: u64) {
        self.rules.extend([DEF_CFA, register]);
        self.number(off);
    }

    fn saved(&mut self, register: u8, words_below_cfa: u64) {
        self.rules.push(OFFSET | register);
        self.number(words_below_cfa);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.rules.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.rules.push(number as u8);
    }

    fn x86_64<'c>(
        &mut self,
        is_switch: bool,
        function: &Function<'_>,
        depths: &[(u64, u32)],
        code: &impl Fn(u64, u64) -> Option<&'c [u8]>,
    ) -> Option<Kind> {
        let begins = std::iter::once(self.start).chain(depths.iter().map(|(end, _)| *end));
        let mut rows = begins.zip(depths).map(|(begin, (end, depth))| (begin, *end, u64::from(*depth)));
        let first = rows.clone().find(|(.., depth)| *depth > 0);
        let frame = first.and_then(|(begin, _, depth)| frame(begin, depth, code));
        if is_switch && (frame.is_none() || leaves_goroutine(function.name)) {
            return self.x86_64_switch(function, depths, frame.as_ref(), code);
        }
        rows.try_for_each(|(begin, end, depth)| {
            self.advance(begin)?;
            self.cfa(X86_64.sp, depth + 8);
            match &frame {
                _ if depth == 0 => self.rules.extend([SAME, X86_64.fp]),
                // The register may hold anything there.
                None => self.rules.extend([UNDEFINED, X86_64.fp]),
                Some(frame) => {
                    if (begin..end).contains(&frame.saved) {
                        self.advance(frame.saved)?;
                    }
                    if self.at >= frame.saved {
                        self.saved(X86_64.fp, 2);
                    }
                    if is_switch {
                        if (begin..end).contains(&frame.made) {
                            self.advance(frame.made)?;
                        }
                        if self.at >= frame.made {
                            self.cfa(X86_64.fp, 16);
                            // The last two instructions restore the frame pointer, and then the stack.
                            if let Some(given_back) = gives_back(end, depth, code).filter(|at| *at >= self.at)
                            {
                                self.advance(given_back)?;
                                self.cfa(X86_64.sp, depth + 8);
                                self.rules.extend([SAME, X86_64.fp]);
                            }
                        }
                    }
                }
            }
            Some(())
        })?;
        Some(Kind::Frame)
    }

    fn aarch64(&mut self, is_switch: bool, depths: &[(u64, u32)]) -> Option<Kind> {
        if is_switch {
            return Some(Kind::Switch);
        }
        let mut begin = self.start;
        for (end, depth) in depths {
            self.advance(begin)?;
            let depth = u64::from(*depth);
            self.cfa(AARCH64.sp, depth);
            if depth == 0 {
                self.rules.extend([SAME, AARCH64.fp, SAME, AARCH64.link]);
            } else {
                self.saved(AARCH64.link, depth / 8);
                self.saved(AARCH64.fp, depth / 8 + 1);
            }
            begin = *end;
        }
        Some(Kind::Frame)
    }

    /// Makes the rules of a function that switches to another stack, and whose frame does not tell where the old one is. Until it
    /// does, the table gives the depth of the stack on which it was called.
    ///
    /// ```text
    /// exact   mov rsp, …  │ nobody can tell   mov rsp, … │ systemstack: exact again
    ///                     │ mcall: a stack begins
    /// ```
    fn x86_64_switch<'c>(
        &mut self,
        function: &Function<'_>,
        depths: &[(u64, u32)],
        frame: Option<&Frame>,
        code: &impl Fn(u64, u64) -> Option<&'c [u8]>,
    ) -> Option<Kind> {
        let is_top = function.name == b"runtime.mcall";
        let kind = if is_top { Kind::Top } else { Kind::Switch };
        let Some(bytes) = code(function.start, (function.end - function.start).min(512)) else {
            return Some(kind);
        };
        let mut writes = (0..bytes.len()).filter(|at| writes_stack_pointer(&bytes[*at..]));
        let Some(first) = writes.next() else { return Some(kind) };
        let first = self.start + first as u64 + 1;
        // A function that switches back is at the same depth again after the instruction that does so, which has four bytes.
        let back = writes.next_back().filter(|_| function.name == b"runtime.systemstack");
        let back = back.map_or(u64::MAX, |at| self.start + at as u64 + 4);
        let mut begin = self.start;
        for (end, depth) in depths {
            if begin < first {
                self.advance(begin)?;
                self.cfa(X86_64.sp, u64::from(*depth) + 8);
                if let Some(frame) = frame.filter(|frame| (begin..first.min(*end)).contains(&frame.saved)) {
                    self.advance(frame.saved)?;
                    self.saved(X86_64.fp, 2);
                }
            }
            begin = *end;
        }
        self.advance(first)?;
        if is_top {
            self.rules.extend([UNDEFINED, X86_64.link])
        } else {
            self.rules.extend([DEF_CFA_EXPRESSION, 1, DROP])
        }
        if let Some(depth) = depths.iter().find(|(end, _)| *end > back).map(|(_, depth)| u64::from(*depth)) {
            self.advance(back)?;
            self.cfa(X86_64.sp, depth + 8);
        }
        Some(Kind::Switch)
    }

    fn bytes(self, kind: Kind, end: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(24 + self.rules.len());
        bytes.extend(u32::try_from(20 + self.rules.len()).ok()?.to_le_bytes());
        bytes.extend((kind as u32 * KIND_LEN as u32).to_le_bytes());
        bytes.extend(self.start.to_le_bytes());
        bytes.extend(end.checked_sub(self.start)?.to_le_bytes());
        bytes.extend(self.rules);
        Some(bytes)
    }
}

/// Finds how a function makes its frame, where the stack first grows.
///
/// ```text
/// until Go 1.20   sub rsp, N  ‖  mov [rsp+N-8], rbp   lea rbp, [rsp+N-8]
/// from Go 1.21    push rbp    ‖  mov rbp, rsp         sub rsp, N-8
/// ```
fn frame<'c>(begin: u64, depth: u64, code: &impl Fn(u64, u64) -> Option<&'c [u8]>) -> Option<Frame> {
    let before = code(begin.checked_sub(1)?, 4);
    if depth == 8 && before == Some(&[0x55, 0x48, 0x89, 0xe5]) {
        return Some(Frame { saved: begin, made: begin + 3 });
    }
    let place = depth.checked_sub(8)?;
    let saves = stack_access(0x89, begin, place, code)?;
    let makes = stack_access(0x8d, begin + saves, place, code)?;
    Some(Frame { saved: begin + saves, made: begin + saves + makes })
}

/// Returns true if bytes may begin an instruction that sets the stack pointer to a value unrelated to it: `mov`, `lea`, `xchg`,
/// `and`. Bytes inside of another instruction may look like one.
fn writes_stack_pointer(bytes: &[u8]) -> bool {
    match bytes {
        [0x48..=0x4b, 0x87 | 0x8b | 0x8d, operands, ..] if operands & 0x38 == 0x20 => true,
        [0x48..=0x4f, 0x87 | 0x89, operands, ..] => operands & 0xc7 == 0xc4,
        [0x48, 0x81 | 0x83, operands, ..] => *operands == 0xe4,
        _ => false,
    }
}

/// Returns the address from which on a function has its caller's frame pointer again. Go restores that one instruction before it
/// releases the frame, which is where its table changes.
fn gives_back<'c>(end: u64, depth: u64, code: &impl Fn(u64, u64) -> Option<&'c [u8]>) -> Option<u64> {
    let (place, short, long) = (depth.checked_sub(8)?, end.checked_sub(4)?, end.checked_sub(7)?);
    let gives = match (code(short, 4), code(long, 7)) {
        (Some([0x48, 0x83, 0xc4, given]), _) if u64::from(*given) == depth => short,
        (_, Some([0x48, 0x81, 0xc4, given @ ..])) if *given == (depth as u32).to_le_bytes() => long,
        _ => return None,
    };
    let restores =
        |len: u64| gives.checked_sub(len).and_then(|at| stack_access(0x8b, at, place, code)) == Some(len);
    [4, 5, 8].into_iter().any(restores).then_some(gives)
}

/// Returns the length of the instruction `operation rbp, [rsp+place]`, if it is there.
fn stack_access<'c>(
    operation: u8,
    at: u64,
    place: u64,
    code: &impl Fn(u64, u64) -> Option<&'c [u8]>,
) -> Option<u64> {
    // The place has eight bits, 32 bits, or is not encoded.
    match code(at, 4)? {
        [0x48, found, 0x6c, 0x24] if *found == operation => {
            (code(at, 5)?[4] == u8::try_from(place).ok()?).then_some(5)
        }
        [0x48, found, 0xac, 0x24] if *found == operation => {
            (code(at, 8)?[4..8] == u32::try_from(place).ok()?.to_le_bytes()).then_some(8)
        }
        [0x48, found, 0x2c, 0x24] if *found == operation && place == 0 => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
