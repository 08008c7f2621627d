//! Names the kernel's functions, if this machine runs the recorded kernel.
//!
//! perf names kernel code when it reports, from `/proc/kallsyms` of this machine; a recording contains the names. They count if
//! host and release are those in the file, perf's reference symbol of the kernel is at the same address here, and the build-id is
//! the same. Then the kernel's own functions are at their recorded addresses, even after a reboot. Modules move at each boot: they
//! are named only if the file was written since the last boot, and at least as long after it as the time of its last record.
//! Without a build-id the same condition applies to the kernel itself, and a note says so.
//!
//! A copy of `/proc/kallsyms` that the user names (`--kallsyms`), as `perf archive` packs one, counts if perf's reference symbol lies in it
//! where it lay: another kernel, or the same one after another boot, has it elsewhere.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use icecore_elf::Avma;
use icecore_format::records::KernelSymbol;

use super::here::booted_unix_ns;
use super::perf_data::{Features, Kernel};
use crate::Error;
use icecore_symbolize::image::hex;

/// The most kernel addresses; code at further addresses stays unnamed.
const MAX_ADDRESSES: usize = 512 << 10;
/// The largest copy of `/proc/kallsyms`, bytes.
const MAX_COPY_BYTES: u64 = 256 << 20;
/// The assumed length of the last function, bytes.
const LAST_LEN: u64 = 4096;
/// The largest difference between the times of files and of samples.
const CLOCKS_APART_NS: u64 = 2_000_000_000;

/// When perf recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The time of the last record, ns on the clock of the records: since boot, unless perf used another clock.
    pub(super) last_ns: u64,
    /// The last change of the perf.data file, ns since 1970; 0 if unknown.
    pub(super) changed_unix_ns: u64,
}

/// Facts about this machine.
#[derive(Debug, Clone, Default)]
struct Here {
    host: String,
    release: String,
    build_id: Vec<u8>,
    kallsyms: Vec<u8>,
    /// When the machine booted, ns since 1970.
    started_unix_ns: u64,
}

/// Functions of the recorded kernel, ordered by address.
#[derive(Debug, Default)]
pub(super) struct KernelFunctions {
    rows: Vec<KernelFunction>,
    /// A note for readers: the source of the names, or why there are none.
    pub(super) note: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelFunction {
    start: Avma,
    end: Avma,
    name: Vec<u8>,
    /// The module of the function; empty for the kernel itself.
    module: Vec<u8>,
}

impl KernelFunctions {
    /// Takes the functions of this machine's kernel, if it is the recorded one; or those of a copy of `/proc/kallsyms`.
    ///
    /// # Errors
    /// If the copy cannot be read, or is not of the recorded kernel as it was in memory.
    pub(super) fn of(
        features: &Features,
        kernel: Option<&Kernel>,
        times: Times,
        copy: Option<&Path>,
    ) -> Result<Self, Error> {
        match copy {
            None => Ok(Self::by(&Here::read(features), features, kernel, times)),
            Some(path) => Self::by_copy(path, features, kernel),
        }
    }

    /// Takes the functions of a copy: that the kernel's reference symbol lies where it lay shows that it is of this kernel and boot.
    fn by_copy(path: &Path, features: &Features, kernel: Option<&Kernel>) -> Result<Self, Error> {
        let kernel = kernel.ok_or_else(|| {
            Error::input("perf does not tell where the kernel lay: nothing shows whether --kallsyms is of it")
        })?;
        let path = match path.is_dir() {
            true => in_archive(path, build_id_of(kernel, features))?,
            false => path.to_owned(),
        };
        let text = read_copy(&path)
            .map_err(|error| Error::Input(format!("--kallsyms `{}`: {error}", path.display())))?;
        let rows = parsed(&text);
        let wrong = |why: String| Error::Input(format!("--kallsyms `{}`: {why}", path.display()));
        if rows.is_empty() {
            return Err(wrong("it has no addresses: copy /proc/kallsyms as root".to_owned()));
        }
        if !kernel.is_in(&text) {
            let (symbol, Avma(address)) = (String::from_utf8_lossy(&kernel.symbol), kernel.address);
            return Err(wrong(format!(
                "it is of another kernel or of another boot: in it, `{symbol}` does not lie at {address:#x}"
            )));
        }
        Ok(Self::new(
            rows,
            true,
            &format!(
                "functions of the kernel are named by `{}` (--kallsyms), in which its reference symbol lies where it lay",
                path.display()
            ),
        ))
    }

