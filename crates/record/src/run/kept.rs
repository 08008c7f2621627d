//! Removes the files that are not to be kept.

use std::time::SystemTime;

use super::ship::Queue;
use crate::cli::output::Series;
use crate::cli::summary;
use crate::settings::Options;

/// Removes them.
pub(super) fn prune(options: &Options, queue: Option<&Queue>) {
    if options.turns().is_none() {
        return;
    }
    let keep = queue.map_or(options.keep, |queue| queue.limits(options.keep));
    let removed = Series::of(options).prune(&keep, SystemTime::now());
    queue.inspect(|queue| queue.removed(&removed));
    for path in removed.iter().filter(|_| options.verbose) {
        summary::tell(&format!("icecore-record: removed `{}` (--keep…)", path.display()));
    }
}
