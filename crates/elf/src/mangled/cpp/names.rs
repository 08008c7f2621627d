//! Reads functions and names.

use super::parser::Parser;
use super::tree::{Id, Node, Operator};
use super::words;

/// A name, and what it says of the function that has it.
pub(super) struct Named {
    id: Id,
    quals: u8,
    /// It ends in template arguments, and so the type that it returns follows.
    has_arguments: bool,
    /// Constructors, destructors and conversions: the type that they return never follows.
    is_special: bool,
}

impl<'n> Parser<'n> {
    /// Reads a function with the types of its parameters, or another name. Only the outermost function shows what it returns.
    pub(super) fn encoding(&mut self, is_outermost: bool) -> Option<Id> {
        self.nested(|parser| match parser.peek(0) {
            b'T' | b'G' => parser.special(),
            _ => parser.function(is_outermost),
        })
    }

    fn function(&mut self, is_outermost: bool) -> Option<Id> {
        let named = self.name()?;
        if self.is_end() {
            return Some(named.id);
        }
        let result = if named.has_arguments && !named.is_special { Some(self.ty()?) } else { None };
        let params = self.params()?;
        let requires = if self.eat("Q") { Some(self.expression()?) } else { None };
        let result = result.filter(|_| is_outermost);
        Some(self.add(Node::Function { name: named.id, result, params, quals: named.quals, requires }))
    }

    /// Returns true where a function cannot have more parameters.
    pub(super) fn is_end(&self) -> bool {
        matches!((self.peek(0), self.peek(1)), (0 | b'E' | b'.' | b'Q', _) | (b'R' | b'O', b'E'))
    }

    /// Reads one or more types of parameters; `void` alone is none.
    pub(super) fn params(&mut self) -> Option<Vec<Id>> {
        let mut params = vec![self.ty()?];
        while !self.is_end() {
            params.push(self.ty()?);
        }
        if let ([only], true) = (&params[..], self.is_end())
            && matches!(self.tree.node(*only), Node::Text("void"))
        {
            params.clear();
        }
        Some(params)
    }

    /// Reads a name.
    pub(super) fn name(&mut self) -> Option<Named> {
        self.nested(|parser| match (parser.peek(0), parser.peek(1)) {
            (b'N', _) => parser.nested_name(),
            (b'Z', _) => parser.local(),
            (b'S', next) if next != b't' => {
                let id = parser.substitution(false)?;
                parser.with_arguments(id, false, false)
            }
            _ => {
                let scope = parser.eat("St").then(|| parser.add(Node::Text("std")));
                let (name, is_special) = parser.unqualified(scope)?;
                let name = scope.map_or(name, |scope| parser.add(Node::Qualified(scope, name)));
                parser.with_arguments(name, true, is_special)
            }
        })
    }

    /// Reads a name without what it says of its function.
    pub(super) fn plain_name(&mut self) -> Option<Id> {
        self.name().map(|named| named.id)
    }

    fn with_arguments(&mut self, name: Id, is_new: bool, is_special: bool) -> Option<Named> {
        let has_arguments = self.peek(0) == b'I';
        let mut id = name;
        if has_arguments {
            if is_new {
                self.add_substitution(name);
            }
            let arguments = self.arguments()?;
            id = self.add(Node::Template(name, arguments));
        }
        Some(Named { id, quals: 0, has_arguments, is_special })
    }

    fn nested_name(&mut self) -> Option<Named> {
        self.expect("N")?;
        // The object is a parameter with a name.
        self.eat("H");
        let quals = self.cv() | self.reference();
        let mut named: Option<Named> = None;
        while !self.eat("E") {
            let scope = named.as_ref().map(|named| named.id);
            let (mut has_arguments, mut is_special, mut is_new) = (false, false, true);
            let id = match (self.peek(0), self.peek(1), scope) {
                (b'I', _, Some(name)) => {
                    let is_ctor = named.is_some_and(|named| named.is_special);
                    (has_arguments, is_special) = (true, is_ctor);
                    let arguments = self.arguments()?;
                    self.add(Node::Template(name, arguments))
                }
                // The scope of a lambda that initializes a member.
                (b'M', _, Some(_)) => {
                    self.at += 1;
                    continue;
                }
                (b'S', b't', None) => {
                    (self.at, is_new) = (self.at + 2, false);
                    self.add(Node::Text("std"))
                }
                (b'S', _, None) => {
                    is_new = false;
                    self.substitution(true)?
                }
                (b'T', _, None) => self.template_param()?,
                (b'D', b't' | b'T', None) => self.decltype()?,
                _ => {
                    let name;
                    (name, is_special) = self.unqualified(scope)?;
                    scope.map_or(name, |scope| self.add(Node::Qualified(scope, name)))
                }
            };
            // `S_` stands for no whole nested name, and for no variable that a lambda initializes.
            if is_new && !matches!(self.peek(0), b'E' | b'M') {
                self.add_substitution(id);
            }
            named = Some(Named { id, quals, has_arguments, is_special });
        }
        named
    }

