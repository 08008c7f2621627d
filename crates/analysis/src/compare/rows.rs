//! Assigns rows that mean the same in every recording.

use super::functions::{Functions, NO_IMAGE};
use super::row::{By, RowKey, Sided};
use super::shift;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::groups;
use icecore_profile::named::names::{Frame, Names};

/// The rows of some recordings.
#[derive(Debug, Default)]
pub struct Rows {
    /// For each row its key before and after, if known.
    pub keys: Vec<[Option<RowKey>; 2]>,
    /// For each recording, the row of each group.
    pub of: Vec<Local>,
    /// Functions are matched whatever the rows are.
    pub functions: Functions,
    /// If rows are functions, the number of each row's function.
    pub(super) function_of: Vec<u32>,
}

/// The groups into which a recording is divided.
#[derive(Debug, Default)]
pub struct Local {
    /// The row of each group.
    pub row: Vec<u32>,
    /// The group of each stack, or of each thread. That of the empty stack has no meaning: there may be no groups at all.
    pub group: Vec<u32>,
}

impl Rows {
    /// Finds the rows of recordings. With `physical`, inlined functions count for the function into which they were inlined.
    pub fn new(reports: &[Sided<'_>], by: By, physical: bool) -> Self {
        let functions = Functions::new(reports);
        let mut rows = Self { functions, ..Self::default() };
        match by {
            By::Process | By::Thread => rows.tasks(reports, by),
            By::Stack => rows.stacks(reports, physical),
            By::Function | By::Line | By::Image => rows.code(reports, by, physical),
        }
        rows
    }

    fn code(&mut self, reports: &[Sided<'_>], by: By, physical: bool) {
        let shifts = if by == By::Line { shift::shifts(reports, &self.functions) } else { Map::default() };
        let mut rows: Interned<(String, u32, Option<u32>)> = Interned::new();
        for (number, (report, side)) in reports.iter().enumerate() {
            let (profile, names) = (&report.profile, &report.profile.names);
            let mut seen: Map<(u32, Option<u32>, Option<u32>), u32> = Map::default();
            let of_frame = names.frames.iter().map(|frame| {
                let function = self.functions.of[number][frame.function as usize];
                let at = (frame.function, frame.file, frame.line);
                *seen.entry(at).or_insert_with(|| {
                    let row = match by {
                        By::Image => (self.functions.image_key(number, names, frame).to_owned(), 0, None),
                        By::Line if !self.functions.is_nameless(number, names, frame) => {
                            let shift = if *side == 0 { *shifts.get(&function).unwrap_or(&0) } else { 0 };
                            let line = frame.line.map(|line| line.saturating_add_signed(shift));
                            (
                                frame.file.map_or("", |file| base(&names.files[file as usize])).into(),
                                function,
                                line,
                            )
                        }
                        _ => (String::new(), function, None),
                    };
                    let row = rows.intern(row);
                    learn(&mut self.keys, row, *side, || match by {
                        By::Function => self.functions.key(function, *side),
                        _ => key(frame, names, by),
                    });
                    row
                })
            });
            let of_frame: Vec<u32> = of_frame.collect();
            let of_stack = groups(profile, &of_frame, |frame| {
                by == By::Line || self.functions.is_apart(number, names, frame, physical)
            });
            self.of.push(Local::of_stacks(&of_stack));
        }
        if by == By::Function {
            self.function_of = rows.into_items().into_iter().map(|(_, function, _)| function).collect();
        }
    }

    fn stacks(&mut self, reports: &[Sided<'_>], physical: bool) {
        let mut rows: Interned<(u32, u32)> = Interned::new();
        // The empty stack is no row.
        rows.intern((0, u32::MAX));
        self.keys.push(Default::default());
        for (number, (report, side)) in reports.iter().enumerate() {
            let profile = &report.profile;
            let names = &profile.names;
            let of_frame: Vec<u32> =
                names.frames.iter().map(|frame| self.functions.of[number][frame.function as usize]).collect();
            let function =
                groups(profile, &of_frame, |frame| self.functions.is_apart(number, names, frame, physical));
            let mut of_stack = vec![0u32; profile.stacks.len()];
            for (position, stack) in profile.stacks.iter().enumerate().skip(1) {
                let caller = of_stack[stack.caller as usize];
                let frame = &names.frames[stack.frame as usize];
                // Inlined frames that are not apart belong to their caller.
                let is_part = frame.inlined
                    && stack.caller != 0
                    && !self.functions.is_apart(number, names, frame, physical);
                let row = if is_part { caller } else { rows.intern((caller, function[position])) };
                of_stack[position] = row;
                learn(&mut self.keys, row, *side, RowKey::default);
            }
            self.of.push(Local::of_stacks(&of_stack));
        }
        let items = rows.into_items();
        for (row, (caller, function)) in items.iter().copied().enumerate().skip(1) {
            for side in 0..2 {
                let Some(key) = &mut self.keys[row][side] else { continue };
                let name = |function: u32| self.functions.name(function, side);
                let mut path = vec![name(function)];
                let (mut at, mut bytes) = (caller, path[0].len());
                while at != 0 && path.len() < SHOWN_FRAMES && bytes < SHOWN_BYTES {
                    path.push(name(items[at as usize].1));
                    bytes += path[path.len() - 1].len();
                    at = items[at as usize].0;
                }
                path.extend((at != 0).then_some("…"));
                path.reverse();
                *key = RowKey {
                    name: path.join(";"),
                    image: self.functions.image(function, side),
                    ..RowKey::default()
                };
            }
        }
    }

    fn tasks(&mut self, reports: &[Sided<'_>], by: By) {
        let mut rows: Interned<String> = Interned::new();
        for (report, side) in reports {
            let of_thread = report.profile.threads.iter().map(|thread| {
                let name = if by == By::Process { &thread.process } else { &thread.comm };
                let row = rows.intern(name.to_string());
                learn(&mut self.keys, row, *side, || RowKey { name: name.to_string(), ..RowKey::default() });
                row
            });
            self.of.push(Local::of_threads(of_thread));
        }
    }
}

/// The name of a stack shows so many of its innermost frames.
const SHOWN_FRAMES: usize = 64;
/// The name of a stack ends after so many bytes.
const SHOWN_BYTES: usize = 8 << 10;

/// Stores the key of a row on a side.
fn learn(keys: &mut Vec<[Option<RowKey>; 2]>, row: u32, side: usize, key: impl FnOnce() -> RowKey) {
    if keys.len() <= row as usize {
        keys.resize(row as usize + 1, Default::default());
    }
    keys[row as usize][side].get_or_insert_with(key);
}

impl Local {
    /// Groups stacks by their rows; the first group is empty.
    fn of_stacks(rows: &[u32]) -> Self {
        let mut distinct = Interned::new();
        let of_frames = rows.iter().skip(1).map(|row| distinct.intern(*row));
        let group = std::iter::once(0).chain(of_frames).collect();
        Self { row: distinct.into_items(), group }
    }

    fn of_threads(rows: impl Iterator<Item = u32>) -> Self {
        let mut distinct = Interned::new();
        let group = rows.map(|row| distinct.intern(row)).collect();
        Self { row: distinct.into_items(), group }
    }
}

/// Returns the key of a frame's row.
fn key(frame: &Frame, names: &Names, by: By) -> RowKey {
    let function = &names.functions[frame.function as usize];
    if by == By::Image {
        let path = names.image(function).map_or(NO_IMAGE, |image| &image.path).to_owned();
        return RowKey { name: path.clone(), image: Some(path), ..RowKey::default() };
    }
    let image = names.image(function).map(|image| image.path.to_string());
    let key = RowKey { name: function.name.to_string(), image, ..RowKey::default() };
    match by {
        By::Line => RowKey {
            file: frame.file.map(|file| names.files[file as usize].to_string()),
            line: frame.line,
            ..key
        },
        _ => key,
    }
}

/// Returns the last part of a path: folders of sources may move.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
