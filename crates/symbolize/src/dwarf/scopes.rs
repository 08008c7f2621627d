//! Finds in one pass over the entries of a unit the functions, and the calls inlined into them, at the requested addresses.

use gimli::{Abbreviation, AttributeValue, DwTag, EntriesRaw, Unit, UnitOffset, constants as dw};

use icecore_elf::Svma;

use super::extent::Extent;
use super::info::check_attributes;
use super::origin::Entry;
use super::requested::Requested;
use super::{Broken, Dwarf, Guard, Slice};

/// Inlined calls that are nested deeper are skipped: real programs stay below 100.
const MAX_NESTED: u32 = 1000;

/// A function, or an inlined call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// The entry with its name.
    pub(super) entry: Entry,
    /// The scope into which it was inlined, by position in [`Scopes::all`]; `None` for a function.
    pub(super) caller: Option<u32>,
    /// The file and line of the call; 0 if unknown.
    pub(super) call_file: u64,
    pub(super) call_line: u32,
    nested: u32,
}

/// The scopes of a unit that contain requested addresses.
#[derive(Debug)]
pub(super) struct Scopes {
    pub(super) all: Vec<Scope>,
    /// The innermost scope of each requested address.
    pub(super) innermost: Vec<Option<u32>>,
    /// The function that is called at each requested address, if the unit names it.
    pub(super) calls: Vec<Option<Entry>>,
}

/// An entry whose children are being read.
struct Open {
    depth: isize,
    /// `None` if it contains no requested address.
    scope: Option<u32>,
}

/// The pass.
struct Walk<'w, 'd> {
    dwarf: &'w Dwarf<'d>,
    unit: &'w Unit<Slice<'d>>,
    asked: Requested<'w>,
    guard: &'w Guard,
    found: Scopes,
    /// The functions and inlined calls around the current entry, outermost first.
    open: Vec<Open>,
}

/// The attributes of an entry that a pass reads.
#[derive(Default)]
struct Attributes<'d> {
    extent: Extent<'d>,
    origin: Option<Entry>,
    call_file: u64,
    call_line: u32,
    sibling: Option<UnitOffset>,
}

impl Scopes {
    /// Reads all entries of a unit, without recursion. If they break, the pass ends with what it has found.
    ///
    /// With `has_plain_types` it skips types outside of functions, because they contain no code. This holds for C and C++, whose
    /// trees of types are most of all entries. (GCC without optimization puts the methods of a type inside of a function into the
    /// type.)
    pub(super) fn read<'d>(
        dwarf: &Dwarf<'d>,
        unit: &Unit<Slice<'d>>,
        has_plain_types: bool,
        asked: Requested<'_>,
        guard: &Guard,
    ) -> Self {
        let found = Self {
            all: Vec::new(),
            innermost: vec![None; asked.at.len()],
            calls: vec![None; asked.at.len()],
        };
        let mut walk = Walk { dwarf, unit, asked, guard, found, open: Vec::new() };
        if walk.run(has_plain_types).is_err() {
            guard.note();
        }
        walk.found
    }
}

