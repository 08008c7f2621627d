//! `annotate`: the source lines and the instructions of a function, with their samples.

mod choose;
mod code;
mod text;

use std::path::PathBuf;

use serde::Serialize;

use super::{Error, Result, Screen, Shown, View};
use crate::cli::folder;
use choose::{Match, matches};
use code::CodeRow;
use icecore_listing::code::CodeFinder;
use icecore_listing::lines::lines;
use icecore_listing::parts::{instruction_sums, parts};
use icecore_listing::rows::{NoCodeRow, SourceRow, Weights, missing, sources};
use icecore_listing::stacks::CountedStacks;
use icecore_profile::named::Amount;
use icecore_profile::named::source::SourceFinder;
use icecore_profile::recording::code::StoredCode;
use icecore_profile::recording::sources::StoredSources;
use icecore_profile::stacks::locate::Locator;
use icecore_symbolize::image::Finder;

/// The arguments of `annotate`.
#[derive(Debug, Clone, clap::Args)]
#[command(override_usage = "icecore-report annotate [OPTIONS] <FILE>... <FUNCTION>")]
#[command(after_help = "\
Examples:
  icecore-report annotate demo.icecore hash_find          its lines and instructions
  icecore-report annotate demo.icecore '^hash_' --image libdb.so.5
  icecore-report annotate demo.icecore parse --only source --source-dir ~/src/app
  icecore-report annotate demo.icecore parse --whole | less -R
  icecore-report annotate demo.icecore parse --json | jq '.code[].instructions[] | select(.self>0)'

FUNCTION is the last word: the exact name of a function, or a regular expression that matches one. Words before it are recordings, \
which are shown as one.

Self counts samples that hit a line or an instruction, total also those in what it calls. Code that was inlined at a line counts \
there, and is listed below it. Instructions need the image, or a recording that has them (pack --code, record --embed all); they are in GAS syntax, as objdump \
and perf write them.

A source file on this machine may be another version than was compiled. annotate says `proven` if it has the MD5 that the debug \
information states (DWARF 5 of clang and rustc), takes no file with another MD5, and says `unchecked` otherwise.")]
pub struct Args {
    /// The function: the last word that is no option.
    // Any number of files stands before it, and options may stand between them.
    #[arg(skip)]
    pub function: Option<String>,
    /// Only functions of this image: its path, or the last part of it
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Show only source or only asm
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub only: Option<Only>,
    /// Look for source files below this directory first: by the whole path, then without its leading folders; may be repeated
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub source_dir: Vec<PathBuf>,
    /// Show N lines and instructions around those with samples
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub context: usize,
    /// Show all lines and instructions of the function
    #[arg(long, conflicts_with = "context")]
    pub whole: bool,
}

/// A half of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Only {
    /// Source lines.
    Source,
    /// Instructions.
    Asm,
}

impl View for Args {
    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let annotate = Annotate::new(shown, self)?;
        let most = if screen.color { shown.width as usize } else { usize::MAX };
        screen.emit(&annotate, |page| annotate.text(shown.report, self, most, page))?;
        match annotate.matches.len() {
            1 => Ok(true),
            many => Err(Error::Refused(format!(
                "cannot choose among {many} functions that match `{}`: give the whole name of one, or --image",
                self.function.as_deref().unwrap_or_default()
            ))),
        }
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Annotate {
    schema: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    filter: Option<String>,
    /// The functions that match; if there are several, none is shown.
    matches: Vec<Match>,
    /// The samples of the function.
    function: Option<Weights>,
    /// Samples of its code that is in no image: of the kernel, or of a JIT compiler.
    elsewhere: Option<Weights>,
    sources: Vec<SourceRow>,
    code: Vec<CodeRow>,
    /// Why instructions are missing.
    no_code: Vec<NoCodeRow>,
    /// The number of hit places in further stretches of code, which are not listed.
    places_left_out: usize,
}

impl Annotate {
    fn new(shown: &Shown<'_>, options: &Args) -> Result<Self> {
        let Shown { report, located, .. } = *shown;
        let names = &report.profile.names;
        let whole = report.profile.whole();
        let found = matches(report, options)?;
        let mut document = Self {
            schema: "icecore.annotate/1",
            unit: report.profile.measure.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            filter: report.filtered.clone(),
            matches: found.iter().map(|(_, row)| row.clone()).collect(),
            function: None,
            elsewhere: None,
            sources: Vec::new(),
            code: Vec::new(),
            no_code: Vec::new(),
            places_left_out: 0,
        };
        let [(function, _)] = found[..] else { return Ok(document) };
        let loaded = report.loaded;
        let locator = Locator::new(&loaded.tables, &loaded.spaces);
        let embedded = locator.embedded(loaded.recording);
        let finder = Finder { search: loaded.search, embedded: Some(&embedded) };
        let stacks = CountedStacks::new(report, located);
        let lines = lines(&stacks, located, names, &[function]).pop().unwrap_or_default();
        let stored = StoredCode::new(loaded.recording, &loaded.tables, |id| locator.image(id));
        let instructions = CodeFinder { images: &locator.images, finder: &finder, stored: &stored };
        let code = parts(&lines.places, &instructions);
        let name = &names.functions[function as usize].name;
        if options.only != Some(Only::Asm) {
            let stored = StoredSources::new(loaded.recording, &loaded.tables, |id| locator.image(id));
            let (images, dirs) = (&locator.images[..], &options.source_dir[..]);
            let texts = SourceFinder { images, finder: &finder, stored: &stored, dirs };
            document.sources = sources(names, name, &lines, &code, &texts);
        }
        if options.only != Some(Only::Source) {
            let row = |part| {
                let sums = instruction_sums(&stacks, located, part);
                CodeRow::new(part, &sums, &locator.images, name)
            };
            document.code = code.parts.iter().map(row).collect();
            document.no_code = missing(&code, &locator.images, loaded);
            document.places_left_out = code.places_left_out;
        }
        document.function = Some(lines.sum.into());
        document.elsewhere = (lines.elsewhere.total != Amount::default()).then(|| lines.elsewhere.into());
        Ok(document)
    }
}
