use std::collections::HashMap;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use icecore_format::records::{
    EventV1, Image, ImageKind, ImagesV1, NameTable, NamedFrame, NamedFunction, NamedPlace, NamesV1,
    SessionV1, Symbol, SymbolsV1,
};
use icecore_format::write::Writer;
use icecore_profile::named::found::Draft;
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::*;
use crate::folder::{Folder, Tail};
use crate::partition::Partition;
use crate::store::Store;

/// Keeps files in memory.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<PathBuf, (Bytes, SystemTime)>>);

impl Memory {
    /// Makes all names older.
    fn wait(&self, time: Duration) {
        self.0.lock().expect("intact").values_mut().for_each(|(_, modified)| *modified -= time);
    }

    fn change(&self, name: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut files = self.0.lock().expect("intact");
        let (bytes, _) = files.get_mut(name).expect("it is there");
        let mut changed = bytes.to_vec();
        change(&mut changed);
        *bytes = changed.into();
    }
}

impl Store for Memory {
    fn list(&self, part: &Path) -> io::Result<Vec<Stored>> {
        let files = self.0.lock().expect("intact");
        let files = files.iter().filter(|(name, _)| name.starts_with(part));
        let stored = |(name, (bytes, modified)): (&PathBuf, &(Bytes, SystemTime))| Stored {
            name: name.clone(),
            bytes: bytes.len() as u64,
            modified: *modified,
        };
        Ok(files.map(stored).collect())
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.0.lock().expect("intact").is_empty())
    }

    fn read(&self, name: &Path) -> io::Result<Bytes> {
        let files = self.0.lock().expect("intact");
        files.get(name).map(|(bytes, _)| bytes.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn tail(&self, name: &Path, _: u64) -> io::Result<Tail> {
        let last = self.read(name)?;
        Ok(Tail { size: last.len() as u64, last })
    }

    fn local(&self, name: &Path) -> io::Result<Local> {
        let mut file = NamedTempFile::new()?;
        file.write_all(&self.read(name)?)?;
        Ok(Local::Copy(file))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new()
    }

    fn publish(&self, file: NamedTempFile, name: &Path, replaces: bool) -> io::Result<bool> {
        let bytes = std::fs::read(file.path())?;
        let mut files = self.0.lock().expect("intact");
        let is_free = replaces || !files.contains_key(name);
        if is_free {
            files.insert(name.to_owned(), (bytes.into(), SystemTime::now()));
        }
        Ok(is_free)
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        self.0.lock().expect("intact").remove(name);
        Ok(())
    }

    fn unfinished(&self) -> io::Result<Vec<Stored>> {
        Ok(Vec::new())
    }
}

/// What a recording knows: functions of a build, 16 bytes each, and how it calls them.
type Knowledge<'a> = (u8, Range<u64>, &'a str);

fn uuid(number: u8) -> String {
    hex(&[number; 16])
}

/// The bytes of a recording.
fn recording(number: u8, known: &[Knowledge<'_>]) -> Vec<u8> {
    let file = NamedTempFile::new().expect("a file");
    let mut writer = Writer::create(file.reopen().expect("open"), [number; 16]).expect("written");
    let session = SessionV1 { events: vec![EventV1::default()], ..SessionV1::default() };
    writer.append(&session).expect("written");
    let image = |(build, ..): &Knowledge<'_>| Image {
        kind: ImageKind::FILE,
        path: 0,
        build_id: vec![*build; 20],
        dev: 0,
        inode: 0,
        size_bytes: 0,
        modified_unix_ns: 0,
    };
    writer.append(&ImagesV1::from_rows(0, &known.iter().map(image).collect::<Vec<_>>())).expect("written");
    let (mut table, mut symbols) = (NameTable::<Box<[u8]>>::default(), Vec::new());
    for (image, (_, functions, word)) in (0..).zip(known) {
        for function in functions.clone() {
            let (name, start) = (format!("{word}{function}"), function * 16);
            let position = table.functions.len() as u32;
            table.texts.push(name.as_bytes().into());
            table.functions.push(NamedFunction { name: position, start, ..NamedFunction::default() });
            table.frames.push(NamedFrame { function: position, file: None, line: 7 });
            let frames = table.frames.len() - 1..table.frames.len();
            let (file_off, address) = (start + 3, start + 3);
            table.places.push(NamedPlace { image, file_off, address, start: 0, frames, calls: None });
            symbols.push(Symbol::new(image, start..start + 16, name));
        }
    }
    // As `pack` writes it.
    let mut draft = Draft::default();
    table.places.iter().for_each(|place| draft.copy(place.image, place, &table));
    draft.take().iter().for_each(|table| {
        writer.append(&NamesV1::from_table(table)).expect("written");
    });
    writer.append(&SymbolsV1::from_rows(&symbols)).expect("written");
    writer.finish().expect("written");
    std::fs::read(file.path()).expect("read")
}

