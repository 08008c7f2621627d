//! The debug information of a compiled method: which methods are inlined at an address, and where in each the code is.
//!
//! ```text
//! PcDesc: address ─► scope: method, bytecode ─► scope that it is inlined into ─► … ─► scope of the compiled method
//! ```
//!
//! Only some addresses have an entry: those to which calls return, and those at which the virtual machine may stop.
//!
//! # Source
//! OpenJDK `src/hotspot/share/code/nmethod.hpp`, `code/pcDesc.hpp`, `code/debugInfoRec.cpp`, `code/scopeDesc.cpp`

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::compressed::Numbers;
use super::flow::{Way, ways};
use super::structs::{Field, Reader, Structs, in_bytes};
use icecore_jit::u64_at;

/// The most bytes that are read of a compiled method.
const MAX_BYTES: u64 = 2 << 20;
/// The most methods that are inlined into each other.
pub(super) const MAX_DEPTH: usize = 64;
/// Compilers describe places relative to that before the method is entered.
const BEFORE_ENTRY: i32 = -1;

/// Where HotSpot has the debug information.
#[derive(Debug)]
pub(super) struct ScopeFields {
    layout: Layout,
    entry_bytes: u64,
    entry_at: Field,
    entry_scope: Field,
    zero: u8,
}

#[derive(Debug)]
enum Layout {
    /// Up to JDK 22: behind the code, in this order. In JDK 8 all are offsets; later `scopes` is an address.
    Behind { metadata: Field, scopes: Field, is_address: bool, entries: Field, end: Field },
    /// Later: entries and scopes apart.
    Apart { data: Field, bytes: Field, entries: Field, scopes: Field, metadata: Metadata },
}

#[derive(Debug)]
enum Metadata {
    /// JDK 23 and 24: in the data behind the code.
    Behind { data: Field, from: Field, bytes: Field },
    /// Later: behind the relocations, apart.
    Apart { data: Field, from: Field, bytes: Field },
}

/// Where the debug information of one method is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    metadata: Range<u64>,
    scopes: Range<u64>,
    entries: Range<u64>,
}

/// The debug information of one method.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scopes {
    /// Offsets in the code, ascending, and positions of scopes.
    entries: Vec<(u64, u32)>,
    /// Whether code gets from each entry to the next one in a straight line, and from nowhere else.
    is_straight: Vec<bool>,
    scopes: Vec<Scope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scope {
    /// The position of the one that it is inlined into.
    outer: Option<u32>,
    place: Place,
    depth: usize,
}

/// A place in a method: the address of the method, and the bytecode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) method: u64,
    pub(super) bytecode: i32,
}

/// What the debug information says of a stretch of code: the places in its methods, outermost first.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Where it begins, from the begin of the code.
    pub(super) off: u64,
    pub(super) places: Vec<Place>,
    /// Another bytecode where the last method may be as well.
    pub(super) or: Option<i32>,
}

impl ScopeFields {
    /// Finds the places in the structures. `zero` is the byte of compressed numbers that stands for 0.
    pub(super) fn new(structs: &Structs, zero: u8) -> Option<Self> {
        let field = |name: &str| structs.field(&[name]);
        let apart = || {
            let in_nmethod = || {
                Some(Metadata::Behind {
                    data: field("CodeBlob._data_offset")?,
                    from: field("nmethod._metadata_offset")?,
                    bytes: field("CodeBlob._size")?,
                })
            };
            let outside = || {
                Some(Metadata::Apart {
                    data: field("CodeBlob._mutable_data")?,
                    from: field("CodeBlob._relocation_size")?,
                    bytes: field("CodeBlob._mutable_data_size")?,
                })
            };
            Some(Layout::Apart {
                data: field("nmethod._immutable_data")?,
                bytes: field("nmethod._immutable_data_size")?,
                entries: field("nmethod._scopes_pcs_offset")?,
                scopes: field("nmethod._scopes_data_offset")?,
                metadata: outside().or_else(in_nmethod)?,
            })
        };
        let behind = || {
            let address = field("CompiledMethod._scopes_data_begin");
            Some(Layout::Behind {
                metadata: field("nmethod._metadata_offset")?,
                scopes: address.or_else(|| field("nmethod._scopes_data_offset"))?,
                is_address: address.is_some(),
                entries: field("nmethod._scopes_pcs_offset")?,
                end: field("nmethod._dependencies_offset")?,
            })
        };
        Some(Self {
            layout: apart().or_else(behind)?,
            entry_bytes: structs.size("PcDesc").filter(|bytes| (8..=64).contains(bytes))?,
            entry_at: field("PcDesc._pc_offset")?,
            entry_scope: field("PcDesc._scope_decode_offset")?,
            zero,
        })
    }

