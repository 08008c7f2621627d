//! Reads types and template arguments.

use super::parser::Parser;
use super::tree::{Id, Node, quals};
use super::words;

impl Parser<'_> {
    /// Reads a type.
    pub(super) fn ty(&mut self) -> Option<Id> {
        self.nested(Self::type_unbounded)
    }

    fn type_unbounded(&mut self) -> Option<Id> {
        let of = |parser: &mut Self, node: fn(Id) -> Node<'static>| {
            parser.at += 1;
            let of = parser.ty()?;
            Some(parser.add(node(of)))
        };
        let id = match (self.peek(0), self.peek(1)) {
            (b'r' | b'V' | b'K', _) => self.qualified_type()?,
            (b'P', _) => of(self, Node::Pointer)?,
            (b'R', _) => of(self, Node::Reference)?,
            (b'O', _) => of(self, Node::RvalueReference)?,
            (b'C', _) => of(self, |of| Node::Followed(of, " _Complex"))?,
            (b'G', _) => of(self, |of| Node::Followed(of, " _Imaginary"))?,
            (b'F', _) | (b'D', b'o' | b'O' | b'w' | b'x') => self.function_type(0)?,
            (b'A', _) => self.array()?,
            (b'M', _) => self.member()?,
            // `struct`, `union` or `enum` stood before the name.
            (b'T', b's' | b'u' | b'e') => {
                self.at += 2;
                self.plain_name()?
            }
            (b'T', _) => return self.template_param_type(),
            (b'S', next) if next != b't' => {
                let name = self.substitution(false)?;
                if self.peek(0) != b'I' {
                    return Some(name);
                }
                let arguments = self.arguments()?;
                self.add(Node::Template(name, arguments))
            }
            (b'S' | b'N' | b'Z' | b'0'..=b'9', _) | (b'U', b'l' | b't') => self.plain_name()?,
            (b'U', _) => self.vendor_qualified()?,
            (b'u', _) => {
                self.at += 1;
                let name = self.source_name()?;
                if self.peek(0) == b'I' {
                    let arguments = self.arguments()?;
                    self.add(Node::Template(name, arguments))
                } else {
                    name
                }
            }
            (b'D', next) => match words::builtin_d(next) {
                Some(text) => {
                    self.at += 2;
                    return Some(self.add(Node::Text(text)));
                }
                None if matches!(next, b'F' | b'B' | b'U') => return self.numbered_builtin(),
                None => self.derived_type()?,
            },
            (letter, _) => {
                let text = words::builtin(letter)?;
                self.at += 1;
                return Some(self.add(Node::Text(text)));
            }
        };
        Some(self.add_substitution(id))
    }

    /// Reads `const`, `volatile` and `restrict`, and what has them. With a type of a function they belong to its object.
    fn qualified_type(&mut self) -> Option<Id> {
        let set = self.cv();
        if let (b'F', _) | (b'D', b'o' | b'O' | b'w' | b'x') = (self.peek(0), self.peek(1)) {
            return self.function_type(set);
        }
        let of = self.ty()?;
        Some(self.add(Node::Cv(set, of)))
    }

    fn function_type(&mut self, cv: u8) -> Option<Id> {
        let exceptions = if self.eat("Do") {
            Some(self.add(Node::Noexcept(None)))
        } else if self.eat("DO") {
            let when = self.expression()?;
            self.expect("E")?;
            Some(self.add(Node::Noexcept(Some(when))))
        } else if self.eat("Dw") {
            let types = self.until("E", Self::ty)?;
            Some(self.add(Node::Throw(types)))
        } else {
            None
        };
        let transaction = if self.eat("Dx") { quals::TRANSACTION_SAFE } else { 0 };
        self.expect("F")?;
        // The language of C: names do not show it.
        self.eat("Y");
        let result = self.ty()?;
        let params = self.params()?;
        let quals = cv | transaction | self.reference();
        self.expect("E")?;
        Some(self.add(Node::FunctionType { result, params, quals, exceptions }))
    }

    fn array(&mut self) -> Option<Id> {
        self.expect("A")?;
        let len = match self.peek(0) {
            b'_' => None,
            b'0'..=b'9' => {
                let digits = self.digits();
                Some(self.add(Node::Text(digits)))
            }
            _ => Some(self.expression()?),
        };
        self.expect("_")?;
        let of = self.ty()?;
        Some(self.add(Node::Array(len, of)))
    }

    fn member(&mut self) -> Option<Id> {
        self.expect("M")?;
        let class = self.ty()?;
        let of = self.ty()?;
        Some(self.add(Node::Member { class, of }))
    }

    fn vendor_qualified(&mut self) -> Option<Id> {
        self.expect("U")?;
        let mut word = self.source_name()?;
        if self.peek(0) == b'I' {
            let arguments = self.arguments()?;
            word = self.add(Node::Template(word, arguments));
        }
        let of = self.ty()?;
        Some(self.add(Node::VendorQualified(of, word)))
    }

    /// Reads a type of the language that has a number.
    fn numbered_builtin(&mut self) -> Option<Id> {
        if self.eat("DF16b") {
            return Some(self.add(Node::Text("std::bfloat16_t")));
        }
        if self.eat("DF") {
            let bits = self.digits();
            let end = if self.eat("x") { "x" } else { self.expect("_").map(|()| "")? };
            return Some(self.add(Node::Float(bits, end)));
        }
        let begin =
            if self.eat("DU") { "unsigned _BitInt(" } else { self.expect("DB").map(|()| "_BitInt(")? };
        let bits = if self.peek(0).is_ascii_digit() {
            let digits = self.digits();
            self.add(Node::Text(digits))
        } else {
            self.expression()?
        };
        self.expect("_")?;
        Some(self.add(Node::BitInt(begin, bits)))
    }

    /// Reads types that are made of others, or of expressions.
    fn derived_type(&mut self) -> Option<Id> {
        if self.eat("Dp") {
            let of = self.ty()?;
            return Some(self.add(Node::Expansion(of)));
        }
        if !self.eat("Dv") {
            return self.decltype();
        }
        let len = match self.peek(0) {
            b'0'..=b'9' => {
                let digits = self.digits();
                Some(self.add(Node::Text(digits)))
            }
            _ => {
                self.expect("_")?;
                if self.peek(0) == b'_' { None } else { Some(self.expression()?) }
            }
        };
        self.expect("_")?;
        let of = self.ty()?;
        Some(self.add(Node::Vector(len, of)))
    }

    pub(super) fn decltype(&mut self) -> Option<Id> {
        if !self.eat("Dt") {
            self.expect("DT")?;
        }
        let of = self.expression()?;
        self.expect("E")?;
        Some(self.add(Node::Decltype(of)))
    }

    /// Reads a parameter of a template, and its own arguments if it is a template.
    fn template_param_type(&mut self) -> Option<Id> {
        let param = self.template_param()?;
        self.add_substitution(param);
        if self.peek(0) != b'I' {
            return Some(param);
        }
        let template = |parser: &mut Self| {
            let arguments = parser.arguments()?;
            // In a conversion, the arguments of the parameter come before those of the conversion itself.
            if parser.is_conversion && parser.peek(0) != b'I' {
                return None;
            }
            let id = parser.add(Node::Template(param, arguments));
            Some(parser.add_substitution(id))
        };
        if self.is_conversion { self.attempt(template).or(Some(param)) } else { template(self) }
    }

    /// Reads `T_`, `T0_`, …, `TL0_0_`, ….
    pub(super) fn template_param(&mut self) -> Option<Id> {
        self.expect("T")?;
        if self.eat("L") {
            self.counted()?;
        }
        let number = usize::try_from(self.counted()?).ok()?;
        Some(self.add(Node::Param(number)))
    }

    /// Reads the arguments of a template.
    pub(super) fn arguments(&mut self) -> Option<Vec<Id>> {
        self.nested(|parser| {
            parser.expect("I")?;
            let is_conversion = std::mem::take(&mut parser.is_conversion);
            let mut arguments = Vec::new();
            while !parser.eat("E") {
                // What a constraint demands does not belong to the name.
                if parser.eat("Q") {
                    parser.expression()?;
                    continue;
                }
                arguments.push(parser.template_arg()?);
            }
            parser.is_conversion = is_conversion;
            Some(arguments)
        })
    }

    /// Reads one argument of a template.
    pub(super) fn template_arg(&mut self) -> Option<Id> {
        match (self.peek(0), self.peek(1)) {
            (b'X', _) => {
                self.at += 1;
                let expression = self.expression()?;
                self.expect("E")?;
                Some(expression)
            }
            (b'L', _) => self.primary(),
            // Older compilers began packs as they begin arguments.
            (b'J' | b'I', _) => self.nested(|parser| {
                parser.at += 1;
                let elements = parser.until("E", Self::template_arg)?;
                Some(parser.add(Node::Pack(elements)))
            }),
            // The declaration of the parameter, where it does not follow from the argument.
            (b'T', b'y' | b'n' | b'p' | b't') => self.nested(|parser| {
                parser.declared_param()?;
                parser.template_arg()
            }),
            _ => self.ty(),
        }
    }
}
