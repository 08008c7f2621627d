//! `missing`: which files would name more, where the report searched them, and how to get them.

mod advice;
mod count;
mod packages;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use icecore_format::records::{EmbedMode, LeftOut};
use serde::Serialize;

use icecore_analysis::quality::runtimes::{self, Runtime};
use icecore_profile::map::Map;
use icecore_profile::named::Amount;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::locate::Locator;
use icecore_profile::stacks::mounts::Elsewhere;
use icecore_symbolize::Reason;
use icecore_symbolize::image::{Evidence, Finder, Identity, Knowledge, Looked, Search, TRUSTED, hex};
use icecore_text::path::shown;

use super::{Needs, Result, Screen, Shown, View, left_out};
use crate::cli::Select;
use advice::Origin;
use count::{Lack, Lacks, count};
use icecore_text::quantity::{bytes, ratio, utc};
use packages::Packages;

/// The arguments of `missing`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report missing [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report missing demo.icecore
  icecore-report missing demo.icecore --symbols ~/binaries    what is still missing with these
  icecore-report missing demo.icecore --json | jq -r '.names[].build_id'

missing lists first the images without which frames have no name, by the share of the samples that have such a frame; \
then those that have names, and whose debug files would add source lines and inlined functions.")]
pub struct Args {
    /// Show this many images of each kind; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// List every path that was tried
    #[arg(short, long)]
    pub paths: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        Needs { tells_quality: true, ..Needs::default() }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let missing = Missing::new(shown.report, self);
        screen.emit(&missing, |page| missing.text(shown.report, page))?;
        Ok(true)
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Missing {
    schema: &'static str,
    file: String,
    filter: Option<String>,
    total_weight: u64,
    unit: String,
    /// The share of frames with a name; `None` if there are no frames.
    named_share: Option<f64>,
    /// Images whose frames have no name without them.
    names: Vec<LackingImage>,
    /// The number of all rows; `names` may have fewer.
    names_count: u64,
    /// Images whose frames have names, but whose debug files are missing.
    lines: Vec<LackingImage>,
    lines_count: u64,
    /// The share of all frames that no file would name, by reason.
    others: BTreeMap<&'static str, f64>,
    /// Interpreters of which no function is shown.
    interpreters: Vec<Silent>,
    #[serde(skip)]
    shows_paths: bool,
}

/// An image that lacks a file.
#[derive(Debug, Clone, Serialize)]
pub struct LackingImage {
    image: String,
    build_id: Option<String>,
    /// The share of the weight of samples with such a frame.
    samples_share: f64,
    samples: u64,
    /// The share of such frames among all frames.
    frames_share: f64,
    /// Why the frames have no name; `None` in rows of lines.
    reason: Option<&'static str>,
    #[serde(skip)]
    why: String,
    /// The source of the file that names most; `None` if there is none.
    source: Option<&'static str>,
    tried: Vec<Tried>,
    /// Only processes in other mount namespaces than the recorder's had mapped it, so its path is one of theirs.
    other_mounts: bool,
    /// Why the recording does not have the requested file, or not all of it.
    left_out: Option<LeftOutOf>,
    get: Vec<String>,
    /// The package of this machine's distribution that has the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
}

/// An interpreter whose functions no stack of a process shows.
#[derive(Debug, Clone, Serialize)]
pub struct Silent {
    name: &'static str,
    /// The share of the weight of samples in it.
    samples_share: f64,
    samples: u64,
    /// Which of its versions show their functions, and how.
    advice: Option<&'static str>,
}

/// A requested file that the recording lacks, or has only in part.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOutOf {
    why: String,
    needed_bytes: u64,
    free_bytes: u64,
    #[serde(skip)]
    text: String,
}

/// A path that was tried.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    source: &'static str,
    path: String,
    outcome: &'static str,
    /// What speaks for and against the file, if nothing proves that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<FileEvidence>,
    #[serde(skip)]
    came_of_it: String,
}

/// What speaks for and against a file of which nothing proves that it ran.
#[derive(Debug, Clone, Serialize)]
pub struct FileEvidence {
    /// Its inode has the recorded number; `None` if none was recorded.
    same_inode: Option<bool>,
    size_bytes: u64,
    modified_unix_ns: u64,
    /// It was last written before the recording began.
    written_before: bool,
    /// It, its names or its permissions were last changed before the recording began.
    changed_before: bool,
}

impl FileEvidence {
    fn new(evidence: Evidence, began_unix_ns: u64) -> Self {
        Self {
            same_inode: evidence.is_same_inode,
            size_bytes: evidence.len,
            modified_unix_ns: evidence.modified_unix_ns,
            written_before: evidence.modified_unix_ns < began_unix_ns,
            changed_before: evidence.changed_unix_ns < began_unix_ns,
        }
    }

