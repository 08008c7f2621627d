//! Tells what is the same function in two builds.
//!
//! | call | answer |
//! |---|---|
//! | [`function`], [`image`], [`Images`] | the key under which a name, an image is the same in every build |
//! | [`matched()`] | the rows of two recordings, in groups that are one function each |
//! | [`renamed()`] | which of those that are gone may be called otherwise now |
//! | [`code::compare`] | whether the machine code of a function is the same in both builds |
//!
//! All but [`code`], which reads files, is pure: names in, positions out, the same for any order of the items. A key is for comparing, not for
//! showing: people are shown the names themselves. Nothing here knows weights or statistics, except that
//! [`renamed()`] is given shares.
//!
//! What belongs together is summed: a compiler that splits `f` into `f`, `f.cold` and `f.part.0` has moved time between
//! them, not made a function faster. What cannot be told apart is summed as well, so that no function is both new
//! and gone; what only *may* be the same is left apart.

pub mod code;
mod dialect;
mod groups;
mod images;
mod jit_names;
mod moved;
mod names;
mod numbers;
mod parameters;
mod renamed;

pub use groups::{By, Group, Item, matched};
pub use images::{Images, image};
pub use names::function;
pub use renamed::{Left, Renamed, renamed};

use std::borrow::Cow;

use regex::{Regex, Replacer};

/// Replaces every match of a pattern, and copies only what is changed.
fn replaced<'n>(name: Cow<'n, str>, pattern: &Regex, by: impl Replacer) -> Cow<'n, str> {
    match name {
        Cow::Borrowed(name) => pattern.replace_all(name, by),
        Cow::Owned(name) => match pattern.replace_all(&name, by) {
            Cow::Borrowed(_) => Cow::Owned(name),
            Cow::Owned(changed) => Cow::Owned(changed),
        },
    }
}

/// A pattern of this room's source.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("bug: a pattern of the source is broken")
}
