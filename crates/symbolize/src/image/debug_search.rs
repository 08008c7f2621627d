//! Searches the files of one image in a fixed order, and checks that each of them belongs to it.

use std::path::{Path, PathBuf};

use super::identify::{DELETED, of_build, prove};
use super::pointers::{Altlink, altlink, debuglink, is_supplement};
use super::search::Spot;
use super::{
    Attempt, ElfFile, Evidence, FileSource, Files, FoundFile, Identity, Knowledge, Layout, Looked, Outcome,
    Search,
};
use super::{gsym_search, mini, places, split};
use crate::Reason;

/// A search in progress.
pub(super) struct DebugSearch<'s> {
    wanted: &'s Identity,
    /// The build-id of the image; empty if it is unknown so far, or the image has none.
    build_id: Vec<u8>,
    search: &'s Search,
    attempts: Vec<Attempt>,
    image: Option<FoundFile>,
    /// A debug file that can stand in for the image.
    stand_in: Option<FoundFile>,
    debug: Option<FoundFile>,
    reason: Reason,
}

impl<'s> DebugSearch<'s> {
    /// Begins a search; `embedded` is the file that the recording contains.
    pub(super) fn new(wanted: &'s Identity, search: &'s Search, embedded: Option<FoundFile>) -> Self {
        let mut begun = Self {
            wanted,
            build_id: wanted.build_id.clone(),
            search,
            attempts: Vec::new(),
            image: None,
            stand_in: None,
            debug: None,
            reason: Reason::ImageMissing,
        };
        if let Some(found) = embedded {
            let (source, path) = (found.source, PathBuf::from(&wanted.path));
            let outcome = begun.take(found);
            begun.attempts.push(Attempt::new(source, path, outcome));
        }
        begun
    }

    /// Ends the search after the recording: what is no file is found nowhere else.
    pub(super) fn nowhere(mut self, reason: Reason) -> Looked {
        self.reason = reason;
        self.finish()
    }

    /// Searches all places, until it has the image and its DWARF.
    pub(super) fn run(mut self) -> Looked {
        self.by_build_id();
        self.at_path();
        self.learn_build_id();
        self.in_debug_dirs();
        self.by_debuglink();
        self.among_downloads();
        self.finish()
    }

    fn by_build_id(&mut self) {
        let search = self.search;
        for path in search.symbols.of_build_id(&self.build_id) {
            self.try_build(FileSource::Symbols, &Spot::typed(path.clone()));
        }
        for suffix in [".debug", "", "/elf", "/debug"] {
            let Some(place) = places::by_build_id(&self.build_id, suffix) else { return };
            for dir in search.debug_dirs() {
                self.try_build(FileSource::DebugDir, &dir.below(&place));
            }
        }
    }

    /// Tries the recorded path. If the file was deleted since, another version may lie there, or the same file was put back: only
    /// a build-id can tell.
    fn at_path(&mut self) {
        let (path, is_deleted) = self.path();
        if self.is_complete() || (is_deleted && self.wanted.build_id.is_empty()) {
            return;
        }
        let wanted = self.wanted;
        let (source, spot) = self.search.spot(path);
        let is_copy = source == FileSource::Sysroot || spot.shown() != path;
        let mut outcome = self.offer(source, &spot, |file| prove(file, wanted, is_copy));
        if matches!(outcome, Some(Outcome::Unknown | Outcome::Unproven)) && self.search.trusts(path) {
            // The user knows one file of this path, and the recording may have several.
            let is_it =
                |file: &ElfFile| !wanted.has_double || Evidence::of(file, wanted).is_same_inode == Some(true);
            outcome = self.offer(FileSource::Trusted, &spot, |file| {
                if is_it(file) { Ok(file.layout()?) } else { Err(Outcome::Unproven) }
            });
        }
        self.reason = match outcome.and_then(Outcome::reason) {
            Some(Reason::BuildIdMismatch | Reason::NotAFile) if is_deleted => Reason::ImageMissing,
            Some(reason) => reason,
            None => self.reason,
        };
    }

    /// Takes the build-id from the image if the recording has none.
    fn learn_build_id(&mut self) {
        if let (true, Some(image)) = (self.build_id.is_empty(), &self.image) {
            self.build_id = image.layout.build_id.clone();
            self.by_build_id();
        }
    }