impl<'d> Walk<'_, 'd> {
    fn run(&mut self, has_plain_types: bool) -> Result<(), Broken> {
        let mut entries = self.unit.entries_raw(None)?;
        // After a skipped entry, the reader counts its depth from 0 again.
        let mut base = 0;
        while !entries.is_empty() {
            let (off, depth) = (entries.next_offset(), base + entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            check_attributes(abbreviation)?;
            while self.open.last().is_some_and(|open| open.depth >= depth) {
                self.open.pop();
            }
            match abbreviation.tag() {
                dw::DW_TAG_subprogram => {
                    let attributes = Attributes::read(&mut entries, abbreviation)?;
                    let scope = self.function(off, &attributes)?;
                    self.open.push(Open { depth, scope });
                }
                dw::DW_TAG_inlined_subroutine => {
                    let Some(caller) = self.open.last().and_then(|open| open.scope) else {
                        entries.skip_attributes(abbreviation.attributes())?;
                        continue;
                    };
                    let attributes = Attributes::read(&mut entries, abbreviation)?;
                    let scope = self.inlined(off, caller, &attributes)?;
                    self.open.push(Open { depth, scope });
                }
                dw::DW_TAG_call_site | dw::DW_TAG_GNU_call_site
                    if self.open.last().is_some_and(|open| open.scope.is_some()) =>
                {
                    self.call(&mut entries, abbreviation)?;
                }
                tag if has_plain_types
                    && self.open.is_empty()
                    && abbreviation.has_children()
                    && is_type(tag) =>
                {
                    let sibling = Attributes::read(&mut entries, abbreviation)?.sibling;
                    if let Some(sibling) = sibling.filter(|sibling| *sibling > entries.next_offset()) {
                        entries = self.unit.entries_raw(Some(sibling))?;
                        base = depth;
                    }
                }
                _ => entries.skip_attributes(abbreviation.attributes())?,
            }
        }
        Ok(())
    }

    /// Notes the function that is called at a requested address, which is that before the return address.
    fn call(
        &mut self,
        entries: &mut EntriesRaw<'_, Slice<'d>>,
        abbreviation: &Abbreviation,
    ) -> Result<(), Broken> {
        let (mut returns, mut called) = (None, None);
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute_inline(*spec)?;
            match attribute.name() {
                // The older form of GCC calls them as those of other entries.
                dw::DW_AT_call_return_pc | dw::DW_AT_low_pc => {
                    returns = self.dwarf.attr_address(self.unit, attribute.value())?;
                }
                dw::DW_AT_call_origin | dw::DW_AT_abstract_origin => called = Entry::of(&attribute.value()),
                _ => {}
            }
        }
        let (Some(returns), Some(called)) = (returns, called) else { return Ok(()) };
        if let Ok(position) = self.asked.at.binary_search(&Svma(returns.wrapping_sub(1))) {
            self.found.calls[position] = Some(called);
        }
        Ok(())
    }

    /// Gives a function the requested addresses that no function before has.
    fn function(&mut self, off: UnitOffset, attributes: &Attributes<'d>) -> Result<Option<u32>, Broken> {
        let scope = Scope { entry: Entry::Here(off), caller: None, call_file: 0, call_line: 0, nested: 0 };
        self.enter(scope, attributes)
    }

    /// Gives an inlined call those addresses of its caller that it contains.
    fn inlined(
        &mut self,
        off: UnitOffset,
        caller: u32,
        attributes: &Attributes<'d>,
    ) -> Result<Option<u32>, Broken> {
        let nested = self.found.all[caller as usize].nested + 1;
        if nested > MAX_NESTED {
            return Ok(None);
        }
        let &Attributes { origin, call_file, call_line, .. } = attributes;
        let entry = origin.unwrap_or(Entry::Here(off));
        self.enter(Scope { entry, caller: Some(caller), call_file, call_line, nested }, attributes)
    }

    fn enter(&mut self, scope: Scope, attributes: &Attributes<'d>) -> Result<Option<u32>, Broken> {
        let new = self.found.all.len() as u32;
        let innermost = &mut self.found.innermost;
        let mut is_used = false;
        let take = |position: usize| {
            if innermost[position] == scope.caller {
                innermost[position] = Some(new);
                is_used = true;
            }
        };
        let ranges = attributes.extent.each(self.dwarf, self.unit, self.asked, self.guard, take);
        if is_used {
            self.found.all.push(scope);
        }
        match ranges {
            // A list of ranges that cannot be read is the only loss, unless the whole budget is spent.
            Err(Broken) if self.guard.is_exhausted() => return Err(Broken),
            Err(Broken) => self.guard.note(),
            Ok(()) => {}
        }
        Ok(is_used.then_some(new))
    }
}

impl<'d> Attributes<'d> {
    fn read(entries: &mut EntriesRaw<'_, Slice<'d>>, abbreviation: &Abbreviation) -> gimli::Result<Self> {
        let mut attributes = Self::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute_inline(*spec)?;
            match attribute.name() {
                dw::DW_AT_abstract_origin => attributes.origin = Entry::of(&attribute.value()),
                dw::DW_AT_call_file => attributes.call_file = number(&attribute.value()),
                dw::DW_AT_call_line => {
                    attributes.call_line = u32::try_from(number(&attribute.value())).unwrap_or(0);
                }
                dw::DW_AT_sibling => {
                    if let AttributeValue::UnitRef(off) = attribute.value() {
                        attributes.sibling = Some(off);
                    }
                }
                _ => attributes.extent.note(&attribute),
            }
        }
        Ok(attributes)
    }
}

fn number(value: &AttributeValue<Slice<'_>>) -> u64 {
    match *value {
        AttributeValue::FileIndex(file) => file,
        ref other => other.udata_value().unwrap_or(0),
    }
}

fn is_type(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_array_type
            | dw::DW_TAG_subroutine_type
            | dw::DW_TAG_interface_type
    )
}
