//! Writes types: around the name of what has the type.

use std::fmt;

use super::super::tree::{Node, quals};
use super::{MAX_DEPTH, Part, Writer};

/// Which part of a type stands behind the name of what has the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// `(int)`.
    Params,
    /// `[3]`.
    Length,
}

impl Writer<'_, '_> {
    fn behind(&mut self, part: Part) -> Result<Behind, fmt::Error> {
        let mut part = part;
        for _ in 0..MAX_DEPTH {
            let Some(resolved) = self.resolved(part)? else { return Ok(Behind::Nothing) };
            match self.tree.node(resolved.id) {
                Node::FunctionType { .. } => return Ok(Behind::Params),
                Node::Array(..) => return Ok(Behind::Length),
                Node::Cv(_, of) => part = resolved.at(*of),
                _ => return Ok(Behind::Nothing),
            }
        }
        Err(fmt::Error)
    }

    /// Returns true if a type is made of one whose bracket is still open: `void (*`.
    pub(super) fn opens(&mut self, part: Part) -> Result<bool, fmt::Error> {
        let mut part = part;
        for _ in 0..MAX_DEPTH {
            let Some(resolved) = self.resolved(part)? else { return Ok(false) };
            part = resolved.at(match self.tree.node(resolved.id) {
                Node::Pointer(of)
                | Node::Reference(of)
                | Node::RvalueReference(of)
                | Node::Member { of, .. }
                | Node::Cv(_, of) => *of,
                Node::FunctionType { .. } | Node::Array(..) => return Ok(true),
                _ => return Ok(false),
            });
        }
        Err(fmt::Error)
    }

    /// Writes what a pointer, a reference or a pointer to a member refers to, and opens the bracket that it needs.
    fn referred(&mut self, of: Part) -> fmt::Result {
        self.left(of)?;
        match self.behind(of)? {
            Behind::Length => self.text(" ("),
            Behind::Params => self.text("("),
            Behind::Nothing => Ok(()),
        }
    }

    fn closed(&mut self, of: Part) -> fmt::Result {
        if self.behind(of)? != Behind::Nothing {
            self.text(")")?;
        }
        self.right(of)
    }

    /// Finds what a reference to a reference is: `&` if one of them is `&`.
    fn collapsed(&mut self, part: Part) -> Result<(&'static str, Part), fmt::Error> {
        let (mut sign, mut part) = ("&&", part);
        for _ in 0..MAX_DEPTH {
            match self.tree.node(part.id) {
                Node::Reference(of) => (sign, part) = ("&", part.at(*of)),
                Node::RvalueReference(of) => part = part.at(*of),
                _ => return Ok((sign, part)),
            }
            match self.resolved(part)? {
                Some(of) => part = of,
                None => return Ok((sign, part)),
            }
        }
        Err(fmt::Error)
    }

    /// Joins `const` and the like of a type and of what it stands for: each is written once.
    fn qualified(&mut self, set: u8, of: Part) -> Result<(u8, Part), fmt::Error> {
        let (mut set, mut of) = (set, of);
        for _ in 0..MAX_DEPTH {
            let Some(resolved) = self.resolved(of)? else { return Ok((set, of)) };
            match self.tree.node(resolved.id) {
                Node::Cv(inner, next) => (set, of) = (set | inner, resolved.at(*next)),
                _ => return Ok((set, of)),
            }
        }
        Err(fmt::Error)
    }

    pub(super) fn quals(&mut self, set: u8) -> fmt::Result {
        quals::WORDS.iter().filter(|(bit, _)| set & bit != 0).try_for_each(|(_, word)| self.text(word))
    }

    /// Writes what stands before the name of a type, or all of another node.
    pub(super) fn left(&mut self, part: Part) -> fmt::Result {
        self.nested(|writer| {
            let Some(part) = writer.resolved(part)? else { return Ok(()) };
            match writer.tree.node(part.id) {
                Node::Pointer(of) => {
                    writer.referred(part.at(*of))?;
                    writer.text("*")
                }
                Node::Reference(_) | Node::RvalueReference(_) => {
                    let (sign, of) = writer.collapsed(part)?;
                    writer.referred(of)?;
                    writer.text(sign)
                }
                Node::Member { class, of } => {
                    writer.referred(part.at(*of))?;
                    if writer.last() != b'(' {
                        writer.text(" ")?;
                    }
                    writer.whole(part.at(*class))?;
                    writer.text("::*")
                }
                Node::Cv(set, of) => {
                    let (set, of) = writer.qualified(*set, part.at(*of))?;
                    writer.left(of)?;
                    if writer.behind(of)? == Behind::Params { Ok(()) } else { writer.quals(set) }
                }
                Node::Followed(of, word) => {
                    writer.left(part.at(*of))?;
                    writer.text(word)
                }
                Node::VendorQualified(of, word) => {
                    writer.left(part.at(*of))?;
                    writer.text(" ")?;
                    writer.whole(part.at(*word))
                }
                Node::FunctionType { result, .. } => writer.result(part.at(*result)),
                Node::Array(_, of) => writer.left(part.at(*of)),
                _ => writer.name(part),
            }
        })
    }

    /// Writes the type that a function returns, as far as it stands before the function's name.
    pub(super) fn result(&mut self, result: Part) -> fmt::Result {
        self.left(result)?;
        if self.opens(result)? { Ok(()) } else { self.text(" ") }
    }

    /// Writes what stands behind the name of a type.
    pub(super) fn right(&mut self, part: Part) -> fmt::Result {
        self.nested(|writer| {
            let Some(part) = writer.resolved(part)? else { return Ok(()) };
            match writer.tree.node(part.id) {
                Node::Pointer(of) | Node::Member { of, .. } => writer.closed(part.at(*of)),
                Node::Reference(_) | Node::RvalueReference(_) => {
                    let (_, of) = writer.collapsed(part)?;
                    writer.closed(of)
                }
                Node::Cv(set, of) => {
                    let (set, of) = writer.qualified(*set, part.at(*of))?;
                    writer.right(of)?;
                    if writer.behind(of)? == Behind::Params { writer.quals(set) } else { Ok(()) }
                }
                Node::Followed(of, _) | Node::VendorQualified(of, _) => writer.right(part.at(*of)),
                Node::FunctionType { result, params, quals, exceptions } => {
                    writer.list("(", part, params, ")")?;
                    writer.quals(*quals)?;
                    if let Some(exceptions) = exceptions {
                        writer.whole(part.at(*exceptions))?;
                    }
                    writer.right(part.at(*result))
                }
                Node::Array(len, of) => {
                    if writer.last() != b']' {
                        writer.text(" ")?;
                    }
                    writer.text("[")?;
                    if let Some(len) = len {
                        writer.whole(part.at(*len))?;
                    }
                    writer.text("]")?;
                    writer.right(part.at(*of))
                }
                _ => Ok(()),
            }
        })
    }
}
