//! Writes a name as `nm -C` does.

mod names;
mod types;
mod values;

use std::fmt::{self, Write as _};

use super::super::Bounded;
use super::tree::{Id, Node, Tree};

/// Deeper trees are no names. The stack of a thread has room for more.
const MAX_DEPTH: u32 = 256;
/// More steps are no name: a pack in a pack can be empty, and take steps without end.
const MAX_STEPS: u32 = 1 << 17;

/// What is not written.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct LeftOut {
    /// The parameters of the function, and the type that it returns.
    pub signature: bool,
}

/// A node, and the function whose template parameters it means.
#[derive(Debug, Clone, Copy)]
struct Part {
    id: Id,
    scope: usize,
}

impl Part {
    fn at(self, id: Id) -> Self {
        Self { id, ..self }
    }
}

/// The template arguments of a function, and the scope of what stands in them.
#[derive(Debug, Clone, Copy)]
struct Scope<'t> {
    arguments: &'t [Id],
    outer: usize,
}

/// The pack whose elements are written one after the other.
#[derive(Debug, Clone, Copy, Default)]
struct Expanded {
    /// True in an expansion.
    is_one: bool,
    /// The number of the element.
    element: usize,
    /// How many elements the pack has; `None` before a pack was met.
    len: Option<usize>,
}

pub(super) struct Writer<'t, 'n> {
    tree: &'t Tree<'n>,
    out: Bounded,
    /// The first one has no arguments.
    scopes: Vec<Scope<'t>>,
    /// True in the parameters of a lambda.
    is_lambda: bool,
    expanded: Expanded,
    depth: u32,
    steps: u32,
}

impl<'t, 'n> Writer<'t, 'n> {
    pub(super) fn new(tree: &'t Tree<'n>, out: Bounded) -> Self {
        Self {
            tree,
            out,
            scopes: vec![Scope { arguments: &[], outer: 0 }],
            is_lambda: false,
            expanded: Expanded::default(),
            depth: 0,
            steps: 0,
        }
    }

    /// Writes the whole name.
    pub(super) fn written(mut self, id: Id, left_out: LeftOut) -> Option<String> {
        let mut part = Part { id, scope: 0 };
        if left_out.signature {
            while let Node::Clone(of, _) = self.tree.node(part.id) {
                part.id = *of;
            }
            if let Node::Function { name, .. } = self.tree.node(part.id) {
                part = self.scope(part, *name);
            }
        }
        self.whole(part).ok()?;
        Some(self.out.text)
    }

    /// Returns the name of a function, in the scope of the template arguments that it ends in.
    fn scope(&mut self, function: Part, name: Id) -> Part {
        let Some(arguments) = self.tree.arguments(name) else { return function.at(name) };
        self.scopes.push(Scope { arguments, outer: function.scope });
        Part { id: name, scope: self.scopes.len() - 1 }
    }

    fn text(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }

    fn last(&self) -> u8 {
        self.out.text.bytes().last().unwrap_or(0)
    }

    /// Writes all of a node.
    fn whole(&mut self, part: Part) -> fmt::Result {
        self.left(part)?;
        self.right(part)
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.steps += 1;
        if self.depth >= MAX_DEPTH || self.steps > MAX_STEPS {
            return Err(fmt::Error);
        }
        self.depth += 1;
        write(self)?;
        self.depth -= 1;
        Ok(())
    }
    /// Follows a parameter of a template to its argument; `None` for an element that a pack does not have.
    fn resolved(&mut self, part: Part) -> Result<Option<Part>, fmt::Error> {
        let mut part = part;
        for _ in 0..MAX_DEPTH {
            self.steps += 1;
            part = match self.tree.node(part.id) {
                Node::Param(number) if !self.is_lambda => {
                    let scope = self.scopes[part.scope];
                    let argument = *scope.arguments.get(*number).ok_or(fmt::Error)?;
                    match self.tree.node(argument) {
                        Node::Pack(elements) if self.expanded.is_one => {
                            self.expanded.len.get_or_insert(elements.len());
                            match elements.get(self.expanded.element) {
                                Some(element) => Part { id: *element, scope: scope.outer },
                                None => return Ok(None),
                            }
                        }
                        _ => Part { id: argument, scope: scope.outer },
                    }
                }
                _ => return Ok(Some(part)),
            }
        }
        Err(fmt::Error)
    }

    /// Writes items with commas between them.
    fn list(&mut self, begin: &str, of: Part, items: &[Id], end: &str) -> fmt::Result {
        self.text(begin)?;
        self.items(of, items)?;
        if end == ">" && self.last() == b'>' {
            self.text(" ")?;
        }
        self.text(end)
    }

    /// Writes items with commas between them. An item that writes nothing, such as an empty pack, gets no comma.
    fn items(&mut self, of: Part, items: &[Id]) -> fmt::Result {
        let first = self.out.text.len();
        for item in items {
            let before = self.out.text.len();
            if before > first {
                self.text(", ")?;
            }
            let begin = self.out.text.len();
            self.whole(of.at(*item))?;
            if self.out.text.len() == begin {
                self.out.text.truncate(before);
            }
        }
        Ok(())
    }

    fn numbered(&mut self, begin: &str, number: u64, end: &str) -> fmt::Result {
        self.text(begin)?;
        self.text(&number.to_string())?;
        self.text(end)
    }
}
