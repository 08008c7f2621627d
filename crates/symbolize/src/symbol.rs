//! Joins what a symbol table and the debug information say about one function.

use std::sync::Arc;

use icecore_elf::{Svma, is_legacy_rust, part_of, plt, unversioned};

use crate::map::Map;
use crate::strings::Strings;
use crate::{Function, Origin};

/// A function as a symbol table has it. The names of one function are known by it, so that its users can share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Names as the table has them, the best one first; at least one.
    pub names: Vec<Box<[u8]>>,
    /// First address of the function, also for a part of it.
    pub whole: Svma,
    /// The source file of a local function.
    pub file: Option<Arc<str>>,
}

/// Joins symbols with functions of the debug information; each pair once.
#[derive(Debug, Default)]
pub struct Joiner {
    strings: Strings,
    /// By the addresses of the name and of the origin, which live as long as their functions are kept here, and by the symbol's start.
    known: Map<(usize, usize, Svma), Joined>,
}

/// A function that was joined with a symbol, and what came of it.
#[derive(Debug)]
struct Joined {
    _kept: Function,
    name: Arc<str>,
    origin: Arc<Origin>,
}

impl Joiner {
    /// Gives a function the name that a symbol table has for it, and tells what the table knows beside the name.
    ///
    /// The name by which the debug information knows the function is the one, if the table has it among others, unless it is that of a
    /// helper (`__libc_free` for `free`): names that were added for the same code change nothing. With line tables alone, debug information has names without their scopes (`push` for
    /// `Vec<T>::push`): then the first name of the table counts.
    pub fn join(&mut self, function: &mut Function, symbol: &Symbol) {
        let key = (function.name.as_ptr() as usize, Arc::as_ptr(&function.origin) as usize, symbol.whole);
        let Self { strings, known } = self;
        let Joined { name, origin, .. } = known.entry(key).or_insert_with(|| {
            let (name, origin) = joined(function, symbol, strings);
            Joined { _kept: function.clone(), name, origin: origin.into() }
        });
        (function.name, function.origin) = (name.clone(), origin.clone());
    }
}

fn joined(function: &Function, symbol: &Symbol, strings: &Strings) -> (Arc<str>, Origin) {
    let own = function.origin.symbol.as_deref().map(str::as_bytes);
    let plain = |raw: &'_ [u8]| -> Vec<u8> {
        // The name of a stub ends with a mark that is no version.
        let name = if raw.ends_with(plt::SUFFIX.as_bytes()) { raw } else { unversioned(raw) };
        part_of(name).unwrap_or(name).to_vec()
    };
    let readable = |name: &[u8]| match name.strip_suffix(plt::SUFFIX.as_bytes()) {
        Some(target) => Arc::from(format!("{}{}", strings.name(target), plt::SUFFIX)),
        None => strings.name(name),
    };
    let plain: Vec<Vec<u8>> = symbol.names.iter().map(|name| plain(name)).collect();
    // Names that begin with more underscores are those of helpers.
    let helper = |name: &[u8]| name.iter().take_while(|byte| **byte == b'_').count();
    let least = plain.first().map_or(0, |best| helper(best));
    let is_own = |name: &Vec<u8>| own == Some(name) && !function.name.is_empty() && helper(name) <= least;
    let chosen = plain.iter().position(is_own);
    let name = match (chosen, plain.first()) {
        (Some(_), _) | (None, None) => function.name.clone(),
        (None, Some(best)) => match is_legacy_rust(best) {
            true => completed(&readable(best), &function.name, &[]),
            false => readable(best),
        },
    };
    let chosen = &plain.get(chosen.unwrap_or(0)).map_or(&[][..], |name| name);
    let mut aliases: Vec<Arc<str>> = Vec::new();
    for other in plain.iter().filter(|other| other != chosen).map(|other| readable(other)) {
        if other != name && !aliases.contains(&other) {
            aliases.push(other);
        }
    }
    let Origin { entry, symbol: own, declared, .. } = (*function.origin).clone();
    let versioned = || {
        let raw = symbol.names.first()?;
        let is_versioned = unversioned(raw).len() < raw.len() && !raw.ends_with(plt::SUFFIX.as_bytes());
        is_versioned.then(|| Arc::from(String::from_utf8_lossy(raw)))
    };
    let origin = Origin {
        entry,
        symbol: own.or_else(versioned),
        declared,
        start: Some(symbol.whole),
        file: symbol.file.clone(),
        aliases,
    };
    (name, origin)
}

/// The part of a name of Rust's older mangling that stands for every closure.
const CLOSURE: &str = "{{closure}}";

