//! What the units of one image share.

use gimli::DwarfPackage;

use super::info::Info;
use super::requested::Requested;
use super::{Guard, OpenSplit, Slice, Strings};

/// What all units of an image share.
pub(super) struct Context<'d, 'a> {
    pub(super) info: &'a Info<'d>,
    pub(super) supplement: Option<&'a Info<'d>>,
    pub(super) package: Option<&'a DwarfPackage<Slice<'d>>>,
    pub(super) open_split: &'a OpenSplit<'a>,
    pub(super) asked: Requested<'a>,
    pub(super) strings: &'a Strings,
    pub(super) guard: &'a Guard,
}
