//! The lists in the BPF programs that the recorder changes while it samples.

use anyhow::Context as _;
use std::os::fd::AsFd as _;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use super::Sampler;
use super::tables::Tables;
use crate::kernel::names::KernelNames;
use crate::kernel::wire::PageKey;

/// The number of processes that can be trusted at one time.
pub(crate) const MAX_TRUSTED: usize = 16 << 10;

impl Sampler<'_> {
    /// Opens the list of processes whose walks are believed.
    pub(crate) fn trusted(&self) -> anyhow::Result<Trusted> {
        let map = MapHandle::try_from(&self.skel.maps.trusted_tgids);
        Ok(Trusted(map.context("cannot open the list of trusted processes")?))
    }

    /// Opens the list of pages that need not be sent again.
    pub fn sent_pages(&self) -> anyhow::Result<SentPages> {
        let map = MapHandle::try_from(&self.skel.maps.sent_pages);
        Ok(SentPages(map.context("cannot open the list of pages that were sent")?))
    }

    /// Opens the unwind tables of files; `None` if stacks are not walked by them.
    pub(crate) fn tables(&self) -> anyhow::Result<Option<Tables>> {
        let open = || Tables::of(&self.skel);
        self.walks_tables.then(open).transpose().context("cannot open the unwind tables of the sampler")
    }

    /// Opens the names of kernel functions; `None` if the kernel does not tell single ones.
    pub fn kernel_names(&self) -> Option<KernelNames> {
        let program = Some(&self.skel.progs.name_address).filter(|program| program.autoload())?;
        let asked = MapHandle::try_from(&self.skel.maps.asked_addresses).ok()?;
        let link = program.attach_iter(asked.as_fd()).ok()?;
        Some(KernelNames::new(asked, link))
    }

    /// Opens the list of processes with an interpreter; `None` if their functions are not found.
    pub(crate) fn interpreters(&self) -> anyhow::Result<Option<OfInterpreters>> {
        let open = || MapHandle::try_from(&self.skel.maps.interpreters).map(OfInterpreters);
        self.finds_interpreters
            .then(open)
            .transpose()
            .context("cannot open the list of processes with an interpreter")
    }

    /// Opens the list of Go processes.
    pub(crate) fn of_go(&self) -> anyhow::Result<OfGo> {
        let map = MapHandle::try_from(&self.skel.maps.go_tgids);
        Ok(OfGo(map.context("cannot open the list of Go processes")?))
    }
}

/// Processes whose walks are believed because their code keeps frame pointers. The sampler copies the stacks of all others, so a
/// failed write to the list costs bytes and no stack.
pub(crate) struct Trusted(MapHandle);

impl Trusted {
    /// Trusts a process while it has this number of pages of code.
    pub(crate) fn put(&self, tgid: u32, pages: u64) {
        let _ = self.0.update(&tgid.to_ne_bytes(), &pages.to_ne_bytes(), MapFlags::ANY);
    }

    /// Takes a process off the list; most processes are not on it.
    pub(crate) fn withdraw(&self, tgid: u32) {
        let _ = self.0.delete(&tgid.to_ne_bytes());
    }
}

/// Pages of stacks that the sampler does not send again while their contents stay the same.
#[derive(Debug)]
pub struct SentPages(MapHandle);

impl SentPages {
    /// Makes the sampler send a page with the next sample of its thread, whatever the page holds.
    pub(crate) fn forget(&self, page: PageKey) {
        // The sampler sends a page that is not on the list anyway.
        let _ = self.0.delete(&page.0.to_ne_bytes());
    }
}

/// Go processes, and where their runtime notes the stacks that it has left. In a Go process that is not on the list, walks end or skip
/// callers where the runtime switches stacks; the report shows that.
pub(crate) struct OfGo(MapHandle);

impl OfGo {
    /// Puts a process on the list; `places` holds the bytes of a `struct go_places` (bpf/go.h).
    pub(crate) fn put(&self, tgid: u32, places: &[u8]) {
        let _ = self.0.update(&tgid.to_ne_bytes(), places, MapFlags::ANY);
    }
}

/// Processes with an interpreter, and where it keeps its frames. Of others, samples have machine frames alone.
pub(crate) struct OfInterpreters(MapHandle);

impl OfInterpreters {
    /// Puts a process on the list; `places` holds the bytes of a `struct interpreter` (bpf/wire.h).
    pub(crate) fn put(&self, tgid: u32, places: &[u8]) {
        let _ = self.0.update(&tgid.to_ne_bytes(), places, MapFlags::ANY);
    }

    /// Takes a process off the list.
    pub(crate) fn withdraw(&self, tgid: u32) {
        let _ = self.0.delete(&tgid.to_ne_bytes());
    }
}
