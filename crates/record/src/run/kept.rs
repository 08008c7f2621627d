//! Removes the files that are not to be kept.

use std::time::SystemTime;

use crate::cli::output::Series;
use crate::cli::summary;
use crate::settings::Options;

/// Removes them.
pub(super) fn prune(options: &Options) {
    let removed = Series::of(options).prune(&options.keep, SystemTime::now());
    for path in removed.iter().filter(|_| options.verbose) {
        summary::tell(&format!("icecore-record: removed `{}` (--keep…)", path.display()));
    }
}
