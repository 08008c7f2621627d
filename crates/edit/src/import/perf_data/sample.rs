//! Decodes samples: `PERF_RECORD_SAMPLE`.

use icecore_elf::Avma;

use super::attr::{Attr, field, read};
use super::bytes::{Bytes, Words};

/// Values from here on are no addresses: they say that the call chain continues in the kernel, in user space …
const CONTEXT_LEAST: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
/// The user side comes later, in a record of its own; the next word is its number.
const CONTEXT_USER_DEFERRED: u64 = -640_i64 as u64;

/// `misc` of a record: the mode in which the sample was taken.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;

/// The branch stack begins with the number of its newest entry.
const BRANCH_HARDWARE_INDEX: u64 = 1 << 17;
/// Registers are those of a 64-bit program.
const ABI_64: u64 = 2;

/// The mode in which the CPU was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mode {
    User,
    Kernel,
    /// A guest, a hypervisor, or unknown.
    Other,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct PerfSample<'a> {
    pub(in super::super) side: Mode,
    pub(in super::super) tgid: u32,
    pub(in super::super) tid: u32,
    pub(in super::super) ip: Avma,
    pub(in super::super) cpu: Option<u32>,
    pub(in super::super) period: Option<u64>,
    pub(in super::super) chain: Option<Words<'a>>,
    /// What a tracepoint has noted.
    pub(in super::super) raw: &'a [u8],
    /// How many branches the CPU recorded before the sample.
    pub(in super::super) branches: u64,
    pub(in super::super) registers: Option<UserRegisters<'a>>,
    pub(in super::super) stack: &'a [u8],
    /// The copy ends before the requested length because the memory ends there.
    pub(in super::super) is_stack_whole: bool,
}

/// Registers of user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct UserRegisters<'a> {
    /// False for a 32-bit program, whose registers cannot be used.
    pub(in super::super) is_64: bool,
    mask: u64,
    values: Words<'a>,
}

impl<'a> UserRegisters<'a> {
    /// Lists the registers with the kernel's numbers, ascending.
    pub(in super::super) fn iter(self) -> impl Iterator<Item = (u8, u64)> + 'a {
        (0..64).filter(move |number| self.mask >> number & 1 == 1).zip(self.values.iter())
    }

    pub(in super::super) fn find(self, wanted: u8) -> Option<u64> {
        self.iter().find(|(number, _)| *number == wanted).map(|(_, value)| value)
    }
}

impl<'a> PerfSample<'a> {
    /// Decodes the body of a record; `None` if it is too short.
    ///
    /// # Source   uapi/linux/perf_event.h `PERF_RECORD_SAMPLE`
    pub(in super::super) fn decode(body: &'a [u8], misc: u16, attr: &Attr) -> Option<Self> {
        let mut bytes = Bytes(body);
        let has = |field| attr.has_field(field);
        if has(field::IDENTIFIER) {
            bytes.u64()?;
        }
        let ip = Avma(if has(field::IP) { bytes.u64()? } else { 0 });
        let (tgid, tid) = if has(field::TID) { (bytes.u32()?, bytes.u32()?) } else { (0, 0) };
        for field in [field::TIME, field::ADDR, field::ID, field::STREAM_ID] {
            if has(field) {
                bytes.u64()?;
            }
        }
        let cpu = if has(field::CPU) { Some(bytes.u64()? as u32) } else { None };
        let period = if has(field::PERIOD) { Some(bytes.u64()?) } else { None };
        if has(field::READ) {
            pass_counts(&mut bytes, attr.read_format)?;
        }
        let chain = if has(field::CALLCHAIN) {
            let len = bytes.u64()?;
            Some(bytes.words(len)?)
        } else {
            None
        };
        let mut raw = &[][..];
        if has(field::RAW) {
            let len = bytes.u32()? as usize;
            raw = bytes.take(len)?;
        }
        let mut branches = 0;
        if has(field::BRANCH_STACK) {
            let len = bytes.u64()?;
            branches = len;
            if attr.branch_sample_type & BRANCH_HARDWARE_INDEX != 0 {
                bytes.u64()?;
            }
            bytes.words(len.checked_mul(3)?)?;
        }
        let registers = if has(field::REGS_USER) { registers(&mut bytes, attr)? } else { None };
        let (stack, is_stack_whole) =
            if has(field::STACK_USER) { stack(&mut bytes)? } else { (&[][..], false) };
        let side = match misc & MODE {
            MODE_USER => Mode::User,
            MODE_KERNEL => Mode::Kernel,
            _ => Mode::Other,
        };
        Some(Self {
            side,
            tgid,
            tid,
            ip,
            cpu,
            period,
            chain,
            raw,
            branches,
            registers,
            stack,
            is_stack_whole,
        })
    }

