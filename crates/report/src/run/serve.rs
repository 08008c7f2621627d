//! Runs `serve`: loads recordings as `html` does, prints where they are served, and answers until the user ends it.

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::newest::named_or_newest;
use super::page::{PagePart, PageWanted, with_page};
use super::{Streams, diff};
use crate::cli::{Global, Serve};
use crate::serve::answer::Answers;
use crate::serve::http::{PROFILES, Shared, Socket};
use icecore_page::PageCode;
use icecore_text::path::shown;
use icecore_text::quantity::things;

/// Where the recordings are served.
#[derive(Debug, Serialize)]
struct Serving {
    schema: &'static str,
    page: String,
    /// The samples in the Firefox Profiler's format, of each recording.
    profiles: Vec<String>,
    /// What the Firefox Profiler takes for `symbolServer`.
    symbol_server: String,
    /// Links to the Firefox Profiler, one for each recording.
    firefox_profiler: Vec<String>,
    samples: u64,
}

/// Serves the recordings; returns the exit code.
pub(super) fn serve(options: &Serve, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let origin = origin(&options.profiler)?;
    let select = &options.select;
    let socket = Socket::open(options.port, &origin);
    let socket = socket.with_context(|| match options.port {
        0 => "cannot open a socket on 127.0.0.1".to_owned(),
        port => format!("cannot open port {port} of 127.0.0.1: give another --port"),
    })?;
    let files = named_or_newest(&options.files, global, streams)?;
    let compared = match &files[..] {
        [_] => None,
        files => Some(diff::document(files, select, global, streams)?),
    };
    let parts = files.iter().map(|path| PagePart { path, filter: select.filter() });
    let parts: Vec<PagePart<'_>> = parts.collect();
    // The page asks for the code of the functions that the user looks at.
    let code = PageCode { functions: 0, source_dirs: options.source_dir.clone(), is_given_away: false };
    let wanted = PageWanted { title: options.title.as_deref(), compared, code: &code, is_served: true };
    with_page(&parts, select, wanted, global, streams, |mut page, sides, screen| {
        let samples = sides.samples();
        let mut answers = Answers::new(&mut page, (sides.all, sides.usual), &options.source_dir);
        let serving = Serving::new(&socket.url, &socket.shared, &options.profiler, files.len(), samples);
        screen.emit(&serving, |page| {
            let files: Vec<String> = files.iter().map(|file| shown(file)).collect();
            page.line(&format!(
                "serving {}: {}; Ctrl-C ends it",
                files.join(" → "),
                things(samples, "sample")
            ));
            page.line(&format!("  page              {}", serving.page));
            serving
                .firefox_profiler
                .iter()
                .for_each(|link| page.line(&format!("  Firefox Profiler  {link}")));
            page.line(
                "  (its site sees the address that the link has: it gives the samples once, and then only answers about their code)",
            );
        })?;
        socket.serve(|asked| answers.answer(asked, &mut |remark| screen.remark([remark])))?;
        Ok(0)
    })
}

impl Serving {
    fn new(page: &str, shared: &Shared, profiler: &str, recordings: usize, samples: u64) -> Self {
        let own = page.trim_end_matches('/');
        let profiles = PROFILES.iter().take(recordings).map(|path| format!("{own}{path}")).collect();
        let profiler = profiler.trim_end_matches('/');
        let link = |profile: &String| {
            format!("{profiler}/from-url/{}/?symbolServer={}", encoded(profile), encoded(&shared.symbols))
        };
        let firefox_profiler = shared.profiles.iter().take(recordings).map(link).collect();
        Self {
            schema: "icecore.serve/1",
            page: page.to_owned(),
            profiles,
            symbol_server: shared.symbols.clone(),
            firefox_profiler,
            samples,
        }
    }
}

/// Returns scheme, host and port of an address, which is what a browser sends as `Origin`.
fn origin(url: &str) -> anyhow::Result<String> {
    let parts = url.split_once("://").filter(|(scheme, _)| ["https", "http"].contains(scheme));
    let host = parts.map(|(_, rest)| rest.split('/').next().unwrap_or_default().to_ascii_lowercase());
    let is_host = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    let Some((scheme, host)) = parts.map(|(scheme, _)| scheme).zip(host.filter(|host| is_host(host))) else {
        bail!(
            "cannot use `{url}` as a Firefox Profiler: write its address as https://HOST or http://HOST:PORT"
        );
    };
    // Browsers leave out the port that the scheme has anyway.
    let usual = if scheme == "https" { ":443" } else { ":80" };
    Ok(format!("{scheme}://{}", host.strip_suffix(usual).unwrap_or(&host)))
}

/// Encodes what an address of a server may have and a part of a path may not.
fn encoded(url: &str) -> String {
    url.replace('%', "%25").replace(':', "%3A").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_profile_and_the_symbol_server() {
        let place = |path: &str| format!("http://127.0.0.1:9/{path}");
        let shared =
            Shared { profiles: [place("a/profile.json"), place("b/profile-2.json")], symbols: place("s") };
        let serving = Serving::new(&place("t/"), &shared, "http://localhost:4242/", 2, 1);
        let link = "http://localhost:4242/from-url/http%3A%2F%2F127.0.0.1%3A9%2Fb%2Fprofile-2.json/?symbolServer=http%3A%2F%2F127.0.0.1%3A9%2Fs";
        assert_eq!(serving.firefox_profiler[1], link);
        assert_eq!(
            (&*serving.symbol_server, &*serving.profiles[1]),
            ("http://127.0.0.1:9/s", "http://127.0.0.1:9/t/profile-2.json")
        );
    }

    #[test]
    fn the_origin_is_what_browsers_send() {
        assert_eq!(
            origin("https://profiler.firefox.com/x/y").expect("an address"),
            "https://profiler.firefox.com"
        );
        assert_eq!(origin("http://localhost:4242").expect("an address"), "http://localhost:4242");
        assert_eq!(origin("https://Profiler.example:443/").expect("an address"), "https://profiler.example");
        for wrong in
            ["profiler.firefox.com", "https:///x", "https://u@x.org", "https://x y", "https://*", "ftp://x"]
        {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }
}
