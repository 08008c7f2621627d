//! Cgroups as targets. A service that restarts gets a new cgroup of the same path: the new one is sampled from then on.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use libbpf_rs::{MapCore as _, MapFlags};

use super::Sampler;
use crate::proc::cgroup::Cgroup;

/// How long a recording waits for one of its cgroups to be made again when all are gone.
const GONE_FOR: Duration = Duration::from_secs(10);

/// The cgroups that are sampled.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The inode of each, which is the id of the cgroup.
    inodes: Vec<u64>,
    /// Since when there has been none.
    gone_since: Option<Instant>,
}

impl Sampler<'_> {
    /// Samples the tasks of these cgroups.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub(crate) fn add_cgroups(&self, cgroups: &[Cgroup]) -> anyhow::Result<()> {
        for (number, cgroup) in cgroups.iter().enumerate() {
            let inode = self.sample_cgroup(number, cgroup);
            let inode = inode.with_context(|| format!("cannot sample the cgroup `{}`", cgroup.path))?;
            self.followed.borrow_mut().inodes.push(inode);
        }
        Ok(())
    }

    /// Looks whether cgroups were removed and made again. Returns false if none of them has existed for [`GONE_FOR`].
    ///
    /// # Cost
    /// One system call for each cgroup.
    pub(crate) fn follow_cgroups(&self, cgroups: &[Cgroup]) -> bool {
        let mut followed = self.followed.borrow_mut();
        let mut is_there = false;
        for (number, cgroup) in cgroups.iter().enumerate() {
            let Ok(meta) = std::fs::metadata(&cgroup.folder) else { continue };
            is_there = true;
            if followed.inodes.get(number) != Some(&meta.ino())
                // It may be gone again: the next look finds the one after it.
                && let Ok(inode) = self.sample_cgroup(number, cgroup)
            {
                followed.inodes[number] = inode;
            }
        }
        followed.gone_since = (!is_there).then(|| followed.gone_since.unwrap_or_else(Instant::now));
        followed.gone_since.is_none_or(|since| since.elapsed() < GONE_FOR)
    }

    /// Puts a cgroup on the list of the BPF programs; returns its inode.
    fn sample_cgroup(&self, number: usize, cgroup: &Cgroup) -> anyhow::Result<u64> {
        let folder = File::open(&cgroup.folder)?;
        let (key, fd) = (number as u32, folder.as_raw_fd());
        self.skel.maps.target_cgroups.update(&key.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
        Ok(folder.metadata()?.ino())
    }
}
