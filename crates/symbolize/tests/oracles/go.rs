//! A stripped program of Go has the names that its symbol table had.

use crate::programs::{Frame, Workshop, nowhere, ours, places};

/// The name of the function itself; empty if it has none.
fn physical(frames: &[Frame]) -> &str {
    frames.last().map_or("", |frame| frame.0.as_str())
}

/// Go's table shortens what is in brackets, and does not tell the calling convention.
fn shortened(name: &str) -> String {
    let name = [".abi0", ".abiinternal"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => format!("{}[...]{}", &name[..open], &name[close + 1..]),
        _ => name.to_owned(),
    }
}

#[test]
fn a_stripped_program_of_go_has_its_names() {
    let shop = Workshop::new();
    for mode in ["exe", "pie"] {
        let whole = shop.compile_go(&format!("-buildmode={mode}"), "whole");
        shop.run("strip", "whole -o stripped");
        let places = places(&whole, 20_000);
        let whole = ours(&whole, &nowhere(), &places);
        let stripped = ours(&shop.path("stripped"), &nowhere(), &places);
        let mut equal = 0;
        for ((whole, stripped), (_, at)) in whole.iter().zip(&stripped).zip(&places) {
            let (symbol, table) = (physical(whole), physical(stripped));
            assert!(table == symbol || table == shortened(symbol), "{mode} {at:#x}: {symbol} {table}");
            assert!(stripped.iter().all(|frame| frame.1.is_none() && frame.2.is_none()), "it has no lines");
            equal += usize::from(table == symbol);
        }
        println!("{mode}: {equal} of {} are equal", places.len());
        assert!(equal * 10 > places.len() * 9, "{mode}: {equal} of {}", places.len());
    }
}
