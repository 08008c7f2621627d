//! Names the frames of every place: one function, or several if some were inlined.

use std::sync::Arc;

use rayon::prelude::*;

use crate::map::{Interned, Map};
use crate::named::embedded::{Embedded, EmbeddedSymbol};
use crate::named::found::{self, NameIndex};
pub use crate::named::function::{Frame, Function, Side};
use crate::named::identity::{self, Sighting};
use crate::recording::load::{Tables, clean};
use crate::stacks::kernel::KernelSymbols;
use crate::stacks::locate::{CodeLocation, Located, Locator};
use icecore_elf::{demangled, part_of};
use icecore_format::records::{JitInlined, KernelSymbol, Language};
use icecore_symbolize::image::{FileOff, Finder, Identity, Svma, TRUSTED};
use icecore_symbolize::{Answer, Joiner, Origin, Reason, Wanted, symbolize};
use icecore_text::quantity::things;
use icecore_text::shorten::{MAX_NAME_BYTES, shorten};

/// The name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageName {
    /// Whole path as the process saw it, `[kernel]`, or `[module]`.
    pub path: Box<str>,
}

/// Functions and frames, each once, and the frames of each place.
#[derive(Debug, Default)]
pub struct Names {
    /// Images, first those of [`crate::stacks::locate::Locator::images`], then the kernel's.
    pub images: Vec<ImageName>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Source files.
    pub files: Vec<Box<str>>,
    /// Frames.
    pub frames: Vec<Frame>,
    /// The frames of each place, in the order of the places.
    pub of_places: Lists,
    /// The name of the function that places call, by position of the place, where debug information says it.
    pub calls: Map<u32, Arc<str>>,
    /// The number of names of functions, files and images over 4 KiB, which are shortened.
    pub shortened: u64,
    /// Paths of images that nothing but the user's word proves to be those that ran (`--trust`).
    pub trusted: Vec<Box<str>>,
    /// For each frame, true if it was found by a guess that nothing has proven; frames beyond the end were not.
    pub guessed: Vec<bool>,
}

/// The most functions that are shown for one place: the function itself, and those inlined into it, innermost first.
const MAX_INLINED: usize = 256;

/// The frames of places: short lists, one after the other.
#[derive(Debug, Default)]
pub struct Lists {
    frames: Vec<u32>,
    /// The end of each list.
    ends: Vec<usize>,
}

impl Lists {
    /// Returns the list of a place, innermost frame first; never empty.
    pub fn of(&self, place: usize) -> &[u32] {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.frames[begin..self.ends[place]]
    }
}

impl Names {
    /// Returns the function of a frame.
    pub fn function(&self, frame: u32) -> &Function {
        &self.functions[self.frames[frame as usize].function as usize]
    }

    /// Returns true if a frame was found by a guess that nothing has proven: it and its callers may be wrong.
    pub fn is_guessed(&self, frame: u32) -> bool {
        self.guessed.get(frame as usize).copied().unwrap_or(false)
    }

    /// Adds a frame again, as one that was found by a guess.
    pub(super) fn add_guessed(&mut self, frame: Frame) -> u32 {
        self.guessed.resize(self.frames.len(), false);
        self.guessed.push(true);
        self.frames.push(frame);
        (self.frames.len() - 1) as u32
    }

    /// Gives functions the names that they have among others: what tells functions of one name apart depends on which of them are there.
    /// A function is the same if it is at the same place.
    pub fn call_as(&mut self, located: &Located, others: &Self, others_located: &Located) {
        for (position, place) in others_located.places.iter().enumerate() {
            let Some(own) = located.position(*place) else { continue };
            for (frame, other) in self.of_places.of(own).iter().zip(others.of_places.of(position)) {
                let (function, other) = (self.frames[*frame as usize].function, others.function(*other));
                let function = &mut self.functions[function as usize];
                (function.name, function.mark) = (other.name.clone(), other.mark);
            }
        }
    }

