//! The formats.

use std::io::{self, Write};

use icecore_profile::recording::events::EventChoice;

use crate::exported::Exported;
use crate::firefox::Firefox;
use crate::kept::Fact;
use crate::pprof::Pprof;

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

/// All formats, in the order in which they are listed.
pub const ALL: &[&dyn Format] = &[&Pprof, &Firefox];

/// Finds a format by its name.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.name() == name)
}
