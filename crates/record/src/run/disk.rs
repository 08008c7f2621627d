//! Explains why the disk takes no more, and what to do.

use std::io::ErrorKind;

/// Explains why the recording could not be written, and what to do.
pub(super) fn why_not(error: &icecore_format::Error) -> String {
    match error {
        icecore_format::Error::Io(io) => with_remedy(io),
        other => other.to_string(),
    }
}

/// Explains an error of the operating system while writing, and what to do.
pub(super) fn with_remedy(error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::BrokenPipe => return "its reader closed the pipe, and recording ended there".to_owned(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space there or name a file elsewhere with -o"
        }
        ErrorKind::FileTooLarge => "raise the limit with `ulimit -f`, or name a file elsewhere with -o",
        _ => "the disk may be failing: name a file elsewhere with -o",
    };
    format!("{error}; {remedy}")
}