    /// Returns where the debug information of a method is, given the first bytes of its structure, which is at `at`.
    pub(super) fn places(&self, head: &[u8], at: u64) -> Option<Places> {
        let value = |field: Field| in_bytes(head, 0, field);
        let from = |base: u64, field: Field| base.checked_add(value(field)?);
        let places = match &self.layout {
            Layout::Behind { metadata, scopes, is_address, entries, end } => {
                let scopes = if *is_address { value(*scopes)? } else { from(at, *scopes)? };
                let entries = from(at, *entries)?;
                Places {
                    metadata: from(at, *metadata)?..scopes,
                    scopes: scopes..entries,
                    entries: entries..from(at, *end)?,
                }
            }
            Layout::Apart { data, bytes, entries, scopes, metadata } => {
                let data = value(*data)?;
                let scopes = from(data, *scopes)?;
                let metadata = match metadata {
                    Metadata::Behind { data, from: off, bytes } => {
                        from(from(at, *data)?, *off)?..from(at, *bytes)?
                    }
                    Metadata::Apart { data, from: off, bytes } => {
                        let data = value(*data)?;
                        from(data, *off)?..from(data, *bytes)?
                    }
                };
                Places {
                    metadata,
                    scopes: scopes..from(data, *bytes)?,
                    entries: from(data, *entries)?..scopes,
                }
            }
        };
        let lens = [&places.metadata, &places.scopes, &places.entries].map(|it| it.end.checked_sub(it.start));
        let all = lens.into_iter().try_fold(0_u64, |sum, len| sum.checked_add(len?))?;
        (all <= MAX_BYTES).then_some(places)
    }

    /// Reads the debug information of a method; `None` if one of its scopes does not lead to that method.
    pub(super) fn read(&self, memory: Reader<'_>, places: &Places, method: u64) -> Option<Scopes> {
        let bytes = |range: &Range<u64>| memory.bytes(range.start, (range.end - range.start) as usize);
        let (metadata, stream) = (bytes(&places.metadata)?, bytes(&places.scopes)?);
        let entries = bytes(&places.entries)?;
        let mut read = Reading {
            metadata: &metadata,
            stream: &stream,
            zero: self.zero,
            method,
            known: FxHashMap::default(),
        };
        let mut found = Scopes::default();
        for entry in entries.chunks_exact(self.entry_bytes as usize) {
            let number = |field: Field| {
                u32::try_from(in_bytes(entry, 0, Field { width: 4, ..field })?).ok().map(u32::cast_signed)
            };
            // The first and the last mark the ends.
            let (Ok(off), Ok(scope @ 1..)) =
                (u64::try_from(number(self.entry_at)?), u32::try_from(number(self.entry_scope)?))
            else {
                continue;
            };
            let scope = read.scope(&mut found.scopes, scope)?;
            found.entries.push((off, scope));
        }
        let ascends = found.entries.is_sorted_by(|a, b| a.0 < b.0);
        ascends.then_some(found)
    }
}

/// The streams of one method while they are read.
struct Reading<'a> {
    metadata: &'a [u8],
    stream: &'a [u8],
    zero: u8,
    method: u64,
    /// The positions of scopes by their offsets in the stream.
    known: FxHashMap<u32, u32>,
}

