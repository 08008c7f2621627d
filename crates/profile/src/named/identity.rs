//! Decides which names are names of one function, and tells apart those that read the same.
//!
//! A name is no identity: a program has any number of local functions, closures and instances of one name. What identifies a
//! function is where it begins, or what declares it:
//!
//! ```text
//! sightings ─► one entry of debug information, or one first address ─► one declaration, in whatever unit ─► functions ─► marks
//! ```
//!
//! Two entries of one unit are two functions, whatever they say; entries of two units are one if name and declaration are. Line
//! tables alone have no declarations: then the lines that were seen decide. A function without a symbol of its own but with the name
//! of exactly one other is that one.

use std::collections::BTreeMap;

use crate::map::Map;
use crate::named::function::{Frame, Function, Side};
use icecore_format::records::Language;
use icecore_symbolize::{EntryId, Reason};

/// What one source of names says of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sighting {
    pub(super) name: Box<str>,
    /// A position in the names' images.
    pub(super) image: Option<u32>,
    pub(super) side: Side,
    pub(super) language: Language,
    pub(super) reason: Option<Reason>,
    /// Whose addresses and entries these are: the number of the file, or of the kernel. Two files may have one path.
    pub(super) owner: u32,
    pub(super) origin: Origin,
}

impl Sighting {
    /// Makes a function of which only the name is known.
    pub(super) fn bare(name: Box<str>, image: Option<u32>, side: Side, reason: Option<Reason>) -> Self {
        Self { name, image, side, language: Language::UNKNOWN, reason, owner: 0, origin: Origin::default() }
    }
}

/// [`icecore_symbolize::Origin`], with files as positions in the names' files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) entry: Option<EntryId>,
    pub(super) symbol: Option<Box<str>>,
    pub(super) declared: Option<(u32, u32)>,
    pub(super) start: Option<u64>,
    pub(super) file: Option<Box<str>>,
    pub(super) aliases: Vec<Box<str>>,
}

/// Positions of sightings that are one function, in a forest: each points to an earlier one, or to itself.
struct Forest(Vec<u32>);