    /// Divides the call chain into its kernel and its user side, each leaf first.
    ///
    /// Without a chain it uses the address alone. Frames of neither side (guests, hypervisors) are skipped. Returns the number of
    /// the record that has the user side, if the kernel recorded that later: see [`Deferred`].
    pub(in super::super) fn sides(&self, kernel: &mut Vec<Avma>, user: &mut Vec<Avma>) -> Option<u64> {
        kernel.clear();
        user.clear();
        let deferred = split(self.side, self.chain.unwrap_or_default(), kernel, user);
        match self.side {
            Mode::Kernel if kernel.is_empty() => kernel.push(self.ip),
            Mode::User if user.is_empty() => user.push(self.ip),
            _ => {}
        }
        deferred
    }
}

/// Divides a call chain that begins on a side. Returns the number of the record that has the user side, if that is elsewhere.
fn split(mut side: Mode, chain: Words<'_>, kernel: &mut Vec<Avma>, user: &mut Vec<Avma>) -> Option<u64> {
    let mut words = chain.iter();
    while let Some(address) = words.next() {
        match address {
            CONTEXT_KERNEL => side = Mode::Kernel,
            CONTEXT_USER => side = Mode::User,
            CONTEXT_USER_DEFERRED => return Some(words.next().unwrap_or(0)),
            CONTEXT_LEAST.. => side = Mode::Other,
            _ if side == Mode::Kernel => kernel.push(Avma(address)),
            _ if side == Mode::User => user.push(Avma(address)),
            _ => {}
        }
    }
    None
}

/// A user side that the kernel recorded when its thread returned to user space: `PERF_RECORD_CALLCHAIN_DEFERRED`.
///
/// # Source   uapi/linux/perf_event.h
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Deferred<'a> {
    /// The number by which samples name it.
    pub(super) cookie: u64,
    chain: Words<'a>,
}

impl<'a> Deferred<'a> {
    /// Decodes the body of a record; `None` if it is too short.
    pub(in super::super) fn decode(body: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(body);
        let (cookie, len) = (bytes.u64()?, bytes.u64()?);
        Some(Self { cookie, chain: bytes.words(len)? })
    }

    /// Replaces the user side of a sample by that of the record, leaf first.
    pub(in super::super) fn side(self, user: &mut Vec<Avma>) {
        user.clear();
        split(Mode::User, self.chain, &mut Vec::new(), user);
    }
}

/// Skips the values of counters.
fn pass_counts(bytes: &mut Bytes<'_>, format: u64) -> Option<()> {
    let has = |bit| u64::from(format & bit != 0);
    let times = has(read::TIME_ENABLED) + has(read::TIME_RUNNING);
    let each = 1 + has(read::ID) + has(read::LOST);
    let count = if format & read::GROUP != 0 { bytes.u64()?.checked_mul(each)? } else { each };
    bytes.words(count.checked_add(times)?).map(drop)
}

fn registers<'a>(bytes: &mut Bytes<'a>, attr: &Attr) -> Option<Option<UserRegisters<'a>>> {
    let abi = bytes.u64()?;
    if abi == 0 {
        return Some(None);
    }
    let mask = attr.user_registers;
    let values = bytes.words(u64::from(mask.count_ones()))?;
    Some(Some(UserRegisters { is_64: abi == ABI_64, mask, values }))
}

