//! Asks this machine about processes: which files they map, and which mount namespace and cgroup they are in.

pub mod build_id;
pub(crate) mod cgroups;
pub(crate) mod identity;
pub(crate) mod memory_image;
pub(crate) mod mounts;