/// Completes a name of Rust's older mangling, which has neither numbers of closures nor the types of an instance, by the name that
/// the debug information has for the function (`{closure#2}`, `run<A>`), and by those of the scopes around it, innermost first.
pub(crate) fn completed(name: &str, own: &str, scopes: &[&str]) -> Arc<str> {
    let mut end = name.len();
    let mut parts: Vec<&str> = Vec::new();
    for own in [own].into_iter().chain(scopes.iter().copied()) {
        let begin = name[..end].rfind("::").map_or(0, |at| at + 2);
        let part = &name[begin..end];
        let is_same = part == own;
        let has_types =
            own.strip_prefix(part).is_some_and(|rest| rest.starts_with('<') && rest.ends_with('>'));
        let is_closure = part == CLOSURE && own.starts_with("{closure");
        if part.is_empty() || !(is_same || has_types || is_closure) {
            break;
        }
        parts.push(own);
        end = begin.saturating_sub(2);
        if begin == 0 {
            break;
        }
    }
    let rest = &name[..end];
    let mut whole = if parts.is_empty() { name.to_owned() } else { rest.to_owned() };
    for part in parts.into_iter().rev() {
        whole.push_str(if whole.is_empty() { "" } else { "::" });
        whole.push_str(part);
    }
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(names: &[&str]) -> Symbol {
        let names = names.iter().map(|name| name.as_bytes().into()).collect();
        Symbol { names, whole: Svma(0x1000), file: Some("a.c".into()) }
    }

    fn of_dwarf(name: &str, symbol: &str) -> Function {
        let origin = Origin { symbol: Some(symbol.into()), ..Origin::default() };
        Function { origin: origin.into(), ..Function::new(name.into()) }
    }

    fn join(mut function: Function, names: &[&str]) -> (String, Vec<String>, Option<Svma>) {
        Joiner::default().join(&mut function, &symbol(names));
        let aliases = function.origin.aliases.iter().map(|name| name.to_string()).collect();
        (function.name.to_string(), aliases, function.origin.start)
    }

    #[test]
    fn the_name_of_the_source_is_the_one_whatever_aliases_were_added() {
        let start = Some(Svma(0x1000));
        let (name, aliases, at) = join(of_dwarf("decode", "decode"), &["dcd", "decode", "api@@V2"]);
        assert_eq!((&*name, aliases, at), ("decode", vec!["dcd".into(), "api".into()], start));
        assert_eq!(join(of_dwarf("__libc_free", "__libc_free"), &["free", "__libc_free"]).0, "free");
        let (name, aliases, _) = join(of_dwarf("push", "push"), &["_ZN3Vec4pushEi", "other"]);
        assert_eq!((&*name, aliases), ("Vec::push(int)", vec!["other".to_owned()]));
        let (name, aliases, _) = join(Function::new("".into()), &["api@@V2", "api@V1"]);
        assert_eq!((&*name, aliases), ("api", vec![]));
        let (name, ..) = join(Function::new("".into()), &["_Z3runv@plt"]);
        assert_eq!(name, "run()@plt");
        let (name, ..) = join(of_dwarf("run", "run"), &["run.cold"]);
        assert_eq!(name, "run");
        let (name, ..) = join(Function::new("".into()), &["_Z3runv.part.0.cold"]);
        assert_eq!(name, "run()");
    }

    #[test]
    fn a_version_is_kept_as_long_as_nothing_else_distinguishes_a_function() {
        let mut function = Function::new("".into());
        Joiner::default().join(&mut function, &symbol(&["api@V1"]));
        assert_eq!((&*function.name, function.origin.symbol.as_deref()), ("api", Some("api@V1")));
    }

    #[test]
    fn names_of_rusts_older_mangling_are_completed() {
        for (name, own, scopes, whole) in [
            ("two::main::{{closure}}", "{closure#2}", &[][..], "two::main::{closure#2}"),
            ("two::run", "run<two::A>", &[], "two::run<two::A>"),
            (
                "a::f::{{closure}}::{{closure}}",
                "{closure#1}",
                &["{closure#3}", "f"],
                "a::f::{closure#3}::{closure#1}",
            ),
            ("<a::T as b::U>::go", "go", &["{impl#0}"], "<a::T as b::U>::go"),
            ("<a::T as b::U>::go", "go<u8>", &["{impl#0}"], "<a::T as b::U>::go<u8>"),
            ("main", "main", &[], "main"),
            ("f", "f<u8>", &["g"], "f<u8>"),
            ("a::other", "run<two::A>", &[], "a::other"),
        ] {
            assert_eq!(&*completed(name, own, scopes), whole);
        }
    }

    #[test]
    fn functions_that_are_joined_once_are_shared() {
        let (mut joiner, first) = (Joiner::default(), of_dwarf("f", "f"));
        let (mut a, mut b) = (first.clone(), first);
        joiner.join(&mut a, &symbol(&["f"]));
        joiner.join(&mut b, &symbol(&["f"]));
        assert!(Arc::ptr_eq(&a.origin, &b.origin));
    }
}
