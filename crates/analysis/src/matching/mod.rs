//! Finds out which functions of two builds are the same.
//!
//! | call | answer |
//! |---|---|
//! | [`function`], [`image`], [`ImageKeys`] | the key under which a name or an image is the same in every build |
//! | [`matched()`] | the rows of two recordings, grouped by function |
//! | [`renamed()`] | which functions that are gone may have a new name |
//! | [`Twins`] | what tells functions of one name apart in every build |
//! | [`code::compare`] | whether the machine code of a function is identical in both builds |
//!
//! All modules but [`code`], which reads files, are pure: names in, positions out, independent of the order of the items. Keys
//! serve comparisons; people see the names themselves. Nothing here uses weights or statistics, except that [`renamed()`] receives
//! shares.
//!
//! Related functions are summed: a compiler that splits `f` into `f`, `f.cold` and `f.part.0` has moved time between them, but has
//! not made a function faster. Functions that cannot be distinguished are summed as well, so that no function is both new and gone.
//! Functions that only *may* be the same stay separate.

pub mod code;
mod dialect;
mod groups;
mod images;
mod jit_names;
mod moved;
mod names;
mod numbers;
mod open;
mod parameters;
mod renamed;
pub mod twins;

pub use groups::matched;
pub use images::{ImageKeys, image};
pub use names::function;
pub use open::{Clue, Group, Item};
pub use renamed::{Left, Renamed, renamed};
pub use twins::Twins;

use std::borrow::Cow;

use regex::{Regex, Replacer};

/// Replaces every match of a pattern; copies only if there is one.
fn replaced<'n>(name: Cow<'n, str>, pattern: &Regex, by: impl Replacer) -> Cow<'n, str> {
    match name {
        Cow::Borrowed(name) => pattern.replace_all(name, by),
        Cow::Owned(name) => match pattern.replace_all(&name, by) {
            Cow::Borrowed(_) => Cow::Owned(name),
            Cow::Owned(changed) => Cow::Owned(changed),
        },
    }
}

/// Compiles a pattern of this room.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("bug: a pattern of the source is broken")
}
