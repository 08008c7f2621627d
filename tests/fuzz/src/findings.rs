//! What fuzzing found, and what should have held.

use icecore_format::read::Recording;
use icecore_tests::inside::run_in;
use icecore_tests::synthetic::{Builder, START_NS};

use crate::draft;

#[test]
fn damage_lies_in_the_file() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("x");
    Builder::default().write(&path, false).expect("writable");
    let mut draft = draft::of(&std::fs::read(&path).expect("just written"));
    // The first block has number 9, the last one is torn.
    draft[64 + 16] = 9;
    let whole = draft::finished(&draft);
    let torn = &whole[..whole.len() - 8];
    for damage in Recording::from_bytes(torn).expect("a recording").damage() {
        assert!(damage.off <= torn.len() as u64, "{damage}, in a file of {} bytes", torn.len());
    }
}

#[test]
fn recordings_of_centuries_can_be_compared() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut b = Builder::default();
    b.block_len = 1;
    let task = b.task(7, 7, "x");
    for at_ns in [0, u64::MAX / 2, u64::MAX - 2 * START_NS] {
        b.sample(at_ns, 0, task, &[0x1000], &[]);
    }
    b.write(&dir.path().join("x"), true).expect("writable");
    for unit in ["share", "cpu"] {
        let (code, _, err) = run_in(dir.path(), &["diff", "DIR/x", "DIR/x", "--all", "--unit", unit]);
        assert_eq!(code, 0, "{err}");
    }
}
