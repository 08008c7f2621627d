//! Matches names of functions across builds: removes what compilers and linkers add to them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{image, jit_names, pattern, replaced};

/// The substitute for a function without a name: image and address.
static ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?P<image>[^<>(){}]+)\+0x[0-9a-f]+(?P<stub>@plt)?$"));
/// Parts and variants of one function, at the end of its name, in the form of the symbol and in that of `nm -C`.
///
/// The list excludes `.resume`, `.destroy`, `.cleanup` and `.actor`: these are functions of a coroutine, each with its own work. It
/// also excludes `.part` and the others without a number: a method of Go may have such a name.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    let numbered = r"part|isra|constprop|lto_priv|llvm|specialized|funcspec|clone|__uniq";
    let any = r"cold|localalias|argprom";
    let part = format!(r"\.(?:(?:{any})(?:\.\d+)?|(?:{numbered})\.\d+)");
    pattern(&format!(r"(?:{part}| \[clone {part}\])+$"))
});
/// The version under which a symbol is exported; `@plt` marks a stub.
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?P<name>[\w.$]+|.*[)>])@@?(?:[A-Z][\w.]*_[\w.]*|Base)$"));
/// Rust: the hash of the legacy mangling, and the crate's in v0.
static RUST_HASH: LazyLock<Regex> = LazyLock::new(|| pattern(r"::h[0-9a-f]{16}$"));
static CRATE_HASH: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?P<name>\w)\[[0-9a-f]{1,16}\]::"));
/// C++.
static ABI_TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?P<name>.)(?:\[abi:[^\]]*\])+"));
static ANONYMOUS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\{anonymous\}|_GLOBAL__N_1\b|`anonymous namespace'"));
static BRACKETS: LazyLock<Regex> = LazyLock::new(|| pattern(r">(?: +>)+"));
/// Go: calling conventions, method values, shapes of type parameters; the folder of vendored packages.
static GO_END: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:\.abi0|\.abiinternal|·f|-fm)+$"));
static GO_SHAPE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\[(?:go\.shape\.[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*|\.\.\.)\]"));
static VENDORED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[\w.\-]+/)*vendor/(?P<name>.+)$"));
/// Removing one suffix may reveal another; no compiler adds so many.
const MAX_PASSES: usize = 16;
/// The kernel: padding before a function.
const PADDING: &str = "__pfx_";

/// Returns the key under which a function is matched across builds; the key of a key is the key itself.
///
/// Numbers of closures and lambdas stay, because they distinguish functions of one build. All functions without a name in one image
/// share a key: an address says nothing about another build.
///
/// # Units   `name`: as [`icecore_profile::named::names::Function::name`] has it, demangled
pub fn function(name: &str) -> Cow<'_, str> {
    let mut key = once(name);
    for _ in 0..MAX_PASSES {
        match once(&key) {
            same if *same == *key => break,
            changed => key = changed.into_owned().into(),
        }
    }
    key
}

/// Returns true if a name only states an address.
pub(super) fn is_address(name: &str) -> bool {
    name.contains("+0x") && ADDRESS.is_match(name)
}

fn once(name: &str) -> Cow<'_, str> {
    let unnamed = name.contains("+0x").then(|| ADDRESS.captures(name)).flatten();
    if let Some(unnamed) = unnamed {
        let stub = unnamed.name("stub").map_or("", |stub| stub.as_str());
        return format!("{}+?{stub}", image(&unnamed["image"])).into();
    }
    let mut key = jit_names::settled(name.into());
    key = without_end(key, '@', &VERSION);
    key = without_end(key, '.', &PART);
    key = without_end(key, ':', &RUST_HASH);
    if key.contains("]::") {
        key = replaced(key, &CRATE_HASH, "${name}::");
    }
    if key.contains("[abi:") {
        key = replaced(key, &ABI_TAG, "${name}");
    }
    if key.contains("anonymous") || key.contains("_GLOBAL__N_1") {
        key = replaced(key, &ANONYMOUS, "(anonymous namespace)");
    }
    if key.contains("> ") {
        key = replaced(key, &BRACKETS, |it: &Captures<'_>| it[0].replace(' ', ""));
    }
    match key.strip_prefix(PADDING) {
        Some(padded) if !padded.is_empty() => of_go(padded.to_owned().into()),
        _ => of_go(key),
    }
}

fn of_go(mut key: Cow<'_, str>) -> Cow<'_, str> {
    key = without_end(key, '.', &GO_END);
    if key.contains("[go.shape.") {
        key = replaced(key, &GO_SHAPE, "[...]");
    }
    if key.contains("vendor/") {
        key = replaced(key, &VENDORED, "${name}");
    }
    key
}

/// Removes a match at the end, unless it is the whole name.
fn without_end<'n>(name: Cow<'n, str>, mark: char, end: &Regex) -> Cow<'n, str> {
    if !name.contains(mark) {
        return name;
    }
    let Some(found) = end.captures(&name) else { return name };
    let whole = found.get_match();
    let keep = found.name("name").map_or(whole.start(), |name| name.end());
    match (keep, name) {
        (0, name) => name,
        (_, Cow::Borrowed(name)) => name[..keep].into(),
        (_, Cow::Owned(mut name)) => {
            name.truncate(keep);
            name.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use icecore_elf::readable;

    #[test]
    fn what_compilers_and_linkers_add_is_no_part_of_a_key() {
        for (name, key) in [
            ("f.cold", "f"),
            ("f.cold.12", "f"),
            ("f.part.0", "f"),
            ("f.isra.0.constprop.1.cold", "f"),
            ("f.lto_priv.0", "f"),
            ("f.llvm.1234567890123", "f"),
            ("f.__uniq.27182818284590.llvm.3", "f"),
            ("f.specialized.2", "f"),
            ("__pfx_do_exit", "do_exit"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("pthread_create@GLIBC_2.2.5", "pthread_create"),
            ("a::b::h0123456789abcdef", "a::b"),
            ("a::b::h0123456789abcdef.llvm.77", "a::b"),
            ("std[8787f43e282added]::rt::lang_start::<()>", "std::rt::lang_start::<()>"),
            ("<a[1f]::B as c[2e]::D>::e", "<a::B as c::D>::e"),
            ("tag[abi:cxx11](int)", "tag(int)"),
            ("{anonymous}::H::go(int)", "(anonymous namespace)::H::go(int)"),
            ("f(A<A<int> > const&)", "f(A<A<int>> const&)"),
            ("runtime.memmove.abi0", "runtime.memmove"),
            ("main.(*T).work-fm", "main.(*T).work"),
            ("main.twice[go.shape.int]", "main.twice[...]"),
            ("main.twice[go.shape.[]uint8]", "main.twice[...]"),
            ("app/vendor/golang.org/x/net.f", "golang.org/x/net.f"),
            ("libfoo.so.1+0x1234", "libfoo.so+?"),
            ("[kernel]+0xffffffff81000000", "[kernel]+?"),
            ("*ABS*+0x9f550@plt", "*ABS*+?@plt"),
        ] {
            assert_eq!(function(name), key, "{name}");
        }
    }

    #[test]
    fn the_names_that_symbols_are_shown_under_lose_the_same() {
        for (raw, key) in [
            ("_Z3foov.cold", "foo()"),
            ("_Z3foov.isra.0.cold", "foo()"),
            ("_Z3foov.resume", "foo() [clone .resume]"),
            ("_Z3foov.resume.cold", "foo() [clone .resume]"),
            ("_Z3tagB5cxx11i", "tag(int)"),
            ("_ZN12_GLOBAL__N_11H2goEi.isra.0", "(anonymous namespace)::H::go(int)"),
            ("_ZN3foo3bar17h0123456789abcdefE.llvm.123", "foo::bar"),
            ("_ZN3foo3bar17h0123456789abcdefE.cold", "foo::bar"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_RNCNvCs1234_7mycrate3foo0B3_.llvm.99", "mycrate::foo::{closure#0}"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
        ] {
            assert_eq!(function(&readable(raw.as_bytes())), key, "{raw}");
        }
    }

    #[test]
    fn what_is_another_function_stays_another() {
        for name in [
            "f",
            "f.resume",
            "f.destroy",
            "f.actor",
            "f._omp_fn.0",
            "main.part",
            ".cold",
            "f@plt",
            "operator[](int)",
            "a::operator+(int)",
            "f(int (&) [12])",
            "main::{lambda(int)#2}::operator()(int) const",
            "a::b::{closure#3}",
            "a::b::{{closure}}",
            "main.work.func1.2",
            "a::h0123",
            "foo@bar",
            "__pfx_",
            "[unmapped]",
            "",
        ] {
            assert_eq!(function(name), name);
            assert!(matches!(function(name), Cow::Borrowed(_)), "{name} was copied");
        }
    }

    const PIECES: &[&str] = &[
        "f",
        "::",
        "a",
        ".cold",
        ".part.",
        "0",
        "12",
        ".llvm.",
        "::h0123456789abcdef",
        "[1a2b]",
        "[abi:x]",
        "> ",
        ">",
        "<",
        "(",
        ")",
        "@@GLIBC_",
        "2.1",
        " [clone .cold]",
        "__pfx_",
        "·f",
        "-fm",
        ".abi0",
        "[go.shape.int]",
        "vendor/",
        "lib.so.6",
        "+0x1f",
        "@plt",
        "{closure#1}",
        "{anonymous}",
        "JS:~",
        "py::",
        ":1:2",
        "/",
        " ",
        "$$Lambda$",
        "[Tier0]",
        "é",
    ];

    proptest! {
        #[test]
        fn a_key_is_its_own_key(parts in proptest::collection::vec(proptest::sample::select(PIECES), 0..9)) {
            let name = parts.concat();
            let key = function(&name);
            prop_assert_eq!(function(&key), key.clone());
            prop_assert_eq!(key.is_empty(), name.is_empty());
        }
    }
}
