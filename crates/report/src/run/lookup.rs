//! Where names are found: what was typed of debug files, sysroots, servers and the cache.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::Streams;
use crate::cli::Lookup;
use icecore_files::private;
use icecore_symbolize::Known;
use icecore_symbolize::debuginfod::{Fetched, Settings};
use icecore_symbolize::image::{Search, Symbols, supports_sysroot};
use icecore_text::path::shown;
use icecore_text::quantity::things;

/// Puts together where files are looked for: what was typed, and the debug directory of the system.
///
/// # Errors
/// If one is no directory, or there can be no sysroot here.
pub(super) fn search(
    lookup: &Lookup,
    servers: Option<&Settings>,
    streams: &Streams<'_>,
) -> anyhow::Result<Search> {
    let mut search = Search { maps: lookup.map.clone(), trusted: lookup.trust.clone(), ..Search::default() };
    for dir in &lookup.debug_dir {
        search.debug_dirs.push(directory(dir, "debug directory")?);
    }
    let symbols = lookup.symbols.iter().map(|dir| directory(dir, "symbols directory"));
    search.symbols = Symbols::below(symbols.collect::<anyhow::Result<_>>()?);
    if let Some(root) = &lookup.sysroot {
        let root = directory(root, "sysroot")?;
        let root = std::fs::canonicalize(&root)
            .and_then(|root| supports_sysroot(&root).map(|()| root))
            .with_context(|| format!("cannot open sysroot `{}`", root.display()))?;
        search.sysroot = Some(root);
    }
    let cache = streams.cache.clone().filter(|_| !lookup.no_cache);
    search.known = cache.map(|cache| Arc::new(cache) as Arc<dyn Known>);
    search.door = streams.door();
    search.downloads = servers.map(|servers| servers.cache.folder().to_owned());
    Ok(search)
}

/// The same, for what writes names or stacks into files whose readers must be able to believe them.
///
/// # Errors
/// As [`search`], and if a path is to be trusted.
pub(super) fn proven(
    lookup: &Lookup,
    servers: Option<&Settings>,
    streams: &Streams<'_>,
) -> anyhow::Result<Search> {
    let is_proven = lookup.trust.is_empty();
    anyhow::ensure!(
        is_proven,
        "cannot use --trust here: who reads the output could not tell what is only trusted; views take it"
    );
    search(lookup, servers, streams)
}

/// Tells which servers are asked for missing files; `None` if none.
///
/// # Errors
/// As [`Settings::new`].
pub(super) fn servers(lookup: &Lookup) -> anyhow::Result<Option<Settings>> {
    if lookup.no_debuginfod {
        return Ok(None);
    }
    Ok(Settings::new(&lookup.debuginfod, lookup.debuginfod_budget, |name| std::env::var_os(name))?)
}

/// What is to be said of a search that did not get everything it might have.
pub(super) fn remarks(search: &Search, servers: Option<&Settings>, fetched: &Fetched) -> Vec<String> {
    let mut remarks: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    for server in servers.iter().flat_map(|servers| &servers.ignored) {
        remarks.push(format!(
            "warning: `{server}` of DEBUGINFOD_URLS is not asked: it must begin with http:// or https://"
        ));
    }
    if let (Some(servers), left_out @ 1..) = (servers, fetched.left_out) {
        remarks.push(format!(
            "debuginfod: files of {} were not fetched: the budget was {} (--debuginfod-budget)",
            things(left_out, "image"),
            servers.budget
        ));
    }
    let folder = search.known.as_deref().and_then(Known::folder);
    if let Some((folder, Err(cause))) = folder.map(|folder| (folder, private::check(folder))) {
        remarks.push(format!(
            "warning: the cache {} is not used: {cause} (--no-cache, or set XDG_CACHE_HOME)",
            shown(folder)
        ));
    }
    if search.symbols.is_cut() {
        remarks.push(
            "warning: --symbols: there are more files, or deeper folders, than are looked at".to_owned(),
        );
    }
    remarks
}

/// Makes a path absolute.
fn directory(dir: &Path, what: &str) -> anyhow::Result<PathBuf> {
    let absolute = std::fs::metadata(dir).and_then(|meta| {
        if meta.is_dir() { std::path::absolute(dir) } else { Err(io::ErrorKind::NotADirectory.into()) }
    });
    absolute.with_context(|| format!("cannot open {what} `{}`", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(lookup: Lookup) -> anyhow::Result<Search> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (out, err) = (&mut out, &mut err);
        let streams = Streams::plain(out, err);
        super::search(&lookup, None, &streams)
    }

    fn refusal<T>(result: anyhow::Result<T>) -> String {
        format!("{:#}", result.err().expect("refused"))
    }

    #[test]
    fn debug_directories_are_absolute_and_exist() {
        let search = |dir: &str| search(Lookup { debug_dir: vec![dir.into()], ..Lookup::default() });
        let found = search("src").expect("the directory of this crate");
        assert_eq!(found.debug_dirs[1], std::env::current_dir().expect("a directory").join("src"));
        let text = refusal(search("/no/such"));
        assert_eq!(text, "cannot open debug directory `/no/such`: No such file or directory (os error 2)");
        let text = refusal(search("Cargo.toml"));
        assert_eq!(text, "cannot open debug directory `Cargo.toml`: not a directory");
    }

    #[test]
    fn a_sysroot_is_real_and_a_folder_of_symbols_exists() {
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().canonicalize().expect("a real path");
        std::fs::create_dir(real.join("root")).expect("made");
        std::os::unix::fs::symlink("root", real.join("link")).expect("linked");
        let found = search(Lookup { sysroot: Some(real.join("link")), ..Lookup::default() });
        assert_eq!(found.expect("a sysroot").sysroot, Some(real.join("root")));
        let text = refusal(search(Lookup { sysroot: Some("/no/such".into()), ..Lookup::default() }));
        assert_eq!(text, "cannot open sysroot `/no/such`: No such file or directory (os error 2)");
        let text = refusal(search(Lookup { symbols: vec!["Cargo.toml".into()], ..Lookup::default() }));
        assert_eq!(text, "cannot open symbols directory `Cargo.toml`: not a directory");
    }

    #[test]
    fn what_was_not_fetched_is_one_line() {
        let servers = Settings::new(&["http://x".into()], Default::default(), |name| {
            (name == "HOME").then(|| "/h".into())
        });
        let servers = servers.expect("sound").expect("a server");
        let fetched = Fetched { left_out: 2, warnings: vec!["w".into()], ..Fetched::default() };
        let lines = remarks(&Search::nowhere(), Some(&servers), &fetched);
        let left_out =
            "debuginfod: files of 2 images were not fetched: the budget was 500M,60s (--debuginfod-budget)";
        assert_eq!(lines, ["warning: w", left_out]);
        assert!(remarks(&Search::nowhere(), Some(&servers), &Fetched::default()).is_empty());
    }
}