    fn by(here: &Here, features: &Features, kernel: Option<&Kernel>, times: Times) -> Self {
        let rows = parsed(&here.kallsyms);
        match is_it(here, features, kernel, times, rows.is_empty()) {
            Ok((is_this_boot, how)) => {
                let note = format!(
                    "functions of the kernel are named by /proc/kallsyms of the importing machine: {how}"
                );
                Self::new(rows, is_this_boot, &note)
            }
            Err(why) => {
                let note = format!("functions of the kernel have no names: {why}");
                Self { rows: Vec::new(), note }
            }
        }
    }

    fn new(rows: Vec<KallsymsLine<'_>>, is_this_boot: bool, note: &str) -> Self {
        let end = |at: usize, start: Avma| {
            rows.get(at + 1).map_or(Avma(start.0.saturating_add(LAST_LEN)), |next| next.0)
        };
        let function = |(at, (start, _, name, module)): (usize, &KallsymsLine<'_>)| KernelFunction {
            start: *start,
            end: end(at, *start),
            name: name.to_vec(),
            module: module.to_vec(),
        };
        let is_there = |function: &KernelFunction| function.module.is_empty() || is_this_boot;
        // BPF programs come and go, and perf records them.
        let is_code = |function: &KernelFunction| function.module != b"bpf" && function.start < function.end;
        let rows = rows.iter().enumerate().map(function).filter(|it| is_there(it) && is_code(it)).collect();
        Self { rows, note: note.to_owned() }
    }

    fn find(&self, address: Avma) -> Option<usize> {
        let at = self.rows.partition_point(|function| function.start <= address).checked_sub(1)?;
        (address < self.rows[at].end).then_some(at)
    }

