//! `/source/v1`: the text of a source file that code was compiled from.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Served;
use icecore_export::modules::Modules;
use icecore_profile::named::names::name;
use icecore_profile::named::source::GIVE_ITS_FOLDER;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::source::Proof;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    debug_name: String,
    debug_id: String,
    /// An address whose code comes from the file, hexadecimal.
    module_offset: String,
    file: String,
}

/// Answers a request; also returns a remark about the text, if nothing proves that it is what was compiled.
///
/// # Errors  why there is no text
pub(super) fn source(
    recordings: &[Served<'_>],
    modules: &Modules,
    body: &[u8],
) -> Result<(Value, Option<String>), String> {
    let Request { debug_name, debug_id, module_offset, file } = serde_json::from_slice(body)
        .map_err(|error| format!("this is no request for a source file: {error}"))?;
    let module = modules.find(&debug_name, &debug_id).ok_or("the recordings do not have this module")?;
    let off = address(&module_offset).and_then(|address| module.off(address));
    let off = off.ok_or("the module has no code at this address")?;
    let served = &recordings[module.recording];
    let finder = served.finder();
    let names = name(&[CodeLocation::Image(module.image, off)], &served.locator, &finder, &|_| ());
    let mut files = names.of_places.of(0).iter().filter_map(|frame| names.frames[*frame as usize].file);
    if !files.any(|known| *names.files[known as usize] == *file) {
        return Err("the code at this address does not come from this file".to_owned());
    }
    let texts = served.sources(&finder);
    let found = texts.find(&file, module.image, &[off]);
    let found = found.map_err(|why| format!("no source text of {file}: {why}; serve takes --source-dir"))?;
    if !texts.may_give_away(&found) {
        return Err(format!("no source text of {file} is sent: {GIVE_ITS_FOLDER}"));
    }
    let remark = (found.proof == Proof::Unchecked)
        .then(|| format!("sent {file}: unchecked, nothing proves that this version was compiled"));
    let source = String::from_utf8_lossy(&found.text);
    let answer =
        json!({ "symbolsLastModified": null, "sourceLastModified": null, "file": file, "source": source });
    Ok((answer, remark))
}

/// Reads an address: hexadecimal, with or without `0x`.
pub(super) fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
