//! Reads letters, numbers and lists of a mangled name, within bounds.

use super::tree::{Id, Node, Tree, quals};

/// Parts that lie in each other more deeply are no name that a compiler makes. The stack of a thread has room for more.
const MAX_DEPTH: u32 = 160;
/// More parts than this are no name; a place where two readings are tried could otherwise double the work each time.
const MAX_STEPS: u32 = 1 << 16;

/// A mangled name that is read, from left to right.
pub(super) struct Parser<'n> {
    text: &'n str,
    pub at: usize,
    pub tree: Tree<'n>,
    /// What `S_`, `S0_`, … stand for.
    pub substitutions: Vec<Id>,
    /// True in the type to which an operator converts.
    pub(super) is_conversion: bool,
    depth: u32,
    steps: u32,
}

impl<'n> Parser<'n> {
    pub(super) fn new(text: &'n str) -> Self {
        Self {
            text,
            at: 0,
            tree: Tree::default(),
            substitutions: Vec::new(),
            is_conversion: false,
            depth: 0,
            steps: 0,
        }
    }

    /// Returns the letter that is `ahead` letters away; 0 behind the last.
    pub(super) fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the letters that are not read yet.
    pub(super) fn rest(&self) -> &'n str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips a text if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next =
            self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// Skips a text that must come next.
    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    pub(super) fn add(&mut self, node: Node<'n>) -> Id {
        self.tree.add(node)
    }

    /// Adds a node that `S…_` may stand for.
    pub(super) fn add_substitution(&mut self, id: Id) -> Id {
        self.substitutions.push(id);
        id
    }

    /// Reads a part that may have such parts in it.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.steps += 1;
        if self.depth >= MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        self.depth += 1;
        let part = read(self);
        self.depth -= 1;
        part
    }

    /// Reads digits.
    pub(super) fn digits(&mut self) -> &'n str {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        self.at += len;
        &rest[..len]
    }

    /// Reads a number that must be there.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.digits().parse().ok()
    }

    /// Reads `_`, `0_`, `1_`, …: 0, 1, 2, …
    pub(super) fn counted(&mut self) -> Option<u64> {
        if self.eat("_") {
            return Some(0);
        }
        let number = self.number()?.checked_add(1)?;
        self.expect("_")?;
        Some(number)
    }

    /// Reads parts until `end`.
    pub(super) fn until(&mut self, end: &str, read: fn(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        let mut parts = Vec::new();
        while !self.eat(end) {
            parts.push(read(self)?);
        }
        Some(parts)
    }

    /// Reads a number and a name of so many bytes.
    pub(super) fn source_name(&mut self) -> Option<Id> {
        let len = usize::try_from(self.number()?).ok().filter(|len| *len > 0)?;
        let name = self.text.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        // `_GLOBAL_`, one of `.`, `_` and `$`, `N`: what compilers name the namespace that has no name.
        let is_anonymous =
            name.strip_prefix("_GLOBAL_").and_then(|rest| rest.get(1..)).is_some_and(|r| r.starts_with('N'));
        Some(self.add(Node::Text(if is_anonymous { "(anonymous namespace)" } else { name })))
    }

    /// Reads `S_`, `S0_`, …, or a name of the standard library, and the tags of its ABI.
    pub(super) fn substitution(&mut self, is_prefix: bool) -> Option<Id> {
        self.expect("S")?;
        let letter = self.peek(0);
        if let Some(standard) = super::words::standard(letter) {
            self.at += 1;
            // Nobody calls a constructor of `std::string` `std::string::string`.
            let is_class = is_prefix && matches!(self.peek(0), b'C' | b'D');
            let text = if is_class { standard.declared } else { standard.short };
            let id = self.add(Node::Std(text, standard.base));
            return Some(if self.peek(0) == b'B' {
                let tagged = self.abi_tags(id)?;
                self.add_substitution(tagged)
            } else {
                id
            });
        }
        let mut number = 0_usize;
        if letter != b'_' {
            while self.peek(0) != b'_' {
                let digit =
                    (self.peek(0) as char).to_digit(36).filter(|_| !self.peek(0).is_ascii_lowercase())?;
                number = number.checked_mul(36)?.checked_add(digit as usize)?;
                self.at += 1;
            }
            number = number.checked_add(1)?;
        }
        self.expect("_")?;
        self.substitutions.get(number).copied()
    }

    /// Reads the tags behind a name.
    pub(super) fn abi_tags(&mut self, name: Id) -> Option<Id> {
        let mut tagged = name;
        while self.eat("B") {
            let tag = self.source_name()?;
            let Node::Text(tag) = *self.tree.node(tag) else { return None };
            tagged = self.add(Node::Tagged(tagged, tag));
        }
        Some(tagged)
    }

    /// Reads `const`, `volatile` and `restrict`.
    pub(super) fn cv(&mut self) -> u8 {
        let mut set = 0;
        for (letter, bit) in [("r", quals::RESTRICT), ("V", quals::VOLATILE), ("K", quals::CONST)] {
            set |= if self.eat(letter) { bit } else { 0 };
        }
        set
    }

    /// Reads which values a method takes.
    pub(super) fn reference(&mut self) -> u8 {
        if self.eat("R") {
            quals::LVALUE
        } else if self.eat("O") {
            quals::RVALUE
        } else {
            0
        }
    }

    /// Reads one of two possible texts: the second reading begins where the first one began.
    pub(super) fn attempt(&mut self, read: impl FnOnce(&mut Self) -> Option<Id>) -> Option<Id> {
        let (at, substitutions) = (self.at, self.substitutions.len());
        read(self).or_else(|| {
            self.at = at;
            self.substitutions.truncate(substitutions);
            None
        })
    }
}
