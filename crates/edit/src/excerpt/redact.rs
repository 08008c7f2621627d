//! Replaces texts by pseudonyms.
//!
//! A pseudonym is a hash of the text, so that equal texts have equal pseudonyms in every recording, and comparisons work. Anyone
//! who guesses a text can check the guess, unless a key goes into the hash.

use std::borrow::Cow;
use std::collections::BTreeMap;

use icecore_format::records::{NameTable, Owner, SessionV1};
use ring::hmac::{HMAC_SHA256, Key, sign};

use super::rows::SessionRows;

/// The length of a pseudonym: among a million texts, two share one in one of 560 recordings.
const DIGITS: usize = 12;

/// The texts that pseudonyms can replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redact {
    /// Arguments of the command that was recorded, and of the recorder.
    Args,
    /// Paths of images, cgroups and source files.
    Paths,
    /// Names of threads and processes.
    Comm,
    /// Values of labels.
    Labels,
    /// The name of the host.
    Host,
}

impl Redact {
    /// Returns the name in documents and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Paths => "paths",
            Self::Comm => "comm",
            Self::Labels => "labels",
            Self::Host => "host",
        }
    }
}

/// What is replaced, and how.
#[derive(Debug)]
pub struct Redaction {
    pub(crate) what: Vec<Redact>,
    key: Key,
}

impl Redaction {
    /// Replaces texts by pseudonyms that depend on a key, which may be empty.
    pub fn new(what: &[Redact], key: &[u8]) -> Self {
        Self { what: what.to_vec(), key: Key::new(HMAC_SHA256, key) }
    }

    fn replaces(&self, what: Redact) -> bool {
        self.what.contains(&what)
    }

    /// Replaces texts of a session. Notes may hold any text, so they are removed.
    pub(super) fn session(&self, session: &mut SessionV1) {
        if self.what.is_empty() {
            return;
        }
        // All fields are listed, so that nobody adds one without deciding whether it holds text.
        let SessionV1 {
            command_line,
            host,
            labels,
            notes,
            target_cgroups,
            // Of these the report decides, or they say nothing of what runs there.
            recorder: _,
            kernel_release: _,
            kernel_version: _,
            arch: _,
            boot_id: _,
            kernel_build_id: _,
            start_ns: _,
            start_unix_ns: _,
            mount_ns: _,
            ring_bytes: _,
            cpus: _,
            events: _,
            target_ids: _,
            missing_features: _,
            page_bytes: _,
            max_depth: _,
            stack_bytes: _,
            maker: _,
            target: _,
            cpu_scope: _,
            unwind: _,
            embed: _,
            user: _,
            kernel: _,
            idle: _,
        } = session;
        notes.clear();
        if self.replaces(Redact::Args) {
            command_line.iter_mut().skip(1).for_each(|arg| *arg = self.pseudonym("arg", arg.as_bytes()));
        }
        if self.replaces(Redact::Labels) {
            labels.iter_mut().for_each(|label| label.value = self.pseudonym("label", label.value.as_bytes()));
        }
        if self.replaces(Redact::Host) && !host.is_empty() {
            *host = self.pseudonym("host", host.as_bytes());
        }
        if self.replaces(Redact::Paths) {
            target_cgroups.iter_mut().for_each(|path| *path = self.path(path.as_bytes()));
            // The recorder's path, the recorded command, and the output path.
            command_line.iter_mut().for_each(|arg| *arg = self.within(arg));
        }
    }

    /// Replaces texts of rows. Returns how many blocks were skipped, because they reveal texts: pieces of files, source files, and code
    /// with the names of its source files.
    pub(super) fn rows(&self, rows: &mut SessionRows) -> u64 {
        // All fields are listed, so that nobody adds one without deciding whether it holds text.
        let SessionRows {
            strings,
            tasks,
            images,
            lifecycle,
            cgroups,
            jit,
            names,
            image_parts,
            sources,
            code,
            counters,
            fields,
            // Names of functions stay, and so do bytes of code; see `session` for its texts.
            kernel_symbols: _,
            symbols: _,
            session: _,
            rates: _,
            trigger: _,
            receipt: _,
            nodes: _,
            marks: _,
            held: _,
            unwind_rules: _,
            mappings: _,
            left_out: _,
            cpu_times: _,
            waits: _,
            losses: _,
        } = rows;
        let mut texts =
            Texts { known: BTreeMap::new(), rows: Vec::new(), first: strings.next_id().unwrap_or(u32::MAX) };
        if self.replaces(Redact::Comm) {
            let mut comm =
                |id: &mut u32| *id = texts.other(*id, strings.find(*id), |text| self.pseudonym("comm", text));
            tasks.for_each_mut(|task| comm(&mut task.comm));
            lifecycle.iter_mut().for_each(|row| comm(&mut row.comm));
        }
        // The name of a field does not say whether its text is a name or a path.
        if self.replaces(Redact::Comm) || self.replaces(Redact::Paths) {
            for row in fields {
                row.text =
                    texts.other(row.text, strings.find(row.text), |text| self.pseudonym("field", text));
            }
        }
        // A source text may hold whatever is to be hidden.
        let mut withheld = if self.what.is_empty() { 0 } else { std::mem::take(sources).len() as u64 };
        if self.replaces(Redact::Paths) {
            let mut path = |id: &mut u32| *id = texts.other(*id, strings.find(*id), |text| self.path(text));
            images.for_each_mut(|image| path(&mut image.path));
            cgroups.iter_mut().for_each(|row| path(&mut row.path));
            let owners = counters.iter_mut().filter_map(|row| match &mut row.owner {
                Owner::Cgroup(path) => Some(path),
                Owner::Machine | Owner::Process(_) | Owner::Other(..) => None,
            });
            owners.for_each(&mut path);
            for line in jit.iter_mut().flat_map(|code| &mut code.lines) {
                path(&mut line.file);
                line.inlined.iter_mut().for_each(|it| path(&mut it.call_file));
            }
            let mut name = |id: &mut u32| {
                *id = texts.other(*id, strings.find(*id), |text| self.within(&String::from_utf8_lossy(text)))
            };
            let inlined = jit.iter_mut().flat_map(|code| &mut code.lines).flat_map(|line| &mut line.inlined);
            inlined.for_each(|it| name(&mut it.name));
            for made in jit {
                made.name = self.within(&String::from_utf8_lossy(&made.name)).into_bytes();
            }
            names.iter_mut().for_each(|table| self.names(table));
            // Code names source files.
            withheld += (std::mem::take(image_parts).len() + std::mem::take(code).len()) as u64;
        }
        strings.push(texts.first, texts.rows);
        withheld
    }

