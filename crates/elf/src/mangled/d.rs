//! Names of D.
//!
//! # Source  <https://dlang.org/spec/abi.html#name_mangling>; where it leaves open how a name is written, `c++filt --format=dlang`

mod types;
mod values;

use super::MAX_LEN;

/// Parts that lie in each other more deeply are no name that a compiler makes.
const MAX_DEPTH: u32 = 128;
/// A reference to an earlier part can double what is written each time: bytes that all parts may take together.
const MAX_WRITTEN: usize = 16 * MAX_LEN;

/// No length of a part has more digits.
const MAX_DIGITS: usize = 6;

/// Writes a name that begins with `_D`, without the type that a function returns; `None` if it is none, or takes more than its
/// bounds.
pub(super) fn written(raw: &str, with_parameters: bool) -> Option<String> {
    if raw == "_Dmain" {
        return Some("D main".into());
    }
    let mut parser = Parser { text: raw, at: 2, depth: 0, written: 0, with_parameters };
    let name = parser.qualified(true)?;
    // What the compiler makes has no type.
    if !parser.eat("Z") {
        parser.ty()?;
    }
    let is_whole = parser.rest().is_empty() && name.len() <= MAX_LEN && !name.is_empty();
    is_whole.then_some(name)
}

/// A mangled name that is read, from left to right.
struct Parser<'n> {
    text: &'n str,
    at: usize,
    depth: u32,
    written: usize,
    with_parameters: bool,
}

