//! Catches C names that were taken for mangled C++ types.
//!
//! blazesym tries every name as C++ if the language is not known to be another, and its demangler accepts bare
//! types beside mangled names: a C function `f` comes back as `float`, `v` as `void`, `Pc` as `char*`. The
//! original name is gone by then, so such a name must be asked for again, without demangling.

/// Words that a demangled bare type can begin with.
const TYPE_WORDS: [&str; 26] = [
    "void",
    "wchar_t",
    "bool",
    "char",
    "signed",
    "unsigned",
    "short",
    "int",
    "long",
    "__int128",
    "float",
    "double",
    "__float128",
    "decimal32",
    "decimal64",
    "decimal128",
    "half",
    "char8_t",
    "char16_t",
    "char32_t",
    "auto",
    "decltype",
    "std",
    "const",
    "volatile",
    "_Float16",
];

/// Reports whether a demangled name is a type, not a function. Errs towards yes: that costs a look-up.
pub(super) fn looks_like_a_type(name: &str) -> bool {
    let word = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let is_type = TYPE_WORDS.contains(&word) || name.starts_with("...");
    // `void push<int>(int)` has a name before its parameters, the type `void (int)` has none.
    let has_parameters = name.find('(').is_some_and(|at| at > 0 && !name[..at].ends_with(' '));
    let is_path = name.strip_prefix("std::").unwrap_or(name).contains("::");
    is_type && !has_parameters && !is_path
}

/// Makes a name of a symbol table readable, as blazesym does.
pub(crate) fn demangled(raw: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return format!("{name:#}");
    }
    let symbol = is_mangled(raw).then(|| cpp_demangle::Symbol::new(raw).ok()).flatten();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| raw.to_owned())
}

/// Reports whether an original name is mangled, by its prefix.
pub(super) fn is_mangled(raw: &str) -> bool {
    ["_Z", "__Z", "___Z", "_R", "__R"].iter().any(|prefix| raw.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_from_functions() {
        for name in ["float", "void", "char*", "char const*", "...", "std::string", "void ()", "int (*)(int)"]
        {
            assert!(looks_like_a_type(name), "{name}");
        }
        let functions = [
            "main",
            "f",
            "floater",
            "void_1",
            "core::fmt::write",
            "std::rt::lang_start",
            "",
            "(",
            "printf.part.0",
            "void foo<int>(int)",
            "int (anonymous namespace)::foo<int>(int)",
            "std::terminate()",
            "<std::fs::File as std::io::Read>::read",
            "bool operator==<char>(char)",
        ];
        for name in functions {
            assert!(!looks_like_a_type(name), "{name}");
        }
    }
}
