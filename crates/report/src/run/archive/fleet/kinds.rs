//! Kinds of quality: what the table `recording` knows of a session, and what images lack.

use icecore_analysis::compare::Point;
use icecore_archive::schema::{RecordingRow, Shares};
use serde::Serialize;

use super::sums::{Lack, Row, Sums};

/// A kind of quality of a session.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The more the better.
    is_good: bool,
    share: fn(&Shares) -> Option<f64>,
}

/// All kinds.
pub(super) const KINDS: [Kind; 6] = [
    Kind { name: "rooted", is_good: true, share: |it| it.rooted },
    Kind { name: "named", is_good: true, share: |it| it.named },
    Kind { name: "lost", is_good: false, share: |it| it.lost },
    Kind { name: "cut", is_good: false, share: |it| it.cut },
    Kind { name: "guessed", is_good: false, share: |it| it.guessed },
    Kind { name: "impossible", is_good: false, share: |it| it.impossible },
];

/// What a row is of.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Of {
    /// One of [`KINDS`]; `ends`: user stacks end in the image without a proven start; `unnamed`: frames in it have no name.
    pub(super) quality: &'static str,
    pub(super) image: Option<String>,
    pub(super) build_id: Option<String>,
    #[serde(skip)]
    is_good: bool,
}

impl Kind {
    pub(super) fn of(&self) -> Of {
        Of { quality: self.name, image: None, build_id: None, is_good: self.is_good }
    }

    /// What is bad in sessions, as a share of all; `None` if none of them knows it.
    pub(super) fn bad<'a>(&self, sessions: impl IntoIterator<Item = &'a RecordingRow>) -> Option<Point> {
        let (mut bad, mut all) = (0.0, 0.0);
        for row in sessions {
            let Some(share) = (self.share)(&row.shares) else { continue };
            let samples = row.samples as f64;
            bad += samples * if self.is_good { 1.0 - share } else { share };
            all += samples;
        }
        (all > 0.0).then(|| Point::of_counts(bad / all, bad.round() as u64, all))
    }
}

impl Of {
    /// What an image lacks.
    pub(super) fn image(lack: Lack, row: &Row) -> Self {
        let quality = if lack == Lack::Callers { "ends" } else { "unnamed" };
        let (image, build_id) = (Some(row.name.clone()), row.key.build_id.clone());
        Self { quality, image, build_id, is_good: false }
    }

    /// A share as it is shown, of what is bad.
    pub(super) fn shown(&self, bad: f64) -> f64 {
        if self.is_good { 1.0 - bad } else { bad }
    }

    /// What it is, in words.
    pub(super) fn called(&self) -> String {
        let image = icecore_profile::named::names::short(self.image.as_deref().unwrap_or_default());
        let build = self.build_id.as_ref().map(|id| format!(" ({})", &id[..id.len().min(12)]));
        let build = build.unwrap_or_default();
        match self.quality {
            "ends" => format!("stacks end in {image}{build}"),
            "unnamed" => format!("no name in {image}{build}"),
            name => name.to_owned(),
        }
    }
}

/// All rows of images.
pub(super) fn of_images(lack: Lack, sums: &Sums) -> Vec<(Of, Vec<Point>)> {
    sums.rows.iter().map(|row| Of::image(lack, row)).zip(sums.points()).collect()
}
