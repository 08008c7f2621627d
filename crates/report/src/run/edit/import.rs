//! `import`: makes a recording from a file of another tool.

use anyhow::Context as _;
use icecore_edit::import::{Imported, Input, NotImported, import};

use super::super::{Streams, emit};
use super::{Written, cannot, write};
use crate::base::progress::watch;
use crate::cli::{self, Global};
use crate::input;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};

/// Imports a file of another tool.
pub(in crate::run) fn run(
    options: &cli::Import,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let watch = watch(streams.progress && !global.quiet);
    let file = input::open_profile(&options.file);
    let (file, parts) = file.with_context(|| format!("cannot import `{}`", options.file.display()))?;
    let door = streams.door();
    let written = write("icecore.import/1", &options.output, &[&options.file], |writer| {
        let input = Input { file, parts, kallsyms: options.kallsyms.clone() };
        import(input, writer, &door, &*watch).map_err(|error| cannot("import", &options.file, error))
    })?;
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<Imported> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let made = &self.made;
        let with = match made.snapshots {
            0 => String::new(),
            snapshots => format!(", {} with registers and stack", count(snapshots)),
        };
        let (size, samples) = (bytes(self.file_bytes), things(made.samples, "sample"));
        page.line(&format!("wrote {} ({size}): {samples}{with}", self.shown()));
        if made.lost > 0 {
            page.styled(
                Style::Warn,
                &format!("{} has lost {}", made.recorder(), things(made.lost, "record")),
            );
        }
        if !made.not_imported.is_empty() {
            let row = |row: &NotImported| format!("{} {}", count(row.count), row.what);
            let rows: Vec<String> = made.not_imported.iter().map(row).collect();
            page.styled(Style::Dim, &format!("not imported: {}", rows.join(", ")));
        }
        for damage in &made.damage {
            page.styled(Style::Bad, &format!("at byte {}: {}", damage.offset, damage.cause));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn records_that_were_not_imported_are_listed() {
        let not_imported = vec![NotImported { what: "cgroup", count: 1 }];
        let made = Imported {
            format: "perf.data",
            samples: 2,
            snapshots: 1,
            lost: 3,
            not_imported,
            ..Imported::default()
        };
        let (schema, file) = ("icecore.import/1", "x.icecore".to_owned());
        let mut page = Page::new(false);
        Written { schema, file, file_bytes: 512, made }.text(&mut page);
        let lines = "wrote x.icecore (512 B): 2 samples, 1 with registers and stack\nperf has lost 3 records\nnot imported: 1 cgroup\n";
        assert_eq!(page.finish(), lines);
    }

    #[test]
    fn what_cannot_be_imported_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().expect("room");
        let (file, output): (PathBuf, PathBuf) = (dir.path().join("perf.data"), dir.path().join("x.icecore"));
        let refusal = || {
            let output = cli::Output { output: output.clone(), force: false };
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let (out, err) = (&mut out, &mut err);
            let mut streams = Streams::plain(out, err);
            let options = cli::Import { file: file.clone(), output, kallsyms: None };
            let error = run(&options, &Global::default(), &mut streams).expect_err("refused");
            format!("{error:#}").replace(&format!("{}/", dir.path().display()), "")
        };
        assert_eq!(refusal(), "cannot import `perf.data`: No such file or directory (os error 2)");
        std::fs::write(&file, "no profile").expect("room");
        let none =
            "cannot import `perf.data`: it is none of these: import reads perf.data, pprof, folded stacks, ";
        assert!(refusal().starts_with(none), "{}", refusal());
        assert!(!output.exists());
        std::fs::write(&output, "precious").expect("room");
        assert!(refusal().contains("--force"));
    }
}
