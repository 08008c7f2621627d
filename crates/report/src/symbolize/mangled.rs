//! Makes names of symbol tables and of DWARF readable.

use std::fmt::{self, Write};

use cpp_demangle::DemangleOptions;

/// The longest readable name, bytes: a C++ name can repeat parts of itself until it is longer than any memory.
const MAX_LEN: usize = 64 << 10;

/// What mangled names begin with. A demangler of C++ takes bare types as well, and would make `float` of a C function
/// named `f`.
const PREFIXES: [&str; 5] = ["_Z", "__Z", "___Z", "_R", "__R"];

/// Makes a name readable; one that is not mangled, or becomes absurdly long, stays as it is.
pub(crate) fn demangled(raw: &str) -> String {
    if !PREFIXES.iter().any(|prefix| raw.starts_with(prefix)) {
        return raw.to_owned();
    }
    let mut readable = Capped(String::new());
    let is_readable = match rustc_demangle::try_demangle(raw) {
        Ok(name) => write!(readable, "{name:#}").is_ok(),
        Err(_) => cpp_demangle::Symbol::new(raw).is_ok_and(|symbol| {
            symbol.structured_demangle(&mut readable, &DemangleOptions::default()).is_ok()
        }),
    };
    if is_readable { readable.0 } else { raw.to_owned() }
}

/// Text that does not grow without end.
struct Capped(String);

impl Write for Capped {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > MAX_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
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
    fn a_name_that_explodes_stays_mangled() {
        // Each type of the pair is the whole pair before it: twice as long with every step.
        let pair = |n: usize| {
            let parts = (0..n).fold(String::from("St4pairIiiE"), |name, _| format!("St4pairI{name}S_E"));
            format!("_Z1fi{parts}")
        };
        let doubling = (0..40).fold(String::from("_Z1fSt1aIiE"), |name, i| {
            let last = if i == 0 { "S0_".to_owned() } else { format!("S{}_", base36(i)) };
            format!("{name}St1aI{last}{last}E")
        });
        for name in [pair(60), doubling] {
            assert!(demangled(&name).len() <= MAX_LEN, "{}", demangled(&name).len());
        }
    }

    fn base36(mut n: usize) -> String {
        let mut digits = Vec::new();
        loop {
            digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 36]);
            n /= 36;
            if n == 0 {
                break;
            }
        }
        digits.reverse();
        String::from_utf8_lossy(&digits).into_owned()
    }
}
