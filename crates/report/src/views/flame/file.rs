//! Chooses the file of the graph.

use std::path::{Path, PathBuf};

/// Names the picture of a recording, in the current directory: for SVG `app-1.2.icecore` gives `app-1.2.svg`, a pipe `flame.svg`.
pub(crate) fn default_name(recording: &Path, extension: &str) -> PathBuf {
    if crate::input::is_nameless(recording) {
        return format!("flame.{extension}").into();
    }
    let mut name = recording.file_stem().unwrap_or_else(|| "flame".as_ref()).to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_extension_is_replaced() {
        for (recording, name) in [
            ("/x/app-1.2.icecore", "app-1.2.svg"),
            ("app", "app.svg"),
            ("a.svg", "a.svg"),
            ("..", "flame.svg"),
            ("-", "flame.svg"),
            ("/dev/fd/63", "flame.svg"),
        ] {
            assert_eq!(default_name(Path::new(recording), "svg"), Path::new(name), "{recording}");
        }
    }
}
