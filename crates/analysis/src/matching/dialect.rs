//! Compares the two manglings of Rust, which encode different facts of the same function.
//!
//! | | legacy | v0 |
//! |---|---|---|
//! | method | `alloc::vec::Vec<T,A>::push` | `<alloc::vec::Vec<u8>>::push` |
//! | generic function | `a::f` | `a::f::<u8>` |
//! | trait, elsewhere | `a::b::<impl c::D for u8>::f` | `<u8 as c::D>::f` |
//! | trait, its own | `c::D::f` | `<u8 as c::D>::f` |
//! | trait, for all | `<T as c::D>::f` | `<u8 as c::D>::f` |
//! | closure | `a::f::{{closure}}` | `a::f::{closure#0}` |

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::Regex;

use super::open::Item;
use super::{ImageKeys, pattern};

/// How deeply nested types are parsed.
const MAX_DEPTH: usize = 8;

/// A mangling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dialect {
    Legacy,
    V0,
}

/// Forms that only the legacy mangling has: closures without numbers, modules of implementations, and type parameters where v0 has
/// types.
static LEGACY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\{\{|::<impl |<&?(?:mut )?[A-Z]\w? as |<[A-Z]\w?(?:,[A-Z]\w?)*>|,[A-Z]\w?>|\[[A-Z]\w?\]")
});
/// Forms that only v0 has: numbers of closures, and types that follow `::` or stand alone in brackets.
static V0: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"::<[^i]|::<i[^m]|\{(?:closure|shim:\w+)#|^<<*[^ ]+>::"));

/// Recognizes a mangling by forms that only it has.
pub(super) fn dialect(name: &str) -> Option<Dialect> {
    match name {
        _ if LEGACY.is_match(name) => Some(Dialect::Legacy),
        _ => V0.is_match(name).then_some(Dialect::V0),
    }
}

/// The manglings that occur in each image: libraries may be older than the program into which they are linked.
pub(super) struct Dialects<'a>(HashMap<Option<&'a str>, BTreeSet<Dialect>>);

impl<'a> Dialects<'a> {
    pub(super) fn of(items: &[Item<'_>], images: &'a ImageKeys<'_>) -> Self {
        let mut found: HashMap<Option<&'a str>, BTreeSet<Dialect>> = HashMap::new();
        for item in items {
            if let Some(dialect) = dialect(item.name) {
                found.entry(item.image.and_then(|path| images.key(path))).or_default().insert(dialect);
            }
        }
        Self(found)
    }

    pub(super) fn in_image(&self, image: Option<&'a str>) -> Option<&BTreeSet<Dialect>> {
        self.0.get(&image)
    }
}

/// Keys that are equal in both manglings, each less strict than the one before. They expect names without numbers.
pub(super) const KEYS: [fn(&str) -> String; 3] = [without_turbofish, without_types, without_self];

fn without_turbofish(key: &str) -> String {
    key.replace("::<", "<").replace("{vtable.shim}", "::{shim:vtable}")
}

/// Removes type arguments, and the module of an implementation.
fn without_types(key: &str) -> String {
    let key = without_turbofish(key);
    let (own, implements, rest) = parts(&key, 0);
    match implements {
        Some(implements) => format!("<{own} as {implements}>{rest}"),
        None => own + &rest,
    }
}

/// Also removes the type for which a trait is implemented, or a type that is no path.
fn without_self(key: &str) -> String {
    let key = without_turbofish(key);
    let (own, implements, rest) = parts(&key, 0);
    match implements {
        Some(implements) => implements + &rest,
        None if own.contains("::") || rest.is_empty() => own + &rest,
        None => format!("_{rest}"),
    }
}

/// Splits a name into the type or the whole path, the trait that it implements, and the rest.
fn parts(key: &str, depth: usize) -> (String, Option<String>, String) {
    let begin = if key.starts_with('<') { Some(0) } else { key.find("<impl ") };
    let Some((inside, rest)) = begin.and_then(|begin| bracketed(&key[begin..])).filter(|_| depth < MAX_DEPTH)
    else {
        return (bare(key), None, String::new());
    };
    let whole = |name: &str| {
        let (own, implements, rest) = parts(name, depth + 1);
        match implements {
            Some(implements) => format!("<{own} as {implements}>{rest}"),
            None => own + &rest,
        }
    };
    let divided = match inside.strip_prefix("impl ") {
        Some(inside) => divided(inside, " for ").map(|(implements, own)| (own, implements)).ok_or(inside),
        None => divided(inside, " as ").ok_or(inside),
    };
    match divided {
        Ok((own, implements)) => (whole(own), Some(bare(implements)), bare(rest)),
        Err(inside) => (whole(inside), None, bare(rest)),
    }
}

/// Returns everything outside of angle brackets.
fn bare(text: &str) -> String {
    let mut depth = 0_usize;
    let outside = |(before, c): (char, char)| {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => {
                depth = depth.saturating_sub(1);
                return None;
            }
            _ => {}
        }
        (depth == 0).then_some(c)
    };
    let before = std::iter::once(' ').chain(text.chars());
    before.zip(text.chars()).filter_map(outside).collect()
}

