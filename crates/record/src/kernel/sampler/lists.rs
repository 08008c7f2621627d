//! Lists of the programs that the recorder changes while they run.

use anyhow::Context as _;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::Sampler;
use crate::kernel::wire::PageKey;

/// Processes that can be trusted at one time.
pub(crate) const MAX_TRUSTED: usize = 16 << 10;

impl Sampler<'_> {
    /// The list of processes whose walks are believed.
    pub(crate) fn trusted(&self) -> anyhow::Result<Trusted> {
        let map = MapHandle::try_from(&self.skel.maps.trusted_tgids);
        Ok(Trusted(map.context("cannot open the list of trusted processes")?))
    }

    /// The list of pages that need not be sent again.
    pub(crate) fn sent_pages(&self) -> anyhow::Result<SentPages> {
        let map = MapHandle::try_from(&self.skel.maps.sent_pages);
        Ok(SentPages(map.context("cannot open the list of pages that were sent")?))
    }

    /// Opens the list of processes of Go.
    pub(crate) fn of_go(&self) -> anyhow::Result<OfGo> {
        let map = MapHandle::try_from(&self.skel.maps.go_tgids);
        Ok(OfGo(map.context("cannot open the list of processes of Go")?))
    }
}

/// Processes whose walks are believed: their code keeps frame pointers. What is not on the list is copied, so that nothing is
/// wrong if it cannot be written.
pub(crate) struct Trusted(MapHandle);

impl Trusted {
    /// Trusts a process as long as it has so many pages of code.
    pub(crate) fn put(&self, tgid: u32, pages: u64) {
        let _ = self.0.update(&tgid.to_ne_bytes(), &pages.to_ne_bytes(), MapFlags::ANY);
    }

    /// Does not trust a process any more; most never were.
    pub(crate) fn withdraw(&self, tgid: u32) {
        let _ = self.0.delete(&tgid.to_ne_bytes());
    }
}

/// Pages of stacks that the sampler does not send again while they hold the same.
#[derive(Debug)]
pub(crate) struct SentPages(MapHandle);

impl SentPages {
    /// Has a page sent with the next sample of its thread, whatever it holds.
    pub(crate) fn forget(&self, page: PageKey) {
        // What is not on the list is sent anyway.
        let _ = self.0.delete(&page.0.to_ne_bytes());
    }
}

/// Processes of Go, and where they note which stacks they have left. Of what is not on the list, walks end or skip callers where
/// a stack is left, and the report says so.
pub(crate) struct OfGo(MapHandle);

impl OfGo {
    /// Notes it of a process: a `struct go_places` of bpf/go.h.
    pub(crate) fn put(&self, tgid: u32, places: &[u8]) {
        let _ = self.0.update(&tgid.to_ne_bytes(), places, MapFlags::ANY);
    }
}
