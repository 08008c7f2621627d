//! folded: a line for each distinct stack, root first, and its weight. Tools of flame graphs read it.
//!
//! The file is what `icecore-report folded --no-annotations --weight period` prints.

use std::io::{self, Write};

use icecore_profile::named::Amount;
use icecore_profile::named::merged::{Labels, MergedStacks};
use icecore_profile::named::tree::Root;
use icecore_profile::recording::events::EventChoice;

use crate::exported::Exported;
use crate::format::Format;
use crate::kept::Fact;

/// The format.
#[derive(Debug)]
pub struct Folded;

impl Format for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn is_text(&self) -> bool {
        true
    }

    fn events(&self) -> EventChoice {
        EventChoice::Usual
    }

    fn keeps(&self) -> &'static [Fact] {
        &[Fact::Processes]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let loaded = of.report.loaded;
        let profile = &of.report.profile;
        // Weights of different units cannot be added: every sample counts as one.
        let is_mixed = loaded.hits.seen.is_mixed(loaded.tables.parts.events());
        let number = |amount: Amount| if is_mixed { amount.samples } else { amount.weight };
        MergedStacks::new(profile, Root::Process, &Labels::own(&profile.names, false)).write(number, out)
    }
}