    /// Returns the image of a function.
    pub fn image(&self, function: &Function) -> Option<&ImageName> {
        function.image.map(|image| &self.images[image as usize])
    }

    /// Says for people how many names were shortened, and which may be wrong.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let text = || {
            format!(
                "{} longer than {MAX_NAME_BYTES} bytes: they are shortened",
                things(self.shortened, "name")
            )
        };
        (self.shortened > 0).then(text).into_iter().chain(self.doubt())
    }

    /// Says for people which names nothing but the user's word proves; `None` if there are none.
    pub fn doubt(&self) -> Option<String> {
        /// So many paths are listed.
        const LISTED: usize = 5;
        let mut paths: Vec<&str> = self.trusted.iter().map(|path| &**path).collect();
        let more = paths.len().saturating_sub(LISTED);
        paths.truncate(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let paths = paths.join(", ");
        (!paths.is_empty())
            .then(|| format!("only --trust says that these files are the ones that ran; their names may be wrong: {paths}{more}"))
    }
}

/// Names all places, and reports progress to `tick` in addresses. Answers that an earlier report stored in the recording are used
/// unchanged.
pub fn name(
    places: &[CodeLocation],
    locator: &Locator<'_>,
    finder: &Finder<'_>,
    tick: &(dyn Fn(u64) + Sync),
) -> Names {
    let (tables, images) = (locator.tables, &locator.images);
    let kernel = KernelSymbols::new(&tables.kernel_symbols);
    let found = NameIndex::new(&tables.names, |image| locator.image(image));
    let answers = find_out(places, locator, finder, tick, |image, off| found.find(image, off).is_none());
    let trusted: Vec<bool> = images.par_iter().map(|image| finder.is_trusted(image)).collect();
    let mut book = Book::new(images, &trusted);
    let kernels = images.len() as u32;
    for (place, answer) in places.iter().zip(&answers) {
        match place {
            CodeLocation::Image(image, off) => match found.find(*image, *off) {
                Some(place) if !place.frames().is_empty() => {
                    book.calls(place.calls());
                    book.found(*image, place);
                }
                known => {
                    let known = known.map(found::StoredPlace::to_answer);
                    let path = &images[*image as usize].path;
                    if let Some(Answer::Named(functions)) = known.as_ref().or(answer.as_ref()) {
                        book.calls(functions.first().and_then(|function| function.calls.as_ref()));
                    }
                    book.answered(*image, path, *off, known.as_ref().or(answer.as_ref()));
                }
            },
            CodeLocation::Kernel(part, address) => match kernel.find(*part, *address) {
                Some(row) => book.kernel(kernels + part, row, tables),
                None => {
                    let name = format!("[kernel]+{:#x}", address.0);
                    let image = book.kernel_image("");
                    book.alone(&name, Some(image), Side::Kernel, Some(Reason::KernelSymbolMissing));
                }
            },
            CodeLocation::Jit(code, line) => book.jit(tables, *code, *line),
            CodeLocation::Gone => book.nowhere("[code gone]", Reason::CodeGone),
            CodeLocation::Unmapped => book.nowhere("[unmapped]", Reason::Unmapped),
            CodeLocation::Lost => book.nowhere("[stack lost]", Reason::StackLost),
        }
        book.of_places.ends.push(book.of_places.frames.len());
    }
    book.close()
}

/// Finds out the names of the requested places in images. A function whose name is in the recording has that name, even if its file
/// is here; inlined functions and lines come from files only.
pub fn find_out(
    places: &[CodeLocation],
    locator: &Locator<'_>,
    finder: &Finder<'_>,
    tick: &(dyn Fn(u64) + Sync),
    is_wanted: impl Fn(u32, FileOff) -> bool,
) -> Vec<Option<Answer>> {
    let wanted =
        |place: &CodeLocation| matches!(place, CodeLocation::Image(image, off) if is_wanted(*image, *off));
    let wanted: Vec<Option<CodeLocation>> =
        places.iter().map(|place| wanted(place).then_some(*place)).collect();
    let (mut answers, embedded) = rayon::join(
        || ask(&wanted, &locator.images, finder, tick),
        || Embedded::new(&locator.tables.symbols, |image| locator.image(image)),
    );
    wanted.par_iter().zip(&mut answers).for_each_init(Joiner::default, |joiner, (place, answer)| {
        let Some(CodeLocation::Image(image, off)) = place else { return };
        if let Some(symbol) = embedded.find(*image, *off) {
            rename(answer, symbol, *off, joiner);
        }
    });
    answers
}

