//! JIT code, as its process reports it.

use std::sync::Arc;

use icecore_elf::Avma;
use icecore_format::records::{JitCode, JitInlined, JitLine, Language};

/// A piece of JIT code that a process reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// First address.
    pub start: Avma,
    /// Address after the last byte.
    pub end: Avma,
    /// When it was made, ns `CLOCK_MONOTONIC`; 0 if unknown, as in the next.
    pub since_ns: u64,
    /// When it was gone, ns.
    pub until_ns: u64,
    /// Its name, as the process reported it.
    pub name: Vec<u8>,
    /// Its unwind tables; empty if there are none.
    pub rules: Vec<u8>,
    /// The lines that contain a requested address, ascending.
    pub lines: Vec<Line>,
    /// Its language.
    pub language: Language,
}

/// The source line of a piece of code from an offset on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Distance from the start of the piece, bytes.
    pub off: u64,
    /// The source file; empty if unknown.
    pub file: Arc<[u8]>,
    /// The line in it, from 1; 0 if unknown.
    pub line: u32,
    /// The functions that are inlined there, innermost first.
    pub inlined: Vec<Inlined>,
}

/// A function that is inlined into the next one, or the last into that of the piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inlined {
    /// Its name.
    pub name: Arc<[u8]>,
    /// The source file where it is called; empty if unknown.
    pub call_file: Arc<[u8]>,
    /// The line of the call, from 1; 0 if unknown.
    pub call_line: u32,
}

impl Piece {
    /// Converts it to a row of a process; `string` assigns ids to texts, 0 to an empty one.
    pub fn row(&self, tgid: u32, mut string: impl FnMut(&[u8]) -> u32) -> JitCode<&[u8]> {
        let mut line = |line: &Line| JitLine {
            off: line.off,
            file: string(&line.file),
            line: line.line,
            inlined: line
                .inlined
                .iter()
                .map(|Inlined { name, call_file, call_line }| JitInlined {
                    name: string(name),
                    call_file: string(call_file),
                    call_line: *call_line,
                })
                .collect(),
        };
        JitCode {
            tgid,
            start: self.start.0,
            end: self.end.0,
            since_ns: self.since_ns,
            until_ns: self.until_ns,
            name: &self.name,
            rules: &self.rules,
            lines: self.lines.iter().map(&mut line).collect(),
            language: self.language,
        }
    }
}
