//! Tables that all threads share.
//!
//! ```text
//! stack row ─► frame row ─► function row ─► name, source
//!   └ prefixOffset rows back is the caller's; 0 at the outermost one
//! ```

use icecore_elf::Svma;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::Side;
use icecore_profile::named::names::short;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::image::hex;
use serde::Serialize;

use crate::exported::{Exported, NO_STACK};
use crate::modules::{Module, Modules};

/// A column in which nothing is known.
#[derive(Debug, Default)]
struct Nulls(usize);

impl Serialize for Nulls {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::repeat_n((), self.0))
    }
}

/// A column in which all values are alike.
#[derive(Debug, Default)]
struct Alike<T>(T, usize);

impl<T: Serialize + Copy> Serialize for Alike<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::repeat_n(self.0, self.1))
    }
}

/// The tables.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shared {
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    native_symbols: NativeSymbols,
    sources: Sources,
    source_location_table: SourceLocations,
    string_array: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct StackTable {
    frame: Vec<u32>,
    prefix_offset: Vec<u32>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    /// Relative to the begin of the file's first segment; -1 if unknown.
    address: Vec<i64>,
    lib: Vec<i64>,
    inline_depth: Vec<u32>,
    category: Vec<u32>,
    subcategory: Alike<u32>,
    func: Vec<u32>,
    native_symbol: Vec<Option<u32>>,
    #[serde(rename = "innerWindowID")]
    inner_window_id: Nulls,
    line: Vec<Option<u32>>,
    column: Nulls,
    original_location: Nulls,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<u32>,
    #[serde(rename = "isJS")]
    is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    relevant_for_js: Alike<bool>,
    resource: Vec<i64>,
    source: Vec<Option<u32>>,
    line_number: Vec<Option<u32>>,
    column_number: Nulls,
    original_location: Nulls,
    length: usize,
}

impl FrameTable {
    /// Adds a frame with its depth among inlined ones, category and function; returns its row. An address stands beside its file.
    fn add(
        &mut self,
        address: Option<u32>,
        lib: Option<u32>,
        (depth, category, func): (u32, u32, u32),
        symbol: Option<u32>,
        line: Option<u32>,
    ) -> u32 {
        self.address.push(address.map_or(-1, i64::from));
        self.lib.push(address.and(lib).map_or(-1, i64::from));
        self.inline_depth.push(depth);
        self.category.push(category);
        self.func.push(func);
        self.native_symbol.push(symbol);
        self.line.push(line);
        self.func.len() as u32 - 1
    }
}

impl FuncTable {
    /// Adds a function; returns its row.
    fn add(&mut self, name: u32, resource: i64, source: Option<u32>, line: Option<u32>, is_js: bool) -> u32 {
        self.name.push(name);
        self.is_js.push(is_js);
        self.resource.push(resource);
        self.source.push(source);
        self.line_number.push(line);
        self.name.len() as u32 - 1
    }
}

#[derive(Debug, Default, Serialize)]
struct ResourceTable {
    name: Vec<u32>,
    host: Nulls,
    r#type: Alike<u32>,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NativeSymbols {
    lib_index: Vec<u32>,
    address: Vec<u32>,
    name: Vec<u32>,
    function_size: Nulls,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sources {
    id: Nulls,
    filename: Vec<u32>,
    start_line: Alike<u32>,
    start_column: Alike<u32>,
    #[serde(rename = "sourceMapURL")]
    source_map_url: Nulls,
    content: Nulls,
    length: usize,
}

#[derive(Debug, Default, Serialize)]
struct SourceLocations {
    source: [(); 0],
    line: [(); 0],
    column: [(); 0],
    length: usize,
}

/// A file of code.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    arch: String,
    name: String,
    path: String,
    debug_name: String,
    debug_path: String,
    breakpad_id: String,
    /// The build-id.
    code_id: Option<String>,
}

/// A kind of code, which has a color.
#[derive(Debug, Serialize)]
pub(super) struct Category {
    name: String,
    color: &'static str,
    subcategories: [&'static str; 1],
}

/// Code of which nothing is known.
const OTHER: u32 = 0;
/// Compiled code of programs.
pub(super) const NATIVE: u32 = 1;
/// Code of the kernel.
const KERNEL: u32 = 2;
/// The colors of categories; those of languages come last, and the last one is that of all others.
const COLORS: [&str; 8] = ["grey", "yellow", "orange", "blue", "green", "purple", "red", "lightblue"];
/// The type of resources that are files of code.
const LIBRARY: u32 = 1;

/// The tables, and where things are in them.
#[derive(Debug)]
pub(super) struct SharedTables {
    pub(super) shared: Shared,
    pub(super) libs: Vec<Lib>,
    pub(super) categories: Vec<Category>,
    /// The row of each site's innermost frame in the table of stacks.
    stacks: Vec<u32>,
    /// The positions of the kinds of waits in the table of strings.
    pub(super) wait_kinds: Vec<u32>,
}

impl SharedTables {
    /// Makes the tables of all stacks that are exported.
    ///
    /// # Cost    O(frames of sites)
    pub(super) fn new(of: &Exported<'_>, modules: &Modules, recording: usize) -> Self {
        let mut maker = Maker::new(of, modules, recording);
        let stacks = maker.stacks();
        let kinds = of.report.profile.waits.iter().map(|wait| maker.strings.intern(wait.kind.name()));
        let wait_kinds = kinds.collect();
        let (libs, categories, shared) = maker.close();
        Self { shared, libs, categories, stacks, wait_kinds }
    }