/// Symbolizes the requested places in images; returns an answer for each.
fn ask(
    places: &[Option<CodeLocation>],
    images: &[Identity],
    finder: &Finder<'_>,
    tick: &(dyn Fn(u64) + Sync),
) -> Vec<Option<Answer>> {
    let mut of_image = vec![Vec::new(); images.len()];
    for (position, place) in places.iter().enumerate() {
        if let Some(CodeLocation::Image(image, off)) = place {
            of_image[*image as usize].push((*off, position));
        }
    }
    of_image.par_iter_mut().for_each(|offsets| offsets.sort_unstable());
    let offsets = |of_image: &Vec<(FileOff, usize)>| of_image.iter().map(|(off, _)| *off).collect();
    let offsets: Vec<Vec<FileOff>> = of_image.iter().map(offsets).collect();
    let used = |(_, offsets): &(_, &Vec<FileOff>)| !offsets.is_empty();
    let wanted = images.iter().zip(&offsets).filter(used);
    let wanted: Vec<Wanted<'_>> = wanted.map(|(image, offsets)| Wanted { image, offsets }).collect();
    let answers = symbolize(&wanted, finder, tick).into_iter().flatten();
    let mut of_place = vec![None; places.len()];
    for ((_, position), answer) in of_image.iter().flatten().zip(answers) {
        of_place[*position] = Some(answer);
    }
    of_place
}

/// Gives the function around an address the names that the recording has for it. If the recording only has its extent, then that is
/// what groups addresses without a name.
fn rename(answer: &mut Option<Answer>, symbol: &EmbeddedSymbol, off: FileOff, joiner: &mut Joiner) {
    let physical = match answer {
        Some(Answer::Named(functions)) => functions.last_mut(),
        _ => None,
    };
    match (physical, &symbol.named) {
        (Some(physical), Some(named)) => joiner.join(physical, named),
        (None, Some(named)) => {
            let mut function = icecore_symbolize::Function::new("".into());
            joiner.join(&mut function, named);
            *answer = Some(Answer::Named(vec![function]));
        }
        (Some(_), None) => {}
        (None, None) => {
            let reason = match answer {
                Some(Answer::Unnamed { reason, .. }) => *reason,
                _ => Reason::NoSymbol,
            };
            let at = Svma(symbol.address.0.wrapping_add(off.0.wrapping_sub(symbol.start.0)));
            *answer = Some(Answer::Unnamed { reason, start: Some(symbol.whole), at: Some(at) });
        }
    }
}

/// Collects functions, files and frames while places are named.
struct Book {
    images: Interned<ImageName>,
    sightings: Interned<Sighting>,
    files: Interned<Box<str>>,
    /// Their functions are positions in the sightings until the book is closed.
    frames: Interned<Frame>,
    of_places: Lists,
    calls: Map<u32, Arc<str>>,
    /// The position in `images` by position in the identities: two identities can have one path.
    image_of: Vec<u32>,
    /// Functions by table, position in it, and identity, and files by table and text, from tables in the recording: each is looked up
    /// once, however often it is used.
    found: Map<(u32, u32, u32), u32>,
    found_files: Map<(u32, u32), u32>,
    /// Functions and files by the addresses of the answer's name, its origin and the file, which stay valid as long as all answers exist.
    answered: Map<(*const u8, *const Origin, u32), u32>,
    answered_files: Map<*const u8, u32>,
    shortened: u64,
    trusted: Vec<Box<str>>,
}