    /// Tries the paths at which debug directories keep the debug file of an image.
    fn in_debug_dirs(&mut self) {
        let (path, _) = self.path();
        let (Some(name), false) = (path.file_name(), self.build_id.is_empty()) else { return };
        let search = self.search;
        let in_dirs = search.debug_dirs().map(|dir| dir.below(path).with_suffix(".debug"));
        let own = search.spot(path).1;
        let beside = [own.beside(Path::new(".debug").join(name)), own.beside(name)];
        for spot in in_dirs.chain(beside.map(|spot| spot.with_suffix(".debug"))) {
            self.try_build(FileSource::DebugDir, &spot);
        }
    }

    /// Tries the debug file that the image names.
    fn by_debuglink(&mut self) {
        if self.is_complete() {
            return;
        }
        let Some((image, link)) =
            self.image.as_ref().and_then(|image| Some((image, debuglink(&image.file, &image.layout)?)))
        else {
            return;
        };
        let (search, folder) = (self.search, self.path().0.parent().unwrap_or(Path::new("/")));
        let own = &image.file.real_path;
        let beside =
            [search.beside(own, &link.name), search.beside(own, Path::new(".debug").join(&link.name))];
        let in_dirs = search.debug_dirs().map(|dir| dir.below(&folder.join(&link.name)));
        for spot in beside.into_iter().chain(in_dirs) {
            let build_id = self.build_id.clone();
            let proof = |file: &ElfFile| {
                let layout = file.layout().map_err(Outcome::from)?;
                if !build_id.is_empty() && !layout.build_id.is_empty() && layout.build_id != build_id {
                    return Err(Outcome::OtherBuild);
                }
                if file.checksum() == Some(link.checksum) { Ok(layout) } else { Err(Outcome::OtherChecksum) }
            };
            self.offer(FileSource::Debuglink, &spot, proof);
        }
    }

    /// Tries the downloads. An empty file means that no server has it.
    fn among_downloads(&mut self) {
        let Some(dir) = &self.search.downloads else { return };
        for what in ["debuginfo", "executable"] {
            let Some(path) = places::download(dir, &self.build_id, what) else { return };
            match std::fs::metadata(&path) {
                Ok(meta) if meta.len() == 0 && !self.is_complete() => {
                    let (source, outcome) = (FileSource::Debuginfod, Outcome::NotServed);
                    self.attempts.push(Attempt::new(source, path, outcome));
                }
                _ => self.try_build(FileSource::Debuginfod, &Spot::typed(path)),
            }
        }
    }

    /// Tries a file that must have the build-id of the image.
    fn try_build(&mut self, source: FileSource, spot: &Spot<'_>) {
        let build_id = self.build_id.clone();
        self.offer(source, spot, |file| of_build(file, &build_id));
    }

    /// Opens a file, unless the search is complete, and takes it if it passes its check and adds something.
    fn offer(
        &mut self,
        source: FileSource,
        spot: &Spot<'_>,
        proof: impl FnOnce(&ElfFile) -> Result<Layout, Outcome>,
    ) -> Option<Outcome> {
        if self.is_complete() {
            return None;
        }
        let mut evidence = None;
        let outcome = match self.search.open(spot).map(|file| (proof(&file), file)) {
            Ok((Ok(layout), file)) => self.take(FoundFile { file, layout, source }),
            Ok((Err(outcome), file)) => {
                let is_doubtful = matches!(outcome, Outcome::Unknown | Outcome::Unproven);
                evidence = is_doubtful.then(|| Evidence::of(&file, self.wanted));
                outcome
            }
            Err(reason) => reason.into(),
        };
        self.attempts.push(Attempt { evidence, ..Attempt::new(source, spot.shown(), outcome) });
        Some(outcome)
    }

    /// Uses a file as image, as its stand-in, or as debug file.
    fn take(&mut self, found: FoundFile) -> Outcome {
        if self.image.is_none() && found.layout.has_code() {
            let before = [self.debug.take(), self.stand_in.take()];
            self.debug = before.into_iter().flatten().max_by_key(FoundFile::knowledge);
            self.image = Some(found);
        } else if self.image.is_none() && self.stand_in.is_none() && found.layout.has_code_offsets() {
            self.stand_in = Some(without_unwind_table(found));
        } else if self.knowledge().is_none_or(|known| found.knowledge() > known) {
            self.debug = Some(found);
        } else {
            return Outcome::NotNeeded;
        }
        Outcome::Taken
    }

    fn knowledge(&self) -> Option<Knowledge> {
        [&self.image, &self.stand_in, &self.debug].into_iter().flatten().map(FoundFile::knowledge).max()
    }

