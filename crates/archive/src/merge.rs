//! Which files of a table count: small ones, of one recording each, and those into which others were merged.
//!
//! Nothing changes in place and nobody locks, so a merged file and those that went into it are there together for a while. A file does not
//! count if another one has all its recordings and a higher *rank*: its rows were written anew more often, else it has more recordings, else
//! its name comes later. So of any files one is left that nobody may remove, whoever merges and removes at the same time.

use std::collections::{HashMap, HashSet};
use std::io;

use bytes::Bytes;

use crate::dataset::cause;
use crate::folder::{Folder, Stored, Tail};
use crate::id::Id;
use crate::pool::Pool;
use crate::read::{Head, Readable, TableFile};
use crate::table::Origin;

/// How names of merged files begin.
const MERGED: &str = "merged-";

/// A file of a table in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The file.
    pub file: Stored,
    /// The UUIDs of its recordings.
    pub recordings: HashSet<String>,
    /// How often its rows were written anew.
    pub epoch: u32,
    /// All of it, if it is that small.
    whole: Option<Bytes>,
}

/// What is read of a merged file to learn what is in it: enough for most, and all of a small one.
const TAIL: u64 = 64 << 10;

impl Part {
    /// Looks at a file; of one with a single recording, the name says all. `None`: the archive has not written it, and it counts for nothing.
    ///
    /// # Errors
    /// If a merged file cannot be read.
    pub fn new(folder: &Folder, table: &str, file: Stored) -> io::Result<Option<Self>> {
        let name = file.name.file_name().and_then(|name| name.to_str());
        let Some(stem) = name.and_then(|name| name.strip_suffix(".parquet")) else { return Ok(None) };
        if is_uuid(stem) {
            let recordings = HashSet::from([stem.to_owned()]);
            return Ok(Some(Self { file, recordings, epoch: 0, whole: None }));
        }
        if !stem.starts_with(MERGED) {
            return Ok(None);
        }
        let (Head { recordings, epoch, .. }, tail) = head(folder, table, &file)?;
        let whole = (tail.last.len() as u64 == tail.size).then_some(tail.last);
        Ok(Some(Self { file, recordings: recordings.into_iter().collect(), epoch, whole }))
    }

    /// Reads its rows.
    fn rows<R: Readable>(&self, folder: &Folder, pool: &mut Pool) -> io::Result<Vec<R>> {
        let bytes = self.whole.clone().map_or_else(|| folder.read(&self.file.name), Ok)?;
        TableFile::new(R::TABLE, bytes).and_then(|file| file.read(pool)).map_err(cause)
    }

    fn rank(&self) -> impl Ord + '_ {
        (self.epoch, self.recordings.len(), &self.file.name)
    }
}

/// Reads what a file says of itself; also returns what was read of it.
///
/// # Errors
/// If it cannot be read, or holds another table.
pub(crate) fn head(folder: &Folder, table: &str, file: &Stored) -> io::Result<(Head, Tail)> {
    let mut most = TAIL;
    loop {
        let tail = folder.tail(&file.name, most)?;
        match Head::of_tail(table, &tail.last, tail.size).map_err(cause)? {
            Ok(head) => return Ok((head, tail)),
            Err(needed) => most = needed.max(2 * most),
        }
    }
}