    fn names(&self, table: &mut NameTable) {
        let mut files: Vec<u32> = table.frames.iter().filter_map(|frame| frame.file).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            if let Some(text) = table.texts.get_mut(file as usize) {
                *text = self.path(text).into_bytes().into();
            }
        }
    }

    /// Replaces each part of a path. A name that is no path (`[vdso]`) stays.
    fn path(&self, path: &[u8]) -> String {
        let text = String::from_utf8_lossy(path);
        if text.is_empty() || text.starts_with('[') {
            return text.into_owned();
        }
        let parts = text.split('/').map(|part| match part {
            "" | "." | ".." => Cow::Borrowed(part),
            part => Cow::Owned(self.pseudonym("", part.as_bytes())),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// Replaces paths within a text, relative ones, too: words with a slash, except for a prefix that ends with a separator
    /// (`--output=`, `py::name:`), and a line number after a colon.
    fn within(&self, text: &str) -> String {
        let word = |word: &str| {
            let Some(slash) = word.find('/') else { return word.to_owned() };
            let begin = word[..slash].rfind(['=', ':', ',', '(', '"', '\'']).map_or(0, |mark| mark + 1);
            let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let numbers = word.rsplit(':').take_while(is_number).map(|part| part.len() + 1).sum::<usize>();
            let end = word.len().saturating_sub(numbers).max(begin);
            format!("{}{}{}", &word[..begin], self.path(&word.as_bytes()[begin..end]), &word[end..])
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    fn pseudonym(&self, kind: &str, text: &[u8]) -> String {
        let hash = sign(&self.key, text);
        let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}{}{}", if kind.is_empty() { "x" } else { "-" }, &digits[..DIGITS])
    }
}

/// Maps strings to their replacements.
struct Texts {
    /// By the id and the new text: the same string may be a name in one row and a path in another.
    known: BTreeMap<(u32, String), u32>,
    rows: Vec<Vec<u8>>,
    first: u32,
}

impl Texts {
    /// Returns the id of a string's replacement; the empty string and lost strings stay.
    fn other(&mut self, id: u32, text: Option<&Vec<u8>>, new: impl Fn(&[u8]) -> String) -> u32 {
        let Some(text) = text.filter(|_| id != 0) else { return id };
        let rows = &mut self.rows;
        *self.known.entry((id, new(text))).or_insert_with_key(|(_, new)| {
            rows.push(new.clone().into_bytes());
            self.first.saturating_add(rows.len() as u32 - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_equal_pseudonyms_and_a_key_makes_others() {
        let [one, two, keyed] = [&b""[..], b"", b"secret"].map(|key| Redaction::new(&[Redact::Paths], key));
        let path = one.path(b"/srv/app/libapp.so");
        assert_eq!(path, two.path(b"/srv/app/libapp.so"));
        assert_ne!(path, keyed.path(b"/srv/app/libapp.so"));
        // HMAC-SHA256 with an empty key, computed by another implementation.
        assert_eq!(one.path(b"app"), "x91d7c63d3fdf");
    }

    #[test]
    fn the_shape_of_a_path_stays_and_nothing_else_of_it() {
        let redaction = Redaction::new(&[Redact::Paths], b"");
        let path = redaction.path(b"/srv/app/app");
        let parts: Vec<&str> = path.split('/').collect();
        assert_eq!((parts.len(), parts[0], parts[2]), (4, "", parts[3]));
        assert!(!path.contains("srv") && !path.contains("app"));
        assert_eq!(redaction.path(b"[vdso]"), "[vdso]");
        let name = redaction.within("LazyCompile:~foo /home/me/app.js:12:7");
        assert!(name.starts_with("LazyCompile:~foo /x") && name.ends_with(":12:7"), "{name}");
        assert!(!name.contains("home") && !name.contains("app.js"));
        assert_eq!(redaction.within("a::b<c> d"), "a::b<c> d");
        let relative = redaction.within("--output=secret/place secret/tool py::run:secret/x.py");
        assert!(relative.starts_with("--output=x") && relative.contains(" py::run:x"), "{relative}");
        assert!(
            ["secret", "place", "tool", "x.py"].iter().all(|part| !relative.contains(part)),
            "{relative}"
        );
    }
}
