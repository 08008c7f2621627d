//! The interpreter that a file holds.

use std::ops::Range;

use icecore_elf::{Avma, FileOff, Layout, Svma};
use icecore_format::records::Omission;

use super::list::List;
use super::{php, python, v8};
use icecore_format::records::Language;

/// A build of an interpreter, and where a process has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// An executable section: its address, and its offset in the file.
    code: (Svma, FileOff),
    /// By how much its addresses in the process are larger than those in the file.
    moved: u64,
    runtime: Svma,
    /// The eval loop, if its frames must be counted.
    eval: Option<Range<Svma>>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Python(python::Offsets),
    Php(php::Offsets),
    V8(v8::Offsets),
}

impl Interpreter {
    /// Finds the interpreter of a file; `None` if there is none.
    ///
    /// # Errors
    /// If its frames are not known.
    pub(crate) fn find<'d>(
        file: impl object::ReadRef<'d>,
        layout: &Layout,
    ) -> Result<Option<Self>, Omission> {
        let Some(text) = layout.sections.iter().find(|section| section.is_executable) else {
            return Ok(None);
        };
        let (runtime, eval, kind) = if let Some(found) = python::find(file, layout)? {
            (found.runtime, found.eval, Kind::Python(found.offsets))
        } else if let Some(found) = php::find(file, layout)? {
            (found.runtime, Some(found.eval), Kind::Php(found.offsets))
        } else if let Some(offsets) = v8::find(file)? {
            (Svma(0), None, Kind::V8(offsets))
        } else {
            return Ok(None);
        };
        // The thread pointer is read there alone.
        if layout.machine != object::elf::EM_X86_64 {
            return Err(Omission::INTERPRETER_BUILD);
        }
        Ok(Some(Self { code: (text.at, text.off), moved: 0, runtime, eval, kind }))
    }

    /// Python 3.12 somewhere.
    #[cfg(test)]
    pub(super) fn of_3_12() -> Self {
        let kind = Kind::Python(python::of_3_12());
        Self { code: (Svma(0), FileOff(0)), moved: 0, runtime: Svma(0), eval: None, kind }
    }

    /// The offset in the file of some code, by which a process shows where it has mapped the file.
    pub(crate) fn code_off(&self) -> FileOff {
        self.code.1
    }

    /// Places it in a process; `code` is where that has the code of [`Self::code_off`].
    pub(crate) fn at(&self, code: Avma) -> Self {
        Self { moved: code.0.wrapping_sub(self.code.0.0), ..self.clone() }
    }

    /// Encodes what the sampler must know, `struct interpreter` of bpf/wire.h.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.list().bytes(self.runtime.0.wrapping_add(self.moved))
    }

    fn list(&self) -> &List {
        match &self.kind {
            Kind::Python(offsets) => &offsets.list,
            Kind::Php(offsets) => &offsets.list,
            Kind::V8(offsets) => &offsets.list,
        }
    }

    /// Returns the addresses of the eval loop in the process, if its frames must be counted.
    pub(super) fn eval(&self) -> Option<Range<u64>> {
        let at = |svma: Svma| svma.0.wrapping_add(self.moved);
        self.eval.as_ref().map(|eval| at(eval.start)..at(eval.end))
    }

    pub(super) fn language(&self) -> Language {
        match self.kind {
            Kind::Python(_) => Language::PYTHON,
            Kind::Php(_) => Language::PHP,
            Kind::V8(_) => Language::JAVASCRIPT,
        }
    }
}
