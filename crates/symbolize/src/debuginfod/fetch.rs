//! Downloads missing files, first for the images that gain most.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::budget::Spending;
use super::cache::State;
use super::client::{Client, Got};
use super::{Artifact, Settings};
use crate::image::{Finder, Identity, Knowledge, Looked, Outcome};

/// The number of downloads at the same time.
const THREADS: usize = 4;
/// The most files that one image may need: its debug file, the image itself, the supplement of dwz.
const MOST: usize = 3;

/// An image that may lack files.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The image.
    pub image: &'a Identity,
    /// How much there is to gain; images with more come first.
    pub weight: u64,
}

/// The result of all downloads.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Files that were downloaded.
    pub files: u64,
    /// Bytes that servers sent, also those that were not kept.
    pub bytes: u64,
    /// The number of images for which the budget was too small.
    pub left_out: u64,
    /// One sentence for each server that failed.
    pub warnings: Vec<String>,
}

/// Downloads missing files into the cache, for the heaviest image first. `tick(n)` is called when `n` more wishes are done; all
/// calls add up to the number of wishes.
pub fn fetch(
    wishes: &[Wish<'_>],
    finder: Finder<'_>,
    settings: &Settings,
    tick: &(dyn Fn(u64) + Sync),
) -> Fetched {
    let mut order: Vec<&Wish<'_>> = wishes.iter().collect();
    order.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.image.path.cmp(&b.image.path)));
    let run = Run {
        client: Client::new(settings),
        spending: Spending::new(settings.budget),
        finder,
        settings,
        files: AtomicU64::new(0),
        left_out: AtomicU64::new(0),
    };
    let next = AtomicUsize::new(0);
    // These are threads of their own, because they wait, and the pool is for work.
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(order.len()) {
            scope.spawn(|| {
                while let Some(wish) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run.fulfil(wish.image);
                    tick(1);
                }
            });
        }
    });
    let bytes = run.spending.spent_bytes();
    let (files, left_out) = (run.files.into_inner(), run.left_out.into_inner());
    Fetched { files, bytes, left_out, warnings: run.client.warnings() }
}

/// All downloads of a report.
struct Run<'a> {
    client: Client<'a>,
    spending: Spending,
    finder: Finder<'a>,
    settings: &'a Settings,
    files: AtomicU64,
    left_out: AtomicU64,
}

impl Run<'_> {
    /// Downloads the files that one image lacks, one after the other: each file decides which one is needed next.
    fn fulfil(&self, image: &Identity) {
        let mut asked: Vec<(Vec<u8>, Artifact)> = Vec::new();
        while asked.len() < MOST {
            let looked = self.finder.look(image);
            let is_new = |need: &(Vec<u8>, Artifact)| !asked.contains(need) && self.is_wanted(need, &looked);
            let Some((build_id, what)) = needs(&looked, image).into_iter().find(is_new) else { return };
            let got = if self.spending.is_empty() {
                Got::TooDear
            } else {
                self.client.get(&build_id, what, &self.spending)
            };
            match got {
                Got::Stored => drop(self.files.fetch_add(1, Ordering::Relaxed)),
                Got::NotServed | Got::Failed => {}
                Got::TooDear => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            asked.push((build_id, what));
        }
    }

    /// Returns true if servers are to be queried. A file in the cache that was rejected, because it is torn, or of another build,
    /// is downloaded again.
    fn is_wanted(&self, (build_id, what): &(Vec<u8>, Artifact), looked: &Looked) -> bool {
        let cache = &self.settings.cache;
        match cache.state(build_id, *what) {
            State::Unknown => true,
            State::Missed => false,
            State::Present => {
                let place = cache.place(build_id, *what);
                let is_bad = |outcome| matches!(outcome, Outcome::Unreadable | Outcome::OtherBuild);
                looked.attempts.iter().any(|step| Some(&step.path) == place.as_ref() && is_bad(step.outcome))
            }
        }
    }
}

/// Lists the files that an image lacks. The debug file comes first: one of eu-strip shows where the code is, and then the image
/// itself is not needed.
fn needs(looked: &Looked, image: &Identity) -> Vec<(Vec<u8>, Artifact)> {
    let mut needs = Vec::new();
    if image.build_id.is_empty() {
        return needs;
    }
    match &looked.files {
        Ok(files) if files.knowledge() == Knowledge::Dwarf => {}
        Ok(_) => needs.push((image.build_id.clone(), Artifact::Debuginfo)),
        // This image has no file: JIT code, the vDSO.
        Err(_) if looked.attempts.is_empty() => {}
        Err(_) => {
            if !looked.attempts.iter().any(|step| step.outcome == Outcome::NoOffsets) {
                needs.push((image.build_id.clone(), Artifact::Debuginfo));
            }
            needs.push((image.build_id.clone(), Artifact::Executable));
        }
    }
    needs.extend(looked.missing_alt.iter().map(|alt| (alt.build_id.clone(), Artifact::Debuginfo)));
    needs
}

#[cfg(test)]
mod tests;
