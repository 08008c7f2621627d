//! Reads types and functions of D.

use super::Parser;

/// Types of one letter.
const BASIC: [(u8, &str); 23] = [
    (b'v', "void"),
    (b'g', "byte"),
    (b'h', "ubyte"),
    (b's', "short"),
    (b't', "ushort"),
    (b'i', "int"),
    (b'k', "uint"),
    (b'l', "long"),
    (b'm', "ulong"),
    (b'f', "float"),
    (b'd', "double"),
    (b'e', "real"),
    (b'o', "ifloat"),
    (b'p', "idouble"),
    (b'j', "ireal"),
    (b'q', "cfloat"),
    (b'r', "cdouble"),
    (b'c', "creal"),
    (b'b', "bool"),
    (b'a', "char"),
    (b'u', "wchar"),
    (b'w', "dchar"),
    (b'n', "typeof(null)"),
];

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Option<String> {
        self.nested(Self::type_unbounded)
    }

    fn type_unbounded(&mut self) -> Option<String> {
        if self.is_function() {
            return self.function_type("function");
        }
        const AROUND: [(&str, &str); 5] =
            [("O", "shared("), ("x", "const("), ("y", "immutable("), ("Ng", "inout("), ("Nh", "__vector(")];
        if let Some((_, word)) = AROUND.iter().find(|(code, _)| self.eat(code)) {
            return Some(format!("{word}{})", self.ty()?));
        }
        let letter = self.peek(0);
        if letter == b'Q' {
            return self.referred(Self::ty);
        }
        self.at += 1;
        match letter {
            b'A' => Some(self.ty()? + "[]"),
            b'G' => {
                let len = self.digits();
                Some(format!("{}[{len}]", self.ty()?))
            }
            b'H' => {
                let key = self.ty()?;
                Some(format!("{}[{key}]", self.ty()?))
            }
            b'P' if self.is_function() => self.function_type("function"),
            b'P' => Some(self.ty()? + "*"),
            b'C' | b'S' | b'E' | b'T' => self.qualified(false),
            b'D' => {
                let quals = self.modifiers();
                let read = |parser: &mut Self| parser.function_type("delegate");
                let function = if self.peek(0) == b'Q' { self.referred(read)? } else { read(self)? };
                Some(function + &quals)
            }
            b'B' => {
                let len: usize = self.digits().parse().ok()?;
                let mut types = Vec::new();
                for _ in 0..len {
                    types.push(self.ty()?);
                }
                Some(format!("tuple({})", types.join(", ")))
            }
            b'N' if self.eat("n") => Some("noreturn".into()),
            b'z' if self.eat("i") => Some("cent".into()),
            b'z' if self.eat("k") => Some("ucent".into()),
            letter => BASIC.iter().find(|(code, _)| *code == letter).map(|(_, name)| (*name).into()),
        }
    }

    /// Returns true if the type of a function comes next.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.peek(0), b'F' | b'U' | b'W' | b'V' | b'R' | b'Y')
    }

    fn function_type(&mut self, kind: &str) -> Option<String> {
        let (call, params, attributes) = self.signature()?;
        Some(format!("{call}{}{params} {attributes}{kind}", self.ty()?))
    }

    /// Reads the convention by which a function is called, its parameters in brackets, and its attributes.
    pub(super) fn signature(&mut self) -> Option<(&'static str, String, String)> {
        let call = match self.peek(0) {
            b'F' => "",
            b'U' => "extern(C) ",
            b'W' => "extern(Windows) ",
            b'V' => "extern(Pascal) ",
            b'R' => "extern(C++) ",
            b'Y' => "extern(Objective-C) ",
            _ => return None,
        };
        self.at += 1;
        let mut attributes = String::new();
        while self.peek(0) == b'N' {
            let word = match self.peek(1) {
                b'a' => "pure ",
                b'b' => "nothrow ",
                b'c' => "ref ",
                b'd' => "@property ",
                b'e' => "@trusted ",
                b'f' => "@safe ",
                b'i' => "@nogc ",
                b'j' => "return ",
                b'l' => "scope ",
                b'm' => "@live ",
                // Types, and what belongs to the first parameter.
                _ => break,
            };
            self.at += 2;
            attributes.push_str(word);
        }
        Some((call, format!("({})", self.params()?), attributes))
    }

    fn params(&mut self) -> Option<String> {
        self.nested(|parser| {
            let mut params: Vec<String> = Vec::new();
            loop {
                if parser.eat("X") {
                    return Some(params.join(", ") + "...");
                }
                if parser.eat("Y") {
                    params.push("...".into());
                    return Some(params.join(", "));
                }
                if parser.eat("Z") {
                    return Some(params.join(", "));
                }
                let mut param = String::new();
                for (code, word) in [
                    ("M", "scope "),
                    ("Nk", "return "),
                    ("I", "in "),
                    ("J", "out "),
                    ("K", "ref "),
                    ("L", "lazy "),
                ] {
                    if parser.eat(code) {
                        param.push_str(word);
                    }
                }
                params.push(param + &parser.ty()?);
            }
        })
    }

    /// Reads `const` and the like of the object of a method, each with a blank before it.
    pub(super) fn modifiers(&mut self) -> String {
        let mut words = String::new();
        loop {
            words.push_str(match (self.peek(0), self.peek(1)) {
                (b'x', _) => " const",
                (b'y', _) => " immutable",
                (b'O', _) => " shared",
                (b'N', b'g') => " inout",
                _ => return words,
            });
            self.at += if self.peek(0) == b'N' { 2 } else { 1 };
        }
    }
}
