//! Makes tables of three functions in the layouts of Go's versions.

use super::Pclntab;
use super::pclntab::Where;

/// The first number of a table, by version.
pub(super) const MAGICS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];
pub(super) const TEXT: u64 = 0x4000;
const NAMES: [&str; 3] = ["main.main", "_rt0_amd64_linux", "main.F[...]"];
/// The bytes of a function's record: more than any version has.
const KNOWN_LEN: usize = 64;

pub(super) fn place() -> Where {
    Where { is_big_endian: false, word_len: 8, text: Some(TEXT), entry: 0 }
}

/// Returns a table with functions at 0x10, 0x20, 0x30 after the beginning of the code, up to 0x40, each with these depths and
/// flags.
pub(super) fn table(magic: u32, text: u64, depths: &[u8], flags: u8) -> Vec<u8> {
    let is_old = magic == MAGICS[0];
    let counts_from_text = magic == MAGICS[2] || magic == MAGICS[3];
    let number_count = if is_old {
        1
    } else if counts_from_text {
        8
    } else {
        7
    };
    let len = if counts_from_text { 4 } else { 8 };
    let base = if counts_from_text { 0 } else { text };
    let names: Vec<u8> = NAMES.iter().flat_map(|name| [name.as_bytes(), &[0]].concat()).collect();
    let head_len = 8 + 8 * number_count;
    let list_len = 7 * len;
    // In the oldest layout functions come first, and all offsets count from the beginning of the table.
    let list_off = if is_old { head_len } else { head_len + names.len() + depths.len() };
    let known_off = list_off + list_len;
    let names_off = if is_old { known_off + 3 * KNOWN_LEN } else { head_len };
    let depths_off = names_off + names.len();
    let (mut list, mut known) = (Vec::new(), Vec::new());
    let mut name_off = 0;
    for (number, name) in NAMES.iter().enumerate() {
        let at = base + 0x10 * (number as u64 + 1);
        let own_off = known_off + number * KNOWN_LEN - if is_old { 0 } else { list_off };
        list.extend(&at.to_le_bytes()[..len]);
        list.extend(&(own_off as u64).to_le_bytes()[..len]);
        let mut own = at.to_le_bytes()[..len].to_vec();
        let fields = if magic == MAGICS[3] { 10 } else { 9 };
        let mut numbers = vec![0_u32; fields - 1];
        numbers[0] = (name_off + if is_old { names_off } else { 0 }) as u32;
        numbers[3] = if is_old { depths_off as u32 } else { 0 };
        own.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        own.extend([0, flags]);
        own.resize(KNOWN_LEN, 0);
        known.extend(own);
        name_off += name.len() + 1;
    }
    list.extend(&(base + 0x40).to_le_bytes()[..len]);
    let numbers: Vec<u64> = match number_count {
        1 => vec![3],
        7 => vec![3, 0, names_off as u64, 0, 0, depths_off as u64, list_off as u64],
        _ => vec![3, 0, text, names_off as u64, 0, 0, depths_off as u64, list_off as u64],
    };
    let mut head = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
    head.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    if is_old {
        [&head[..], &list, &known, &names, depths].concat()
    } else {
        [&head[..], &names, depths, &list, &known].concat()
    }
}

pub(super) fn open(bytes: &[u8]) -> Option<Pclntab<'_, &[u8]>> {
    Pclntab::open(bytes, place(), |_| None)
}