/// Why a recording is wrong that came back as another one.
const OTHER: &str = "it is another one";

/// An archive in memory, and what was added to it.
struct Filled {
    memory: Arc<Memory>,
    added: HashMap<u8, Vec<u8>>,
}

impl Filled {
    fn new() -> Self {
        let filled = Self { memory: Arc::default(), added: HashMap::new() };
        Archive::open_or_create(filled.folder()).expect("made");
        filled
    }

    fn folder(&self) -> Folder {
        Folder::kept_by(self.memory.clone())
    }

    fn archive(&self) -> Archive {
        Archive::open(self.folder()).expect("it is one")
    }

    fn add(&mut self, number: u8, known: &[Knowledge<'_>]) {
        let bytes = recording(number, known);
        store(&self.archive(), number, &bytes).expect("stored");
        self.added.insert(number, bytes);
    }

    fn share(&self) -> u64 {
        let shared = self.archive().share_names(SystemTime::now()).expect("shared");
        self.archive().remove_named().expect("removed");
        shared
    }

    fn collect(&self) -> usize {
        self.archive().collect_names(SystemTime::now()).expect("collected").len()
    }

    /// Returns the cause why a recording is not what was added, if so.
    fn wrong(&self, number: u8) -> Option<String> {
        let archive = self.archive();
        let stored = archive.recordings().expect("listed")[&uuid(number)].clone();
        match archive.local(&stored.name).map(|local| std::fs::read(local.path()).expect("read")) {
            Ok(bytes) if bytes == self.added[&number] => None,
            Ok(_) => Some(OTHER.to_owned()),
            Err(Error::Read { source, .. } | Error::Write { source, .. }) => Some(source.to_string()),
        }
    }

    /// The files of names: the builds, the lineages and the numbers.
    fn name_files(&self) -> Vec<(u8, Id, u64)> {
        let files = self.folder().list(Path::new(NAMES)).expect("listed");
        let build =
            |file: &Stored| u8::from_str_radix(&file.name.to_str().expect("text")[6..8], 16).expect("hex");
        files.iter().filter_map(|it| numbers(it).map(|of| (build(it), of.0, of.1))).collect()
    }

    /// The builds and the numbers of the files of names.
    fn names(&self) -> Vec<(u8, u64)> {
        let mut names: Vec<_> = self.name_files().into_iter().map(|it| (it.0, it.2)).collect();
        names.sort_unstable();
        names
    }

    /// The name of the file that has the first names of a build.
    fn first_names(&self, build: u8) -> PathBuf {
        let files = self.name_files();
        let (_, lineage, _) = files.iter().find(|it| (it.0, it.2) == (build, 1)).expect("they are stored");
        file_name(&vec![build; 20], *lineage, 1)
    }

    fn nameless(&self) -> usize {
        self.archive().recordings().expect("listed").values().filter(|it| is_nameless(it)).count()
    }
}

fn store(archive: &Archive, number: u8, bytes: &[u8]) -> io::Result<()> {
    let partition = Partition { day: "2026-09-01".into(), service: "web".into() };
    archive.store(&partition, &uuid(number), |file| file.write_all(bytes)).map(drop)
}

#[test]
fn recordings_come_back_with_what_they_knew_whatever_others_know() {
    let mut filled = Filled::new();
    filled.add(1, &[(1, 0..20, "a"), (2, 0..20, "x")]);
    filled.add(2, &[(1, 10..30, "a")]);
    filled.add(3, &[(1, 10..20, "b"), (2, 5..25, "x")]);
    // Two images of one build, as after an upgrade that changed the path: they agree, or they do not.
    filled.add(4, &[(1, 0..10, "a"), (1, 5..15, "a")]);
    filled.add(5, &[(1, 0..10, "a"), (1, 5..15, "c")]);
    // Less than a file of its own is worth; and nothing.
    filled.add(6, &[(3, 0..3, "a")]);
    filled.add(7, &[]);
    assert_eq!(filled.share(), 4);
    assert_eq!((1..=7).find_map(|number| filled.wrong(number)), None);
    assert_eq!((filled.names(), filled.nameless()), (vec![(1, 1), (1, 1), (2, 1)], 4));
    // Nothing is new, and then something is.
    assert_eq!((filled.share(), filled.names().len()), (0, 3));
    filled.add(8, &[(2, 0..30, "x")]);
    assert_eq!((filled.share(), filled.names()), (1, vec![(1, 1), (1, 1), (2, 2)]));
    assert_eq!((1..=8).find_map(|number| filled.wrong(number)), None);
}

#[test]
fn what_says_something_else_once_more_than_there_are_lineages_stays_as_it_is() {
    let mut filled = Filled::new();
    let words: Vec<String> = (0..MOST_LINEAGES + 2).map(|it| format!("w{it}")).collect();
    for (number, word) in (0..).zip(&words) {
        filled.add(number, &[(1, 0..10, word)]);
    }
    assert_eq!(filled.share(), MOST_LINEAGES as u64);
    assert_eq!((0..10).find_map(|number| filled.wrong(number)), None);
    assert_eq!((filled.names().len(), filled.nameless()), (8, 8));
}

#[test]
fn names_that_are_damaged_lost_or_others_are_never_shown() {
    let mut filled = Filled::new();
    filled.add(1, &[(1, 0..20, "a")]);
    filled.add(2, &[(2, 0..20, "a")]);
    filled.share();
    let first = BTreeMap::from([1, 2].map(|build| (build, filled.first_names(build))));
    let of = |build: u8| first[&build].clone();
    let whole = filled.folder().read(&of(1)).expect("read");
    let wrong = |filled: &Filled| filled.wrong(1).expect("it is wrong");
    filled.memory.change(&of(1), |bytes| bytes[200] ^= 1);
    assert!(wrong(&filled).contains("-00000001.names` is damaged"), "{}", wrong(&filled));
    // Others are added as before, and shown.
    filled.add(3, &[(1, 0..20, "a")]);
    assert_eq!(filled.share(), 1);
    assert_eq!((filled.wrong(2), filled.wrong(3)), (None, None));
    assert_eq!(filled.names(), [(1, 1), (1, 1), (2, 1)]);
    // Whole, but not those that were stored.
    let others = filled.folder().read(&of(2)).expect("read");
    filled.memory.change(&of(1), |bytes| *bytes = others.to_vec());
    assert_eq!(filled.wrong(1), None, "the other build has the same functions");
    filled.memory.change(&of(1), |bytes| {
        let mut other = Filled::new();
        other.add(9, &[(1, 0..20, "b")]);
        other.share();
        *bytes = other.folder().read(&other.first_names(1)).expect("read").to_vec();
    });
    assert!(wrong(&filled).contains("are not those that belong to it"), "{}", wrong(&filled));
    filled.memory.change(&of(1), |bytes| *bytes = whole.to_vec());
    assert_eq!(filled.wrong(1), None);
    filled.folder().remove(&of(1)).expect("removed");
    assert!(wrong(&filled).contains("any more"), "{}", wrong(&filled));
}

#[test]
fn whatever_byte_of_a_recording_changes_it_comes_back_whole_or_not_at_all() {
    let mut filled = Filled::new();
    filled.add(1, &[(1, 0..20, "a"), (2, 0..20, "b")]);
    filled.share();
    let name = filled.archive().recordings().expect("listed")[&uuid(1)].name.clone();
    let whole = filled.folder().read(&name).expect("read");
    let mut found = 0;
    for at in 0..whole.len() {
        filled.memory.change(&name, |bytes| bytes[at] ^= 1 << (at % 8));
        let wrong = filled.wrong(1);
        assert_ne!(wrong.as_deref(), Some(OTHER), "byte {at}");
        found += usize::from(wrong.is_some());
        filled.memory.change(&name, |bytes| *bytes = whole.to_vec());
    }
    // All but digits of the two hashes in front that became capital letters.
    assert!(found >= whole.len() - 32, "{found} of {}", whole.len());
    for len in (0..whole.len()).step_by(7) {
        filled.memory.change(&name, |bytes| bytes.truncate(len));
        assert!(filled.wrong(1).is_some_and(|cause| cause != OTHER), "{len} bytes");
        filled.memory.change(&name, |bytes| *bytes = whole.to_vec());
    }
    // A line that is gone makes no name unused.
    let line = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let next = line + whole[line..].iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    filled.memory.change(&name, |bytes| drop(bytes.drain(line..next)));
    filled.memory.wait(GRACE + Duration::from_secs(60));
    assert!(filled.wrong(1).is_some_and(|cause| cause != OTHER));
    assert!(filled.archive().collect_names(SystemTime::now()).is_err());
    assert_eq!(filled.names().len(), 2);
}

#[test]
fn a_damaged_recording_stays_as_it_is_and_stops_nobody() {
    let mut filled = Filled::new();
    filled.add(1, &[(1, 0..20, "a")]);
    filled.add(2, &[(1, 0..20, "a")]);
    let name = filled.archive().recordings().expect("listed")[&uuid(1)].name.clone();
    let damage = |bytes: &mut Vec<u8>| (300..bytes.len()).step_by(50).for_each(|at| bytes[at] ^= 0x55);
    filled.memory.change(&name, damage);
    let before = filled.folder().read(&name).expect("read");
    assert_eq!((filled.share(), filled.wrong(2)), (1, None));
    assert!(filled.folder().read(&name).expect("read") == before);
}

#[test]
fn names_go_when_nobody_needs_them_for_long() {
    let (mut filled, long) = (Filled::new(), GRACE + Duration::from_secs(60));
    filled.add(1, &[(1, 0..20, "a")]);
    filled.add(2, &[(2, 0..20, "a")]);
    filled.share();
    filled.memory.wait(long);
    assert_eq!(filled.collect(), 0, "they are used");
    let stored = filled.archive().recordings().expect("listed")[&uuid(1)].clone();
    filled.archive().remove_recording(&stored).expect("removed");
    assert_eq!((filled.collect(), filled.names()), (1, vec![(2, 1)]));
    // Old names that are used anew are stored anew.
    filled.add(3, &[(2, 5..15, "a")]);
    assert_eq!((filled.share(), filled.names()), (1, vec![(2, 2)]));
    assert_eq!((filled.wrong(2), filled.wrong(3)), (None, None));
}

#[test]
fn who_finds_that_others_went_on_meanwhile_begins_again() {
    let mut filled = Filled::new();
    filled.add(1, &[(1, 0..20, "a")]);
    filled.share();
    filled.add(2, &[(1, 10..30, "a")]);
    let lineage = filled.name_files()[0].1;
    let name = move |number| file_name(&vec![1; 20], lineage, number);
    let (memory, before) = (filled.memory.clone(), filled.folder().read(&name(1)).expect("read"));
    // Two others store the next two numbers, which lack what the second recording knows, and remove those before.
    let watch = move |step: crate::folder::Step, at: &Path| {
        if step == crate::folder::Step::Publish && at == name(2) {
            let mut files = memory.0.lock().expect("intact");
            files.remove(&name(1));
            files.entry(name(3)).or_insert((before.clone(), SystemTime::now()));
        }
        Ok(())
    };
    let archive = Archive::open(filled.folder().watched(Arc::new(watch))).expect("it is one");
    assert_eq!(archive.share_names(SystemTime::now()).expect("shared"), 1);
    assert_eq!((filled.wrong(1), filled.wrong(2)), (None, None));
    assert_eq!(filled.names(), [(1, 4)]);
}

#[test]
fn who_stores_names_that_went_meanwhile_takes_none_of_others_along() {
    let (mut filled, long) = (Filled::new(), GRACE + Duration::from_secs(60));
    filled.add(1, &[(1, 0..20, "a")]);
    filled.share();
    let stored = filled.archive().recordings().expect("listed")[&uuid(1)].clone();
    filled.archive().remove_recording(&stored).expect("removed");
    filled.memory.wait(long);
    filled.add(2, &[(1, 10..30, "a")]);
    filled.added.insert(3, recording(3, &[(1, 40..60, "a")]));
    // Who has read the names is about to store the next ones; they go, and others begin anew.
    let other = Filled { memory: filled.memory.clone(), added: filled.added.clone() };
    let is_first = AtomicUsize::new(0);
    let watch = move |step: crate::folder::Step, at: &Path| {
        if step == crate::folder::Step::Publish
            && at.starts_with(NAMES)
            && is_first.fetch_add(1, Ordering::Relaxed) == 0
        {
            assert_eq!(other.collect(), 1);
            store(&other.archive(), 3, &other.added[&3]).expect("stored");
            assert_eq!(other.share(), 2);
        }
        Ok(())
    };
    let archive = Archive::open(filled.folder().watched(Arc::new(watch))).expect("it is one");
    archive.share_names(SystemTime::now()).expect("shared");
    assert_eq!((filled.wrong(2), filled.wrong(3)), (None, None));
    assert_eq!(filled.names(), [(1, 1), (1, 2)]);
    filled.memory.wait(long);
    assert_eq!(
        (filled.collect(), filled.names()),
        (1, vec![(1, 1)]),
        "nobody needs the names that were stored last"
    );
}

/// What recordings know of one build: two the same, others more and less, one something else.
const KNOWN: [Knowledge<'_>; 5] =
    [(1, 0..12, "a"), (1, 0..12, "a"), (1, 8..24, "a"), (1, 20..36, "a"), (1, 0..12, "b")];

/// What somebody does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add(u8),
    Share,
    Collect,
    Prune,
}

impl Act {
    /// Does it; an error is what a watch says.
    fn run(self, archive: &Archive, added: &HashMap<u8, Vec<u8>>) -> Result<(), Error> {
        match self {
            Self::Add(number) => {
                let path = PathBuf::new();
                store(archive, number, &added[&number]).map_err(|source| Error::Write { path, source })
            }
            Self::Share => archive.share_names(SystemTime::now()).and_then(|_| archive.remove_named()),
            Self::Collect => archive.collect_names(SystemTime::now()).map(drop),
            Self::Prune => archive.recordings()?.values().try_for_each(|it| archive.remove_recording(it)),
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    let number = 0..KNOWN.len() as u8;
    prop_oneof![4 => number.prop_map(Act::Add), 4 => Just(Act::Share), 2 => Just(Act::Collect), 1 => Just(Act::Prune)]
}

/// What happens at one of the steps of somebody: others do all this, or it is killed.
type Meanwhile = (usize, Option<Vec<Act>>);

/// Does something, with what happens meanwhile.
fn run(act: Act, (at, meanwhile): &Meanwhile, filled: &Filled) {
    let (at, meanwhile) = (*at, meanwhile.clone());
    let steps = AtomicUsize::new(0);
    let other = Filled { memory: filled.memory.clone(), added: filled.added.clone() };
    let watch = move |_: crate::folder::Step, _: &Path| {
        if steps.fetch_add(1, Ordering::Relaxed) != at {
            return Ok(());
        }
        let acts = meanwhile.as_ref().ok_or_else(|| io::Error::other("killed"))?;
        acts.iter().for_each(|act| drop(act.run(&other.archive(), &other.added)));
        Ok(())
    };
    let archive = Archive::open(filled.folder().watched(Arc::new(watch))).expect("it is one");
    drop(act.run(&archive, &filled.added));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_200, ..ProptestConfig::default() })]

    /// Whoever adds, shares, collects and prunes, in whatever order, one while another does, and is killed wherever: what is stored comes
    /// back as it was added.
    #[test]
    fn no_recording_ever_lacks_its_names(
        acts in proptest::collection::vec(
            (
                proptest::bool::weighted(0.3),
                act(),
                (0usize..3, proptest::option::weighted(0.8, proptest::collection::vec(act(), 0..6))),
            ),
            3..10,
        ),
    ) {
        let mut filled = Filled::new();
        for (number, known) in (0..).zip(KNOWN) {
            filled.added.insert(number, recording(number, &[known]));
        }
        let acts: Vec<(bool, Act, Meanwhile)> = acts;
        for (is_late, act, meanwhile) in acts {
            // Nobody takes that long for what he does.
            filled.memory.wait(if is_late { GRACE + Duration::from_secs(60) } else { Duration::ZERO });
            run(act, &meanwhile, &filled);
            for number in 0..KNOWN.len() as u8 {
                if filled.archive().recordings().expect("listed").contains_key(&uuid(number)) {
                    prop_assert_eq!(filled.wrong(number), None, "{} after {:?} {:?}", number, act, meanwhile);
                }
            }
        }
    }
}
