//! Images of a process: files by its mappings, unwind tables by their sections.

use std::fs;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use framehop::ExplicitModuleSectionInfo;
use framehop::x86_64::UnwinderX86_64;
use icecore_elf::{Avma, Svma};
use icecore_unwind::{Machine, ModuleAddress, Modules, UnwindSections, UnwindTables};
use nix::unistd::Pid;
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags};

/// Every file that was mapped anywhere, read once. Its position is its number.
static FILES: Mutex<Vec<Arc<Image>>> = Mutex::new(Vec::new());

/// Images as they lie in a process.
pub(crate) struct Images {
    /// By address.
    mappings: Vec<Mapping>,
    /// Where stacks may be: memory that can be written.
    writable: Vec<Range<u64>>,
}

/// Executable memory; with the image, its number, and how far its addresses are from those in the file.
type Mapping = (Range<u64>, Option<(Arc<Image>, u32, u64)>);

/// One of them.
struct Image {
    path: String,
    tables: UnwindTables<'static>,
    file: object::File<'static>,
    /// Executable ones: offset, length, address.
    segments: Vec<(u64, u64, u64)>,
    /// Start, size, name.
    symbols: Vec<(u64, u64, String)>,
}

impl Images {
    /// Reads the mappings of a stopped process, by its `maps` and memory.
    pub(crate) fn of(maps: &str, memory: &fs::File) -> Self {
        let mut all = Self { mappings: Vec::new(), writable: Vec::new() };
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (range, access) = (fields.next().expect("a range"), fields.next().expect("an access"));
            let off = u64::from_str_radix(fields.next().expect("an offset"), 16).expect("a number");
            let path = fields.nth(2).unwrap_or_default();
            let (begin, end) = range.split_once('-').expect("two addresses");
            let number = |text| u64::from_str_radix(text, 16).expect("a number");
            let range = number(begin)..number(end);
            if access.starts_with("rw") {
                all.writable.push(range.clone());
            }
            if !access.contains('x') {
                continue;
            }
            let is_file = path.starts_with('/') || path == "[vdso]";
            let place = is_file.then(|| file(path, memory, &range)).and_then(|(image, number)| {
                let bias = image.bias(range.start, off)?;
                Some((image, number, bias))
            });
            all.mappings.push((range, place));
        }
        all
    }

    /// The same, for a process that is known to be there.
    #[allow(dead_code)] // the benchmark has no such
    pub(crate) fn of_process(pid: Pid, memory: &fs::File) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process is there");
        Self::of(&maps, memory)
    }

    fn at(&self, address: u64) -> Option<&Mapping> {
        let end = self.mappings.partition_point(|mapping| mapping.0.start <= address);
        self.mappings[..end].last().filter(|mapping| mapping.0.contains(&address))
    }

    /// The stretch of writable memory around an address.
    pub(crate) fn writable(&self, address: u64) -> Option<Range<u64>> {
        self.writable.iter().find(|range| range.contains(&address)).cloned()
    }

    /// The symbol that covers an address, with the offset in it.
    pub(crate) fn symbol(&self, address: u64) -> String {
        let Some((_, Some((image, _, bias)))) = self.at(address) else { return "?".into() };
        let at = address.wrapping_sub(*bias);
        let end = image.symbols.partition_point(|symbol| symbol.0 <= at);
        match image.symbols[..end].iter().rev().take(8).find(|symbol| at - symbol.0 < symbol.1) {
            Some(symbol) => format!("{}+{:#x}", symbol.2, at - symbol.0),
            None => {
                let file = image.path.rsplit('/').next().unwrap_or_default();
                let nearest =
                    image.symbols[..end].last().map(|symbol| format!("{}+{:#x}", symbol.2, at - symbol.0));
                format!("~{} {file}@{at:#x}", nearest.unwrap_or_default())
            }
        }
    }

    /// The same for framehop.
    pub(crate) fn framehop(&self) -> UnwinderX86_64<&'static [u8]> {
        use framehop::Unwinder as _;
        let mut unwinder = UnwinderX86_64::new();
        for (range, place) in &self.mappings {
            let Some((image, _, bias)) = place else { continue };
            let section = |name: &str| image.file.section_by_name(name);
            let data = |name: &str| section(name).and_then(|section| section.data().ok());
            let svma = |name: &str| {
                section(name).map(|section| section.address()..section.address() + section.size())
            };
            let sections = ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: svma(".text"),
                text: data(".text"),
                got_svma: svma(".got"),
                eh_frame_svma: svma(".eh_frame"),
                eh_frame: data(".eh_frame"),
                eh_frame_hdr_svma: svma(".eh_frame_hdr"),
                eh_frame_hdr: data(".eh_frame_hdr"),
                ..Default::default()
            };
            unwinder.add_module(framehop::Module::new(image.path.clone(), range.clone(), *bias, sections));
        }
        unwinder
    }
}

