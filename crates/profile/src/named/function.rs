//! A function and its names; a frame of a named stack.

use std::collections::BTreeSet;

use icecore_format::records::Language;
use icecore_symbolize::Reason;
use icecore_text::quantity::things;

/// The mode in which a frame ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// In user mode.
    User,
    /// In the kernel.
    Kernel,
}

/// A function of an image, or a substitute for an unnamed one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its name; a substitute for an unnamed function: `cc1+0x5a3b40`, `[unmapped]`. If several functions of its image have one
    /// name, then behind it what tells them apart ([`Self::own_name`]): `helper (a.c:3)`, `api@V1`.
    pub name: Box<str>,
    /// Its image, a position in [`Names::images`](super::names::Names::images); `None` if the image is unknown.
    pub image: Option<u32>,
    /// The mode in which it ran.
    pub side: Side,
    /// Its language, if it is not compiled ahead of time and its process told.
    pub language: Language,
    /// Why it has no name; `None` if it has one.
    pub reason: Option<Reason>,
    /// Other names of the same code, sorted.
    pub aliases: Box<[Box<str>]>,
    /// The place that declares it: a position in [`Names::files`](super::names::Names::files), and a line.
    pub declared: Option<(u32, u32)>,
    /// The first line at which it was seen, if debug information has it, but no declaration.
    pub seen: Option<(u32, u32)>,
    /// Its first address in the ELF file, or in the kernel.
    pub start: Option<u64>,
    /// The version of its symbol, as the symbol table writes it: `@V1`, `@@V2`.
    pub version: Option<Box<str>>,
    /// The source file of a local function by the symbol table, mostly without its folder.
    pub source: Option<Box<str>>,
    /// The length of the name without what tells it apart from others, and without other names that calls have for it (`alpha or beta`);
    /// `None` if that is all.
    pub mark: Option<u32>,
}

impl Function {
    /// Makes a function of user mode of which only the name is known.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            image: None,
            side: Side::User,
            language: Language::UNKNOWN,
            reason: None,
            aliases: Box::default(),
            declared: None,
            seen: None,
            start: None,
            version: None,
            source: None,
            mark: None,
        }
    }

    /// Returns the name of its language, if that is known.
    pub fn language_name(&self) -> Option<String> {
        (self.language != Language::UNKNOWN).then(|| self.language.name())
    }

    /// Returns the name without what tells it apart from others here: what the source calls the function.
    pub fn own_name(&self) -> &str {
        &self.name[..self.mark.map_or(self.name.len(), |end| end as usize)]
    }

    /// Lists all names of this function: the one that is shown, the own one if that is another, and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.mark.map(|_| self.own_name());
        [&*self.name].into_iter().chain(own).chain(self.aliases.iter().map(|alias| &**alias))
    }

    /// Returns true if a text is a name of this function.
    pub fn is_named(&self, text: &str) -> bool {
        self.names().any(|name| name == text)
    }

    /// Puts a mark behind the name.
    pub(super) fn mark(&mut self, mark: &str) {
        self.mark.get_or_insert(self.name.len() as u32);
        self.name = [&*self.name, mark].concat().into();
    }

    /// Puts other names behind the name: calls name them, and the linker has folded these functions into one code.
    pub(super) fn or(&mut self, names: &BTreeSet<&str>) {
        const SHOWN: usize = 2;
        names.iter().take(SHOWN).for_each(|name| self.mark(&format!(" or {name}")));
        match names.len().saturating_sub(SHOWN) {
            0 => {}
            more => self.mark(&format!(" or {}", things(more as u64, "other name"))),
        }
    }

    /// Returns true if this is no code, but separates the stack of a waker, or names it.
    pub fn is_marker(&self) -> bool {
        self.image.is_none() && self.reason.is_none()
    }
}

/// One frame of a named stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// A position in [`Names::functions`](super::names::Names::functions).
    pub function: u32,
    /// Source file, a position in [`Names::files`](super::names::Names::files).
    pub file: Option<u32>,
    /// The line in the source file: where the function was, or where it called the next one.
    pub line: Option<u32>,
    /// The function was inlined into its caller.
    pub inlined: bool,
}
