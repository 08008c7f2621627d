//! Reads expressions: values of template arguments, and types that are computed.

use super::parser::Parser;
use super::tree::{Id, Node, Operator};

impl Parser<'_> {
    /// Reads an expression.
    pub(super) fn expression(&mut self) -> Option<Id> {
        self.nested(Self::expression_unbounded)
    }

    fn expression_unbounded(&mut self) -> Option<Id> {
        match (self.peek(0), self.peek(1)) {
            (b'L', _) => self.primary(),
            (b'T', _) => self.template_param(),
            (b's', b'r') => self.unresolved(),
            (b's', b'p') => {
                self.at += 2;
                let of = self.expression()?;
                Some(self.add(Node::Expansion(of)))
            }
            (b'f', b'p' | b'L') if self.peek(1) == b'p' || self.peek(2).is_ascii_digit() => self.parameter(),
            (b'0'..=b'9', _) | (b'o', b'n') => self.simple_name(),
            (b't' | b'i', b'l') => {
                let of = if self.eat("tl") { Some(self.ty()?) } else { self.expect("il").map(|()| None)? };
                let values = self.until("E", Self::expression)?;
                Some(self.add(Node::Braced(of, values)))
            }
            (b'u', b'0'..=b'9') => {
                self.at += 1;
                let name = self.source_name()?;
                let arguments = self.until("E", Self::template_arg)?;
                let arguments = self.add(Node::List(arguments));
                Some(self.add(Node::Call(name, arguments)))
            }
            _ if self.eat("cv") => self.cast(),
            _ => {
                let operator = self.operator()?;
                self.operation(operator)
            }
        }
    }

    fn operation(&mut self, operator: Operator) -> Option<Id> {
        match operator.code {
            "st" | "at" | "ti" => {
                let of = self.ty()?;
                Some(self.add(Node::Unary(operator, of)))
            }
            "sZ" => {
                let of = if self.peek(0) == b'T' { self.template_param()? } else { self.expression()? };
                Some(self.add(Node::Length(vec![of])))
            }
            "sP" => {
                let of = self.until("E", Self::template_arg)?;
                Some(self.add(Node::Length(of)))
            }
            "cc" | "dc" | "rc" | "sc" => {
                let (to, of) = (self.ty()?, self.expression()?);
                Some(self.add(Node::NamedCast(operator, to, of)))
            }
            "cl" => {
                let function = self.expression()?;
                let arguments = self.until("E", Self::expression)?;
                let arguments = self.add(Node::List(arguments));
                Some(self.add(Node::Call(function, arguments)))
            }
            "dt" | "pt" => {
                let of = self.expression()?;
                let member = match (self.peek(0), self.peek(1)) {
                    (b'0'..=b'9', _) | (b'o', b'n') | (b's', b'r') => self.expression()?,
                    (b'd', b'n') => self.destroyed()?,
                    _ => self.expression()?,
                };
                Some(self.add(Node::Binary(operator, of, member)))
            }
            "nw" | "na" => self.new_object(operator),
            "fl" | "fr" | "fL" | "fR" => self.fold(operator),
            "di" | "dx" | "dX" => self.designated(operator),
            "qu" => {
                let (condition, yes, no) = (self.expression()?, self.expression()?, self.expression()?);
                Some(self.add(Node::Ternary(condition, yes, no)))
            }
            "pp" | "mm" => {
                let is_prefix = self.eat("_");
                let of = self.expression()?;
                Some(self.add(if is_prefix {
                    Node::Unary(operator, of)
                } else {
                    Node::Postfix(operator, of)
                }))
            }
            _ if operator.operands == 0 => Some(self.add(Node::Nullary(operator))),
            _ if operator.operands == 1 => {
                let of = self.expression()?;
                Some(self.add(Node::Unary(operator, of)))
            }
            _ => {
                let (left, right) = (self.expression()?, self.expression()?);
                Some(self.add(Node::Binary(operator, left, right)))
            }
        }
    }

    /// Reads a conversion of one value, or of a list of values.
    fn cast(&mut self) -> Option<Id> {
        let to = self.ty()?;
        let of = if self.eat("_") {
            let values = self.until("E", Self::expression)?;
            self.add(Node::List(values))
        } else {
            self.expression()?
        };
        Some(self.add(Node::Cast(to, of)))
    }

    fn new_object(&mut self, operator: Operator) -> Option<Id> {
        let placement = self.until("_", Self::expression)?;
        let of = self.ty()?;
        let init = if self.eat("E") {
            None
        } else if self.eat("pi") {
            let values = self.until("E", Self::expression)?;
            Some(self.add(Node::List(values)))
        } else {
            let init = self.expression()?;
            self.eat("E");
            Some(init)
        };
        Some(self.add(Node::New { operator, placement, of, init }))
    }

    fn fold(&mut self, fold: Operator) -> Option<Id> {
        let operator = self.operator()?;
        let first = self.expression()?;
        let (left, right) = match fold.code {
            "fl" => (None, Some(first)),
            "fr" => (Some(first), None),
            _ => (Some(first), Some(self.expression()?)),
        };
        Some(self.add(Node::Fold { operator, left, right }))
    }

    fn designated(&mut self, operator: Operator) -> Option<Id> {
        let (begin, at, end) = match operator.code {
            "di" => (".", self.source_name()?, ""),
            "dx" => ("[", self.expression()?, "]"),
            _ => {
                let first = self.expression()?;
                let last = self.expression()?;
                let range = Operator { code: "", text: " ... ", operands: 2 };
                ("[", self.add(Node::Binary(range, first, last)), "]")
            }
        };
        let value = self.expression()?;
        Some(self.add(Node::Designated { begin, at, end, value }))
    }

    /// Reads a parameter of the function.
    fn parameter(&mut self) -> Option<Id> {
        if self.eat("fL") {
            self.number()?;
            self.expect("p")?;
        } else {
            self.expect("fp")?;
        }
        if self.eat("T") {
            return Some(self.add(Node::Text("this")));
        }
        self.cv();
        let number = self.counted()? + 1;
        Some(self.add(Node::Parameter(number)))
    }

    /// Reads a name and its template arguments.
    fn simple_name(&mut self) -> Option<Id> {
        let (name, _) = self.unqualified(None)?;
        if self.peek(0) != b'I' {
            return Some(name);
        }
        let arguments = self.arguments()?;
        Some(self.add(Node::Template(name, arguments)))
    }

    /// Reads the name of a destructor that is called.
    fn destroyed(&mut self) -> Option<Id> {
        self.expect("dn")?;
        let of = if self.peek(0).is_ascii_digit() { self.simple_name()? } else { self.ty()? };
        Some(self.add(Node::Destructor(of)))
    }

    /// Reads a name whose scope depends on template arguments: the scope is names, a type and names in it, or a type.
    fn unresolved(&mut self) -> Option<Id> {
        self.expect("sr")?;
        let of_names = |parser: &mut Self| {
            let mut scope = if parser.eat("N") { parser.ty()? } else { parser.simple_name()? };
            while !parser.eat("E") {
                let level = parser.simple_name()?;
                scope = parser.add(Node::Qualified(scope, level));
            }
            let (name, _) = parser.unqualified(None)?;
            let id = parser.add(Node::Qualified(scope, name));
            if parser.peek(0) != b'I' {
                return Some(id);
            }
            let arguments = parser.arguments()?;
            Some(parser.add(Node::Template(id, arguments)))
        };
        // A type begins with a digit in names of old compilers only, and with `N`, if it ends where names could end.
        let of_type = |parser: &mut Self| {
            let scope = parser.ty()?;
            parser.member_of(scope)
        };
        if self.peek(0).is_ascii_digit() {
            return self.attempt(of_names).or_else(|| of_type(self));
        }
        self.attempt(of_type).or_else(|| of_names(self))
    }

    fn member_of(&mut self, scope: Id) -> Option<Id> {
        let is_destroyed = (self.peek(0), self.peek(1)) == (b'd', b'n');
        let name = if is_destroyed { self.destroyed()? } else { self.simple_name()? };
        Some(self.add(Node::Qualified(scope, name)))
    }

    /// Reads a literal, or the name of a function or an object.
    pub(super) fn primary(&mut self) -> Option<Id> {
        self.expect("L")?;
        // A compiler that forgot the line is still around.
        if self.peek(0) == b'Z' || self.peek(0) == b'_' {
            self.eat("_");
            self.expect("Z")?;
            let function = self.encoding(true)?;
            self.expect("E")?;
            return Some(function);
        }
        let of = self.ty()?;
        let is_nullptr = matches!(self.tree.node(of), Node::Text("decltype(nullptr)"));
        let is_lambda = matches!(self.tree.node(of), Node::Lambda(..));
        if (is_nullptr || is_lambda) && self.eat("E") {
            return Some(of);
        }
        let is_negative = self.eat("n");
        let rest = self.rest();
        let digits = &rest[..rest.find('E')?];
        self.at += digits.len() + 1;
        Some(self.add(Node::Literal { of, digits, is_negative }))
    }
}
