//! Cuts names of functions: what says least goes first, and what tells two functions apart stays.
//!
//! The one rule of all views: fold default template arguments, drop the type that the function returns, drop its parameters, cut
//! inside brackets from the innermost outwards, drop scopes from the outermost inwards. The name of the function itself is cut
//! only if it alone is too wide.

use std::borrow::Cow;

use crate::fit::{columns, cut};

mod brackets;
mod fold;

use brackets::Brackets;
pub use fold::folded;

/// Replaces what is cut out.
const CUT: &str = "…";
/// Names with more levels of brackets are cut as any text is.
const MAX_LEVELS: usize = 64;
/// The words before a name of C++ that say what a compiler made for it end so.
const MADE: [&str; 3] = [" thunk to ", "table for ", " for "];

/// Cuts a name that takes more than `most` columns. A mark at its end in round brackets or behind `@`, and the parts of a function,
/// stay.
///
/// # Example
/// ```
/// use icecore_text::name::short;
///
/// let name = "std::vector<int, std::allocator<int> > ns::Pool<Job>::take(unsigned long) const";
/// assert_eq!(short(name, 30), "ns::Pool<Job>::take(…)");
/// assert_eq!(short(name, 18), "ns::Pool<…>::take");
/// assert_eq!(short(name, 14), "…::take");
/// ```
pub fn short(name: &str, most: usize) -> Cow<'_, str> {
    if columns(name) <= most {
        return Cow::Borrowed(name);
    }
    let (bare, mark) = split_mark(name);
    let room = most.saturating_sub(columns(mark));
    // A mark that takes nearly all of the room says less than a part of the name.
    if room < (most / 3).max(1) {
        return cut(name, most);
    }
    match steps(bare, room) {
        Some(short) => Cow::Owned(short + mark),
        None => Cow::Owned(format!("{}{mark}", cut(bare, room))),
    }
}

/// Lists the forms that [`short`] gives a name before it cuts the name of the function itself: each is shorter than the one before.
///
/// # Example
/// ```
/// use icecore_text::name::forms;
///
/// let forms = forms("std::vector<int, std::allocator<int> > Pool<Job>::take(unsigned long)");
/// let shortest = ["Pool<Job>::take(…)", "Pool<Job>::take", "Pool<…>::take", "…::take"];
/// assert_eq!(forms[forms.len() - 4..], shortest);
/// ```
pub fn forms(name: &str) -> Vec<String> {
    let (bare, mark) = split_mark(name);
    let longer = |form: &String| steps(bare, columns(form) - columns(mark) - 1).map(|it| it + mark);
    std::iter::successors(steps(bare, columns(bare).saturating_sub(1)).map(|it| it + mark), longer).collect()
}

/// Returns the first form of a name that fits; `None` if it has no structure.
fn steps(name: &str, most: usize) -> Option<String> {
    let fits = |text: &String| columns(text) <= most;
    let folded = folded(name)?;
    if fits(&folded) {
        return Some(folded);
    }
    let (made, function) = split_made(&folded);
    let parts = Function::split(function)?;
    let whole = |name: &str, params: &str| format!("{made}{name}{params}");
    let mut scoped = parts.name.to_owned();
    for params in [parts.params, if parts.params.is_empty() { "" } else { "(…)" }, ""] {
        let text = whole(&scoped, params);
        if fits(&text) {
            return Some(text);
        }
    }
    let deepest = Brackets::of(&scoped)?.deepest();
    for level in (1..=deepest).rev() {
        scoped = Brackets::of(&scoped)?.emptied(&scoped, level);
        let text = whole(&scoped, "");
        if fits(&text) {
            return Some(text);
        }
    }
    let separators = Brackets::of(&scoped)?.separators(&scoped);
    for at in separators {
        let text = format!("{CUT}{}", &scoped[at..]);
        if fits(&text) {
            return Some(text);
        }
    }
    None
}

/// A name in pieces.
struct Function<'n> {
    /// With its scope and template arguments.
    name: &'n str,
    /// In brackets, with the qualifiers of the object; empty if the name has none.
    params: &'n str,
}

impl<'n> Function<'n> {
    /// Splits a name, without the type that the function returns. `None` if brackets do not match.
    fn split(text: &'n str) -> Option<Self> {
        let brackets = Brackets::of(text)?;
        let Some(open) = brackets.params(text) else {
            return Some(Self { name: text, params: "" });
        };
        // An operator may have blanks in its name, the type that a function returns may have them, too.
        let end = brackets.operator().unwrap_or(open);
        let begin = brackets.outer(text, end, ' ').map_or(0, |at| at + 1);
        Some(Self { name: &text[begin..open], params: &text[open..] })
    }
}

/// Splits off what tells two functions of one name apart: `helper (a.c:3)`, `api@V1`, `run [clone .cold]`.
fn split_mark(name: &str) -> (&str, &str) {
    let mut bare = name;
    if name.ends_with(')')
        && let Some(at) = name.rfind(" (")
        && !name[at + 2..].contains('(')
        && !name[at + 2..].contains(',')
    {
        bare = &name[..at];
    }
    while bare.ends_with(']')
        && let Some(at) = bare.rfind(" [clone ")
    {
        bare = &bare[..at];
    }
    let is_version = |c: char| c.is_ascii_alphanumeric() || "@._".contains(c);
    if let Some(at) = bare.find('@').filter(|at| *at > 0)
        && bare[at..].chars().all(is_version)
    {
        bare = &bare[..at];
    }
    name.split_at(bare.len())
}

/// Splits off what a compiler made for a name: `non-virtual thunk to `.
fn split_made(name: &str) -> (&str, &str) {
    let end = MADE.iter().filter_map(|words| name.find(words).map(|at| at + words.len())).min();
    let is_words = |begin: &str| begin.chars().all(|c| c.is_ascii_alphabetic() || " -".contains(c));
    match end.filter(|end| is_words(&name[..*end])) {
        Some(end) => name.split_at(end),
        None => ("", name),
    }
}

#[cfg(test)]
mod tests;
