//! How the frame of a caller is found, and the instructions of unwind tables that say so.

/// Registers by their numbers in DWARF.
const RBP: u8 = 6;
const RSP: u8 = 7;
/// Instructions of unwind tables.
pub(super) const ADVANCE: u8 = 0x04;
const CFA: u8 = 0x0c;
const OFFSET: u8 = 0x80;
const RESTORE: u8 = 0xc0;
const CFA_EXPRESSION: u8 = 0x0f;
const EXPRESSION: u8 = 0x10;
/// What expressions are made of: rbp and a number, and what lies at an address.
const AT_RBP: u8 = 0x76;
const DEREF: u8 = 0x06;

/// What entries of these tables share: at the begin, the CFA is rsp + 8, and the return address below it.
pub(super) const SHARED: [u8; 5] = [CFA, RSP, 8, OFFSET | 16, 1];

/// How a frame is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// The CFA is this many bytes above rsp; the caller's rbp is in rbp.
    Bare(u64),
    /// The same, and the caller's rbp is saved below the return address.
    Pushed(u64),
    /// At rbp, as a frame pointer has it.
    AtRbp,
    /// Of the interpreter, at rbp. Its caller's stack pointer lies below that: what the caller passed may have been moved, and room made for
    /// local variables.
    Interpreted,
}

impl Frame {
    /// The instructions that state it, after what entries share.
    pub(super) fn instructions(self) -> Vec<u8> {
        let cfa = |register: u8, mut offset: u64| {
            let mut bytes = vec![CFA, register];
            while offset > 0x7f {
                bytes.push(offset as u8 | 0x80);
                offset >>= 7;
            }
            bytes.push(offset as u8);
            bytes
        };
        match self {
            Self::Bare(off) => [cfa(RSP, off), vec![RESTORE | RBP]].concat(),
            Self::Pushed(off) => [cfa(RSP, off), vec![OFFSET | RBP, 2]].concat(),
            Self::AtRbp => [cfa(RBP, 16), vec![OFFSET | RBP, 2]].concat(),
            Self::Interpreted => {
                let at_rbp = |off: u8| [AT_RBP, off];
                let [saved, returns] = [at_rbp(0), at_rbp(8)].map(|[op, off]| [2, op, off]);
                let rule = |register: u8, rule: [u8; 3]| [&[EXPRESSION, register][..], &rule].concat();
                let cfa = [CFA_EXPRESSION, 3, AT_RBP, 0x78, DEREF].to_vec();
                [cfa, rule(RBP, saved), rule(16, returns)].concat()
            }
        }
    }
}