/// Returns true if a name is that of a recording: 32 hexadecimal digits.
pub fn is_uuid(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Splits files into those that count, the highest rank first, and those that do not.
pub fn settle(mut parts: Vec<Part>) -> (Vec<Part>, Vec<Part>) {
    parts.sort_by(|a, b| b.rank().cmp(&a.rank()));
    // Files that count, by each recording in them.
    let mut having: HashMap<String, Vec<usize>> = HashMap::new();
    let (mut live, mut covered) = (Vec::<Part>::new(), Vec::new());
    for part in parts {
        let mut recordings = part.recordings.iter();
        let first = recordings.next().and_then(|first| having.get(first));
        let is_in = |at: &usize| part.recordings.is_subset(&live[*at].recordings);
        if part.recordings.is_empty() || first.is_some_and(|files| files.iter().any(is_in)) {
            covered.push(part);
            continue;
        }
        for uuid in &part.recordings {
            having.entry(uuid.clone()).or_default().push(live.len());
        }
        live.push(part);
    }
    (live, covered)
}

/// Reads the rows of files that count. Of a session that is in several, those of the highest rank are taken.
///
/// # Errors
/// The file that cannot be read, and why.
pub fn read<R: Readable>(
    folder: &Folder,
    live: &[Part],
    pool: &mut Pool,
) -> Result<Vec<R>, (Stored, io::Error)> {
    let mut owners: HashMap<Id, usize> = HashMap::new();
    let mut all = Vec::new();
    for (position, part) in live.iter().enumerate() {
        let rows = part.rows::<R>(folder, pool).map_err(|error| (part.file.clone(), error))?;
        let mut is_own = |id: Id| *owners.entry(id).or_insert(position) == position;
        all.extend(rows.into_iter().filter(|row| row.recording().is_none_or(&mut is_own)));
    }
    Ok(all)
}

/// Names a merged file, and says what is in it.
pub fn merged(recordings: impl IntoIterator<Item = String>, epoch: u32) -> (String, Origin) {
    let mut recordings: Vec<String> = recordings.into_iter().collect();
    recordings.sort_unstable();
    recordings.dedup();
    let parts: Vec<&[u8]> = recordings.iter().map(|uuid| uuid.as_bytes()).collect();
    let name = format!("{MERGED}{epoch}-{:016x}", Id::of(&parts).get());
    (name, Origin { recordings, epoch })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;

    fn part(recordings: &[&str], epoch: u32) -> Part {
        let uuids = recordings.iter().map(|uuid| (*uuid).to_owned());
        let name = match recordings {
            [alone] if epoch == 0 => (*alone).to_owned(),
            _ => merged(uuids.clone(), epoch).0,
        };
        let file = Stored { name: PathBuf::from(name), bytes: 1, modified: SystemTime::UNIX_EPOCH };
        Part { file, recordings: uuids.collect(), epoch, whole: None }
    }

    fn names(parts: &[Part]) -> Vec<String> {
        let list = |part: &Part| {
            let mut uuids: Vec<&str> = part.recordings.iter().map(|uuid| &**uuid).collect();
            uuids.sort_unstable();
            format!("{}{}", uuids.concat(), part.epoch)
        };
        parts.iter().map(list).collect()
    }

    #[test]
    fn files_count_unless_a_higher_one_has_all_their_recordings() {
        let settled = |parts: &[Part]| {
            let (live, covered) = settle(parts.to_vec());
            (names(&live), names(&covered))
        };
        let [a, b, c] = ["a", "b", "c"].map(|uuid| part(&[uuid], 0));
        assert_eq!(settled(&[a.clone(), b.clone()]), (vec!["b0".into(), "a0".into()], vec![]));
        let ab = part(&["a", "b"], 0);
        let all = [a.clone(), ab.clone(), b.clone(), c.clone()];
        assert_eq!(settled(&all), (vec!["ab0".into(), "c0".into()], vec!["b0".into(), "a0".into()]));
        // Rows that were written anew are taken, whatever was merged before or after.
        let again = part(&["a"], 1);
        assert_eq!(
            settled(&[ab.clone(), again.clone(), a]),
            (vec!["a1".into(), "ab0".into()], vec!["a0".into()])
        );
        assert_eq!(settled(&[part(&["a", "b"], 1), ab, again]).0, ["ab1"]);
        // Neither has all of the other.
        assert_eq!(settled(&[part(&["a", "b"], 0), part(&["b", "c"], 0)]).0.len(), 2);
    }

    /// Somebody who looks at the folder, and acts on it later.
    #[derive(Debug, Clone)]
    enum Actor {
        Idle,
        /// Has listed these files and will publish what they hold; `true`: written anew.
        Merges(Vec<Part>, bool),
        /// Will remove these, one after the other.
        Removes(Vec<Part>),
    }

    /// Takes one step of an actor.
    fn step(actor: &mut Actor, folder: &mut Vec<Part>, choice: u8) {
        let remove = |folder: &mut Vec<Part>, name: &PathBuf| folder.retain(|part| part.file.name != *name);
        *actor = match std::mem::replace(actor, Actor::Idle) {
            Actor::Idle => match choice % 4 {
                0 => Actor::Removes(settle(folder.clone()).1),
                n => Actor::Merges(folder.clone(), n == 1),
            },
            Actor::Merges(listed, anew) => {
                let (live, mut removed) = settle(listed);
                // What was listed may be gone: then nothing is written.
                if live.is_empty()
                    || live.len() < 2 && !anew
                    || live.iter().any(|part| !folder.contains(part))
                {
                    return;
                }
                let epoch = live.iter().map(|part| part.epoch).max().unwrap_or(0) + u32::from(anew);
                let uuids: HashSet<String> = live.iter().flat_map(|it| it.recordings.clone()).collect();
                let new = part(&uuids.iter().map(|uuid| &**uuid).collect::<Vec<_>>(), epoch);
                removed.extend(live);
                removed.retain(|part| part.file.name != new.file.name);
                remove(folder, &new.file.name);
                folder.push(new);
                Actor::Removes(removed)
            }
            Actor::Removes(mut files) => match files.pop() {
                Some(file) => {
                    remove(folder, &file.file.name);
                    Actor::Removes(files)
                }
                None => Actor::Idle,
            },
        };
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// Whoever adds, merges, writes anew and removes, in whatever order, and is killed wherever: every recording that was added is in a
        /// file that counts.
        #[test]
        fn no_recording_is_ever_without_a_file(steps in proptest::collection::vec((0u8..6, any::<u8>()), 0..80)) {
            let mut actors = vec![Actor::Idle; 4];
            let (mut folder, mut added) = (Vec::new(), Vec::<String>::new());
            for (who, choice) in steps {
                match (who, actors.get_mut(usize::from(who))) {
                    (_, Some(actor)) => step(actor, &mut folder, choice),
                    (4, None) => {
                        let uuid = format!("u{}", added.len());
                        folder.push(part(&[&uuid], 0));
                        added.push(uuid);
                    }
                    // Killed.
                    _ => actors[usize::from(choice) % 4] = Actor::Idle,
                }
                let (live, covered) = settle(folder.clone());
                for uuid in &added {
                    prop_assert!(live.iter().any(|part| part.recordings.contains(uuid)), "{uuid}: {folder:?}");
                }
                for part in &covered {
                    prop_assert!(live.iter().any(|other| part.recordings.is_subset(&other.recordings)));
                }
            }
        }
    }
}