impl Book {
    fn new(identities: &[Identity], trusted: &[bool]) -> Self {
        let mut images = Interned::new();
        let shortened = identities.iter().filter(|i| i.path.len() > MAX_NAME_BYTES).count() as u64;
        let path = |(i, is_trusted): (&Identity, &bool)| {
            let path = shorten(&i.path, MAX_NAME_BYTES);
            if *is_trusted { format!("{path}{TRUSTED}").into() } else { path.into() }
        };
        let all = || identities.iter().zip(trusted);
        let image_of = all().map(|it| images.intern(ImageName { path: path(it) }));
        let image_of = image_of.collect();
        Self {
            images,
            sightings: Interned::new(),
            files: Interned::new(),
            frames: Interned::new(),
            of_places: Lists::default(),
            calls: Map::default(),
            image_of,
            found: Map::default(),
            found_files: Map::default(),
            answered: Map::default(),
            answered_files: Map::default(),
            shortened,
            trusted: all()
                .filter(|(_, is_trusted)| **is_trusted)
                .map(|(i, _)| i.path.as_str().into())
                .collect(),
        }
    }

    /// Decides which sightings are one function, and hands everything over.
    fn close(self) -> Names {
        let (files, seen) = (self.files.into_items(), self.frames.into_items());
        let (functions, of_sighting) = identity::functions(&self.sightings.into_items(), &seen, &files);
        let mut frames = Interned::new();
        let merged = seen
            .into_iter()
            .map(|frame| frames.intern(Frame { function: of_sighting[frame.function as usize], ..frame }));
        let merged: Vec<u32> = merged.collect();
        let mut of_places = self.of_places;
        of_places.frames.iter_mut().for_each(|frame| *frame = merged[*frame as usize]);
        Names {
            images: self.images.into_items(),
            functions,
            guessed: Vec::new(),
            files,
            frames: frames.into_items(),
            of_places,
            calls: self.calls,
            shortened: self.shortened,
            trusted: self.trusted,
        }
    }

    /// Returns the position of a file; adds the file if it is new.
    fn file(&mut self, path: &str) -> u32 {
        self.shortened += u64::from(path.len() > MAX_NAME_BYTES);
        self.files.intern(shorten(path, MAX_NAME_BYTES).into())
    }

    /// Returns the position of a file of an answer.
    fn answered_file(&mut self, file: &Arc<str>) -> u32 {
        match self.answered_files.get(&file.as_ptr()) {
            Some(known) => *known,
            None => {
                let new = self.file(&clean(file.as_bytes()));
                self.answered_files.insert(file.as_ptr(), new);
                new
            }
        }
    }

    /// Shortens a name, and counts it if it was too long.
    fn text(&mut self, text: &str) -> Box<str> {
        self.shortened += u64::from(text.len() > MAX_NAME_BYTES);
        shorten(text, MAX_NAME_BYTES).into()
    }

    /// Returns the position of a function of an image; adds it if it is new.
    fn function(&mut self, identity: u32, name: &str, origin: &Origin) -> u32 {
        let clean = |text: &Arc<str>| -> Box<str> { shorten(&clean(text.as_bytes()), MAX_NAME_BYTES).into() };
        let declared = origin.declared.as_ref().map(|(file, line)| (self.answered_file(file), *line));
        let sighting = Sighting {
            name: self.text(&self::clean(name.as_bytes())),
            image: Some(self.image_of[identity as usize]),
            side: Side::User,
            language: Language::UNKNOWN,
            reason: None,
            owner: identity,
            origin: identity::Origin {
                entry: origin.entry,
                symbol: origin.symbol.as_ref().map(clean),
                declared,
                start: origin.start.map(|start| start.0),
                file: origin.file.as_ref().map(clean),
                aliases: origin.aliases.iter().map(clean).collect(),
            },
        };
        self.sightings.intern(sighting)
    }

    /// Notes which function the current place calls.
    fn calls(&mut self, name: Option<&Arc<str>>) {
        if let Some(name) = name {
            let clean = shorten(&clean(name.as_bytes()), MAX_NAME_BYTES).into();
            self.calls.insert(self.of_places.ends.len() as u32, clean);
        }
    }

