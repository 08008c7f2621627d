//! Answers that are known from earlier. Who keeps them, and how, is not decided here.

use std::fmt;
use std::path::Path;

use super::Answer;
use super::identity::Stamp;
use super::image::FileOff;

/// Keeps answers about images.
pub trait Known: fmt::Debug + Send + Sync {
    /// Finds what is known of the image with a build-id (empty if it has none), from files that are still the same. Without
    /// stamps none of them is here now; then the image must have been found at `path`, where it was recorded.
    fn of_image<'a>(&'a self, build_id: &'a [u8], path: &'a str, files: &'a [Stamp])
    -> Box<dyn Answers + 'a>;

    /// Returns the folder in which the answers are kept, for others who keep something beside them.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Ends the work on all images of a report.
    fn finish(&self);
}

/// What is known of one image.
pub trait Answers {
    /// The answer for an offset, if there is one.
    fn find(&self, off: FileOff) -> Option<Answer>;

    /// Keeps more answers, in ascending order of offsets. That they cannot be kept is no error: they are found again.
    fn keep(&self, new: &[(FileOff, &Answer)]);
}