impl Reading<'_> {
    /// Reads a scope, and those that it is inlined into.
    fn scope(&mut self, scopes: &mut Vec<Scope>, off: u32) -> Option<u32> {
        // An outer scope is written before what is inlined into it, so this ends.
        let (mut fresh, mut next, mut outer) = (Vec::new(), off, None);
        while next > 0 {
            if let Some(known) = self.known.get(&next) {
                outer = Some(*known);
                break;
            }
            let mut numbers = Numbers::new(self.stream.get(next as usize..)?, self.zero);
            let [sender, method, bytecode] = [numbers.unsigned()?, numbers.unsigned()?, numbers.unsigned()?];
            (sender < next && fresh.len() < MAX_DEPTH).then_some(())?;
            let method = (method as usize).checked_sub(1)?.checked_mul(8)?;
            let method = self.metadata.get(method..method.checked_add(8)?).map(|word| u64_at(word, 0))?;
            let bytecode = bytecode.cast_signed().checked_add(BEFORE_ENTRY)?;
            fresh.push((next, Place { method, bytecode }));
            next = sender;
        }
        for (off, place) in fresh.into_iter().rev() {
            let depth = outer.and_then(|outer| scopes.get(outer as usize)).map_or(0, |it| it.depth + 1);
            (depth < MAX_DEPTH && (outer.is_some() || place.method == self.method)).then_some(())?;
            let position = u32::try_from(scopes.len()).ok()?;
            scopes.push(Scope { outer, place, depth });
            self.known.insert(off, position);
            outer = Some(position);
        }
        outer
    }
}

impl Scopes {
    /// Returns how many things it holds, as a measure of its memory.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.scopes.len()
    }

    /// Finds between which entries the code is a straight line. `returns` says whether what is called does, given its distance from the begin of
    /// the code.
    pub(super) fn follow(&mut self, code: &[u8], mut returns: impl FnMut(u64) -> bool) {
        let offs: Vec<u64> = self.entries.iter().map(|entry| entry.0).collect();
        let is_straight = |way: Way| match way {
            Way::Straight => true,
            Way::After(target) => returns(target),
            Way::Unknown => false,
        };
        self.is_straight = ways(code, &offs).into_iter().map(is_straight).collect();
    }

    /// Returns what is known of the code at an offset that was hit: of the call before it, if one returns there, and of the code from it on,
    /// or around it. That lies between two entries, and is in the methods in which both are if code gets straight from one to the other:
    /// compilers put code of other methods between them.
    pub(super) fn at(&self, off: u64) -> [Option<Stretch>; 2] {
        let behind = self.entries.partition_point(|entry| entry.0 <= off);
        let before = behind.checked_sub(1).and_then(|at| self.entries.get(at));
        let call = before.filter(|entry| entry.0 == off && off > 0);
        let call = call.map(|entry| Stretch { off: off - 1, places: self.places(entry.1), or: None });
        let from = before.map_or(0, |entry| entry.0);
        let is_straight = behind.checked_sub(1).and_then(|at| self.is_straight.get(at)) == Some(&true);
        let between = before.zip(self.entries.get(behind)).filter(|_| is_straight);
        let common = between.map(|(one, other)| {
            let (one, other) = (self.places(one.1), self.places(other.1));
            common(from, &one, &other)
        });
        [call, Some(common.unwrap_or(Stretch { off: from, ..Stretch::default() }))]
    }

    /// The places of a scope, outermost first.
    fn places(&self, scope: u32) -> Vec<Place> {
        let of = |scope: u32| self.scopes.get(scope as usize);
        let chain = std::iter::successors(of(scope), |scope| of(scope.outer?));
        let mut places: Vec<Place> = chain.take(MAX_DEPTH).map(|scope| scope.place).collect();
        places.reverse();
        places
    }
}

/// Returns what two entries have in common.
fn common(off: u64, one: &[Place], other: &[Place]) -> Stretch {
    let mut stretch = Stretch { off, ..Stretch::default() };
    for (one, other) in one.iter().zip(other).take_while(|(one, other)| one.method == other.method) {
        stretch.places.push(*one);
        if one.bytecode != other.bytecode {
            stretch.or = Some(other.bytecode);
            break;
        }
    }
    stretch
}
