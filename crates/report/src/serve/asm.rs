//! `/asm/v1`: the instructions of a stretch of code.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Served;
use super::source::address;
use icecore_export::modules::Modules;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    debug_name: Option<String>,
    debug_id: Option<String>,
    code_id: Option<String>,
    /// Hexadecimal, as `size`.
    start_address: String,
    size: String,
    #[serde(default)]
    continue_until_function_end: bool,
}

/// Answers a request.
///
/// # Errors  why there are no instructions
pub(super) fn asm(recordings: &[Served<'_>], modules: &Modules, body: &[u8]) -> Result<Value, String> {
    let request: Request = serde_json::from_slice(body)
        .map_err(|error| format!("this is no request for instructions: {error}"))?;
    let by_debug_id = request.debug_name.as_deref().zip(request.debug_id.as_deref());
    let module = by_debug_id.and_then(|(name, id)| modules.find(name, id));
    let module = module.or_else(|| modules.by_code_id(request.code_id.as_deref()?));
    let module = module.ok_or("the recordings do not have this module")?;
    let (begin, size) =
        address(&request.start_address).zip(address(&request.size)).ok_or("no address and no size")?;
    let off = module.off(begin).ok_or("the module has no code at this address")?;
    let served = &recordings[module.recording];
    let function = served.code(&served.finder()).function(module.image, off);
    let function = function.map_err(|why| format!("no instructions of {}: {why}", module.path))?;
    let end = begin.saturating_add(size);
    let is_wanted = |at: &u64| *at >= begin && (*at < end || request.continue_until_function_end);
    let rows = function.instructions.iter().map(|it| (module.relative(it.at), it));
    let rows: Vec<Value> =
        rows.filter(|(at, _)| is_wanted(at)).map(|(at, it)| json!([at - begin, it.shown()])).collect();
    let end = if request.continue_until_function_end { module.relative(function.range.end) } else { end };
    Ok(json!({
        "startAddress": format!("{begin:#x}"),
        "size": format!("{:#x}", end.saturating_sub(begin)),
        "arch": module.arch().unwrap_or("unknown"),
        "syntax": ["GAS"],
        "instructions": rows,
    }))
}
