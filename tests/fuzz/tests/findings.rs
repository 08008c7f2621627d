//! What fuzzing found, and what should have held.

use icecore_format::read::Recording;
use icecore_fuzz::draft;
use icecore_tests::synthetic::Builder;

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
