//! Symbol tables, as the recorder reads them.

use std::process::Command;

use super::{FREE_BYTES, image, stripped};
use crate::{memory, recorder};

/// Finds functions all over a file.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 64 * data.len(), || recorder::functions(data));
}

/// Small libraries, with and without symbol tables, and one with static probes.
pub fn seeds() -> Vec<Vec<u8>> {
    [image::seeds(), stripped::seeds(), vec![with_static_probes()]].concat()
}

fn with_static_probes() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let source = "
        #define _SDT_HAS_SEMAPHORES 1
        #include <sys/sdt.h>
        __extension__ unsigned short p_n_semaphore __attribute__((section(\".probes\")));
        void f(void) { STAP_PROBE(p, n); STAP_PROBE1(p, n, 1); }";
    std::fs::write(dir.path().join("x.c"), source).expect("room");
    let args = ["-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-o", "x.so", "x.c"];
    let compiled = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a C compiler");
    assert!(compiled.success(), "tests/setup.sh installs <sys/sdt.h>");
    std::fs::read(dir.path().join("x.so")).expect("just made")
}

#[cfg(test)]
mod tests {
    use icecore_elf::{Layout, static_probes};

    use super::*;

    #[test]
    fn a_seed_has_static_probes() {
        let file = with_static_probes();
        let layout = Layout::read(&file[..]).expect("ELF");
        assert_eq!(static_probes(&layout, &file[..]).expect("listed").count(), 2);
    }
}