impl Forest {
    fn root(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            let above = self.0[at as usize];
            self.0[at as usize] = self.0[above as usize];
            at = above;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// The functions, and for each sighting the position of its function.
pub(super) fn functions(
    sightings: &[Sighting],
    frames: &[Frame],
    files: &[Box<str>],
) -> (Vec<Function>, Vec<u32>) {
    let mut forest = Forest((0..sightings.len() as u32).collect());
    by_place(sightings, &mut forest);
    by_declaration(sightings, &spans(sightings, frames), &mut forest);
    by_name(sightings, &mut forest);
    let mut of_root: Map<u32, u32> = Map::default();
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut of_sighting = Vec::with_capacity(sightings.len());
    for at in 0..sightings.len() as u32 {
        let new = members.len() as u32;
        let function = *of_root.entry(forest.root(at)).or_insert(new);
        if function == new {
            members.push(Vec::new());
        }
        members[function as usize].push(at);
        of_sighting.push(function);
    }
    let seen = spans(sightings, frames);
    let function = |members: &Vec<u32>| function(members, sightings, &seen);
    let mut functions: Vec<Function> = members.iter().map(function).collect();
    mark(&mut functions, files);
    (functions, of_sighting)
}

/// Joins what one file says of one entry, or of one first address.
fn by_place(sightings: &[Sighting], forest: &mut Forest) {
    let mut entries: Map<(u32, EntryId), u32> = Map::default();
    let mut starts: Map<(u32, Side, u64), u32> = Map::default();
    for (at, Sighting { owner, side, origin, .. }) in (0..).zip(sightings) {
        if let Some(entry) = origin.entry {
            forest.join(at, *entries.entry((*owner, entry)).or_insert(at));
        }
        if let Some(start) = origin.start {
            forest.join(at, *starts.entry((*owner, *side, start)).or_insert(at));
        }
    }
}

/// A source file, and the first and last line that was seen of a function.
type Span = (u32, u32, u32);

/// Returns for each sighting the lines at which it was seen.
fn spans(sightings: &[Sighting], frames: &[Frame]) -> Vec<Option<Span>> {
    let mut spans: Vec<Option<Span>> = vec![None; sightings.len()];
    for frame in frames {
        let (Some(file), Some(line)) = (frame.file, frame.line) else { continue };
        let span = spans[frame.function as usize].get_or_insert((file, line, line));
        if span.0 == file {
            *span = (file, span.1.min(line), span.2.max(line));
        }
    }
    spans
}

/// What several units may say alike of one function.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'a> {
    image: Option<u32>,
    symbol: Option<&'a str>,
    /// Names count only without debug information.
    name: Option<&'a str>,
    declared: Option<(u32, u32)>,
    /// The source file by lines or by the symbol table, without a declaration.
    file: (Option<u32>, Option<&'a str>),
}

/// Joins what several units, or several files of one path, say alike of one function.
fn by_declaration(sightings: &[Sighting], spans: &[Option<Span>], forest: &mut Forest) {
    // Of each function so far: what it is, in which units it was seen, and at which lines.
    let mut groups: BTreeMap<Alike<'_>, BTreeMap<u32, Seen>> = BTreeMap::new();
    for (at, sighting) in (0..).zip(sightings) {
        let Sighting { name, image, origin, owner, .. } = sighting;
        if origin.entry.is_none() && origin.start.is_none() {
            continue;
        }
        let has_entry = origin.entry.is_some();
        let span = spans[at as usize].filter(|_| has_entry && origin.declared.is_none());
        let alike = Alike {
            image: *image,
            symbol: origin.symbol.as_deref(),
            name: (!has_entry).then_some(&**name),
            declared: origin.declared,
            file: (span.map(|span| span.0), origin.file.as_deref().filter(|_| !has_entry)),
        };
        let seen = groups.entry(alike).or_default().entry(forest.root(at)).or_default();
        seen.units.push((*owner, origin.entry.map(|entry| entry.unit)));
        seen.span = match (seen.span, span) {
            (Some(a), Some(b)) => Some((a.0, a.1.min(b.1), a.2.max(b.2))),
            (a, b) => a.or(b),
        };
    }
    for (alike, group) in groups {
        let mut group: Vec<(u32, Seen)> = group.into_iter().collect();
        if alike.declared.is_none() && alike.file.0.is_some() {
            join_by_lines(&mut group, forest);
            continue;
        }
        let mut units: Vec<_> = group.iter_mut().flat_map(|(_, seen)| seen.distinct_units()).collect();
        let all = units.len();
        units.sort_unstable();
        units.dedup();
        // A unit that has two of them tells them apart, and nothing says which of them another unit means.
        if units.len() == all {
            group.windows(2).for_each(|pair| forest.join(pair[0].0, pair[1].0));
        }
    }
}

/// The owner, and the unit of its debug information if an entry was seen.
type UnitId = (u32, Option<u32>);

/// Where a function was seen.
#[derive(Default)]
struct Seen {
    units: Vec<UnitId>,
    span: Option<Span>,
}

impl Seen {
    fn distinct_units(&mut self) -> Vec<UnitId> {
        self.units.sort_unstable();
        self.units.dedup();
        self.units.clone()
    }
}

/// Joins functions of one name and one source file whose lines overlap, unless one unit has both.
fn join_by_lines(group: &mut [(u32, Seen)], forest: &mut Forest) {
    group.sort_by_key(|(root, seen)| (seen.span, *root));
    let mut open: Vec<(u32, Vec<UnitId>, u32)> = Vec::new();
    for (root, seen) in group {
        let Some((_, first, last)) = seen.span else { continue };
        let units = seen.distinct_units();
        let fits =
            open.iter_mut().find(|(_, of, end)| first <= *end && !units.iter().any(|it| of.contains(it)));
        match fits {
            Some((other, of, end)) => {
                forest.join(*other, *root);
                of.extend(units);
                *end = last.max(*end);
            }
            None => open.push((*root, units, last)),
        }
    }
}

/// Joins what has nothing but a name with its like, and functions of one name if every file has one of it at most: another build of a
/// program has the same functions.
fn by_name(sightings: &[Sighting], forest: &mut Forest) {
    // Code that an interpreter runs has a declaration and nothing else.
    type Named<'a> = (Option<u32>, Side, Option<Reason>, &'a str, Option<(u32, u32)>);
    // The first mere name, and the functions with their owners.
    type Found = (Option<u32>, Vec<(u32, u32)>);
    let mut known: Map<Named<'_>, Found> = Map::default();
    for (at, sighting) in (0..).zip(sightings) {
        let Sighting { name, image, side, language: _, reason, origin, owner } = sighting;
        let is_bare = origin.entry.is_none() && origin.start.is_none();
        let declared = origin.declared.filter(|_| is_bare);
        let (bare, others) = known.entry((*image, *side, *reason, name, declared)).or_default();
        if !is_bare {
            others.push((*owner, at));
        } else {
            forest.join(at, *bare.get_or_insert(at));
        }
    }
    for (bare, mut others) in known.into_values() {
        others.iter_mut().for_each(|(_, at)| *at = forest.root(*at));
        others.sort_unstable();
        others.dedup();
        if others.windows(2).all(|pair| pair[0].0 != pair[1].0) {
            let all: Vec<u32> = bare.into_iter().chain(others.into_iter().map(|(_, at)| at)).collect();
            all.windows(2).for_each(|pair| forest.join(pair[0], pair[1]));
        }
    }
}

/// Makes a function of what was said of it. The name of code that was compiled for itself comes before that of an inlined call.
fn function(members: &[u32], sightings: &[Sighting], seen: &[Option<Span>]) -> Function {
    let all = || members.iter().map(|at| &sightings[*at as usize]);
    let rank = |it: &&Sighting| (it.origin.start.is_none(), it.origin.entry.is_none(), it.name.len());
    let best = all().min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let best = best.expect("bug: a function that nobody has seen");
    let mut aliases: Vec<Box<str>> = all().flat_map(|it| &it.origin.aliases).cloned().collect();
    aliases.retain(|alias| *alias != best.name);
    aliases.sort_unstable();
    aliases.dedup();
    let line = || members.iter().filter_map(|at| seen[*at as usize]).map(|span| (span.0, span.1)).min();
    let has_entry = all().any(|it| it.origin.entry.is_some());
    Function {
        image: best.image,
        side: best.side,
        language: best.language,
        reason: best.reason,
        aliases: aliases.into(),
        declared: all().find_map(|it| it.origin.declared),
        seen: if has_entry { line() } else { None },
        start: all().find_map(|it| it.origin.start),
        version: all().find_map(|it| version(it.origin.symbol.as_deref()?)),
        source: all().find_map(|it| it.origin.file.clone()),
        ..Function::new(&best.name)
    }
}

/// Returns the version of a symbol, with its mark.
fn version(symbol: &str) -> Option<Box<str>> {
    symbol.find('@').filter(|at| *at > 0).map(|at| symbol[at..].into())
}

/// Puts behind each name that several functions of an image have what tells them apart: the version, the place of the declaration,
/// the source file, or the first address.
fn mark(functions: &mut [Function], files: &[Box<str>]) {
    let mut groups: Map<(Option<u32>, Side, Box<str>), Vec<usize>> = Map::default();
    for (at, it) in functions.iter().enumerate() {
        groups.entry((it.image, it.side, it.name.clone())).or_default().push(at);
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let mut marks = vec![None; group.len()];
        for kind in [version_mark, place_mark, path_mark, source_mark, start_mark] {
            let new = group.iter().zip(&marks).map(|(at, mark): (&usize, &Option<String>)| match mark {
                Some(_) => None,
                None => kind(&functions[*at], files),
            });
            let new: Vec<Option<String>> = new.collect();
            let mut used: Map<&str, u32> = Map::default();
            marks.iter().chain(&new).flatten().for_each(|mark| *used.entry(mark).or_default() += 1);
            let is_alone = new.iter().map(|new| new.as_ref().is_some_and(|new| used[&**new] == 1));
            let is_alone: Vec<bool> = is_alone.collect();
            for ((mark, new), is_alone) in marks.iter_mut().zip(new).zip(is_alone) {
                *mark = mark.take().or(new.filter(|_| is_alone));
            }
        }
        for (number, (at, mark)) in group.into_iter().zip(marks).enumerate() {
            // Several have nothing but the name: which of them is which, nobody knows.
            functions[at].mark(&mark.unwrap_or_else(|| format!(" (#{})", number + 1)));
        }
    }
}

fn version_mark(it: &Function, _: &[Box<str>]) -> Option<String> {
    it.version.as_deref().map(str::to_owned)
}

fn place_mark(it: &Function, files: &[Box<str>]) -> Option<String> {
    let (file, line) = it.declared.or(it.seen)?;
    Some(placed(base_name(&files[file as usize]), line))
}

fn path_mark(it: &Function, files: &[Box<str>]) -> Option<String> {
    let (file, line) = it.declared.or(it.seen)?;
    Some(placed(&files[file as usize], line))
}

/// Writes a place in a file; a line of 0 is not known.
fn placed(file: &str, line: u32) -> String {
    if line == 0 { format!(" ({file})") } else { format!(" ({file}:{line})") }
}

fn source_mark(it: &Function, _: &[Box<str>]) -> Option<String> {
    it.source.as_deref().map(|source| format!(" ({})", base_name(source)))
}

fn start_mark(it: &Function, _: &[Box<str>]) -> Option<String> {
    it.start.map(|start| format!(" (+{start:#x})"))
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 3] = ["/src/a.c", "/src/b.c", "/lib/a.c"];

