//! The words that mangled names write with one or two letters.

use super::tree::Operator;

const fn op(code: &'static str, text: &'static str, operands: u8) -> Operator {
    Operator { code, text, operands }
}

/// Operators of the language.
const OPERATORS: [Operator; 73] = [
    op("aN", "&=", 2),
    op("aS", "=", 2),
    op("aa", "&&", 2),
    op("ad", "&", 1),
    op("an", "&", 2),
    op("at", "alignof ", 1),
    op("aw", "co_await ", 1),
    op("az", "alignof ", 1),
    op("cc", "const_cast", 2),
    op("cl", "()", 2),
    op("cm", ",", 2),
    op("co", "~", 1),
    op("dV", "/=", 2),
    op("dX", "[...]=", 3),
    op("da", "delete[] ", 1),
    op("dc", "dynamic_cast", 2),
    op("de", "*", 1),
    op("di", "=", 2),
    op("dl", "delete ", 1),
    op("ds", ".*", 2),
    op("dt", ".", 2),
    op("dv", "/", 2),
    op("dx", "]=", 2),
    op("eO", "^=", 2),
    op("eo", "^", 2),
    op("eq", "==", 2),
    op("fL", "...", 3),
    op("fR", "...", 3),
    op("fl", "...", 2),
    op("fr", "...", 2),
    op("ge", ">=", 2),
    op("gs", "::", 1),
    op("gt", ">", 2),
    op("ix", "[]", 2),
    op("lS", "<<=", 2),
    op("le", "<=", 2),
    op("ls", "<<", 2),
    op("lt", "<", 2),
    op("mI", "-=", 2),
    op("mL", "*=", 2),
    op("mi", "-", 2),
    op("ml", "*", 2),
    op("mm", "--", 1),
    op("na", "new[]", 3),
    op("ne", "!=", 2),
    op("ng", "-", 1),
    op("nt", "!", 1),
    op("nw", "new", 3),
    op("nx", "noexcept", 1),
    op("oR", "|=", 2),
    op("oo", "||", 2),
    op("or", "|", 2),
    op("pL", "+=", 2),
    op("pl", "+", 2),
    op("pm", "->*", 2),
    op("pp", "++", 1),
    op("ps", "+", 1),
    op("pt", "->", 2),
    op("qu", "?", 3),
    op("rM", "%=", 2),
    op("rS", ">>=", 2),
    op("rc", "reinterpret_cast", 2),
    op("rm", "%", 2),
    op("rs", ">>", 2),
    op("sP", "sizeof...", 1),
    op("sZ", "sizeof...", 1),
    op("sc", "static_cast", 2),
    op("ss", "<=>", 2),
    op("st", "sizeof ", 1),
    op("sz", "sizeof ", 1),
    op("te", "typeid ", 1),
    op("ti", "typeid ", 1),
    op("tr", "throw", 0),
];

/// `throw x`, whose code stands behind those that the table above sorts.
const THROW: Operator = op("tw", "throw ", 1);

/// Finds an operator by its code.
pub(super) fn operator(code: &str) -> Option<Operator> {
    if code == THROW.code {
        return Some(THROW);
    }
    OPERATORS.binary_search_by_key(&code, |operator| operator.code).ok().map(|at| OPERATORS[at])
}

/// Returns the type that one letter stands for.
pub(super) fn builtin(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'a' => "signed char",
        b'b' => "bool",
        b'c' => "char",
        b'd' => "double",
        b'e' => "long double",
        b'f' => "float",
        b'g' => "__float128",
        b'h' => "unsigned char",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b's' => "short",
        b't' => "unsigned short",
        b'v' => "void",
        b'w' => "wchar_t",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'z' => "...",
        _ => return None,
    })
}

/// Returns the type that a letter behind `D` stands for.
pub(super) fn builtin_d(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'a' => "auto",
        b'c' => "decltype(auto)",
        b'd' => "decimal64",
        b'e' => "decimal128",
        b'f' => "decimal32",
        b'h' => "half",
        b'i' => "char32_t",
        b'n' => "decltype(nullptr)",
        b's' => "char16_t",
        b'u' => "char8_t",
        _ => return None,
    })
}

/// A name of the standard library: as people write it, as it is declared, and the name of its constructors.
pub(super) struct Standard {
    pub short: &'static str,
    pub declared: &'static str,
    pub base: &'static str,
}

/// Returns the name of the standard library that a letter behind `S` stands for.
pub(super) fn standard(letter: u8) -> Option<Standard> {
    let of = |short, declared, base| Some(Standard { short, declared, base });
    match letter {
        b'a' => of("std::allocator", "std::allocator", "allocator"),
        b'b' => of("std::basic_string", "std::basic_string", "basic_string"),
        b's' => of(
            "std::string",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            "basic_string",
        ),
        b'i' => of("std::istream", "std::basic_istream<char, std::char_traits<char> >", "basic_istream"),
        b'o' => of("std::ostream", "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"),
        b'd' => of("std::iostream", "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_found_by_its_code() {
        assert!(OPERATORS.is_sorted_by_key(|operator| operator.code));
        assert_eq!(
            (operator("tw").map(|o| o.text), operator("pl").map(|o| o.text)),
            (Some("throw "), Some("+"))
        );
        assert!(operator("zz").is_none());
    }
}