    /// Names a place as a table in the recording does.
    fn found(&mut self, identity: u32, place: found::StoredPlace<'_>) {
        let (number, texts) = (place.number, &place.table.texts);
        let frames = place.frames();
        for (depth, frame) in shown(frames) {
            let Some(frame) = frame else {
                self.left_out(identity, frames.len());
                continue;
            };
            let file = frame.file.map(|file| match self.found_files.get(&(number, file)) {
                Some(known) => *known,
                None => {
                    let new = self.file(&texts[file as usize]);
                    self.found_files.insert((number, file), new);
                    new
                }
            });
            let function = match self.found.get(&(number, frame.function, identity)) {
                Some(known) => *known,
                None => {
                    let (name, origin) = place.origin(frame.function);
                    let new = self.function(identity, &name, &origin);
                    self.found.insert((number, frame.function, identity), new);
                    new
                }
            };
            let line = Some(frame.line).filter(|line| *line > 0);
            self.frame(Frame { function, file, line, inlined: depth + 1 < frames.len() });
        }
    }

    /// Adds a substitute for inlined functions that are too many to be shown.
    fn left_out(&mut self, identity: u32, all: usize) {
        let function = self.function(identity, &left_out(all), &Origin::default());
        self.frame(Frame { function, file: None, line: None, inlined: true });
    }

    fn answered(&mut self, identity: u32, path: &str, off: FileOff, answer: Option<&Answer>) {
        let image = Some(self.image_of[identity as usize]);
        match answer {
            Some(Answer::Named(functions)) if !functions.is_empty() => {
                let physical = functions.len() - 1;
                for (depth, function) in shown(functions) {
                    match function {
                        Some(function) => self.named(identity, function, depth < physical),
                        None => self.left_out(identity, functions.len()),
                    }
                }
            }
            Some(Answer::Unnamed { reason, start, at }) => {
                let address = start.or(*at).map_or(off.0, |svma| svma.0);
                let name = match reason {
                    Reason::Jit => "[jit]".to_owned(),
                    Reason::Vdso => "[vdso]".to_owned(),
                    Reason::Special if !path.is_empty() => path.to_owned(),
                    _ => format!("{}+{address:#x}", short(path)),
                };
                self.alone(&name, image, Side::User, Some(*reason));
            }
            _ => {
                let name = format!("{}+{:#x}", short(path), off.0);
                self.alone(&name, image, Side::User, Some(Reason::NoSymbol));
            }
        }
    }

    fn named(&mut self, identity: u32, function: &icecore_symbolize::Function, inlined: bool) {
        let file = function.file.as_ref().map(|file| self.answered_file(file));
        let key = (function.name.as_ptr(), Arc::as_ptr(&function.origin), identity);
        let named = match self.answered.get(&key) {
            Some(known) => *known,
            None => {
                let new = self.function(identity, &function.name, &function.origin);
                self.answered.insert(key, new);
                new
            }
        };
        self.frame(Frame { function: named, file, line: function.line, inlined });
    }

    fn kernel_image(&mut self, module: &str) -> u32 {
        let path = if module.is_empty() { "[kernel]".to_owned() } else { format!("[{module}]") };
        self.shortened += u64::from(path.len() > MAX_NAME_BYTES);
        self.images.intern(ImageName { path: shorten(&path, MAX_NAME_BYTES).into() })
    }

    /// Names code of a kernel. A part that the compiler split from a function has the name of the function.
    fn kernel(&mut self, owner: u32, row: &KernelSymbol, tables: &Tables) {
        let image = Some(self.kernel_image(tables.text(row.module)));
        let name = tables.text(row.name);
        let whole = part_of(name.as_bytes()).map(|whole| &name[..whole.len()]);
        let origin =
            identity::Origin { start: Some(row.start).filter(|_| whole.is_none()), ..Default::default() };
        let name = self.text(whole.unwrap_or(name));
        let of_kernel = Sighting::bare(name, image, Side::Kernel, None);
        self.add(Sighting { owner, origin, ..of_kernel });
    }