    /// Reads a name in a function.
    fn local(&mut self) -> Option<Named> {
        self.expect("Z")?;
        let function = self.encoding(false)?;
        self.expect("E")?;
        if self.eat("s") {
            self.discriminator()?;
            let text = self.add(Node::Text("string literal"));
            let id = self.add(Node::Qualified(function, text));
            return Some(Named { id, quals: 0, has_arguments: false, is_special: false });
        }
        let default = if self.eat("d") { Some(self.counted()?) } else { None };
        let mut named = self.name()?;
        if let Some(number) = default {
            named.id = self.add(Node::DefaultArgument(number + 1, named.id));
        }
        self.discriminator()?;
        named.id = self.add(Node::Qualified(function, named.id));
        Some(named)
    }

    /// Skips the number that tells local names of one text apart.
    fn discriminator(&mut self) -> Option<()> {
        let is_long = self.peek(1) == b'_';
        if self.peek(0) != b'_' || !self.peek(1 + usize::from(is_long)).is_ascii_digit() {
            return Some(());
        }
        self.at += 1 + usize::from(is_long);
        let number = self.number()?;
        if is_long && number >= 10 { self.expect("_") } else { Some(()) }
    }

    /// Reads a name without its scope. Returns true with a constructor, a destructor or a conversion.
    pub(super) fn unqualified(&mut self, scope: Option<Id>) -> Option<(Id, bool)> {
        // A friend that is declared in a class.
        if self.peek(0) == b'F' && (self.peek(1) == b'L' || self.peek(1).is_ascii_digit()) {
            self.at += 1;
        }
        let is_internal = self.eat("L");
        let (name, is_special) = match (self.peek(0), self.peek(1)) {
            (b'0'..=b'9', _) => (self.source_name()?, false),
            (b'U', b'l') => (self.lambda()?, false),
            (b'U', b't') => {
                self.at += 2;
                let number = self.counted()? + 1;
                (self.add(Node::Unnamed(number)), false)
            }
            (b'D', b'C') => {
                self.at += 2;
                let names = self.until("E", Self::source_name)?;
                (self.add(Node::Binding(names)), false)
            }
            (b'C' | b'D', _) => (self.constructor(scope?)?, true),
            (b'a'..=b'z', _) => self.operator_name()?,
            _ => return None,
        };
        let name = self.abi_tags(name)?;
        if is_internal {
            self.discriminator()?;
        }
        Some((name, is_special))
    }

    fn constructor(&mut self, class: Id) -> Option<Id> {
        let base = self.tree.base(class);
        let base = match *self.tree.node(base) {
            Node::Std(_, base) => self.add(Node::Text(base)),
            _ => base,
        };
        if self.eat("C") {
            let is_inherited = self.eat("I");
            self.number().filter(|kind| (1..=5).contains(kind))?;
            if is_inherited {
                self.ty()?;
            }
            return Some(base);
        }
        self.expect("D")?;
        self.number().filter(|kind| *kind <= 5)?;
        Some(self.add(Node::Destructor(base)))
    }

    fn lambda(&mut self) -> Option<Id> {
        self.expect("Ul")?;
        // Parameters of its template that have names.
        while self.peek(0) == b'T' && self.peek(1).is_ascii_lowercase() {
            self.declared_param()?;
        }
        let params = self.params()?;
        self.expect("E")?;
        let number = self.counted()? + 1;
        Some(self.add(Node::Lambda(params, number)))
    }

