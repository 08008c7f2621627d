//! Several recordings as one, for views that take one.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use icecore_edit::merge::merge;
use icecore_format::read::Recording;
use icecore_format::write::Writer;
use icecore_profile::random_uuid;
use icecore_profile::recording::load::parts::MAX_PARTS;
use tempfile::TempDir;

use crate::input;

/// A recording that has all of some.
pub(super) struct Merged {
    path: PathBuf,
    /// Is removed when this is dropped.
    _folder: Option<TempDir>,
}

impl Merged {
    /// Takes the only recording, or merges several into a temporary file.
    ///
    /// # Errors
    /// If they are too many, or a file cannot be read or written.
    pub(super) fn new(files: &[&Path]) -> anyhow::Result<Self> {
        if let [only] = files {
            return Ok(Self { path: (*only).to_owned(), _folder: None });
        }
        if files.len() > MAX_PARTS {
            bail!(
                "{} recordings are selected, and a view shows at most {MAX_PARTS} merged: select fewer, or ask the tables (docs/FLEET.md)",
                files.len()
            );
        }
        let recordings = files.iter().map(|path| input::open(path)).collect::<Result<Vec<Recording>, _>>()?;
        let cannot = || {
            let folder = std::env::temp_dir();
            format!("cannot write into the folder for temporary files `{}`: set TMPDIR", folder.display())
        };
        let folder = tempfile::tempdir().with_context(cannot)?;
        let path = folder.path().join("selection.icecore");
        let mut writer = Writer::create(File::create_new(&path).with_context(cannot)?, random_uuid()?)?;
        let merged = merge(&recordings, &mut writer);
        merged.map_err(|(number, error)| {
            anyhow::Error::new(error).context(format!("cannot merge `{}`", files[number].display()))
        })?;
        writer.finish().with_context(cannot)?;
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