    /// Finds the functions around addresses, except for those in `told`; `string` assigns ids to texts.
    pub(super) fn rows(
        &self,
        addresses: &KernelHits,
        told: &[KernelSymbol],
        mut string: impl FnMut(&[u8]) -> u32,
    ) -> Vec<KernelSymbol> {
        let is_told = |function: &KernelFunction| {
            let at = told.partition_point(|symbol| symbol.start < function.end.0);
            at.checked_sub(1).is_some_and(|at| told[at].end > function.start.0)
        };
        let hits: BTreeSet<usize> = addresses.0.iter().filter_map(|address| self.find(*address)).collect();
        let functions = hits.into_iter().map(|at| &self.rows[at]).filter(|function| !is_told(function));
        let row = |KernelFunction { start, end, name, module }: &KernelFunction| {
            let module = if module.is_empty() { 0 } else { string(module) };
            KernelSymbol { start: start.0, end: end.0, name: string(name), module }
        };
        functions.map(row).collect()
    }
}

/// Addresses of kernel code on stacks.
#[derive(Debug, Default)]
pub(super) struct KernelHits(BTreeSet<Avma>);

impl KernelHits {
    /// Notes a stack, leaf first.
    pub(super) fn note(&mut self, leaf_first: &[Avma]) {
        for (at, address) in leaf_first.iter().enumerate() {
            if self.0.len() < MAX_ADDRESSES {
                // A return address may lie after the end of the calling function.
                self.0.insert(Avma(address.0.saturating_sub(u64::from(at > 0))));
            }
        }
    }
}

/// Checks whether this machine runs the recorded kernel. Returns whether it has run without a reboot since, and the evidence.
///
/// # Errors
/// Why it does not, or why nobody knows, for people.
fn is_it(
    here: &Here,
    features: &Features,
    kernel: Option<&Kernel>,
    times: Times,
    is_hidden: bool,
) -> Result<(bool, &'static str), &'static str> {
    let Some(kernel) = kernel else { return Err("perf does not tell where the kernel lay") };
    if features.host.is_empty() || features.kernel_release.is_empty() {
        return Err("perf does not tell the machine and its kernel");
    }
    if (&features.host, &features.kernel_release) != (&here.host, &here.release) {
        return Err("another machine or another kernel was recorded: import the file where it was recorded");
    }
    if is_hidden {
        return Err("/proc/kallsyms hides addresses: import as root, or with kernel.kptr_restrict=0");
    }
    if !kernel.is_in(&here.kallsyms) {
        return Err("the machine was started anew: its kernel lies elsewhere now");
    }
    let build_id = build_id_of(kernel, features);
    if !build_id.is_empty() && build_id != here.build_id {
        return Err("another build of the kernel was recorded");
    }
    let written = times.changed_unix_ns.saturating_add(CLOCKS_APART_NS);
    let is_this_boot =
        here.started_unix_ns > 0 && written >= here.started_unix_ns.saturating_add(times.last_ns);
    match (build_id.is_empty(), is_this_boot) {
        (false, true) => {
            Ok((true, "the build-id and the place of the kernel are the same, and it has run since"))
        }
        (false, false) => {
            Ok((false, "the build-id and the place of the kernel are the same; its modules are not named"))
        }
        (true, true) => Ok((
            true,
            "its release and its place are the same, and it has run since; its build-id is not told",
        )),
        (true, false) => {
            Err("the machine was started anew, and perf does not tell the build-id of the kernel")
        }
    }
}

impl Kernel {
    /// Returns true if its reference symbol lies where it lay. Rows do not suffice: several symbols may have this address.
    fn is_in(&self, kallsyms: &[u8]) -> bool {
        let mut lines = kallsyms.split(|byte| *byte == b'\n').filter_map(line);
        lines.any(|(start, _, name, _)| name == self.symbol && start == self.address)
    }
}

fn build_id_of<'a>(kernel: &'a Kernel, features: &'a Features) -> &'a [u8] {
    if kernel.build_id.is_empty() { &features.kernel_build_id } else { &kernel.build_id }
}

/// Returns the path of the copy in what `perf archive` packed, or in `~/.debug`.
fn in_archive(folder: &Path, build_id: &[u8]) -> Result<PathBuf, Error> {
    if build_id.is_empty() {
        return Err(Error::input(
            "perf does not tell the build-id of the kernel: give --kallsyms the file itself",
        ));
    }
    Ok(folder.join("[kernel.kallsyms]").join(hex(build_id)).join("kallsyms"))
}

fn read_copy(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_COPY_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_COPY_BYTES {
        return Err(io::Error::other("it is no list of a kernel's symbols: it is larger than 256 MiB"));
    }
    Ok(text)
}

impl Here {
    /// Reads this machine; its kernel only if host and release are the recorded ones.
    fn read(features: &Features) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
        let [host, release] = ["hostname", "osrelease"].map(|name| text(&format!("/proc/sys/kernel/{name}")));
        if (&features.host, &features.kernel_release) != (&host, &release) {
            return Self { host, release, ..Self::default() };
        }
        Self {
            host,
            release,
            build_id: fs::read("/sys/kernel/notes")
                .ok()
                .and_then(|notes| build_id(&notes))
                .unwrap_or_default(),
            kallsyms: fs::read("/proc/kallsyms").unwrap_or_default(),
            started_unix_ns: booted_unix_ns().unwrap_or(0),
        }
    }
}

/// Finds the build-id among ELF notes.
///
/// # Source   gABI, note sections: lengths of name and contents, type, both padded to 4 bytes; `NT_GNU_BUILD_ID` is 3
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word = |at: usize| head[at..at + 4].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        let (name_len, len, kind) = (word(0) as usize, word(4) as usize, word(8));
        let (name, rest) = rest.split_at_checked(name_len.checked_next_multiple_of(4)?)?;
        let (contents, rest) = rest.split_at_checked(len.checked_next_multiple_of(4)?.min(rest.len()))?;
        if kind == 3 && name == b"GNU\0" {
            return contents.get(..len).map(<[u8]>::to_vec);
        }
        notes = rest;
    }
}

