//! Runs commands about files: what is in them, and recordings made of recordings.

use anyhow::Context as _;

use super::newest::named_or_newest;
use super::{Streams, emit, lookup, screen};
use crate::base::progress::watch;
use crate::cli::{self, Global};
use crate::input;
use crate::{edit, views};
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::verify::verify as check;

/// Says what is in a file.
pub(super) fn info(options: &cli::Info, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let file = named_or_newest(options.file.as_deref(), global, streams)?;
    let recording = input::open_by_index(&file)?;
    let info = views::info::Info::new(&file, &recording, &outline(&recording));
    let info = if options.sizes { info.with_sizes(&recording)? } else { info };
    let info = if options.symbol_source {
        let servers = lookup::servers(&options.lookup)?;
        info.with_symbol_sources(
            &recording,
            &lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?,
        )
    } else {
        info
    };
    emit(global, streams, &info, |page| info.text(options.blocks, page))?;
    Ok(0)
}

/// Checks a file; 1 if something is wrong with it.
pub(super) fn verify(
    options: &cli::Verify,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let recording = input::open(&options.file)?;
    let found = check(&recording);
    let view = views::verify::Verify::new(&options.file, &recording, &found);
    emit(global, streams, &view, |page| view.text(page))?;
    Ok(u8::from(!found.is_ok()))
}

/// Repairs a file.
pub(super) fn repair(
    options: &cli::Repair,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let recording = input::open(&options.file)?;
    let repair = edit::repair::Repair::write(options, &recording)?;
    emit(global, streams, &repair, |page| repair.text(page))?;
    Ok(0)
}

/// Merges recordings.
pub(super) fn merge(options: &cli::Merge, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let merged = edit::merge::merge(options)?;
    emit(global, streams, &merged, |page| merged.text(page))?;
    Ok(0)
}

/// Cuts a recording.
pub(super) fn cut(options: &cli::Cut, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let cut = edit::cut::cut(options)?;
    emit(global, streams, &cut, |page| cut.text(page))?;
    Ok(0)
}

/// Packs a recording.
pub(super) fn pack(options: &cli::Pack, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?;
    let watch = watch(streams.progress && !global.quiet);
    let (pack, fetched) = edit::pack::pack(options, &search, servers.as_ref(), &*watch)?;
    screen(global, streams).remark(lookup::remarks(&search, servers.as_ref(), &fetched));
    emit(global, streams, &pack, |page| pack.text(page))?;
    Ok(0)
}

/// Compacts a recording.
pub(super) fn compact(
    options: &cli::Compact,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?;
    let compact = edit::compact::compact(options, &search)?;
    emit(global, streams, &compact, |page| compact.text(page))?;
    Ok(0)
}

/// Imports a file of `perf record`.
pub(super) fn import(
    options: &cli::Import,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let imported = edit::import::import(options, &*watch(streams.progress && !global.quiet))?;
    emit(global, streams, &imported, |page| imported.text(page))?;
    Ok(0)
}

/// Says what is in the cache, or removes it.
pub(super) fn cache(options: &cli::Cache, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let cache = streams.cache.clone();
    let cache = cache.context("cannot find the cache: neither XDG_CACHE_HOME nor HOME is a folder")?;
    let stats = if options.clear { cache.clear() } else { cache.stats() };
    let stats = stats.with_context(|| format!("cannot read `{}`", cache.dir().display()))?;
    let view = views::cache::CacheView::new(&cache, &stats, options.clear);
    emit(global, streams, &view, |page| view.text(page))?;
    Ok(0)
}