    /// Describes it for people.
    fn text(&self) -> String {
        let inode = match self.same_inode {
            Some(true) => "the recorded inode",
            Some(false) => "another inode than was recorded",
            None => "no inode was recorded",
        };
        let since = match (self.written_before, self.changed_before) {
            (true, true) => "before the recording",
            (true, false) => "before the recording, linked or given other permissions since",
            (false, _) => "after the recording began",
        };
        format!("{inode}, {}, last written {} ({since})", bytes(self.size_bytes), utc(self.modified_unix_ns))
    }
}

impl Missing {
    /// Searches the files of every image whose frames lack a name or a line.
    pub fn new(report: &Report<'_>, options: &Args) -> Self {
        let search = report.loaded.search;
        let Lacks { lacks, mut others, frames } = count(&report.profile);
        let locator = Locator::new(&report.loaded.tables, &report.loaded.spaces);
        let whole = report.profile.whole();
        let embedded = locator.embedded(report.loaded.recording);
        let finder = Finder { search, embedded: Some(&embedded) };
        let tables = &report.loaded.tables;
        let files = tables.left_out.iter().filter(|row| row.why.is_of_file());
        let left_out = files.filter_map(|row| Some((locator.image(row.image)?, *row)));
        let scope = Scope {
            host: advice::host(report),
            search,
            whole,
            frames,
            left_out: left_out.collect(),
            elsewhere: Elsewhere::new(tables, &locator),
            report,
        };
        let (mut names, mut lines) = (Vec::new(), Vec::new());
        for lack in lacks {
            let path = &*report.profile.names.images[lack.image as usize].path;
            let path = path.strip_suffix(TRUSTED).unwrap_or(path);
            let images = builds(&locator.images, path, &scope.left_out);
            let looked = images.into_iter().map(|image| (image, finder.look(image.1)));
            let rows: Vec<LackingImage> = looked
                .filter(|(_, looked)| could_tell_more(looked, lack.reason))
                .map(|(image, looked)| scope.row(image, &lack, &looked))
                .collect();
            match lack.reason {
                Some(reason) if rows.is_empty() => *others.entry(reason.code()).or_default() += lack.frames,
                Some(_) => names.extend(rows),
                None => lines.extend(rows),
            }
        }
        let share = |frames_of: u64| ratio(frames_of as f64, frames as f64);
        let named_share = (frames > 0).then(|| 1.0 - share(count::unnamed_frames(&report.profile)));
        let most = if options.rows > 0 { options.rows } else { usize::MAX };
        let (names_count, lines_count) = (names.len() as u64, lines.len() as u64);
        names.truncate(most);
        lines.truncate(most);
        tell_packages(&mut names, &mut lines);
        Self {
            schema: "icecore.missing/1",
            file: shown(report.loaded.path),
            filter: report.filtered.clone(),
            total_weight: whole.weight,
            unit: report.profile.measure.unit.clone(),
            named_share,
            names,
            names_count,
            lines,
            lines_count,
            others: others.into_iter().map(|(reason, frames)| (reason, share(frames))).collect(),
            interpreters: silent(report),
            shows_paths: options.paths,
        }
    }
}

/// Lists the interpreters of which no function is shown; none if the recording is to have no names.
fn silent(report: &Report<'_>) -> Vec<Silent> {
    if report.loaded.tables.session.embed == EmbedMode::NONE {
        return Vec::new();
    }
    let whole = report.profile.whole();
    let row = |(runtime, amount): (Runtime, Amount)| Silent {
        name: runtime.name(),
        samples_share: amount.share_of(whole),
        samples: amount.samples,
        advice: runtime.advice(),
    };
    runtimes::silent(report).into_iter().map(row).collect()
}

/// Says which packages have the debug files of images that are here.
fn tell_packages(names: &mut [LackingImage], lines: &mut [LackingImage]) {
    // The build-id proves that it is the recorded image, and that the debug file is of the same build.
    let is_here = |row: &&mut LackingImage| {
        row.build_id.is_some()
            && row.tried.iter().any(|it| it.source == "path" && matches!(it.outcome, "taken" | "not_needed"))
    };
    let mut here: Vec<&mut LackingImage> = names.iter_mut().chain(lines).filter(is_here).collect();
    let packages = Packages::read(Path::new("/"), here.iter().map(|row| &*row.image));
    for row in &mut here {
        row.package = packages.package(&row.image).map(str::to_owned);
        row.get.splice(0..0, packages.command(&row.image));
    }
}

