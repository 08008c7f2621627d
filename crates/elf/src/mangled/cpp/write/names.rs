//! Writes names and functions.

use std::fmt;

use super::super::tree::{Id, Node};
use super::{Expanded, Part, Writer};

impl Writer<'_, '_> {
    /// Writes a node that is one piece.
    pub(super) fn name(&mut self, part: Part) -> fmt::Result {
        match self.tree.node(part.id) {
            Node::Text(text) | Node::Std(text, _) => self.text(text),
            Node::Qualified(scope, name) => {
                self.whole(part.at(*scope))?;
                self.text("::")?;
                self.whole(part.at(*name))
            }
            Node::Template(name, arguments) => {
                self.whole(part.at(*name))?;
                self.list(if self.last() == b'<' { " <" } else { "<" }, part, arguments, ">")
            }
            Node::Tagged(name, tag) => {
                self.whole(part.at(*name))?;
                self.text("[abi:")?;
                self.text(tag)?;
                self.text("]")
            }
            Node::Destructor(class) => {
                self.text("~")?;
                self.whole(part.at(*class))
            }
            Node::Operator(operator) => {
                let text = operator.text.trim_end();
                self.text(if text.starts_with(|c: char| c.is_ascii_lowercase()) {
                    "operator "
                } else {
                    "operator"
                })?;
                self.text(text)
            }
            Node::NamedOperator(begin, name) => {
                self.text(begin)?;
                self.whole(part.at(*name))
            }
            Node::Conversion(to) => {
                self.text("operator ")?;
                self.whole(part.at(*to))
            }
            Node::Lambda(params, number) => {
                let is_lambda = std::mem::replace(&mut self.is_lambda, true);
                self.list("{lambda(", part, params, ")")?;
                self.is_lambda = is_lambda;
                self.numbered("#", *number, "}")
            }
            Node::Unnamed(number) => self.numbered("{unnamed type#", *number, "}"),
            Node::Binding(names) => self.list("[", part, names, "]"),
            Node::DefaultArgument(number, name) => {
                self.numbered("{default arg#", *number, "}::")?;
                self.whole(part.at(*name))
            }
            Node::Function { name, result, params, quals, requires } => {
                self.function(part, (*name, *result), params, *quals, *requires)
            }
            Node::Special(text, of) => {
                self.text(text)?;
                self.whole(part.at(*of))
            }
            Node::ReferenceTemporary(number, name) => {
                self.numbered("reference temporary #", *number, " for ")?;
                self.whole(part.at(*name))
            }
            Node::ConstructionTable { base, derived } => {
                self.text("construction vtable for ")?;
                self.whole(part.at(*base))?;
                self.text("-in-")?;
                self.whole(part.at(*derived))
            }
            Node::Clone(of, suffix) => {
                self.whole(part.at(*of))?;
                self.text(" [clone ")?;
                self.text(suffix)?;
                self.text("]")
            }
            Node::Pack(elements) => self.items(part, elements),
            // `resolved` leaves only those of lambdas.
            Node::Param(number) => self.numbered("auto:", *number as u64 + 1, ""),
            Node::Expansion(of) => self.expansion(part.at(*of)),
            Node::Vector(len, of) => {
                self.whole(part.at(*of))?;
                self.text(" __vector(")?;
                if let Some(len) = len {
                    self.whole(part.at(*len))?;
                }
                self.text(")")
            }
            Node::BitInt(begin, bits) => {
                self.text(begin)?;
                self.whole(part.at(*bits))?;
                self.text(")")
            }
            Node::Float(bits, end) => {
                self.text("_Float")?;
                self.text(bits)?;
                self.text(end)
            }
            Node::Decltype(of) => {
                self.text("decltype (")?;
                self.whole(part.at(*of))?;
                self.text(")")
            }
            Node::Noexcept(when) => {
                self.text(" noexcept")?;
                match when {
                    Some(when) => self.list("(", part, &[*when], ")"),
                    None => Ok(()),
                }
            }
            Node::Throw(types) => self.list(" throw(", part, types, ")"),
            _ => self.value(part),
        }
    }

    fn function(
        &mut self,
        function: Part,
        (name, result): (Id, Option<Id>),
        params: &[Id],
        quals: u8,
        requires: Option<Id>,
    ) -> fmt::Result {
        let part = self.scope(function, name);
        if let Some(result) = result {
            self.result(part.at(result))?;
        }
        self.whole(part)?;
        self.list("(", part, params, ")")?;
        self.quals(quals)?;
        if let Some(requires) = requires {
            self.text(" requires ")?;
            self.whole(part.at(requires))?;
        }
        result.map_or(Ok(()), |result| self.right(part.at(result)))
    }

    /// Writes a pattern once for each element of the packs in it; if there is none, with dots.
    fn expansion(&mut self, of: Part) -> fmt::Result {
        let outer = self.expanded;
        let begin = self.out.text.len();
        self.expanded = Expanded { is_one: true, element: 0, len: None };
        self.whole(of)?;
        match self.expanded.len {
            None => self.text("...")?,
            Some(0) => self.out.text.truncate(begin),
            Some(len) => {
                for element in 1..len {
                    self.expanded.element = element;
                    self.text(", ")?;
                    self.whole(of)?;
                }
            }
        }
        self.expanded = outer;
        Ok(())
    }
}