/// A parsed line: address, rank among names of one address, name, module.
type KallsymsLine<'a> = (Avma, (bool, usize), &'a [u8], &'a [u8]);

/// Parses `address type name [module]`. Of several names at one address the global one is kept, else the one with fewer leading
/// underscores, as the recorder does. Hidden addresses are 0, and are skipped.
///
/// # Source   proc(5) `/proc/kallsyms`; types are those of nm(1)
fn parsed(text: &[u8]) -> Vec<KallsymsLine<'_>> {
    let mut rows: Vec<KallsymsLine<'_>> = text.split(|byte| *byte == b'\n').filter_map(line).collect();
    rows.sort_by_key(|(start, rank, ..)| (*start, *rank));
    rows.dedup_by_key(|(start, ..)| *start);
    rows
}

fn line(text: &[u8]) -> Option<KallsymsLine<'_>> {
    let mut words = text.split(|byte| *byte == b' ' || *byte == b'\t').filter(|word| !word.is_empty());
    let start = Avma(u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?);
    let (kind, name) = (words.next()?, words.next()?);
    let module =
        words.next().and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    let is_function = matches!(kind, b"t" | b"T" | b"w" | b"W");
    (start.0 != 0 && is_function).then_some((
        start,
        (!kind[0].is_ascii_uppercase(), underscores),
        name,
        module,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] =
        b"ffff0000 T _stext\nffff0000 T _text\nffff0000 t alias\nffff0100 T vfs_read\nffff0200 t late\n\
        ffff9000 t ext4_read\t[ext4]\nffff9100 t bpf_prog_1\t[bpf]\n";
    const HOUR: u64 = 3_600_000_000_000;

    fn here() -> Here {
        Here {
            host: "h".into(),
            release: "6.1".into(),
            build_id: vec![7; 20],
            kallsyms: KALLSYMS.to_vec(),
            started_unix_ns: 10 * HOUR,
        }
    }

    fn kernel() -> Kernel {
        Kernel { symbol: b"_text".to_vec(), address: Avma(0xffff_0000), build_id: vec![7; 20] }
    }

    /// Returns the names of all functions that are hit, and the note.
    fn named(here: &Here, kernel: &Kernel, changed_unix_ns: u64) -> (Vec<String>, String) {
        let features = Features { host: "h".into(), kernel_release: "6.1".into(), ..Features::default() };
        let times = Times { last_ns: HOUR, changed_unix_ns };
        let functions = KernelFunctions::by(here, &features, Some(kernel), times);
        let mut hit = KernelHits::default();
        hit.note(&[0xffff_0110, 0xffff_0200, 0xffff_0050, 0xffff_9001, 0xffff_9101, 5].map(Avma));
        let mut texts = Vec::new();
        let rows = functions.rows(&hit, &[], |text| {
            texts.push(String::from_utf8_lossy(text).into_owned());
            texts.len() as u32
        });
        let names = rows.iter().map(|row| texts[row.name as usize - 1].clone());
        (names.collect(), functions.note)
    }

    #[test]
    fn the_kernel_that_ran_names_its_functions_and_modules() {
        let (names, note) = named(&here(), &kernel(), 11 * HOUR);
        assert_eq!(names, ["_stext", "vfs_read", "ext4_read"]);
        assert!(note.contains("it has run since"), "{note}");
        let untold = Kernel { build_id: vec![], ..kernel() };
        assert!(named(&here(), &untold, 11 * HOUR).1.contains("its build-id is not told"));
    }

    #[test]
    fn the_same_kernel_in_another_boot_names_no_modules_and_another_kernel_nothing() {
        let earlier = 9 * HOUR;
        assert_eq!(named(&here(), &kernel(), earlier).0, ["_stext", "vfs_read"]);
        let untold = Kernel { build_id: vec![], ..kernel() };
        let moved = Kernel { address: Avma(0xfff0_0000), ..kernel() };
        let rebuilt = Kernel { build_id: vec![8; 20], ..kernel() };
        for (kernel, changed) in [(untold, earlier), (moved, 11 * HOUR), (rebuilt, 11 * HOUR)] {
            let (names, note) = named(&here(), &kernel, changed);
            assert!(names.is_empty() && note.contains("have no names: "), "{kernel:?}: {note}");
        }
        for other in [
            Here { host: "other".into(), ..here() },
            Here { release: "6.2".into(), ..here() },
            Here { kallsyms: b"0000000000000000 T _text\n".to_vec(), ..here() },
        ] {
            assert_eq!(named(&other, &kernel(), 11 * HOUR).0, [""; 0], "{other:?}");
        }
    }

    #[test]
    fn a_copy_of_the_kernels_symbols_counts_if_the_kernel_lay_there() {
        let dir = tempfile::tempdir().expect("room");
        let file = dir.path().join("kallsyms");
        let packed = dir.path().join("[kernel.kallsyms]").join("07".repeat(20));
        fs::create_dir_all(&packed).expect("room");
        fs::write(&file, KALLSYMS).expect("room");
        fs::write(packed.join("kallsyms"), KALLSYMS).expect("room");
        let features = Features::default();
        let of = |kernel: Option<&Kernel>, path: &Path| {
            let times = Times { last_ns: HOUR, changed_unix_ns: 0 };
            KernelFunctions::of(&features, kernel, times, Some(path)).map_err(|error| error.to_string())
        };
        for path in [&*file, dir.path()] {
            let functions = of(Some(&kernel()), path).expect("it is the one");
            assert_eq!(functions.rows.len(), 4, "modules are named, too");
            assert!(functions.note.contains("(--kallsyms)"), "{}", functions.note);
        }
        let refusal = |kernel: Option<&Kernel>, path: &Path| of(kernel, path).expect_err("refused");
        let moved = Kernel { address: Avma(0xfff0_0000), ..kernel() };
        let error = refusal(Some(&moved), &file);
        assert!(error.contains("another boot: in it, `_text` does not lie at 0xfff00000"), "{error}");
        assert!(refusal(None, &file).contains("does not tell where the kernel lay"));
        let untold = Kernel { build_id: vec![], ..kernel() };
        assert!(refusal(Some(&untold), dir.path()).contains("give --kallsyms the file itself"));
        let error = refusal(Some(&Kernel { build_id: vec![8; 20], ..kernel() }), dir.path());
        assert!(error.contains("kallsyms`: No such file"), "{error}");
        fs::write(&file, "0000000000000000 T _text\n").expect("room");
        assert!(refusal(Some(&kernel()), &file).contains("as root"));
    }

    #[test]
    fn what_perf_tells_is_not_told_twice() {
        let functions = KernelFunctions::by(
            &here(),
            &Features { host: "h".into(), kernel_release: "6.1".into(), ..Features::default() },
            Some(&kernel()),
            Times { last_ns: HOUR, changed_unix_ns: 11 * HOUR },
        );
        let mut hit = KernelHits::default();
        hit.note(&[Avma(0xffff_9001)]);
        let told = KernelSymbol { start: 0xffff_9000, end: 0xffff_9010, name: 1, module: 0 };
        assert_eq!(functions.rows(&hit, &[told], |_| 1), []);
    }

    #[test]
    fn the_build_id_is_found_among_notes() {
        let note = |kind: u32, name: &[u8], contents: &[u8]| {
            let mut bytes =
                [(name.len() as u32).to_ne_bytes(), (contents.len() as u32).to_ne_bytes()].concat();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend_from_slice(name);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes.extend_from_slice(contents);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let notes = [note(1, b"Xen\0", &[9; 6]), note(3, b"GNU\0", &[5; 20])].concat();
        assert_eq!(build_id(&notes), Some(vec![5; 20]));
        assert_eq!(build_id(&notes[..40]), None);
        assert_eq!(build_id(&[0xff; 40]), None);
    }
}