    fn is_complete(&self) -> bool {
        self.image.is_some() && self.knowledge() == Some(Knowledge::Dwarf)
    }

    /// Returns the recorded path, and whether the file was deleted.
    fn path(&self) -> (&'s Path, bool) {
        match self.wanted.path.strip_suffix(DELETED) {
            Some(path) => (Path::new(path), true),
            None => (Path::new(&self.wanted.path), false),
        }
    }

    fn finish(mut self) -> Looked {
        let Some(image) = self.image.take().or_else(|| self.stand_in.take()) else {
            let useless = self.attempts.iter_mut().filter(|step| step.outcome == Outcome::Taken);
            useless.for_each(|step| step.outcome = Outcome::NoOffsets);
            let gsym = self.search.symbols.gsym_of_build_id(&self.build_id).iter().cloned();
            let (source, outcome) = (FileSource::Symbols, Outcome::NoOffsets);
            self.attempts.extend(gsym.map(|path| Attempt::new(source, path, outcome)));
            return Looked { files: Err(self.reason), attempts: self.attempts, missing_alt: None };
        };
        let debug = self.debug.take().filter(|debug| debug.knowledge() > image.knowledge());
        let mut files = Files { debug, ..image.alone() };
        if files.knowledge() == Knowledge::Exports {
            files.mini = mini::unpack(&files.image.file, &files.image.layout);
        }
        let wanted = files.dwarf().and_then(|dwarf| altlink(&dwarf.file, &dwarf.layout));
        if let (Some(link), Some(dwarf)) = (&wanted, files.dwarf()) {
            files.alt = self.supplement(dwarf, link);
        }
        let path = self.path().0;
        files.dwp = files.dwarf().and_then(|dwarf| split::package(dwarf, path, self.search));
        if files.dwarf().is_none() {
            files.gsym = gsym_search::find(&files.image, path, self.search, &mut self.attempts);
        }
        let missing_alt = wanted.filter(|_| files.alt.is_none());
        Looked { files: Ok(files), attempts: self.attempts, missing_alt }
    }

    /// Finds the supplement of dwz.
    fn supplement(&mut self, of: &FoundFile, link: &Altlink) -> Option<FoundFile> {
        let search = self.search;
        let here = |path: &Path| Spot::typed(path.to_owned());
        let in_tree = search.symbols.of_build_id(&link.build_id).iter();
        let in_tree = in_tree.map(|path| (FileSource::Symbols, here(path)));
        let by_id = places::by_build_id(&link.build_id, ".debug").into_iter();
        let by_id = by_id.flat_map(|place| search.debug_dirs().map(move |dir| dir.below(&place)));
        let named = if link.path.is_absolute() {
            search.spot(&link.path).1
        } else {
            search.beside(&of.file.real_path, &link.path)
        };
        let name = Path::new(".dwz").join(link.path.file_name().unwrap_or_default());
        let in_dwz = search.debug_dirs().map(move |dir| dir.below(&name));
        let installed = by_id.chain([named]).chain(in_dwz).map(|spot| (FileSource::DebugDir, spot));
        let download = search.downloads.as_deref();
        let download = download.and_then(|dir| places::download(dir, &link.build_id, "debuginfo"));
        let download = download.map(|path| (FileSource::Debuginfod, Spot::typed(path)));
        for (source, spot) in in_tree.chain(installed).chain(download) {
            let opened = search.open(&spot).map_err(Outcome::from);
            let opened = opened.and_then(|file| Ok((supplement(&file, link)?, file)));
            let outcome = opened.as_ref().map_or_else(|outcome| *outcome, |_| Outcome::Taken);
            self.attempts.push(Attempt::new(source, spot.shown(), outcome));
            if let Ok((layout, file)) = opened {
                return Some(FoundFile { file, layout, source });
            }
        }
        None
    }
}

/// Reads the headers of a file if it is the supplement that the link means.
fn supplement(file: &ElfFile, link: &Altlink) -> Result<Layout, Outcome> {
    let layout = file.layout()?;
    if is_supplement(file, &layout, link) { Ok(layout) } else { Err(Outcome::OtherBuild) }
}

/// Drops the place of the unwind tables in a debug file that has no bytes of them: the program headers may still name that place.
fn without_unwind_table(mut debug: FoundFile) -> FoundFile {
    if debug.layout.section(".eh_frame_hdr").is_some_and(|section| section.is_nobits) {
        debug.layout.unwind_table = None;
    }
    debug
}

#[cfg(test)]
mod tests;