    fn sighting(name: &str) -> Sighting {
        Sighting { owner: 0, ..Sighting::bare(name.into(), Some(0), Side::User, None) }
    }

    fn declared(name: &str, unit: u32, off: u64, at: (u32, u32)) -> Sighting {
        let (entry, symbol) = (Some(EntryId { unit, off }), Some(name.into()));
        let origin = Origin { entry, symbol, declared: Some(at), ..Origin::default() };
        Sighting { origin, ..sighting(name) }
    }

    fn placed(name: &str, start: u64) -> Sighting {
        Sighting { origin: Origin { start: Some(start), ..Origin::default() }, ..sighting(name) }
    }

    /// The names of all functions, and for each sighting which of them it is.
    fn decided(sightings: &[Sighting], lines: &[(u32, u32, u32)]) -> (Vec<String>, Vec<u32>) {
        let frame = |(function, file, line): &(u32, u32, u32)| Frame {
            function: *function,
            file: Some(*file),
            line: Some(*line),
            inlined: false,
        };
        let frames: Vec<Frame> = lines.iter().map(frame).collect();
        let (found, of) = functions(sightings, &frames, &FILES.map(Box::from));
        (found.iter().map(|function| function.name.to_string()).collect(), of)
    }

    #[test]
    fn local_functions_of_two_files_are_two_and_say_where_they_are() {
        let two = [declared("helper", 0, 7, (0, 3)), declared("helper", 1, 7, (1, 3))];
        assert_eq!(decided(&two, &[]), (vec!["helper (a.c:3)".into(), "helper (b.c:3)".into()], vec![0, 1]));
        let two = [declared("helper", 0, 7, (0, 3)), declared("helper", 1, 7, (2, 3))];
        assert_eq!(decided(&two, &[]).0, ["helper (/src/a.c:3)", "helper (/lib/a.c:3)"]);
        assert_eq!(decided(&[placed("f", 16), placed("f", 48)], &[]).0, ["f (+0x10)", "f (+0x30)"]);
        let local = |start, file: &str| {
            let one = placed("f", start);
            Sighting { origin: Origin { file: Some(file.into()), ..one.origin }, ..one }
        };
        assert_eq!(decided(&[local(16, "a.c"), local(48, "b.c")], &[]).0, ["f (a.c)", "f (b.c)"]);
        let both = [local(16, "a.c"), local(48, "a.c"), local(64, "b.c")];
        assert_eq!(decided(&both, &[]).0, ["f (+0x10)", "f (+0x30)", "f (b.c)"]);
    }

