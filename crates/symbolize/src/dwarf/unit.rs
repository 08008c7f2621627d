//! Reads everything about the requested addresses of one unit, and keeps only the answers.

use super::context::Context;
use super::info::{Info, Root};
use super::lines::{Lines, SourceFiles, SourceLine};
use super::origin::{Described, Origins};
use super::requested::Requested;
use super::scopes::{Scope, Scopes};
use super::sweep::Claim;
use super::{Broken, Function, split};
use icecore_elf::Svma;

/// Positions of requested addresses, and their functions, innermost first.
pub(super) type UnitAnswers = Vec<(u32, Vec<Function>)>;

/// Names the addresses that a unit claims, as far as the unit can be read.
pub(super) fn name(context: &Context<'_, '_>, claim: &Claim) -> UnitAnswers {
    named(context, claim).unwrap_or_else(|Broken| {
        context.guard.note();
        Vec::new()
    })
}

fn named(context: &Context<'_, '_>, claim: &Claim) -> Result<UnitAnswers, Broken> {
    let root = context.info.root(claim.unit)?;
    let at: Vec<Svma> = claim.asked.iter().map(|asked| context.asked.at[*asked as usize]).collect();
    let asked = Requested { at: &at, ..context.asked };

    let mut rows = vec![None; at.len()];
    let lines = read_lines(context, &root, asked, &mut rows);
    let files = SourceFiles::new(&context.info.dwarf, &root.unit, lines.as_ref());
    let mut writer = Writer { context, claim, rows: &rows, files };
    if let Some((id, half)) = split::find(context, &root) {
        match split::read(context, id, &half) {
            Ok(info) => {
                if let Some(split) = split::root(&info, id, &root) {
                    return writer.answers(&info, None, &split, asked);
                }
            }
            // The lines remain.
            Err(Broken) => context.guard.note(),
        }
    }
    writer.answers(context.info, context.supplement, &root, asked)
}

/// Reads the source line of each address. A broken line program costs only lines.
fn read_lines<'d>(
    context: &Context<'d, '_>,
    root: &Root<'d>,
    asked: Requested<'_>,
    rows: &mut [Option<SourceLine>],
) -> Option<Lines<'d>> {
    let mut read = || {
        let Some(lines) = Lines::open(&context.info.dwarf, root, context.guard)? else { return Ok(None) };
        let ran = lines.run(asked, context.guard, |position, row| {
            rows[position].get_or_insert(row);
        });
        ran.unwrap_or_else(|Broken| context.guard.note());
        Ok(Some(lines))
    };
    read().unwrap_or_else(|Broken| {
        context.guard.note();
        None
    })
}

/// Composes the answers of a unit.
struct Writer<'w, 'd, 'a> {
    context: &'w Context<'d, 'a>,
    claim: &'w Claim,
    rows: &'w [Option<SourceLine>],
    files: SourceFiles<'w, 'd>,
}

impl Writer<'_, '_, '_> {
    fn answers<'s>(
        &mut self,
        info: &Info<'s>,
        supplement: Option<&Info<'s>>,
        root: &Root<'s>,
        asked: Requested<'_>,
    ) -> Result<UnitAnswers, Broken> {
        let (unit, guard) = (&root.unit, self.context.guard);
        guard.spend(unit.header.unit_length())?;
        let scopes = Scopes::read(&info.dwarf, unit, root.has_plain_types(), asked, guard);
        let number = self.claim.unit as u32;
        let mut origins = Origins::new(info, root, number, supplement, self.context.strings, guard);
        let mut answers = Vec::with_capacity(self.claim.asked.len());
        for (position, &asked) in self.claim.asked.iter().enumerate() {
            let row = self.rows[position];
            let functions = self.functions(&scopes, scopes.innermost[position], row, &mut origins)?;
            let Some(mut functions) = functions else { continue };
            if let (Some(called), [innermost, ..]) = (scopes.calls[position], &mut functions[..]) {
                let symbol = origins.function(called, &mut self.files)?.origin.symbol.clone();
                innermost.calls = symbol.map(|symbol| self.context.strings.name(symbol.as_bytes()));
            }
            answers.push((asked, functions));
        }
        Ok(answers)
    }

    /// Goes from the innermost scope outwards: the line of the sample belongs to the first scope, the line of each call to the
    /// scope around it.
    fn functions(
        &mut self,
        scopes: &Scopes,
        innermost: Option<u32>,
        row: Option<SourceLine>,
        origins: &mut Origins<'_, '_>,
    ) -> Result<Option<Vec<Function>>, Broken> {
        let guard = self.context.guard;
        let mut functions = Vec::new();
        let mut place = row;
        let mut next = innermost;
        while let Some(scope) = next {
            let Scope { entry, caller, call_file, call_line, .. } = scopes.all[scope as usize];
            // The size of the answers must not exceed what the file and the addresses justify.
            guard.spend(8)?;
            let described = origins.function(entry, &mut self.files)?;
            // An inlined call without a name is skipped; a function without one may have a name in the symbol table.
            if described.name.is_some() || caller.is_none() {
                functions.push(self.function(Some(described), place)?);
            }
            place = Some(SourceLine { file: call_file, line: call_line });
            next = caller;
        }
        if innermost.is_none() && row.is_some() {
            functions.push(self.function(None, row)?);
        }
        Ok((!functions.is_empty()).then_some(functions))
    }

    fn function(
        &mut self,
        described: Option<Described>,
        place: Option<SourceLine>,
    ) -> Result<Function, Broken> {
        let (strings, guard) = (self.context.strings, self.context.guard);
        let file = match place {
            Some(row) => self.files.path(row.file, strings, guard)?,
            None => None,
        };
        let line = place.map(|row| row.line).filter(|line| *line > 0);
        let (name, origin) = described.map(|it| (it.name, it.origin)).unwrap_or_default();
        Ok(Function { name: name.unwrap_or_default(), origin, file, line, calls: None })
    }
}