/// Splits a text that begins with a bracket into the content and the rest.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let end = at_depth(text, 1, |rest| rest.starts_with('>'))?;
    Some((&text[1..end], &text[end + 1..]))
}

/// Splits a text at a word outside of brackets.
fn divided<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let at = at_depth(text, 0, |rest| rest.starts_with(word))?;
    Some((&text[..at], &text[at + word.len()..]))
}

/// Finds the first position inside exactly so many angle brackets where the predicate is true; `->` is no bracket.
fn at_depth(text: &str, wanted: usize, is_it: impl Fn(&str) -> bool) -> Option<usize> {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in text.char_indices() {
        let closes = c == '>' && before != '-';
        if depth == wanted && (c != '>' || closes) && is_it(&text[at..]) {
            return Some(at);
        }
        match c {
            '<' => depth += 1,
            _ if closes => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_manglings_have_one_key() {
        for (legacy, v0) in [
            ("alloc::vec::Vec<T,A>::push", "<alloc::vec::Vec<u8>>::push"),
            ("a::f", "a::f::<u8>"),
            ("core::num::<impl core::fmt::Debug for usize>::fmt", "<usize as core::fmt::Debug>::fmt"),
            (
                "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
                "<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop",
            ),
            ("a::f::{closure}", "a::f::<u8, fn(u8) -> u8>::{closure}"),
            ("<a::B<F> as c::D<X>>::e", "<a::B<<x::Y as z::W>::V> as c::D<u8>>::e"),
        ] {
            assert_eq!(without_types(legacy), without_types(v0), "{v0}");
        }
        for (legacy, v0) in [
            ("core::iter::Iterator::map", "<a::B<u8> as core::iter::Iterator>::map::<u8>"),
            ("<T as core::convert::Into<U>>::into", "<a::B as core::convert::Into<u8>>::into"),
            ("alloc::slice::<impl [T]>::to_vec", "<[u8]>::to_vec"),
            (
                "core::ops::FnOnce::call_once{vtable.shim}",
                "<a::f::{closure} as core::ops::FnOnce<()>>::call_once::{shim:vtable}",
            ),
        ] {
            assert_eq!(without_self(legacy), without_self(v0), "{v0}");
        }
        assert_eq!(
            without_turbofish("core::ptr::drop_in_place::<a::B<u8>>"),
            without_turbofish("core::ptr::drop_in_place<a::B<u8>>")
        );
    }

    #[test]
    fn a_mangling_is_told_by_what_only_it_writes() {
        for name in
            ["a::{{closure}}", "a::<impl b::C for u8>::d", "<&T as b::C>::d", "a::Vec<T,A>::b", "a::B<T>::c"]
        {
            assert_eq!(dialect(name), Some(Dialect::Legacy), "{name}");
        }
        for name in ["a::{closure#0}", "a::b::<u8>", "<a::B>::c", "<a::B<u8>>::c"] {
            assert_eq!(dialect(name), Some(Dialect::V0), "{name}");
        }
        for name in ["a::b", "<a::B as c::D>::e", "f(std::vector<int> const&)", "main"] {
            assert_eq!(dialect(name), None, "{name}");
        }
    }

    #[test]
    fn different_functions_have_different_keys() {
        for (a, b) in [
            ("<u8 as c::D>::f", "<u16 as c::D>::f"),
            ("<a::B as c::D>::f", "<a::B as c::E>::f"),
            ("<a::B>::f", "<a::B>::g"),
            ("a::f", "b::f"),
        ] {
            assert_ne!(without_types(a), without_types(b));
        }
    }

    #[test]
    fn deep_and_torn_names_are_read() {
        for name in
            ["<".repeat(10_000), "<a as ".repeat(5_000), "<impl ".into(), ">->".into(), "<é as ü>::ß".into()]
        {
            KEYS.iter().for_each(|key| assert!(key(&name).len() <= name.len() + 32, "{name}"));
        }
    }
}