impl Modules for Images {
    fn find(&self, Avma(address): Avma) -> Option<ModuleAddress<'_>> {
        let (_, place) = self.at(address)?;
        let Some((image, number, bias)) = place else {
            return Some(ModuleAddress { module: None, at: Svma(address), tables: None });
        };
        let at = Svma(address.wrapping_sub(*bias));
        Some(ModuleAddress { module: Some(*number), at, tables: Some(&image.tables) })
    }

    fn is_behind_call(&self, Avma(address): Avma) -> Option<bool> {
        let (_, place) = self.at(address)?;
        let (image, _, bias) = place.as_ref()?;
        let at = address.wrapping_sub(*bias).checked_sub(8)?;
        let before = image.file.segments().find_map(|segment| segment.data_range(at, 8).ok()?)?;
        // `call rel32`; any other call has the byte ff.
        Some(before[3] == 0xe8 || before.contains(&0xff))
    }

    /// The dynamic linker begins a program in assembly without unwind tables: two calls after its entry point.
    fn is_start(&self, Avma(return_address): Avma) -> bool {
        let place = self.at(return_address).and_then(|(_, place)| place.as_ref());
        place.is_some_and(|(image, _, bias)| {
            let entry = image.file.entry();
            entry != 0 && (entry + 1..entry + 64).contains(&return_address.wrapping_sub(*bias))
        })
    }
}

impl Image {
    fn new(path: String, bytes: &'static [u8]) -> Self {
        let file = object::File::parse(bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let tables = UnwindTables::new(sections(&file));
        let is_code = |segment: &object::Segment<'_, '_>| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X));
        let segments = file.segments().filter(is_code).map(|segment| {
            let (off, len) = segment.file_range();
            (off, len, segment.address())
        });
        let segments = segments.collect();
        let symbols = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.size() > 0);
        let mut symbols: Vec<_> = symbols
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
            .collect();
        symbols.sort();
        Self { path, tables, file, segments, symbols }
    }

    /// AVMA - SVMA, of a mapping that begins there with that offset: with the page in which a segment does, or, if it
    /// was cut, in the middle.
    fn bias(&self, begin: u64, off: u64) -> Option<u64> {
        let begins = self.segments.iter().find(|segment| segment.0 & !4095 == off);
        let holds = || self.segments.iter().find(|segment| (segment.0..segment.0 + segment.1).contains(&off));
        let segment = begins.or_else(holds)?;
        Some(begin.wrapping_add(segment.0).wrapping_sub(off).wrapping_sub(segment.2))
    }
}

/// Reads a file, or finds it if it was read.
fn file(path: &str, memory: &fs::File, range: &Range<u64>) -> (Arc<Image>, u32) {
    let mut files = FILES.lock().expect("nobody panics with it");
    let known = files.iter().position(|image| image.path == path);
    let number = known.unwrap_or_else(|| {
        let bytes = if path == "[vdso]" { read(memory, range) } else { fs::read(path).expect("readable") };
        files.push(Arc::new(Image::new(path.to_owned(), bytes.leak())));
        files.len() - 1
    });
    (files[number].clone(), number as u32)
}

/// Sections as the unwinder takes them.
pub(crate) fn sections(file: &object::File<'static>) -> UnwindSections<'static> {
    let at = |name: &str| file.section_by_name(name).map(|section| Svma(section.address()));
    let data =
        |name: &str| file.section_by_name(name).and_then(|section| section.data().ok()).unwrap_or_default();
    let stubs = file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt")));
    UnwindSections {
        machine: Machine::X86_64,
        eh_frame: data(".eh_frame"),
        eh_frame_at: at(".eh_frame").unwrap_or(Svma(0)),
        eh_frame_hdr: data(".eh_frame_hdr"),
        eh_frame_hdr_at: at(".eh_frame_hdr").unwrap_or(Svma(0)),
        debug_frame: data(".debug_frame"),
        of_go: &[],
        text: at(".text"),
        got: at(".got"),
        stubs: stubs.map(|stubs| Svma(stubs.address())..Svma(stubs.address() + stubs.size())).collect(),
    }
}

fn read(memory: &fs::File, range: &Range<u64>) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read_exact_at(&mut bytes, range.start).expect("it is mapped");
    bytes
}