/// Groups the images by path. One build may be several images, if the recorder could not always read the file; the report
/// searches for one file. `left_out` says more about some images.
fn builds<'a>(images: &'a [Identity], path: &str, left_out: &Map<u32, LeftOut>) -> Vec<(u32, &'a Identity)> {
    let mut images: Vec<(u32, &Identity)> =
        (0..).zip(images).filter(|(_, image)| image.path == path).collect();
    images.sort_by_key(|(position, _)| !left_out.contains_key(position));
    let mut builds = BTreeSet::new();
    images.retain(|(_, image)| image.build_id.is_empty() || builds.insert(&image.build_id));
    images
}

/// Returns true if another file could name the frames or add lines: not if the report has the one with DWARF.
fn could_tell_more(looked: &Looked, reason: Option<Reason>) -> bool {
    match (&looked.files, reason) {
        (Ok(files), _) => files.knowledge() < Knowledge::Dwarf,
        // Neither anonymous memory nor the vDSO is in a file.
        (Err(_), None) => !looked.attempts.is_empty(),
        (Err(found), Some(_)) => !matches!(found, Reason::Jit | Reason::Vdso | Reason::Special),
    }
}

impl LeftOutOf {
    fn new(row: &LeftOut) -> Self {
        let LeftOut { why, needed_bytes, free_bytes, .. } = *row;
        Self { why: why.name(), needed_bytes, free_bytes, text: left_out::why(row) }
    }
}

/// The data from which all rows of a document are made.
struct Scope<'a> {
    host: Option<&'a str>,
    search: &'a Search,
    whole: Amount,
    frames: u64,
    /// By position of the image.
    left_out: Map<u32, LeftOut>,
    elsewhere: Elsewhere,
    report: &'a Report<'a>,
}

impl Scope<'_> {
    fn row(&self, (position, image): (u32, &Identity), lack: &Lack, looked: &Looked) -> LackingImage {
        let process = self.elsewhere.process(position, &self.report.loaded.tables);
        let embeds_all = self.report.loaded.tables.session.embed == EmbedMode::ALL;
        let origin = Origin { host: self.host, process, embeds_all };
        let reason = lack.reason.map(|reason| looked.files.as_ref().err().copied().unwrap_or(reason));
        let began_unix_ns = self.report.loaded.tables.session.start_unix_ns;
        let tried = looked.attempts.iter().map(|step| Tried {
            source: step.source.code(),
            path: shown(&step.path),
            outcome: step.outcome.code(),
            evidence: step.evidence.map(|evidence| FileEvidence::new(evidence, began_unix_ns)),
            came_of_it: step.outcome.to_string(),
        });
        LackingImage {
            image: clean(image.path.as_bytes()).into(),
            build_id: (!image.build_id.is_empty()).then(|| hex(&image.build_id)),
            samples_share: lack.through.share_of(self.whole),
            samples: lack.through.samples,
            frames_share: ratio(lack.frames as f64, self.frames as f64),
            reason: reason.map(Reason::code),
            why: advice::why(reason, looked),
            source: looked.files.as_ref().ok().map(|files| files.source().code()),
            tried: tried.collect(),
            other_mounts: process.is_some(),
            left_out: self.left_out.get(&position).map(LeftOutOf::new),
            package: None,
            get: advice::get(image, looked, origin, self.search),
        }
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::Omission;
    use icecore_symbolize::image::Kind;

    use super::*;

    #[test]
    fn a_build_is_listed_once_and_as_that_of_which_more_is_known() {
        let image = |path: &str, build_id: &[u8], size_bytes| Identity {
            kind: Kind::File,
            path: path.into(),
            build_id: build_id.into(),
            size_bytes,
            modified_unix_ns: 0,
            inode: None,
            has_double: false,
        };
        let images = [
            image("/a", &[1], 0),
            image("/b", &[1], 7),
            image("/a", &[1], 7),
            image("/a", &[2], 0),
            image("/a", &[], 7),
            image("/a", &[], 8),
        ];
        let of = |left_out: &[u32]| -> Vec<u32> {
            let row = |image| LeftOut { image, why: Omission::TOO_LARGE, needed_bytes: 1, free_bytes: 0 };
            let left_out = left_out.iter().map(|position| (*position, row(*position))).collect();
            builds(&images, "/a", &left_out).into_iter().map(|(position, _)| position).collect()
        };
        assert_eq!(of(&[]), [0, 3, 4, 5]);
        assert_eq!(of(&[2]), [2, 3, 4, 5]);
    }
}