    /// Returns the row of a site.
    pub(super) fn stack(&self, site: u32) -> u32 {
        self.stacks[site as usize]
    }
}

/// Makes the tables.
struct Maker<'a> {
    of: &'a Exported<'a>,
    modules: &'a Modules,
    recording: usize,
    libs: Vec<Lib>,
    /// The position in `libs` of the kernel of each session.
    kernels: Map<u32, u32>,
    languages: Interned<String>,
    strings: Interned<String>,
    sources: Interned<u32>,
    /// The row of each function; `None` if it has none yet.
    functions: Vec<Option<u32>>,
    symbols: Map<(u32, u32), u32>,
    /// The rows of the frames of each place, innermost first.
    frames: Map<u32, Vec<u32>>,
    shared: Shared,
}

impl<'a> Maker<'a> {
    fn new(of: &'a Exported<'a>, modules: &'a Modules, recording: usize) -> Self {
        Self {
            of,
            modules,
            recording,
            libs: modules.all.iter().map(lib).collect(),
            kernels: Map::default(),
            languages: Interned::new(),
            strings: Interned::new(),
            sources: Interned::new(),
            functions: vec![None; of.names().functions.len()],
            symbols: Map::default(),
            frames: Map::default(),
            shared: Shared::default(),
        }
    }

    /// Makes the rows of all sites. That of the empty stack has a frame, because the Profiler drops samples without any.
    fn stacks(&mut self) -> Vec<u32> {
        let mut rows = vec![0; self.of.sites.len()];
        let none = self.no_stack();
        rows[0] = self.stack_row(None, none);
        for (position, site) in self.of.sites.iter().enumerate().skip(1) {
            let mut row = (site.caller != 0).then(|| rows[site.caller as usize]);
            for frame in self.frames(site.place).into_iter().rev() {
                row = Some(self.stack_row(row, frame));
            }
            rows[position] = row.expect("bug: every site has a frame");
        }
        rows
    }

    fn stack_row(&mut self, caller: Option<u32>, frame: u32) -> u32 {
        let table = &mut self.shared.stack_table;
        let row = table.frame.len() as u32;
        table.prefix_offset.push(caller.map_or(0, |caller| row - caller));
        table.frame.push(frame);
        row
    }

    /// Makes the frame of samples without a stack.
    fn no_stack(&mut self) -> u32 {
        let name = self.strings.intern(NO_STACK.to_owned());
        let func = self.shared.func_table.add(name, -1, None, None, false);
        self.shared.frame_table.add(None, None, (0, OTHER, func), None, None)
    }

    fn frames(&mut self, place: u32) -> Vec<u32> {
        if let Some(known) = self.frames.get(&place) {
            return known.clone();
        }
        let of = self.of;
        let location = of.location(place);
        let lib = self.lib(location);
        let address = match location {
            CodeLocation::Image(image, off) => {
                self.module(image).and_then(|module| self.modules.all[module as usize].address(off))
            }
            _ => None,
        };
        let frames = of.frames(place);
        // The function around all that was inlined is the one that symbol tables have.
        let symbol = frames.last().and_then(|frame| self.symbol(lib?, *frame));
        let mut rows = Vec::with_capacity(frames.len());
        for (inner, frame) in frames.iter().enumerate() {
            let category = self.category(location, *frame);
            let func = self.function(*frame, lib);
            let depth = (frames.len() - 1 - inner) as u32;
            let line = of.frame(*frame).line;
            let table = &mut self.shared.frame_table;
            rows.push(table.add(address, lib, (depth, category, func), symbol, line));
        }
        self.frames.insert(place, rows.clone());
        rows
    }

    fn module(&self, image: u32) -> Option<u32> {
        self.modules.of_image(self.recording, image)
    }

