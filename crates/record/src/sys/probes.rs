//! Defines probes in tracefs: the kernel makes such probes only in the processes for which somebody opens their event.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::random;
use super::tracefs::{Tracefs, Tracepoint};

/// The kernel takes at most 4 KiB at once, and no part of a line.
const MOST_AT_ONCE: usize = 4 << 10;

/// The probes that this process defines. They are removed when this is dropped; events of them must be closed before.
#[derive(Debug)]
pub(crate) struct Definitions {
    tracefs: Tracefs,
    path: PathBuf,
    file: File,
    /// The category of all of them: `icecore_NAMESPACE_PID_RANDOM`.
    group: String,
    names: RefCell<Vec<String>>,
}

impl Definitions {
    /// Opens the list of probes, and removes from it what killed recorders left.
    ///
    /// # Errors
    /// If the kernel has no such list, or this process may not write it.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let tracefs = Tracefs::open()?;
        let path = tracefs.root().join("uprobe_events");
        let opened = File::options().append(true).open(&path);
        let file = opened.with_context(|| format!("cannot write `{}`", path.display()))?;
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
        let family = format!("icecore_{namespace}_");
        let random = u64::from_ne_bytes(*random::bytes()?.first_chunk().context("bug: too few bytes")?);
        let group = format!("{family}{}_{random:x}", std::process::id());
        let made = Self { tracefs, path, file, group, names: RefCell::default() };
        for name in left_behind(&fs::read_to_string(&made.path)?, &family) {
            made.remove(&name);
        }
        Ok(made)
    }

    /// Defines an event that happens at each of these instructions of a file, or where the functions return that begin there. An
    /// instruction comes with the offset of the counter that tells its program that somebody listens, or 0. Returns the number of the
    /// event, which `perf_event_open` takes.
    ///
    /// # Errors
    /// The error with which the kernel refuses a probe.
    pub(crate) fn define(&self, file: &File, at: &[(u64, u64)], is_return: bool) -> anyhow::Result<u64> {
        let name = format!("at{}", self.names.borrow().len());
        self.names.borrow_mut().push(format!("{}/{name}", self.group));
        let kind = if is_return { 'r' } else { 'p' };
        // The name of the file may hold spaces, and may lead to another file by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut text = String::new();
        for (offset, counter) in at {
            let counter = if *counter == 0 { String::new() } else { format!("({counter:#x})") };
            let line = format!("{kind}:{}/{name} {path}:{offset:#x}{counter}\n", self.group);
            if text.len() + line.len() >= MOST_AT_ONCE {
                (&self.file).write_all(text.as_bytes())?;
                text.clear();
            }
            text.push_str(&line);
        }
        (&self.file).write_all(text.as_bytes())?;
        let event = Tracepoint { category: self.group.clone(), name };
        self.tracefs.id(&event)?.context("the kernel does not list the probe that it has just taken")
    }

    /// Removes a probe, unless an event of it is open.
    fn remove(&self, name: &str) -> bool {
        (&self.file).write_all(format!("-:{name}\n").as_bytes()).is_ok()
    }

    /// Removes all probes of which no event is open.
    pub(crate) fn remove_all(&self) {
        self.names.borrow_mut().retain(|name| !self.remove(name));
    }
}

impl Drop for Definitions {
    fn drop(&mut self) {
        self.remove_all();
    }
}

/// Lists the probes of recorders that run no more, given the kernel's list of all probes: `p:GROUP/NAME PATH:OFFSET`.
fn left_behind(list: &str, family: &str) -> BTreeSet<String> {
    let names = list.lines().filter_map(|line| line.split_once(':')?.1.split_whitespace().next());
    let of_dead = |name: &&str| {
        let pid = name.strip_prefix(family).and_then(|rest| rest.split_once('_')).map(|(pid, _)| pid);
        pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
    };
    names.filter(of_dead).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_living_recorders_and_of_others_stay() {
        let own = std::process::id();
        let list = format!(
            "p:icecore_7_{own}_ab/at0 /proc/self/fd/9:0x10\n\
             p:icecore_7_4294967295_ab/at0 /proc/self/fd/9:0x10(0x20)\n\
             r:icecore_7_4294967295_ab/at1 /proc/self/fd/9:0x18\n\
             p:icecore_7_4294967295_ab/at0 /proc/self/fd/9:0x20\n\
             p:icecore_8_4294967295_ab/at0 /proc/self/fd/9:0x20\n\
             p:probes/icecore_7_1 /bin/sh:0x20\n"
        );
        let left: Vec<String> = left_behind(&list, "icecore_7_").into_iter().collect();
        assert_eq!(left, ["icecore_7_4294967295_ab/at0", "icecore_7_4294967295_ab/at1"]);
    }

    #[test]
    fn root_defined_probes_are_gone_when_nobody_needs_them() {
        let program = File::open("/proc/self/exe").expect("it runs");
        let tracefs = Tracefs::open().expect("root finds it, or mounts it");
        let listed = |group: &str| {
            let list = fs::read_to_string(tracefs.root().join("uprobe_events")).expect("root may read");
            list.lines().filter(|line| line.contains(group)).count()
        };
        let definitions = Definitions::open().expect("root may define probes");
        let group = definitions.group.clone();
        // More than the kernel takes at once.
        let at: Vec<(u64, u64)> = (0..500).map(|n| (0x1000 + n, 0)).collect();
        assert!(definitions.define(&program, &at, false).expect("probes") > 0);
        assert_eq!(listed(&group), 500);
        drop(definitions);
        assert_eq!(listed(&group), 0);
    }
}
