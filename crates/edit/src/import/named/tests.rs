use super::profile::{NamedPlace, Profile};
use super::*;

/// Writes the stacks of all samples as text, root first, with their weights. Functions that are inlined follow a colon, an exclamation
/// mark stands behind code of the kernel.
pub(super) fn shown(profile: &Profile) -> Vec<(String, u64)> {
    let texts: Vec<&str> = profile.texts.iter().map(|text| &**text).collect();
    let functions: Vec<_> = profile.functions.iter().collect();
    let places: Vec<&NamedPlace> = profile.places.iter().collect();
    let stacks: Vec<_> = profile.stacks.iter().collect();
    let place = |place: &NamedPlace| {
        let frames = place.frames.iter().rev();
        let names: Vec<&str> =
            frames.map(|(function, _)| texts[functions[*function as usize].name as usize]).collect();
        let address = if names.is_empty() { format!("{:#x}", place.address) } else { String::new() };
        format!("{}{address}{}", names.join(":"), if place.is_kernel { "!" } else { "" })
    };
    let stack = |mut at: u32| {
        let mut frames = Vec::new();
        while let Some(position) = at.checked_sub(1) {
            let (caller, of) = stacks[position as usize];
            frames.push(place(places[*of as usize]));
            at = *caller;
        }
        frames.reverse();
        frames.join(";")
    };
    profile.samples.iter().map(|sample| (stack(sample.stack), sample.weight)).collect()
}

#[test]
fn formats_are_known_by_their_content() {
    let of = |head: &[u8]| Format::of(head);
    assert_eq!(of(b"SIMPLEPERF\x01\0"), Some(Format::Simpleperf));
    assert_eq!(of(b"\x0a\x04\x08\x01\x10\x02"), Some(Format::Pprof));
    assert_eq!(of(b"\xef{"), None);
    assert_eq!(of(b" \n{\"meta\""), Some(Format::Firefox));
    for text in [&b"main;f 12\n"[..], b"{main};f 12\n"] {
        assert_eq!(of(text), Some(Format::Folded));
    }
    for other in [&b""[..], b"\x7fELF 12\n", b"ICECOR\r\n", b"hello\n", b"PK\x03\x04"] {
        assert_eq!(of(other), None);
    }
}
