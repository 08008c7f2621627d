//! `/proc/kallsyms`.

use super::FREE_BYTES;
use crate::{memory, recorder};

/// Reads bytes as the kernel's symbols, and looks up every address in them.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 64 * data.len(), || recorder::kallsyms(data));
}

/// Symbols of a kernel that shows its addresses, of one that hides them, and of modules.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 3] = [
        b"0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n\
          ffffffff81000000 T startup_64\nffffffff81000000 T _stext\nffffffff81000000 T _text\n\
          ffffffff81000060 t __pfx_verify_cpu\nffffffff81000070 t verify_cpu\nffffffff81000180 d data\n\
          ffffffff82a00000 W weak_function\n",
        b"0000000000000000 T _text\n0000000000000000 t x\t[m]\n",
        b"ffffffffc0000000 t probe\t[ext4]\nffffffffc0000010 t __this_module\t[ext4]\n\
          ffffffffc0800000 t bpf_prog_6deef7357e7b4530\t[bpf]\n",
    ];
    texts.map(<[u8]>::to_vec).into()
}
