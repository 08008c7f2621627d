//! Removes the numbers that compilers give to unnamed functions: they shift when one is added.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::{jit_names, pattern, replaced};

/// Rust: closures and the like, in v0 with numbers, and in the legacy mangling without.
static CLOSURE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\{(?P<kind>[a-z_: ]+)#\d+\}|\{\{(?P<legacy>[a-z_.]+)\}\}"));
/// C++: lambdas without linkage, as Clang names them.
static CLANG_LAMBDA: LazyLock<Regex> = LazyLock::new(|| pattern(r"::\$_\d+\b"));
/// Go: closures, and the bodies of loops over functions.
static GO_CLOSURE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<kind>\.func|\.gowrap|\.deferwrap|-range)\d+(?:\.\d+)*"));
/// Functions that differ only in a number at the end: outlined loops, initializers, equal names of several files.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<name>[\w)>}])(?:\.+\d+)+$|(?P<outlined>OUTLINED_FUNCTION)_\d+$"));
/// Namespaces that only distinguish ABIs.
static INLINE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:__cxx11|__1|__2|__ndk1|_V2)::"));

/// Returns the key without numbers that count functions: it still matches if a closure was added before another one.
pub(super) fn unnumbered(key: &str) -> Cow<'_, str> {
    let mut key = jit_names::unnumbered(key.into());
    if key.contains('#') || key.contains("{{") {
        key = replaced(key, &CLOSURE, "{${kind}${legacy}}");
    }
    if key.contains("lambda") {
        key = without_lambdas(&key, "{lambda(", "}").into();
        key = without_lambdas(&key, "'lambda", "").into();
    }
    if key.contains("::$_") {
        key = replaced(key, &CLANG_LAMBDA, "::{lambda}");
    }
    key = replaced(key, &GO_CLOSURE, "${kind}");
    key = replaced(key, &NUMBER, "${name}${outlined}");
    if key.contains("::") { replaced(key, &INLINE, "") } else { key }
}

/// Writes lambdas of C++ without number and parameters: `{lambda(int)#2}` in the form of `nm -C`, `'lambda0'(int)` in that of
/// LLVM.
fn without_lambdas(key: &str, begin: &str, end: &str) -> String {
    let (mut rest, mut left) = (key, String::with_capacity(key.len()));
    while let Some((before, lambda)) = rest.split_once(begin) {
        let (head, parameters) = if begin.ends_with('(') { ("", Some(lambda)) } else { head(lambda) };
        let close = parameters.and_then(closing).map(|close| head.len() + close + 1);
        // At most a number follows the parameters.
        let close = close.and_then(|close| Some(close + lambda[close..].find(end)? + end.len()));
        let Some(close) = close else { break };
        left.push_str(before);
        left.push_str("{lambda}");
        rest = &lambda[close..];
    }
    left + rest
}

/// Splits the text after `'lambda`: number, quote and bracket, and the parameters.
fn head(lambda: &str) -> (&str, Option<&str>) {
    let digits = lambda.len() - lambda.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match lambda[digits..].strip_prefix("'(") {
        Some(parameters) => (&lambda[..digits + 2], Some(parameters)),
        None => ("", None),
    }
}

/// Finds the bracket that closes one that precedes the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, c)| match c {
        ')' if depth == 0 => Some(at),
        '(' => {
            depth += 1;
            None
        }
        ')' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_closures_go_in_the_second_step() {
        for (key, looser) in [
            ("a::b::{closure#3}::{closure#0}", "a::b::{closure}::{closure}"),
            ("a::b::{{closure}}", "a::b::{closure}"),
            ("main::{lambda(int)#2}::operator()(int) const", "main::{lambda}::operator()(int) const"),
            ("main::'lambda0'(int)::operator()(int) const", "main::{lambda}::operator()(int) const"),
            ("each<main::{lambda(f(*)(int))#1}>(A)", "each<main::{lambda}>(A)"),
            ("each<main::$_0>(A)", "each<main::{lambda}>(A)"),
            ("f({lambda(int", "f({lambda(int"),
            ("main.work.func1.2", "main.work.func"),
            ("main.work.gowrap2", "main.work.gowrap"),
            ("main.init.0", "main.init"),
            ("f._omp_fn.0", "f._omp_fn"),
            ("f.omp_outlined..3", "f.omp_outlined"),
            ("OUTLINED_FUNCTION_12", "OUTLINED_FUNCTION"),
            ("std::__cxx11::basic_string<char>::f()", "std::basic_string<char>::f()"),
            ("plain", "plain"),
        ] {
            assert_eq!(unnumbered(key), looser);
        }
    }
}
