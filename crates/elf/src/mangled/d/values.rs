//! Reads values among the template arguments of D.

use super::Parser;

impl Parser<'_> {
    /// Reads a type and a value of it.
    pub(super) fn value_argument(&mut self) -> Option<String> {
        let begin = self.at;
        // Behind a reference, the letter of the type stands elsewhere.
        let letter = if self.peek(0) == b'Q' {
            let at = self.reference()?;
            self.at = begin;
            self.text.as_bytes()[at]
        } else {
            self.peek(0)
        };
        let of = self.ty()?;
        self.value(letter, &of)
    }

    fn value(&mut self, letter: u8, of: &str) -> Option<String> {
        self.nested(|parser| match parser.peek(0) {
            b'n' => {
                parser.at += 1;
                Some("null".into())
            }
            b'N' => {
                parser.at += 1;
                Some(format!("-{}", parser.integer(letter)?))
            }
            b'i' => {
                parser.at += 1;
                parser.integer(letter)
            }
            // Older compilers wrote integers without a letter.
            b'0'..=b'9' => parser.integer(letter),
            b'e' => {
                parser.at += 1;
                parser.real()
            }
            b'c' => {
                parser.at += 1;
                let real = parser.real()?;
                parser.expect("c")?;
                Some(format!("{real}+{}i", parser.real()?))
            }
            b'a' | b'w' | b'd' => parser.string(),
            b'A' => {
                parser.at += 1;
                let len = parser.len()?;
                let mut items = Vec::new();
                for _ in 0..len {
                    let item = parser.value(0, "")?;
                    items.push(if letter == b'H' {
                        format!("{item}:{}", parser.value(0, "")?)
                    } else {
                        item
                    });
                }
                Some(format!("[{}]", items.join(", ")))
            }
            b'S' => {
                parser.at += 1;
                let len = parser.len()?;
                let mut items = Vec::new();
                for _ in 0..len {
                    items.push(parser.value(0, "")?);
                }
                Some(format!("{of}({})", items.join(", ")))
            }
            b'f' => {
                parser.at += 1;
                parser.mangled()
            }
            _ => None,
        })
    }

    fn integer(&mut self, letter: u8) -> Option<String> {
        let digits = self.digits();
        if digits.is_empty() {
            return None;
        }
        Some(match letter {
            b'b' => if digits == "0" { "false" } else { "true" }.into(),
            b'a' | b'u' | b'w' => {
                let code: u32 = digits.parse().ok()?;
                let is_plain = letter == b'a' && (0x20..0x7f).contains(&code);
                let (begin, width) = [(b'a', ("\\x", 2)), (b'u', ("\\u", 4)), (b'w', ("\\U", 8))]
                    .into_iter()
                    .find(|(of, _)| *of == letter)?
                    .1;
                if is_plain {
                    format!("'{}'", code as u8 as char)
                } else {
                    format!("'{begin}{code:0width$x}'")
                }
            }
            b'h' | b't' | b'k' => format!("{digits}u"),
            b'l' => format!("{digits}L"),
            b'm' => format!("{digits}uL"),
            _ => digits.into(),
        })
    }

    /// Reads a floating-point number in hexadecimal digits.
    fn real(&mut self) -> Option<String> {
        for (code, text) in [("NAN", "NaN"), ("INF", "Inf"), ("NINF", "-Inf")] {
            if self.eat(code) {
                return Some(text.into());
            }
        }
        let sign = if self.eat("N") { "-" } else { "" };
        let first = self.peek(0) as char;
        self.at += usize::from(first.is_ascii_hexdigit());
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        self.at += len;
        self.expect("P")?;
        let exponent_sign = if self.eat("N") { "-" } else { "" };
        let exponent = self.digits();
        first
            .is_ascii_hexdigit()
            .then(|| format!("{sign}0x{first}.{}p{exponent_sign}{exponent}", &rest[..len]))
    }

    /// Reads a text: its kind, its length in bytes, and two digits for each.
    fn string(&mut self) -> Option<String> {
        let kind = self.peek(0);
        self.at += 1;
        let len = self.len()?;
        self.expect("_")?;
        let digits = self.text.get(self.at..self.at.checked_add(len.checked_mul(2)?)?)?;
        self.at += digits.len();
        let mut text = String::from("\"");
        for pair in digits.as_bytes().chunks(2) {
            let byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            match byte {
                b'\t' => text.push_str("\\t"),
                b'\n' => text.push_str("\\n"),
                b'\r' => text.push_str("\\r"),
                0x0b => text.push_str("\\v"),
                0x0c => text.push_str("\\f"),
                0x20..0x7f => text.push(byte as char),
                byte => text.push_str(&format!("\\x{byte:02x}")),
            }
        }
        text.push('"');
        if kind != b'a' {
            text.push(kind as char);
        }
        Some(text)
    }
}
