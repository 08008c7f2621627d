//! Finds static probes in executable files by provider and name, as offsets where a probe can lie.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use icecore_elf::{FileOff, Layout, static_probes};
use icecore_text::glob::is_like;
use object::read::ReadCache;

use super::super::event::near;
use crate::settings::{Edge, InFile, Place};
use crate::sys::usage::page_bytes;

/// The most probes that a note names.
const NAMED: usize = 10;

/// Finds all places of the static probes whose provider and name match.
///
/// # Errors
/// If no file has one; with the cause, which is that of the first file.
pub(super) fn named(
    paths: &[PathBuf],
    provider: &str,
    name: &str,
    notes: &mut Vec<String>,
) -> anyhow::Result<Place> {
    let (mut at, mut failure) = (Vec::new(), None);
    for path in paths {
        match named_in(path, provider, name) {
            Ok((found, note)) => {
                at.push(found);
                notes.extend(note);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure.filter(|_| at.is_empty()) {
        Some(failure) => Err(failure),
        None => Ok(Place::User { at, edge: Edge::Inside }),
    }
}

/// Finds places in one file, and says which of them programs skip that start later.
fn named_in(path: &Path, provider: &str, name: &str) -> anyhow::Result<(InFile, Option<String>)> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let file = ReadCache::new(file);
    let layout = Layout::read(&file).with_context(|| format!("`{}` is no ELF file", path.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let probes = static_probes(&layout, &file).into_iter().flatten();
    let all: Vec<_> = probes.map(|probe| (text(probe.provider), text(probe.name), probe)).collect();
    ensure!(!all.is_empty(), "`{}` has no static probes; readelf -n lists those of a file", path.display());
    let is_wanted = |of: &str, its: &str| is_like(provider, of) && is_like(name, its);
    let mut places: Vec<(u64, u64)> = all
        .iter()
        .filter(|(of, its, _)| is_wanted(of, its))
        .map(|(_, _, probe)| (probe.at.0, probe.counter.map_or(0, |FileOff(off)| off)))
        .collect();
    if places.is_empty() {
        let known = all.iter().map(|(of, its, _)| format!("{of}:{its}"));
        let wanted = format!("{provider}:{name}");
        bail!("`{}` has no static probe `{wanted}`{}", path.display(), near(&wanted, known));
    }
    let is_lost = |counter: FileOff| layout.is_writable_twice(counter, page_bytes().into());
    let lost = all.iter().filter(|(of, its, probe)| is_wanted(of, its) && probe.counter.is_some_and(is_lost));
    let lost: BTreeSet<String> = lost.map(|(of, its, _)| format!("`{of}:{its}`")).collect();
    let note = note_on_lost(path, &lost);
    places.sort_unstable();
    places.dedup_by_key(|(at, _)| *at);
    let (offsets, counters): (Vec<u64>, Vec<u64>) = places.into_iter().unzip();
    let counters = if counters.iter().all(|counter| *counter == 0) { Vec::new() } else { counters };
    Ok((InFile { file: path.to_owned(), offsets, counters }, note))
}

/// Says which probes are not hit in programs that start later: the kernel tells them in the wrong copy of the counter that somebody listens.
fn note_on_lost(path: &Path, probes: &BTreeSet<String>) -> Option<String> {
    let named: Vec<&str> = probes.iter().take(NAMED).map(String::as_str).collect();
    let more = probes.len() - named.len();
    (!probes.is_empty()).then(|| {
        format!(
            "{}{} of `{}` is not hit in programs that start from now on: the program asks a counter whether somebody listens, two writable \
             segments share its page, as lld links, and the kernel increments the wrong copy. Start the program first and give \
             -p, or link it with -Wl,-z,separate-loadable-segments or GNU ld",
            named.join(", "),
            if more > 0 { format!(" and {more} more") } else { String::new() },
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Two places of one probe, a probe with a counter, one of another provider.
    const SOURCE: &str = "
        #define _SDT_HAS_SEMAPHORES 1
        #include <sys/sdt.h>
        __extension__ unsigned short shop_sold_semaphore __attribute__((section(\".probes\")));
        __extension__ unsigned short shop_open_semaphore __attribute__((section(\".probes\")));
        __extension__ unsigned short bank_open_semaphore __attribute__((section(\".probes\")));
        void f(void) { STAP_PROBE(shop, open); STAP_PROBE1(shop, sold, 1); STAP_PROBE1(shop, sold, 2); }
        void g(void) { STAP_PROBE(bank, open); }";

    #[test]
    fn static_probes_are_found_by_provider_and_name() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let source = dir.path().join("x.c");
        let built = |source_text: &str, library: &str| {
            std::fs::write(&source, source_text).expect("room");
            let library = dir.path().join(library);
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&library).arg(&source);
            assert!(compiler.status().expect("a compiler").success(), "tests/setup.sh installs <sys/sdt.h>");
            library
        };
        let library = built(SOURCE, "libx.so");
        let plain = built("int f(void) { return 1; }", "liby.so");
        for (provider, name, places, counters) in
            [("shop", "sold", 2, 2), ("shop", "open", 1, 1), ("*", "open", 2, 2), ("s*", "*", 3, 3)]
        {
            let (found, note) =
                named_in(&library, provider, name).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(note, None, "GNU ld makes one segment");
            assert_eq!((found.offsets.len(), found.counters.len()), (places, counters), "{provider}:{name}");
            assert!(found.counters.iter().all(|counter| *counter != 0));
            assert!(found.offsets.is_sorted());
        }
        let without = built(&SOURCE.replace("_SDT_HAS_SEMAPHORES", "OTHER"), "libz.so");
        assert!(named_in(&without, "shop", "sold").is_ok_and(|(found, _)| found.counters.is_empty()));
        let message = |path: &Path| named_in(path, "shop", "slod").expect_err("misspelt").to_string();
        assert!(message(&library).contains("no static probe `shop:slod`; did you mean `shop:sold`"));
        assert!(message(&plain).contains("has no static probes"));
        let both = named(&[plain.clone(), library], "shop", "sold", &mut Vec::new());
        assert!(matches!(both, Ok(Place::User { at, edge: Edge::Inside }) if at.len() == 1));
        assert!(
            named(&[plain], "shop", "sold", &mut Vec::new())
                .is_err_and(|error| error.to_string().contains("liby.so"))
        );
    }
}