    /// Names JIT code as its process did, with the source line, and what is inlined there.
    fn jit(&mut self, tables: &Tables, code: u32, line: u32) {
        let code = tables.jit.get(code as usize);
        let name = code.map_or_else(String::new, |code| demangled(&String::from_utf8_lossy(&code.name)));
        let language = code.map_or(Language::UNKNOWN, |code| code.language);
        let path: String =
            if language.is_interpreted() { format!("[{}]", language.name()) } else { "[jit]".to_owned() };
        let image = Some(self.images.intern(ImageName { path: path.into() }));
        let name = self.text(&clean(name.as_bytes()));
        let mut sighting = Sighting { language, ..Sighting::bare(name, image, Side::User, None) };
        // The first line is that of the declaration.
        if let Some(first) = code.filter(|_| language.is_interpreted()).and_then(|code| code.lines.first()) {
            sighting.origin.declared = Some((self.file(tables.text(first.file)), first.line));
        }
        let line = code.and_then(|code| code.lines.get(line as usize));
        let mut at = line.map_or((0, 0), |line| (line.file, line.line));
        let all: &[JitInlined] = line.map_or(&[], |line| &line.inlined);
        for (_, inlined) in shown(all) {
            let name = match inlined {
                Some(inlined) => self.text(&clean(tables.text(inlined.name).as_bytes())),
                None => left_out(all.len()).into(),
            };
            let function = Sighting { language, ..Sighting::bare(name, image, Side::User, None) };
            let function = self.sightings.intern(function);
            self.jit_frame(tables, function, at, true);
            at = inlined.map_or((0, 0), |inlined| (inlined.call_file, inlined.call_line));
        }
        let function = self.sightings.intern(sighting);
        self.jit_frame(tables, function, at, false);
    }

    fn jit_frame(&mut self, tables: &Tables, function: u32, (file, line): (u32, u32), inlined: bool) {
        let file = Some(file).filter(|file| *file != 0).map(|file| self.file(tables.text(file)));
        let line = Some(line).filter(|line| file.is_some() && *line > 0);
        self.frame(Frame { function, file, line, inlined });
    }

    fn nowhere(&mut self, name: &str, reason: Reason) {
        self.alone(name, None, Side::User, Some(reason));
    }

    fn alone(&mut self, name: &str, image: Option<u32>, side: Side, reason: Option<Reason>) {
        let name = self.text(name);
        self.add(Sighting::bare(name, image, side, reason));
    }

    fn add(&mut self, sighting: Sighting) {
        let function = self.sightings.intern(sighting);
        self.frame(Frame { function, file: None, line: None, inlined: false });
    }

    /// Adds a frame to the current place.
    fn frame(&mut self, frame: Frame) {
        let frame = self.frames.intern(frame);
        self.of_places.frames.push(frame);
    }
}

/// Names those of so many functions of a place that are not shown.
fn left_out(all: usize) -> String {
    format!("[{} inlined functions left out]", all - MAX_INLINED)
}

/// Lists the functions of a place that are shown, with their depths, innermost first; `None` stands for the skipped ones.
fn shown<T>(functions: &[T]) -> impl Iterator<Item = (usize, Option<&T>)> {
    let len = functions.len();
    let kept = if len > MAX_INLINED { MAX_INLINED - 1 } else { len };
    let physical = functions.iter().enumerate().skip(kept.max(len.saturating_sub(1)));
    let gap = (kept < len).then_some((kept, None));
    let inner = functions.iter().enumerate().take(kept).map(|(depth, function)| (depth, Some(function)));
    inner.chain(gap).chain(physical.map(|(depth, function)| (depth, Some(function))))
}

/// Returns the last part of a path, without the kernel's remark that the file was deleted.
pub fn short(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    match path.rsplit('/').next() {
        Some(last) if !last.is_empty() => last,
        _ => path,
    }
}
