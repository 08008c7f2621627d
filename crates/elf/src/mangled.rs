//! Makes names of symbol tables and of DWARF readable.

mod cpp;
mod d;
mod ocaml;

use std::fmt::{self, Write};

use cpp::LeftOut;

use crate::{plt, unversioned};

/// The longest readable name, bytes, unless the mangled one is about as long: a C++ name can repeat parts of itself until it is longer
/// than any memory.
const MAX_LEN: usize = 16 << 10;
/// How many times as long as the mangled one a readable name may always be.
const MAX_TIMES: usize = 3;

/// What mangled names begin with. A demangler of C++ takes bare types as well, and would make `float` of a C function
/// named `f`.
const PREFIXES: [&str; 5] = ["_Z", "__Z", "___Z", "_R", "__R"];

/// Makes the name of a symbol or of a PLT stub readable.
pub fn readable(raw: &[u8]) -> String {
    let name = |raw| demangled(&String::from_utf8_lossy(raw));
    match raw.strip_suffix(plt::SUFFIX.as_bytes()) {
        Some(raw) => name(raw) + plt::SUFFIX,
        None => name(unversioned(raw)),
    }
}

/// Returns true for a name of Rust's older mangling. It ends with a hash, and has neither numbers of closures nor the types of an
/// instance.
pub fn is_legacy_rust(raw: &[u8]) -> bool {
    let hash = raw.strip_suffix(b"E").and_then(|raw| raw.split_last_chunk::<19>());
    let is_hash = |hash: &[u8; 19]| hash.starts_with(b"17h") && hash[3..].iter().all(u8::is_ascii_hexdigit);
    raw.starts_with(b"_ZN") && hash.is_some_and(|(_, hash)| is_hash(hash))
}

/// Makes a name readable; one that is not mangled, or becomes absurdly long, stays as it is.
pub fn demangled(raw: &str) -> String {
    written(raw, LeftOut::default()).unwrap_or_else(|| raw.to_owned())
}

/// Makes the name of a symbol readable, without its parameters and the type that it returns: `f<int>` instead of
/// `int f<int>(char)`. `None` if it is not mangled.
pub fn without_parameters(raw: &[u8]) -> Option<String> {
    written(&String::from_utf8_lossy(unversioned(raw)), LeftOut { signature: true })
}

/// Writes a mangled name; `None` if it is none, or becomes absurdly long.
fn written(raw: &str, left_out: LeftOut) -> Option<String> {
    if raw.starts_with("caml") {
        return ocaml::written(raw);
    }
    if raw.starts_with("_D") {
        return d::written(raw, !left_out.signature);
    }
    if !PREFIXES.iter().any(|prefix| raw.starts_with(prefix)) {
        return None;
    }
    rust(raw).unwrap_or_else(|| cpp::written(&raw[raw.find("_Z")?..], left_out))
}

/// Writes a name of Rust. `None` if it is none, `Some(None)` if it becomes absurdly long.
fn rust(raw: &str) -> Option<Option<String>> {
    let name = rustc_demangle::try_demangle(raw).ok()?;
    let whole = |name: fmt::Arguments<'_>| {
        let mut readable = Bounded::of(raw);
        readable.write_fmt(name).ok().map(|()| readable.text)
    };
    let without_hash = whole(format_args!("{name:#}"));
    // Only the hash tells Rust's older names from those of C++.
    let is_rust =
        raw.trim_start_matches('_').starts_with('R') || without_hash != whole(format_args!("{name}"));
    is_rust.then_some(without_hash)
}

/// Text that does not grow without end.
#[derive(Debug)]
struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    /// For the readable form of a name.
    fn of(raw: &str) -> Self {
        Self { text: String::new(), most: MAX_LEN.max(MAX_TIMES * raw.len()) }
    }
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mangled_names_are_changed() {
        for name in ["f", "Pc", "main", "_Znot_mangled", "_R", "", "printf.part.0", "foo$bar"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
    }

    #[test]
    fn parameters_and_results_can_be_left_out() {
        for (raw, name) in [
            ("_ZN3foo3barEi", "foo::bar"),
            ("_Z1fIiEiT_", "f<int>"),
            ("_ZNK1AcvbEv", "A::operator bool"),
            ("_ZN12_GLOBAL__N_11gEv@@V", "(anonymous namespace)::g"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ] {
            assert_eq!(without_parameters(raw.as_bytes()).as_deref(), Some(name));
        }
        assert_eq!(without_parameters(b"main"), None);
    }

    #[test]
    fn the_older_mangling_of_rust_is_told_by_its_hash() {
        assert!(is_legacy_rust(b"_ZN3two3run17h0ef720a3906937f9E"));
        for name in
            ["_ZN3two3run17h0ef720a3906937f9", "_ZN3foo3barEi", "_RNvC3two3run", "17h0ef720a3906937f9E"]
        {
            assert!(!is_legacy_rust(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_version_is_no_part_of_a_name_and_a_stub_is_told_from_what_it_calls() {
        for (raw, name) in [
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("x@V", "x"),
            ("@", "@"),
            ("plain", "plain"),
            ("_ZN3foo3barEi@plt", "foo::bar(int)@plt"),
            ("*ABS*+0x9f550@plt", "*ABS*+0x9f550@plt"),
        ] {
            assert_eq!(readable(raw.as_bytes()), name);
        }
    }

    #[test]
    fn a_name_that_explodes_stays_mangled() {
        // Each parameter is a pair of the one before it: `A<int>`, `A<A<int>, A<int> >`, …
        let doubled = |times: u8| {
            let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'A' + n - 10 });
            (0..times).fold("_Z1f1AIiE".to_owned(), |name, n| format!("{name}S_IS{0}_S{0}_E", digit(n)))
        };
        assert_eq!(demangled(&doubled(1)), "f(A<int>, A<A<int>, A<int> >)");
        assert_eq!(demangled(&doubled(30)), doubled(30));
    }
}