impl<'n> Parser<'n> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'n str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    /// Reads a part that may have such parts in it.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<String>) -> Option<String> {
        // A part that is tried and given up counts, too.
        self.written += 1;
        if self.depth >= MAX_DEPTH || self.written > MAX_WRITTEN {
            return None;
        }
        self.depth += 1;
        let part = read(self)?;
        self.depth -= 1;
        self.written += part.len();
        (self.written <= MAX_WRITTEN).then_some(part)
    }

    fn digits(&mut self) -> &'n str {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        self.at += len;
        &rest[..len]
    }

    fn len(&mut self) -> Option<usize> {
        self.digits().parse().ok()
    }

    /// Reads how far back an earlier part is, and returns where it begins.
    fn reference(&mut self) -> Option<usize> {
        let from = self.at;
        self.expect("Q")?;
        let mut back = 0_usize;
        loop {
            let letter = self.peek(0);
            let digit = usize::from(letter.to_ascii_uppercase().wrapping_sub(b'A'));
            if !letter.is_ascii_alphabetic() {
                return None;
            }
            back = back.checked_mul(26)?.checked_add(digit)?;
            self.at += 1;
            if letter.is_ascii_lowercase() {
                return from.checked_sub(back).filter(|_| back > 0);
            }
        }
    }

    /// Reads an earlier part in the place of a reference to it.
    fn referred(&mut self, read: fn(&mut Self) -> Option<String>) -> Option<String> {
        self.nested(|parser| {
            let at = parser.reference()?;
            let behind = std::mem::replace(&mut parser.at, at);
            let part = read(parser)?;
            parser.at = behind;
            Some(part)
        })
    }

    /// Returns true if another part of a qualified name comes next.
    fn is_symbol(&mut self) -> bool {
        let at = self.at;
        let is_symbol = match self.peek(0) {
            b'0'..=b'9' => true,
            b'_' => self.is_template(),
            b'Q' => self.reference().is_some_and(|at| self.text.as_bytes()[at].is_ascii_digit()),
            _ => false,
        };
        self.at = at;
        is_symbol
    }

    fn is_template(&self) -> bool {
        self.rest().starts_with("__T") || self.rest().starts_with("__U")
    }

    /// Reads names with dots between them, and the parameters of functions among them. The qualifiers of the object of a method
    /// stand behind the name of a function.
    fn qualified(&mut self, is_outermost: bool) -> Option<String> {
        self.nested(|parser| {
            let mut name = String::new();
            loop {
                // What has no name.
                if parser.eat("0") {
                    while parser.eat("0") {}
                } else {
                    let part = parser.identifier()?;
                    parser.join(&mut name, &part);
                    parser.function(&mut name, is_outermost);
                }
                if !parser.is_symbol() {
                    return Some(name);
                }
            }
        })
    }

    /// Appends a part of a name. What a compiler makes for a type has its own words.
    fn join(&mut self, name: &mut String, part: &str) {
        const MADE: [(&str, &str, &str); 5] = [
            ("__init", "Z", "initializer for "),
            ("__vtbl", "Z", "vtable for "),
            ("__Class", "Z", "ClassInfo for "),
            ("__Interface", "Z", "Interface for "),
            ("__ModuleInfo", "Z", "ModuleInfo for "),
        ];
        if let Some((.., words)) =
            MADE.iter().find(|(made, end, _)| *made == part && self.rest().starts_with(end))
        {
            name.insert_str(0, words);
            return;
        }
        if !name.is_empty() {
            name.push('.');
        }
        let is_copied = part == "__postblit" && self.eat("MFZ");
        name.push_str(if is_copied { "this(this)" } else { known(part) });
    }

    /// Reads the parameters of a function, if a function comes next and does not end the name.
    fn function(&mut self, name: &mut String, is_outermost: bool) {
        let begin = self.at;
        let is_method = self.eat("M");
        let quals = if is_method { self.modifiers() } else { String::new() };
        let depth = self.depth;
        let function = match self.is_function() {
            true => self.signature(),
            false => None,
        };
        match function.filter(|_| !self.rest().is_empty()) {
            Some((_, params, _)) => {
                if self.with_parameters || !is_outermost || self.is_symbol() {
                    name.push_str(&params);
                    name.push_str(if is_outermost { &quals } else { "" });
                }
            }
            None => (self.at, self.depth) = (begin, depth),
        }
    }

    fn identifier(&mut self) -> Option<String> {
        if self.peek(0) == b'Q' {
            return self.referred(Self::identifier);
        }
        if self.is_template() {
            return self.template(None);
        }
        let len = self.len().filter(|len| *len > 0)?;
        let end = self.at.checked_add(len)?;
        let name = self.text.get(self.at..end)?;
        if len >= 5 && self.is_template() {
            return self.template(Some(end));
        }
        self.at = end;
        // A parent that only tells declarations of one function apart.
        let is_number =
            name.strip_prefix("__S").is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()));
        if is_number {
            return self.nested(Self::identifier);
        }
        Some(name.to_owned())
    }

    /// Reads a name with template arguments, which ends at `end` if its length was told.
    fn template(&mut self, end: Option<usize>) -> Option<String> {
        self.nested(|parser| {
            parser.at += 3;
            let name = parser.identifier()?;
            let mut arguments = Vec::new();
            while !parser.eat("Z") {
                // It matches a specialization.
                parser.eat("H");
                arguments.push(match parser.peek(0) {
                    b'S' => {
                        parser.at += 1;
                        parser.symbol_argument()?
                    }
                    b'T' => {
                        parser.at += 1;
                        parser.ty()?
                    }
                    b'V' => {
                        parser.at += 1;
                        parser.value_argument()?
                    }
                    b'X' => {
                        parser.at += 1;
                        let len = parser.len()?;
                        let text = parser.text.get(parser.at..parser.at.checked_add(len)?)?;
                        parser.at += len;
                        text.to_owned()
                    }
                    _ => return None,
                });
            }
            let is_whole = end.is_none_or(|end| end == parser.at);
            is_whole.then(|| format!("{}!({})", known(&name), arguments.join(", ")))
        })
    }

    /// Reads a name, or a whole mangled name, whose length older compilers wrote before it.
    fn symbol_argument(&mut self) -> Option<String> {
        if self.peek(0) == b'_' && self.peek(1) == b'D' && !self.is_template() {
            return self.mangled();
        }
        if self.peek(0) == b'Q' {
            return self.qualified(false);
        }
        // The digits of two numbers may stand together: that of this argument, and that of its first name.
        let begin = self.at;
        let digits = self.digits();
        for split in (1..=digits.len().min(MAX_DIGITS)).rev() {
            let Some(len) = digits[..split].parse::<usize>().ok() else { continue };
            self.at = begin + split;
            let Some(end) = self.at.checked_add(len).filter(|end| *end <= self.text.len()) else { continue };
            let (depth, written) = (self.depth, self.written);
            let name = if self.rest().starts_with("_D") { self.mangled() } else { self.qualified(false) };
            if let Some(name) = name.filter(|_| self.at == end) {
                return Some(name);
            }
            self.depth = depth;
            self.written = self.written.max(written);
        }
        self.at = begin;
        self.qualified(false)
    }

    /// Reads a whole mangled name.
    fn mangled(&mut self) -> Option<String> {
        self.expect("_D")?;
        let name = self.qualified(true)?;
        if !self.eat("Z") {
            self.ty()?;
        }
        Some(name)
    }
}

/// Returns the name that the source has for a constructor or a destructor.
fn known(name: &str) -> &str {
    match name {
        "__ctor" => "this",
        "__dtor" => "~this",
        name => name,
    }
}

#[cfg(test)]
mod tests;