/// Returns the bytes from the stack pointer on, and whether they end where the memory ends.
fn stack<'a>(bytes: &mut Bytes<'a>) -> Option<(&'a [u8], bool)> {
    let len = bytes.u64()?;
    if len == 0 {
        return Some((&[], false));
    }
    let stack = bytes.take(usize::try_from(len).ok()?)?;
    let read = bytes.u64()?.min(len);
    Some((&stack[..read as usize], read < len))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::attr;
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn every_field_stands_where_the_kernel_puts_it() {
        use field::*;
        let all = IDENTIFIER | IP | TID | TIME | ADDR | ID | STREAM_ID | CPU | PERIOD | READ | CALLCHAIN;
        let attr = Attr {
            read_format: read::GROUP | read::ID | read::TIME_ENABLED,
            branch_sample_type: BRANCH_HARDWARE_INDEX,
            user_registers: 1 << 7 | 1 << 2,
            ..attr(all | RAW | BRANCH_STACK | REGS_USER | STACK_USER)
        };
        let head = [1, 0x1000, 7 | 8 << 32, 5, 0, 1, 1, 3, 99];
        let counts = [2, 1000, 1, 2, 3, 4];
        let chain = [5, CONTEXT_KERNEL, 0x2000, CONTEXT_USER, 0x1000, 0x1010];
        let (raw, branches) = ([4 | 5 << 32], [1, 0, 1, 2, 3]);
        let rest = [ABI_64, 20, 70, 16, 11, 12, 8];
        let body = bytes(&[&head[..], &counts, &chain, &raw, &branches, &rest].concat());
        let sample = PerfSample::decode(&body, MODE_KERNEL, &attr).expect("whole");
        assert_eq!((sample.ip.0, sample.tgid, sample.tid, sample.cpu), (0x1000, 7, 8, Some(3)));
        assert_eq!((sample.period, sample.side), (Some(99), Mode::Kernel));
        let registers = sample.registers.expect("there");
        assert_eq!(registers.iter().collect::<Vec<_>>(), [(2, 20), (7, 70)]);
        assert_eq!((registers.find(7), registers.find(3), registers.is_64), (Some(70), None, true));
        assert_eq!((sample.stack, sample.is_stack_whole), (&bytes(&[11])[..], true));
        let (mut kernel, mut user) = (vec![Avma(9)], vec![Avma(9)]);
        assert_eq!((sample.sides(&mut kernel, &mut user), sample.branches), (None, 1));
        assert_eq!((kernel, user), (vec![Avma(0x2000)], vec![Avma(0x1000), Avma(0x1010)]));
        for len in 0..body.len() {
            assert_eq!(PerfSample::decode(&body[..len], 0, &attr), None, "{len} bytes are not enough");
        }
    }

    #[test]
    fn a_user_side_that_came_later_is_joined_by_its_number() {
        let chain = [5, CONTEXT_KERNEL, 0x2000, 0x2010, CONTEXT_USER_DEFERRED, 77];
        let body = bytes(&chain);
        let sample = PerfSample::decode(&body, MODE_KERNEL, &attr(field::CALLCHAIN)).expect("whole");
        let record = bytes(&[77, 3, CONTEXT_USER, 0x1000, 0x1010, 0xffff]);
        let later = Deferred::decode(&record).expect("whole");
        assert_eq!(later.cookie, 77);
        let (mut kernel, mut user) = (vec![], vec![Avma(9)]);
        assert_eq!((sample.sides(&mut kernel, &mut user), user.len()), (Some(77), 0));
        later.side(&mut user);
        assert_eq!(
            (kernel, &user[..]),
            (vec![Avma(0x2000), Avma(0x2010)], &[Avma(0x1000), Avma(0x1010)][..])
        );
        let sample = PerfSample { side: Mode::User, ip: Avma(0x1000), ..sample };
        assert_eq!((sample.sides(&mut Vec::new(), &mut user), &user[..]), (Some(77), &[Avma(0x1000)][..]));
        later.side(&mut user);
        assert_eq!(user.len(), 2, "the leaf is there once");
        for len in 0..40 {
            assert_eq!(Deferred::decode(&record[..len]), None, "{len} bytes are not enough");
        }
    }

    #[test]
    fn lengths_that_overflow_are_refused() {
        for (fields, word) in
            [(field::CALLCHAIN, u64::MAX), (field::BRANCH_STACK, u64::MAX / 2), (field::STACK_USER, u64::MAX)]
        {
            let body = bytes(&[word, 0, 0]);
            assert_eq!(PerfSample::decode(&body, 0, &attr(fields)), None);
        }
        let attr = Attr { read_format: read::GROUP | read::ID, ..attr(field::READ) };
        assert_eq!(PerfSample::decode(&bytes(&[u64::MAX]), 0, &attr), None);
    }

    #[test]
    fn without_a_chain_there_is_the_address_alone() {
        let (mut kernel, mut user) = Default::default();
        let body = bytes(&[0x1234]);
        for (misc, expected) in [
            (MODE_USER, (vec![], vec![Avma(0x1234)])),
            (MODE_KERNEL, (vec![Avma(0x1234)], vec![])),
            (5, (vec![], vec![])),
        ] {
            let sample = PerfSample::decode(&body, misc, &attr(field::IP)).expect("whole");
            assert_eq!(sample.sides(&mut kernel, &mut user), None);
            assert_eq!((kernel.clone(), user.clone()), expected);
        }
    }
}