    #[test]
    fn one_declaration_is_one_function_in_whatever_unit_it_was_compiled() {
        let same = [declared("push", 0, 7, (0, 3)), declared("push", 1, 9, (0, 3))];
        assert_eq!(decided(&same, &[]), (vec!["push".into()], vec![0, 0]));
        // One unit has both, so they are two; nobody knows which of them the other unit has.
        let lambdas =
            [declared("go", 0, 7, (0, 3)), declared("go", 0, 9, (0, 3)), declared("go", 1, 9, (0, 3))];
        assert_eq!(
            decided(&lambdas, &[]),
            (["go (#1)", "go (#2)", "go (#3)"].map(String::from).into(), vec![0, 1, 2])
        );
    }

    #[test]
    fn an_inlined_call_and_the_compiled_function_are_one_under_the_full_name() {
        let mut compiled = declared("step", 0, 7, (0, 3));
        (compiled.name, compiled.origin.start) = ("cold::step(int)".into(), Some(16));
        let all = [declared("step", 0, 7, (0, 3)), compiled, placed("cold::step(int)", 16)];
        assert_eq!(decided(&all, &[]), (vec!["cold::step(int)".into()], vec![0, 0, 0]));
    }

    #[test]
    fn without_declarations_the_lines_decide() {
        let entry = |unit, off| {
            let one = declared("step", unit, off, (0, 3));
            Sighting { origin: Origin { declared: None, ..one.origin }, ..one }
        };
        // Lines 2 and 3 of one file are two functions in one unit; another unit has the second one.
        let all = [entry(0, 7), entry(0, 9), entry(1, 5)];
        let (names, of) = decided(&all, &[(0, 0, 2), (1, 0, 30), (1, 0, 34), (2, 0, 32)]);
        assert_eq!((names, of), (vec!["step (a.c:2)".into(), "step (a.c:30)".into()], vec![0, 1, 1]));
        // One unit tells them apart, even if their lines overlap: a closure in a closure.
        let (names, _) = decided(&[entry(0, 7), entry(0, 9)], &[(0, 0, 2), (0, 0, 9), (1, 0, 5)]);
        assert_eq!(names, ["step (a.c:2)", "step (a.c:5)"]);
    }

