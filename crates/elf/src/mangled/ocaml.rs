//! Names of OCaml.
//!
//! # Source  `asmcomp/compilenv.ml` of OCaml 4 and `middle_end/symbol.ml` of OCaml 5: `caml`, the compilation unit (whose own parts
//! have `__` between them), `__` or `.`, the name, and a number

/// What the compiler makes for each unit.
const MADE: [&str; 6] = ["entry", "code_begin", "code_end", "data_begin", "data_end", "frametable"];

/// Writes a name with dots between its parts: `Dune.exe.Main.fib_267`. `None` if the scheme does not prove that it is one, because C
/// functions may begin with `caml`, too.
pub(super) fn written(raw: &str) -> Option<String> {
    let name = raw.strip_prefix("caml").filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))?;
    let (unit, last) = match (name.rfind("__"), name.find('.')) {
        (_, Some(at)) => (&name[..at], &name[at + 1..]),
        (Some(at), None) => (&name[..at], &name[at + 2..]),
        (None, None) => return None,
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'' || c == '$';
    if !unit.chars().all(is_word) || last.is_empty() {
        return None;
    }
    let number = last
        .strip_suffix("_code")
        .unwrap_or(last)
        .rsplit_once('_')
        .map(|(name, number)| (name.len(), number));
    let is_numbered =
        number.is_some_and(|(len, n)| len > 0 && !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()));
    if !is_numbered && !MADE.contains(&last) {
        return None;
    }
    // In a name with a dot, the unit ends there, and a name may have dots: `anon_fn[main.ml:3,5--9]_12`.
    let unit = unit.replace("__", ".");
    Some(format!("{}.{}", unescaped(&unit)?, unescaped(last)?))
}

/// Replaces `$` and two hexadecimal digits, as which operators are written.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('$');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok().filter(|code| (0x20..0x7f).contains(code))?;
        name.push(code as char);
        name.push_str(&part[2..]);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_dots_and_operators() {
        for (raw, name) in [
            ("camlDune__exe__Main__fib_267", "Dune.exe.Main.fib_267"),
            ("camlDune__exe__Main.fib_267", "Dune.exe.Main.fib_267"),
            ("camlMain.fib_267", "Main.fib_267"),
            ("camlMain__fib_267_code", "Main.fib_267_code"),
            ("camlStdlib__$40_123", "Stdlib.@_123"),
            ("camlStdlib__List.$3e$3e$3d_12", "Stdlib.List.>>=_12"),
            ("camlMain.anon_fn[main.ml:3,5--9]_12", "Main.anon_fn[main.ml:3,5--9]_12"),
            ("camlStdlib__List__entry", "Stdlib.List.entry"),
        ] {
            assert_eq!(written(raw).as_deref(), Some(name));
        }
    }

    #[test]
    fn functions_of_c_stay() {
        for raw in [
            "caml_alloc",
            "camlinternal",
            "camlMain",
            "camlMain__x",
            "camlRun_1",
            "camlA__",
            "camlA__$4_1",
            "camlA__1",
            "camlA__é$zz_1",
        ] {
            assert_eq!(written(raw), None, "{raw}");
        }
    }
}
