//! Judges calls and frames by the code of one image.

use std::sync::{Arc, Mutex, PoisonError};

use super::code::{Code, Opened};
use super::flow::Reach;
use super::{Before, depth};
use crate::map::Map;
use icecore_symbolize::image::Svma;
use icecore_unwind::{Edge, Shape, UnwindTables};

/// The longest function without unwind tables whose instructions are followed, bytes.
const MAX_FUNCTION_LEN: u64 = 64 << 10;

/// The code of an image, and what was found out about it.
#[derive(Debug)]
pub(super) struct JudgedCode<'a> {
    pub(super) code: Code<'a>,
    reached: Mutex<Map<Svma, Arc<Reach>>>,
    /// Frames by first instruction and program counter.
    shapes: Mutex<Map<(Svma, Svma), Option<Shape>>>,
}

impl<'a> JudgedCode<'a> {
    pub(super) fn new(opened: &'a Opened, tables: Option<UnwindTables<'a>>) -> Self {
        Self { code: Code::new(opened, tables), reached: Mutex::default(), shapes: Mutex::default() }
    }

    /// Judges the call before a return address. The callee is at `own` in this image, else where `other` says.
    pub(super) fn edge<'c>(
        &self,
        return_address: Svma,
        own: Option<Svma>,
        other: impl Fn() -> Option<(&'c Self, Svma)>,
        is_outermost: bool,
    ) -> Edge
    where
        'a: 'c,
    {
        let Some(Before { direct, is_indirect }) = self.code.before(return_address) else {
            return Edge::Unknown;
        };
        if is_indirect {
            return Edge::MayCall;
        }
        let found = match direct {
            Some(target) => self.leads(Svma(target), own),
            None => Edge::Impossible,
        };
        if found != Edge::Impossible {
            return found;
        }
        // The kernel puts frames of signals on stacks, and nobody called them.
        let here = own.map(|own| (self, own));
        let is_put = |(it, at): (&Self, Svma)| it.code.is_put(at);
        // An address that no call precedes is looked up as it is, and not one byte earlier.
        let exact = return_address.wrapping_sub(1);
        let begins = || self.code.is_begin(return_address) || self.code.is_begin(exact);
        let is_excused = self.code.is_signal_return(return_address)
            || self.code.is_signal_return(exact)
            || is_outermost && direct.is_none() && begins()
            || here.is_some_and(is_put)
            || own.is_none() && other().is_some_and(is_put);
        if is_excused { Edge::Unknown } else { Edge::Impossible }
    }

    /// Returns whether control reaches an address from the target of a call without another call.
    fn leads(&self, target: Svma, callee: Option<Svma>) -> Edge {
        if self.code.bytes_from(target).is_none() {
            return Edge::Unknown;
        }
        if self.code.is_stub(target) {
            // It leads into another file or to another function of this one, or the callee is there.
            return Edge::MayCall;
        }
        let function = callee.and_then(|callee| self.code.function(callee));
        if function.as_ref().is_some_and(|function| function.contains(&target)) {
            return Edge::Calls;
        }
        let reach = self.reach(target);
        if callee.is_some_and(|callee| reach.has(callee))
            || function.as_ref().is_some_and(|function| reach.meets(function))
        {
            return Edge::Calls;
        }
        let is_part = function.is_some_and(|function| {
            // Exception handlers may lie in a part of the function that only the unwinder enters.
            !self.code.tables.as_ref().is_none_or(|tables| tables.is_entry(function.start))
        });
        if reach.is_open || !reach.stubs.is_empty() || is_part { Edge::MayCall } else { Edge::Impossible }
    }

    fn reach(&self, target: Svma) -> Arc<Reach> {
        let reached = || self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = reached().get(&target).cloned();
        known.unwrap_or_else(|| {
            let reach = Arc::new(Reach::from(&self.code, target));
            reached().insert(target, Arc::clone(&reach));
            reach
        })
    }

    /// Finds the frame of the function that holds an instruction, if a symbol names the function.
    pub(super) fn shape(&self, at: Svma, is_interrupted: bool) -> Option<Shape> {
        let symbol = self.code.symbol(at).filter(|symbol| symbol.is_function)?;
        self.shape_from(symbol.start, at, is_interrupted)
    }

    /// Finds the frame of a function that a direct call before a return address enters.
    pub(super) fn shape_behind(&self, return_address: Svma, at: Svma, is_interrupted: bool) -> Option<Shape> {
        let target = self
            .code
            .before(return_address)?
            .direct
            .map(Svma)
            .filter(|target| !self.code.is_stub(*target))?;
        let is_near = target.0.abs_diff(at.0) <= MAX_FUNCTION_LEN;
        if is_near { self.shape_from(target, at, is_interrupted) } else { None }
    }

    fn shape_from(&self, start: Svma, at: Svma, is_interrupted: bool) -> Option<Shape> {
        // A return address lies after the call by which it is looked up.
        let pc = at.wrapping_add(u64::from(!is_interrupted));
        let shapes = || self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shapes().get(&(start, pc)).copied();
        known.unwrap_or_else(|| {
            let shape = depth::shape(&self.code, start, pc);
            shapes().insert((start, pc), shape);
            shape
        })
    }
}
