//! What a format is.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use icecore_profile::recording::events::EventChoice;

use crate::exported::Exported;
use crate::kept::Fact;

/// A format of another tool.
pub trait Format: Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the version that is written, and how settled it is, in words; `None` if the format has no versions.
    fn version(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if the file is text, which may go to a terminal or into a pipe of line tools.
    fn is_text(&self) -> bool;

    /// Returns the events that are exported unless the user chooses some.
    fn events(&self) -> EventChoice {
        EventChoice::All
    }

    /// Lists what the format keeps.
    fn keeps(&self) -> &'static [Fact];

    /// Writes the file.
    ///
    /// # Errors
    /// If `out` cannot be written, or the format has no way to say what is exported.
    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes a file of a format, compressed with gzip.
///
/// # Errors
/// As [`Format::write`].
pub fn write_zipped(format: &dyn Format, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut zip = GzEncoder::new(out, Compression::default());
    format.write(of, &mut zip)?;
    zip.finish()?.flush()
}
