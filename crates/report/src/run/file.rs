//! Runs commands about files: what is in them.

use anyhow::Context as _;

use super::merged::Opened;
use super::{Streams, emit, lookup};
use crate::cli::{self, Global};
use crate::input;
use crate::views;
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::verify::verify as check;

/// Says what is in a file.
pub(super) fn info(options: &cli::Info, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let Opened { path, recording, .. } = Opened::by_index(&options.files, global, streams)?;
    let info = views::info::Info::new(&path, &recording, &outline(&recording));
    let info = if options.sizes { info.with_sizes(&recording)? } else { info };
    let info = if options.symbol_source {
        let servers = lookup::servers(&options.lookup)?;
        info.with_symbol_sources(&recording, &lookup::search(&options.lookup, servers.as_ref(), streams)?)
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
