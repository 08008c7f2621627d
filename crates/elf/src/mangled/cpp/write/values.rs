//! Writes expressions.

use std::fmt;

use super::super::tree::{Id, Node, Operator};
use super::{Part, Writer};

impl Writer<'_, '_> {
    /// Writes an operand: in brackets, if it is no name.
    fn operand(&mut self, part: Part) -> fmt::Result {
        match self.tree.node(part.id) {
            Node::Text(_) | Node::Qualified(..) | Node::Braced(..) | Node::Parameter(_) => self.whole(part),
            Node::List(items) => self.list("(", part, items, ")"),
            _ => self.list("(", part, &[part.id], ")"),
        }
    }

    pub(super) fn value(&mut self, part: Part) -> fmt::Result {
        match self.tree.node(part.id) {
            Node::Literal { of, digits, is_negative } => self.literal(part.at(*of), digits, *is_negative),
            Node::Nullary(operator) => self.text(operator.text),
            Node::Unary(operator, of) => self.unary(*operator, part.at(*of)),
            Node::Postfix(operator, of) => {
                self.operand(part.at(*of))?;
                self.text(operator.text)
            }
            Node::Binary(operator, left, right) => self.binary(*operator, part, (*left, *right)),
            Node::Ternary(condition, yes, no) => {
                self.operand(part.at(*condition))?;
                self.text("?")?;
                self.operand(part.at(*yes))?;
                self.text(" : ")?;
                self.operand(part.at(*no))
            }
            Node::NamedCast(operator, to, of) => {
                self.text(operator.text)?;
                self.text("<")?;
                self.whole(part.at(*to))?;
                self.list(">(", part, &[*of], ")")
            }
            Node::Cast(to, of) => {
                self.list("(", part, &[*to], ")")?;
                self.operand(part.at(*of))
            }
            Node::New { operator, placement, of, init } => {
                self.text(operator.text)?;
                self.text(" ")?;
                if !placement.is_empty() {
                    self.list("(", part, placement, ") ")?;
                }
                self.whole(part.at(*of))?;
                init.map_or(Ok(()), |init| self.operand(part.at(init)))
            }
            Node::Fold { operator, left, right } => self.fold(*operator, part, (*left, *right)),
            Node::Call(function, arguments) => {
                // A function that is called shows no types of parameters.
                match self.tree.node(*function) {
                    Node::Function { name, .. } => self.operand(part.at(*name))?,
                    _ => self.operand(part.at(*function))?,
                }
                self.operand(part.at(*arguments))
            }
            Node::List(items) => self.items(part, items),
            Node::Braced(of, values) => {
                if let Some(of) = of {
                    self.whole(part.at(*of))?;
                }
                self.list("{", part, values, "}")
            }
            Node::Designated { begin, at, end, value } => {
                self.text(begin)?;
                self.whole(part.at(*at))?;
                self.text(end)?;
                if !matches!(self.tree.node(*value), Node::Designated { .. }) {
                    self.text("=")?;
                }
                self.whole(part.at(*value))
            }
            Node::Length(of) => self.length(part, of),
            Node::Parameter(number) => self.numbered("{parm#", *number, "}"),
            _ => Err(fmt::Error),
        }
    }

    fn unary(&mut self, operator: Operator, of: Part) -> fmt::Result {
        self.text(operator.text)?;
        match (operator.code, self.tree.node(of.id)) {
            // The address of a function shows no types of parameters.
            ("ad", Node::Function { name, quals: 0, .. })
                if matches!(self.tree.node(*name), Node::Qualified(..)) =>
            {
                self.whole(of.at(*name))
            }
            ("gs", _) => self.whole(of),
            ("st" | "nx", _) => self.list("(", of, &[of.id], ")"),
            _ => self.operand(of),
        }
    }

    fn binary(&mut self, operator: Operator, of: Part, (left, right): (Id, Id)) -> fmt::Result {
        // It would look like the end of the template arguments.
        let is_greater = operator.code == "gt";
        self.text(if is_greater { "(" } else { "" })?;
        self.operand(of.at(left))?;
        if operator.code == "ix" {
            self.list("[", of, &[right], "]")?;
        } else {
            self.text(operator.text)?;
            self.operand(of.at(right))?;
        }
        self.text(if is_greater { ")" } else { "" })
    }

    fn fold(&mut self, operator: Operator, of: Part, ends: (Option<Id>, Option<Id>)) -> fmt::Result {
        self.text("(")?;
        if let (Some(left), _) = ends {
            self.operand(of.at(left))?;
            self.text(operator.text)?;
        }
        self.text("...")?;
        if let (_, Some(right)) = ends {
            self.text(operator.text)?;
            self.operand(of.at(right))?;
        }
        self.text(")")
    }

    /// Writes how many elements packs have; of what is no pack yet, nobody knows.
    fn length(&mut self, part: Part, of: &[Id]) -> fmt::Result {
        let mut len = 0;
        for id in of {
            let expanded = std::mem::take(&mut self.expanded);
            let resolved = self.resolved(part.at(*id));
            self.expanded = expanded;
            match resolved?.map(|part| self.tree.node(part.id)) {
                Some(Node::Pack(elements)) => len += elements.len(),
                Some(Node::Expansion(_) | Node::Parameter(_)) => {
                    return self.list("sizeof...(", part, of, ")");
                }
                _ => len += 1,
            }
        }
        self.text(&len.to_string())
    }

    fn literal(&mut self, of: Part, digits: &str, is_negative: bool) -> fmt::Result {
        let sign = if is_negative { "-" } else { "" };
        let of_text = if let Node::Text(text) = self.tree.node(of.id) { text } else { "" };
        let end = match (of_text, digits) {
            ("bool", "0") if !is_negative => return self.text("false"),
            ("bool", "1") if !is_negative => return self.text("true"),
            ("float" | "double" | "long double" | "__float128", _) => {
                self.list("(", of, &[of.id], ")")?;
                return [sign, "[", digits, "]"].iter().try_for_each(|text| self.text(text));
            }
            ("int", _) => "",
            ("unsigned int", _) => "u",
            ("long", _) => "l",
            ("unsigned long", _) => "ul",
            ("long long", _) => "ll",
            ("unsigned long long", _) => "ull",
            _ => {
                self.list("(", of, &[of.id], ")")?;
                ""
            }
        };
        [sign, digits, end].iter().try_for_each(|text| self.text(text))
    }
}