    #[test]
    fn a_mere_name_is_the_only_function_of_that_name_or_none_of_several() {
        assert_eq!(decided(&[placed("f", 16), sighting("f")], &[]), (vec!["f".into()], vec![0, 0]));
        let (names, of) = decided(&[placed("f", 16), placed("f", 48), sighting("f"), sighting("f")], &[]);
        assert_eq!(
            (&names[..2], of),
            (&["f (+0x10)".to_owned(), "f (+0x30)".to_owned()][..], vec![0, 1, 2, 2])
        );
        assert_eq!(names[2], "f (#3)");
    }

    #[test]
    fn versions_come_before_all_other_marks() {
        let version = |symbol: &str, start| {
            let one = placed("api", start);
            Sighting { origin: Origin { symbol: Some(symbol.into()), ..one.origin }, ..one }
        };
        assert_eq!(decided(&[version("api@V1", 16), version("api@@V2", 48)], &[]).0, ["api@V1", "api@@V2"]);
    }

    #[test]
    fn two_builds_of_a_program_have_the_same_functions() {
        let other = |sighting: Sighting| Sighting { owner: 1, ..sighting };
        assert_eq!(decided(&[placed("f", 16), other(placed("f", 48))], &[]), (vec!["f".into()], vec![0, 0]));
        let all = [placed("f", 16), placed("f", 48), other(placed("f", 16))];
        assert_eq!(decided(&all, &[]).0.len(), 3);
    }
}
