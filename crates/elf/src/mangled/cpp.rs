//! Names of C++, as the Itanium C++ ABI mangles them.
//!
//! # Source  <https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling>; where it leaves open how a name is written, `nm -C`

mod expressions;
mod names;
mod parser;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod words;
mod write;

use parser::Parser;
use tree::Node;
pub(super) use write::LeftOut;

use super::Bounded;

/// Writes a name that begins with `_Z`; `None` if it is none, or takes more than its bounds.
pub(super) fn written(raw: &str, left_out: LeftOut) -> Option<String> {
    let mut parser = Parser::new(raw);
    parser.expect("_Z")?;
    let mut id = parser.encoding(true)?;
    while parser.peek(0) == b'.' {
        let suffix = clone_suffix(parser.rest())?;
        parser.at += suffix.len();
        id = parser.add(Node::Clone(id, suffix));
    }
    if !parser.rest().is_empty() {
        return None;
    }
    write::Writer::new(&parser.tree, Bounded::of(raw)).written(id, left_out)
}

/// Returns what a compiler appends to the name of a copy or a part of a function: `.part.0`, `.cold`, `.llvm.123`.
fn clone_suffix(text: &str) -> Option<&str> {
    let is_word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    let bytes = text.as_bytes();
    let run = |from: usize, is: &dyn Fn(u8) -> bool| {
        let len = bytes.get(from + 1..).unwrap_or_default().iter().take_while(|c| is(**c)).count();
        if bytes.get(from) == Some(&b'.') && len > 0 { from + 1 + len } else { from }
    };
    let mut end = run(0, &is_word);
    loop {
        match run(end, &|c| c.is_ascii_digit()) {
            next if next == end => break,
            next => end = next,
        }
    }
    (end > 0).then(|| &text[..end])
}
