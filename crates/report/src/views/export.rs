//! Writes views into files: a format for each extension.

use std::path::Path;

use super::{Error, Result};
use crate::base::output::write_view;

/// A format of files. A view lists its formats in one place, each with the data `S` that it exports.
pub trait Export<S> {
    /// The extension of its files, without the dot.
    fn extension(&self) -> &'static str;

    /// Makes the content of a file.
    ///
    /// # Errors
    /// If `of` cannot be shown so.
    fn bytes(&self, of: &S) -> Result<Vec<u8>>;
}

/// Finds the format of a file's extension.
///
/// # Errors
/// If there is none.
pub fn by_extension<'e, S>(exports: &[&'e dyn Export<S>], path: &Path) -> Result<&'e dyn Export<S>> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let found = exports.iter().find(|export| export.extension() == extension);
    found.copied().ok_or_else(|| {
        let known: Vec<String> = exports.iter().map(|export| format!(".{}", export.extension())).collect();
        let (path, known) = (path.display(), known.join(" or "));
        Error::Refused(format!("cannot write `{path}`: unsupported file extension; use {known}"))
    })
}

/// Writes a file in the format of its extension; returns its length in bytes. It writes the file whole or not at all, and never
/// over one of `inputs` or over another recording.
///
/// # Errors
/// If there is no such format, or the file cannot be written.
pub fn write<S>(
    exports: &[&dyn Export<S>],
    of: &S,
    (path, force): (&Path, bool),
    inputs: &[&Path],
) -> Result<u64> {
    let content = by_extension(exports, path)?.bytes(of)?;
    write_view(path, force, inputs, &content)?;
    Ok(content.len() as u64)
}
