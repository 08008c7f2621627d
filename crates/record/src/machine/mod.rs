//! What this machine tells of a process beside its events: which files it maps, in which mount namespace and cgroup it is.

pub(crate) mod build_id;
pub(crate) mod cgroups;
pub(crate) mod identity;
pub(crate) mod mounts;