    /// Skips the declaration of a parameter of a template.
    pub(super) fn declared_param(&mut self) -> Option<()> {
        self.nested(|parser| {
            parser.expect("T")?;
            if parser.eat("y") {
                return Some(());
            }
            if parser.eat("n") {
                return parser.ty().map(|_| ());
            }
            if parser.eat("p") {
                return parser.declared_param();
            }
            parser.expect("t")?;
            while !parser.eat("E") {
                parser.declared_param()?;
            }
            Some(())
        })
    }

    /// Reads the name of an operator. Returns true with a conversion.
    fn operator_name(&mut self) -> Option<(Id, bool)> {
        // Marks operators in expressions.
        self.eat("on");
        if self.eat("cv") {
            let is_conversion = std::mem::replace(&mut self.is_conversion, true);
            let to = self.ty();
            self.is_conversion = is_conversion;
            let to = to?;
            return Some((self.add(Node::Conversion(to)), true));
        }
        if self.eat("li") {
            let name = self.source_name()?;
            return Some((self.add(Node::NamedOperator("operator\"\" ", name)), false));
        }
        if self.peek(0) == b'v' && self.peek(1).is_ascii_digit() {
            self.at += 2;
            let name = self.source_name()?;
            return Some((self.add(Node::NamedOperator("operator ", name)), false));
        }
        let operator = self.operator()?;
        Some((self.add(Node::Operator(operator)), false))
    }

    pub(super) fn operator(&mut self) -> Option<Operator> {
        let operator = words::operator(self.rest().get(..2)?)?;
        self.at += 2;
        Some(operator)
    }

    /// Reads what a compiler makes for a name.
    fn special(&mut self) -> Option<Id> {
        const OF_NAMES: [(&str, &str); 6] = [
            ("TH", "TLS init function for "),
            ("TW", "TLS wrapper function for "),
            ("GV", "guard variable for "),
            ("GA", "hidden alias for "),
            ("GI", "initializer for module "),
            ("GR", ""),
        ];
        const OF_TYPES: [(&str, &str); 6] = [
            ("TV", "vtable for "),
            ("TT", "VTT for "),
            ("TI", "typeinfo for "),
            ("TS", "typeinfo name for "),
            ("TF", "typeinfo fn for "),
            ("TJ", "java Class for "),
        ];
        const OF_FUNCTIONS: [(&str, &str, usize); 5] = [
            ("Th", "non-virtual thunk to ", 0),
            ("Tv", "virtual thunk to ", 0),
            ("Tc", "covariant return thunk to ", 2),
            ("GTt", "transaction clone for ", 0),
            ("GTn", "non-transaction clone for ", 0),
        ];
        if let Some((code, text, offsets)) =
            OF_FUNCTIONS.into_iter().find(|(code, ..)| self.rest().starts_with(code))
        {
            // `h` and `v` begin the offset, too.
            self.at += if matches!(code, "Th" | "Tv") { 1 } else { code.len() };
            for _ in 0..if code.starts_with('G') { 0 } else { offsets.max(1) } {
                self.call_offset()?;
            }
            let function = self.encoding(false)?;
            return Some(self.add(Node::Special(text, function)));
        }
        if self.eat("TC") {
            let derived = self.ty()?;
            self.number()?;
            self.expect("_")?;
            let base = self.ty()?;
            return Some(self.add(Node::ConstructionTable { base, derived }));
        }
        if self.eat("TA") {
            let argument = self.template_arg()?;
            return Some(self.add(Node::Special("template parameter object for ", argument)));
        }
        if let Some((_, text)) = OF_TYPES.into_iter().find(|(code, _)| self.eat(code)) {
            let of = self.ty()?;
            return Some(self.add(Node::Special(text, of)));
        }
        let (code, text) = OF_NAMES.into_iter().find(|(code, _)| self.eat(code))?;
        let name = self.plain_name()?;
        if code != "GR" {
            return Some(self.add(Node::Special(text, name)));
        }
        // The first temporary has no number, and older compilers end it without `_`.
        let number = self.digits().parse().unwrap_or(0);
        self.eat("_");
        Some(self.add(Node::ReferenceTemporary(number, name)))
    }

    /// Skips how far an object is from its base.
    fn call_offset(&mut self) -> Option<()> {
        let is_virtual = self.eat("v");
        if !is_virtual {
            self.expect("h")?;
        }
        for _ in 0..=u8::from(is_virtual) {
            self.eat("n");
            self.number()?;
            self.expect("_")?;
        }
        Some(())
    }
}