    fn lib(&mut self, location: CodeLocation) -> Option<u32> {
        match location {
            CodeLocation::Image(image, _) => self.module(image),
            CodeLocation::Kernel(part, _) => {
                let Self { kernels, libs, of, .. } = self;
                Some(*kernels.entry(part).or_insert_with(|| {
                    let session = &of.report.loaded.tables.parts.part(part).session;
                    libs.push(Lib {
                        arch: session.arch.clone(),
                        name: "[kernel]".to_owned(),
                        path: "[kernel.kallsyms]".to_owned(),
                        debug_name: "[kernel]".to_owned(),
                        debug_path: "[kernel.kallsyms]".to_owned(),
                        breakpad_id: crate::modules::breakpad_id(&session.kernel_build_id),
                        code_id: Some(hex(&session.kernel_build_id)).filter(|id| !id.is_empty()),
                    });
                    libs.len() as u32 - 1
                }))
            }
            _ => None,
        }
    }

    fn category(&mut self, location: CodeLocation, frame: u32) -> u32 {
        let function = self.of.function(frame);
        match function.language_name() {
            Some(language) => KERNEL + 1 + self.languages.intern(language),
            None if function.side == Side::Kernel => KERNEL,
            None if matches!(location, CodeLocation::Image(..) | CodeLocation::Jit(..)) => NATIVE,
            None => OTHER,
        }
    }

    fn symbol(&mut self, lib: u32, frame: u32) -> Option<u32> {
        let function = self.of.function(frame);
        let module = self.modules.all.get(lib as usize)?;
        let address = module.narrow(Svma(function.start?))?;
        let table = &mut self.shared.native_symbols;
        let name = self.strings.intern(function.name.to_string());
        Some(*self.symbols.entry((lib, address)).or_insert_with(|| {
            table.lib_index.push(lib);
            table.address.push(address);
            table.name.push(name);
            table.name.len() as u32 - 1
        }))
    }

    fn function(&mut self, frame: u32, lib: Option<u32>) -> u32 {
        let of = self.of;
        let position = of.frame(frame).function as usize;
        if let Some(known) = self.functions[position] {
            return known;
        }
        let function = of.function(frame);
        let declared = function.declared.map(|(file, line)| (file, Some(line)));
        let declared = declared.or(function.seen.map(|(file, _)| (file, None)));
        let declared = declared.or(of.frame(frame).file.map(|file| (file, None)));
        let source = declared.map(|(file, _)| {
            let name = self.strings.intern(of.names().files[file as usize].to_string());
            self.sources.intern(name)
        });
        let name = self.strings.intern(function.name.to_string());
        let (resource, line) = (lib.map_or(-1, i64::from), declared.and_then(|(_, line)| line));
        let is_js = function.language_name().as_deref() == Some("javascript");
        let row = self.shared.func_table.add(name, resource, source, line, is_js);
        self.functions[position] = Some(row);
        row
    }

    /// Hands over the tables.
    fn close(mut self) -> (Vec<Lib>, Vec<Category>, Shared) {
        let mut shared = self.shared;
        let resources = self.libs.iter().map(|lib| self.strings.intern(lib.name.clone())).collect();
        let libs = self.libs.len();
        shared.resource_table =
            ResourceTable { name: resources, host: Nulls(libs), r#type: Alike(LIBRARY, libs), length: libs };
        shared.stack_table.length = shared.stack_table.frame.len();
        let frames = shared.frame_table.func.len();
        shared.frame_table.subcategory = Alike(0, frames);
        shared.frame_table.inner_window_id = Nulls(frames);
        shared.frame_table.column = Nulls(frames);
        shared.frame_table.original_location = Nulls(frames);
        shared.frame_table.length = frames;
        let functions = shared.func_table.name.len();
        shared.func_table.relevant_for_js = Alike(false, functions);
        shared.func_table.column_number = Nulls(functions);
        shared.func_table.original_location = Nulls(functions);
        shared.func_table.length = functions;
        let symbols = shared.native_symbols.name.len();
        shared.native_symbols.function_size = Nulls(symbols);
        shared.native_symbols.length = symbols;
        let filename = self.sources.into_items();
        let sources = filename.len();
        shared.sources = Sources {
            id: Nulls(sources),
            filename,
            start_line: Alike(1, sources),
            start_column: Alike(1, sources),
            source_map_url: Nulls(sources),
            content: Nulls(sources),
            length: sources,
        };
        shared.string_array = self.strings.into_items();
        let names = ["Other", "Native", "Kernel"].into_iter().map(str::to_owned);
        let category = |(at, name): (usize, String)| Category {
            name,
            color: COLORS[at.min(COLORS.len() - 1)],
            subcategories: ["Other"],
        };
        let categories = names.chain(self.languages.into_items()).enumerate().map(category).collect();
        (self.libs, categories, shared)
    }
}

fn lib(module: &Module) -> Lib {
    Lib {
        arch: module.arch().unwrap_or_default().to_owned(),
        name: short(&module.path).to_owned(),
        path: module.path.clone(),
        debug_name: module.debug_name.clone(),
        debug_path: module.path.clone(),
        breakpad_id: module.debug_id.breakpad().to_string(),
        code_id: Some(module.code_id.clone()).filter(|id| !id.is_empty()),
    }
}
