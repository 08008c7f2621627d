//! Runs `html`: writes recordings as one page.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::newest::named_or_newest;
use super::page::{PagePart, PageWanted, content};
use super::{Streams, diff, screen};
use crate::base::output::{self, write_view};
use crate::cli::{Global, Html};
use crate::views::flame::file::default_name;
use icecore_page::PageCode;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};

/// The result of `html`.
#[derive(Debug, Serialize)]
struct Written {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    samples: u64,
}

/// Writes the page; returns the exit code.
pub(super) fn html(options: &Html, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let to_stdout = options.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if to_stdout && global.json {
        bail!("cannot write both the page and JSON to stdout: name a file with -o");
    }
    let select = &options.select;
    let files = named_or_newest(&options.files, global, streams)?;
    let path = options.output.clone().unwrap_or_else(|| default_name(&files[0], "html"));
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    if !to_stdout {
        // Refused now, and not after all the work.
        output::refuse(&path, options.force, &inputs)
            .with_context(|| format!("cannot create {}", shown(&path)))?;
    }
    let compared = match &files[..] {
        [_] => None,
        files => Some(diff::document(files, select, global, streams)?),
    };
    let parts = inputs.iter().map(|path| PagePart { path, filter: select.filter() });
    let parts: Vec<PagePart<'_>> = parts.collect();
    let code = PageCode::given_away(options.code, &options.source_dir);
    let wanted = PageWanted { title: options.title.as_deref(), compared, code: &code, is_served: false };
    let (content, samples) = content(&parts, select, wanted, global, streams)?;
    let mut screen = screen(global, streams);
    if to_stdout {
        screen.out.write_all(&content)?;
        return Ok(screen.out.flush().map(|()| 0)?);
    }
    write_view(&path, options.force, &inputs, &content)?;
    let (file, file_bytes) = (path.display().to_string(), content.len() as u64);
    let written = Written { schema: "icecore.html/1", file, file_bytes, samples };
    screen.emit(&written, |page| {
        let (file, samples) = (shown(&path), things(samples, "sample"));
        page.line(&format!("wrote {file} ({}): {samples}; open it in a browser", bytes(file_bytes)));
    })?;
    Ok(0)
}
