//! Files that `diff -o` writes.

use std::io::Write as _;
use std::path::Path;

use super::Diff;
use crate::cli;
use crate::compare::Sided;
use crate::output;
use crate::term::path::shown;
use crate::term::quantity::bytes;

/// Writes what the name of the file asks for, and says so.
///
/// # Errors
/// If it asks for nothing that is known, or the file cannot be written.
pub fn write(
    path: &Path,
    view: &Diff,
    reports: &[Sided<'_>],
    _options: &cli::Diff,
) -> anyhow::Result<String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let content = match extension {
        "md" => view.markdown().into_bytes(),
        _ => anyhow::bail!("nothing is known that ends so: name a .svg or a .md file"),
    };
    for (report, _) in reports {
        let there = output::metadata(path)?;
        output::refuse_recording(there.as_ref(), report.loaded.path)?;
    }
    output::refuse_any_recording(path)?;
    output::replace(path, reports[0].0.loaded.path, None, |file| file.write_all(&content))?;
    Ok(format!("wrote {} ({})", shown(path), bytes(content.len() as u64)))
}
