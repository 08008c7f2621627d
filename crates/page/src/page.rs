//! Puts data, style and script into one document.
//!
//! A page that is opened from disk cannot import modules. So the modules of `crates/page/browser/` become one script: the lines that
//! import are left out, and so is the word `export`. No two modules give one name to different things at their top level; the test
//! of the page checks the script that comes out as well as the modules.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};

macro_rules! modules {
    ($($name:literal),+ $(,)?) => {
        [$(include_str!(concat!("../browser/", $name, ".js"))),+]
    };
}

/// The modules, each after those that it uses when it is loaded.
const MODULES: [&str; 36] = modules!(
    "text",
    "data",
    "state",
    "choose",
    "paths",
    "forest",
    "tree",
    "lazy",
    "sums",
    "colors",
    "canvas",
    "grid",
    "flame",
    "details",
    "head",
    "axis",
    "lens",
    "activity",
    "overview",
    "waits",
    "counters",
    "tracks",
    "band",
    "time",
    "lane",
    "chart",
    "cells",
    "heat",
    "calls",
    "functions",
    "lines",
    "code",
    "compare",
    "views",
    "bar",
    "main",
);
const STYLE: &str = concat!(include_str!("../browser/look.css"), include_str!("../browser/page.css"));
/// The style of documents without a script, which look the same.
const PLAIN_STYLE: &str = concat!(include_str!("../browser/look.css"), include_str!("../browser/site.css"));
const FRAME: &str = include_str!("../browser/page.html");

/// Makes the document: nothing in it runs but the one script, and it loads nothing, unless it is served, from its server.
pub(super) fn with_data(title: &str, data: &[u8], is_served: bool) -> Vec<u8> {
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'{}",
        hash(&script),
        hash(STYLE),
        if is_served { "; connect-src 'self'" } else { "" },
    );
    let mut page =
        String::with_capacity(FRAME.len() + script.len() + STYLE.len() + data.len() * 4 / 3 + 1024);
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(before);
        match name {
            "policy" => page.push_str(&policy),
            "title" => page.push_str(&escaped(title)),
            "style" => page.push_str(STYLE),
            "script" => page.push_str(&script),
            "data" => BASE64.encode_string(data, &mut page),
            _ => {}
        }
        rest = after;
    }
    page.push_str(rest);
    page.into_bytes()
}

/// Makes a document without a script, which looks like a page: nothing runs in it, it loads nothing, and its forms ask its own server.
/// `body` is HTML.
pub fn plain(title: &str, body: &str) -> Vec<u8> {
    let policy =
        format!("default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'self'", hash(PLAIN_STYLE));
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{PLAIN_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
    .into_bytes()
}

/// Makes one script of the modules.
fn script() -> String {
    let mut script = String::new();
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        if line.starts_with("import ") {
            continue;
        }
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

/// The source of a policy that admits exactly this text.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(digest(&SHA256, text.as_bytes())))
}

/// Makes text harmless in a document, also between the quotes of an attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_and_cannot_end_its_element() {
        let script = script();
        assert!(script.lines().all(|line| !line.starts_with("import ") && !line.starts_with("export ")));
        assert!(!script.contains("</script") && !script.contains("<!--") && !STYLE.contains("</style"));
    }

    #[test]
    fn a_title_is_text() {
        let page = with_data("</title><script>alert(1)</script>", b"x", false);
        let page = String::from_utf8(page).expect("UTF-8");
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(page.contains("script-src 'sha256-") && page.ends_with("</html>\n"));
    }
}
