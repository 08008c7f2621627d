//! Writes comma-separated values, one line for each row and recording.

use std::io::{self, Write};

use super::Trend;
use icecore_text::csv::quoted;

impl Trend {
    /// Writes a heading and the shares.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn csv(&self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        writeln!(out, "position,file,start_unix_ns,label,name,image,share,low,high")?;
        for row in &self.rows {
            let (name, image) = (quoted(&row.name), quoted(row.image.as_deref().unwrap_or_default()));
            for (position, (recording, point)) in self.recordings.iter().zip(&row.points).enumerate() {
                let (file, label) =
                    (quoted(&recording.file), quoted(recording.label.as_deref().unwrap_or_default()));
                let start = recording.start_unix_ns;
                writeln!(
                    out,
                    "{position},{file},{start},{label},{name},{image},{},{},{}",
                    point.share, point.low, point.high
                )?;
            }
        }
        out.flush()
    }
}
