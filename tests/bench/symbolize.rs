//! Names addresses of one file by one engine, once, and prints seconds and the peak of memory in KiB.
//!
//! usage: symbolize icecore|addr2line|blazesym|list FILE COUNT THREADS
//!
//! `list` prints the addresses instead, for programs that read them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use gimli::{EndianArcSlice, LittleEndian};
use icecore_symbolize::image::{FileOff, Finder, Identity, Kind, Search};
use icecore_symbolize::{Answer, Wanted, symbolize};
use object::{Object, ObjectSection, SectionKind};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [engine, file, count, threads] = &args[..] else {
        return Err("usage: symbolize icecore|addr2line|blazesym|list FILE COUNT THREADS".into());
    };
    let (file, threads) = (Path::new(file), threads.parse()?);
    let places = places(file, count.parse()?)?;
    let at: Vec<u64> = places.iter().map(|place| place.1).collect();
    let begin = Instant::now();
    let functions = match &**engine {
        "list" => {
            at.iter().for_each(|at| println!("{at:#x}"));
            return Ok(());
        }
        "icecore" => icecore(file, &places, threads)?,
        "addr2line" => in_shards(&at, threads, |at| addr2line(file, at))?,
        "blazesym" => in_shards(&at, threads, |at| blazesym(file, at))?,
        other => return Err(format!("no such engine: {other}").into()),
    };
    let seconds = begin.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    println!("{seconds:.3} {} {} {functions}", peak.trim().trim_end_matches(" kB"), at.len());
    Ok(())
}

/// Places all over the code of a file: offset, address.
fn places(file: &Path, count: u64) -> Result<Vec<(FileOff, u64)>, Failure> {
    // The peak of memory is to be that of the engine.
    let cache = object::ReadCache::new(std::fs::File::open(file)?);
    let elf = object::File::parse(&cache)?;
    let text = elf.section_by_name(".text").filter(|section| section.kind() == SectionKind::Text);
    let text = text.ok_or("no code")?;
    let (off, len) = text.file_range().ok_or("no code")?;
    let step = usize::try_from((len / count).max(1))?;
    Ok((0..len).step_by(step).map(|i| (FileOff(off + i), text.address() + i)).collect())
}

fn icecore(file: &Path, places: &[(FileOff, u64)], threads: usize) -> Result<usize, Failure> {
    let image = Identity {
        kind: Kind::File,
        path: file.canonicalize()?.display().to_string(),
        build_id: Vec::new(),
        size_bytes: file.metadata()?.len(),
        modified_unix_ns: 0,
        inode: None,
        has_double: false,
    };
    let offsets: Vec<FileOff> = places.iter().map(|place| place.0).collect();
    let wanted = [Wanted { image: &image, offsets: &offsets }];
    // A file with a build-id is known by that alone.
    let cache = object::ReadCache::new(std::fs::File::open(file)?);
    let build_id = object::File::parse(&cache)?.build_id()?.unwrap_or_default().to_vec();
    drop(cache);
    let image = Identity { build_id, ..image.clone() };
    let wanted = wanted.map(|wanted| Wanted { image: &image, ..wanted });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut search = Search::default();
    search.debug_dirs.clear();
    let answers = pool.install(|| symbolize(&wanted, &Finder { search: &search, embedded: None }, &|_| ()));
    let functions = answers.iter().flatten().map(|answer| match answer {
        Answer::Named(functions) => functions.len(),
        Answer::Unnamed { .. } => 0,
    });
    Ok(functions.sum())
}

/// One context per thread, as it must be with these; each names a stretch of the addresses.
fn in_shards(
    at: &[u64],
    threads: usize,
    name: impl Fn(&[u64]) -> Option<usize> + Sync,
) -> Result<usize, Failure> {
    let counts = std::thread::scope(|scope| {
        let shards = at.chunks(at.len().div_ceil(threads).max(1));
        let workers: Vec<_> = shards.map(|shard| scope.spawn(|| name(shard))).collect();
        workers.into_iter().map(|worker| worker.join().ok().flatten()).sum::<Option<usize>>()
    });
    counts.ok_or_else(|| "a shard failed".into())
}

fn addr2line(file: &Path, at: &[u64]) -> Option<usize> {
    let bytes = std::fs::read(file).ok()?;
    let elf = object::File::parse(&*bytes).ok()?;
    let load = |id: gimli::SectionId| -> Result<EndianArcSlice<LittleEndian>, gimli::Error> {
        let section = elf.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianArcSlice::new(Arc::from(section.unwrap_or_default()), LittleEndian))
    };
    let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(load).ok()?).ok()?;
    let mut functions = 0;
    for at in at {
        let mut frames = context.find_frames(*at).skip_all_loads().ok()?;
        while let Some(frame) = frames.next().ok()? {
            functions += usize::from(frame.function.is_some_and(|function| function.demangle().is_ok()));
        }
    }
    Some(functions)
}

fn blazesym(file: &Path, at: &[u64]) -> Option<usize> {
    let symbolizer = Symbolizer::builder().enable_auto_reload(false).build();
    let source = Source::Elf(Elf::new(file));
    let mut functions = 0;
    for batch in at.chunks(256) {
        let answers = symbolizer.symbolize(&source, Input::VirtOffset(batch)).ok()?;
        functions +=
            answers.iter().filter_map(|it| it.as_sym()).map(|symbol| symbol.inlined.len() + 1).sum::<usize>();
    }
    Some(functions)
}
