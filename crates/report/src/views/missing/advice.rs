//! Explains why a file is missing, and how to get it.

use std::path::Path;

use icecore_profile::named::pipeline::Report;
use icecore_symbolize::Reason;
use icecore_symbolize::image::{Identity, Knowledge, Looked, Outcome, Search, hex};
use icecore_text::path::quoted;

/// The text that the kernel appends to the path of a mapping whose file was deleted.
const DELETED: &str = " (deleted)";

/// Returns the reason as text.
pub(super) fn why(reason: Option<Reason>, looked: &Looked) -> String {
    let has_debug_file = looked.attempts.iter().any(|step| step.outcome == Outcome::NoOffsets);
    match reason {
        Some(Reason::ImageMissing) if has_debug_file => {
            "file is gone; its debug file alone does not say where the code was".to_owned()
        }
        Some(Reason::ImageDenied) => {
            "file may not be opened, not even by root on FUSE without allow_other or NFS with root_squash: read the recording as the \
             user who may, or let that user copy the file"
                .to_owned()
        }
        Some(Reason::NoSymbol) => "it is stripped, and there is no debug file".to_owned(),
        Some(reason) => reason.to_string(),
        None => "no debug file".to_owned(),
    }
}

/// Returns the host of the recording, if there is only one, and it has a name.
pub(super) fn host<'r>(report: &'r Report<'_>) -> Option<&'r str> {
    match report.loaded.tables.parts.hosts() {
        [host] if !host.is_empty() => Some(host),
        _ => None,
    }
}

/// The origin of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    /// `None` if it is unknown.
    pub(super) host: Option<&'a str>,
    /// A process whose mount namespace its path belongs to, if the path is not one of the host itself.
    pub(super) process: Option<u32>,
    /// The user wanted all files in the recording; another text explains why this one is missing.
    pub(super) embeds_all: bool,
}

/// Returns the command that copies an image from the recorded host. Without a build-id only path, size and modification time
/// identify the image.
fn copy(image: &Identity, origin: Origin<'_>) -> String {
    let root = origin.process.map(|process| format!("/proc/{process}/root")).unwrap_or_default();
    let from = format!("{}:{root}{}", origin.host.unwrap_or("HOST"), image.path);
    let from = quoted(Path::new(&from));
    let while_it_runs = origin.process.map(|process| format!(" (while process {process} runs)"));
    let while_it_runs = while_it_runs.unwrap_or_default();
    if !image.build_id.is_empty() {
        return format!("scp {from} symbols/{while_it_runs}");
    }
    let folder = Path::new(&image.path).parent().unwrap_or(Path::new("/"));
    let folder = Path::new("root").join(folder.strip_prefix("/").unwrap_or(folder));
    let folder = quoted(&folder);
    // Without a size nothing proves the copy.
    let trust = match image.size_bytes {
        0 => format!(" --trust {}", quoted(Path::new(&image.path))),
        _ => String::new(),
    };
    format!("mkdir -p {folder} && scp -p {from} {folder}{while_it_runs}, then --sysroot root{trust}")
}

/// Lists commands that may get the file.
pub(super) fn get(image: &Identity, looked: &Looked, origin: Origin<'_>, search: &Search) -> Vec<String> {
    let mut commands = Vec::new();
    let is_here = looked.files.is_ok();
    if !image.build_id.is_empty() && search.downloads.is_none() {
        let lacks_dwarf = looked.files.as_ref().map_or(true, |f| f.knowledge() < Knowledge::Dwarf);
        let wanted = [("executable", !is_here), ("debuginfo", lacks_dwarf)];
        let wanted = wanted.iter().filter(|(_, is_wanted)| *is_wanted);
        commands.extend(wanted.map(|(what, _)| format!("debuginfod-find {what} {}", hex(&image.build_id))));
    }
    let is_unknown = looked.attempts.iter().any(|step| step.outcome == Outcome::Unknown);
    if !is_here && is_unknown {
        // A copy would be as unknown as the file that is here.
        let path = quoted(Path::new(&image.path));
        commands.push(format!("--trust {path}, if you know that the file there is the one that ran"));
    } else if !is_here && image.path.starts_with('/') {
        match image.path.strip_suffix(DELETED) {
            None => commands.push(copy(image, origin)),
            Some(_) if origin.embeds_all => {}
            Some(_) => {
                commands.push("record again with --embed all: the file was deleted while it ran".to_owned());
            }
        }
    }
    commands
}
