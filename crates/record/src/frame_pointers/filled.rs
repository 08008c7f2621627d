//! The tables that the sampler has.

use std::time::{Duration, Instant};

use icecore_format::records::Omission;
use rustc_hash::FxHashMap;

use super::packed::{POSITIONS, Packed};
use super::room::{Held, Room, Wanted};
use crate::kernel::sampler::{MAX_CHUNKS, MAX_TABLES, Table, Tables};
use crate::kernel::wire::FileKey;

/// The time in which hits are counted. What is hit less than once in it gives way to everybody.
const COUNTED: Duration = Duration::from_secs(5);

/// What the thread that compiles tables has done.
pub(super) enum Answer {
    /// It has looked at a file that a user requested. `is_done` is false if the file could not be opened, because its process had ended.
    Seen { file: FileKey, user: u32, cpu_ns: u64, is_done: bool },
    /// The file may be requested again: its tables were taken away, or there may be room now.
    Again(FileKey),
    /// The sampler has no tables of a file.
    Untabled(FileKey, Omission),
}

/// The tables that the sampler has, and who has the room for them.
pub(super) struct Filled {
    sampler: Tables,
    room: Room,
    /// Hits of files that had no room and may have some now.
    hits: FxHashMap<FileKey, u64>,
    counted: Option<Instant>,
}

impl Filled {
    pub(super) fn new(sampler: Tables) -> Self {
        Self { sampler, room: Room::new(MAX_CHUNKS, MAX_TABLES), hits: FxHashMap::default(), counted: None }
    }

    /// Gives the sampler the tables of a file, or tells it that there are none or no room for them: then it goes on copying stacks, and
    /// does not ask again. Others may have to give way.
    pub(super) fn add(&mut self, wanted: Wanted, rows: Option<Packed>) -> Vec<Answer> {
        let needs = rows.as_ref().and_then(|rows| u32::try_from(rows.chunks.len()).ok()).unwrap_or(0);
        let hits = self.hits.remove(&wanted.file).unwrap_or(0).max(wanted.hits);
        let wanted = Wanted { needs, hits, ..wanted };
        let mut told = Vec::new();
        let mut rows = rows.filter(|_| needs <= self.room.share() && self.make_room(&wanted, &mut told));
        if rows.is_none() {
            if needs > 0 {
                told.push(Answer::Untabled(wanted.file, Omission::TABLES_FULL));
            }
            if !self.make_room(&Wanted { needs: 0, ..wanted }, &mut told) {
                return told;
            }
        }
        if let Some(held) = self.room.take(&wanted, rows.is_some()) {
            self.put(&wanted.file, &held, rows.as_mut());
        }
        told
    }

    /// Makes room for a file; returns false if there is none.
    fn make_room(&mut self, wanted: &Wanted, told: &mut Vec<Answer>) -> bool {
        if self.room.plan(wanted).is_none_or(|plan| !plan.is_empty()) {
            self.count();
        }
        self.room.plan(wanted).is_some_and(|plan| self.give_up(&plan, told))
    }

    /// Counts hits, not more often than once in [`COUNTED`].
    fn count(&mut self) {
        if self.counted.is_none_or(|counted| counted.elapsed() >= COUNTED) {
            let sampler = &mut self.sampler;
            self.room.count(|number| sampler.new_hits(number));
            self.counted = Some(Instant::now());
        }
    }

    /// Takes the tables of files away; returns false if they may still be used.
    fn give_up(&mut self, files: &[FileKey], told: &mut Vec<Answer>) -> bool {
        if !files.is_empty() && self.sampler.withdraw(files).is_err() {
            return false;
        }
        for (file, held) in files.iter().filter_map(|file| Some((file, self.room.give_up(file)?))) {
            told.push(Answer::Again(*file));
            if !held.chunks.is_empty() {
                told.push(Answer::Untabled(*file, Omission::TABLES_FULL));
            }
        }
        true
    }

    /// Gives the sampler what it gets of a file. What an error has left is not used.
    fn put(&mut self, file: &FileKey, held: &Held, rows: Option<&mut Packed>) {
        let (number, first) = (held.number, held.chunks.start);
        let mut table = Table { number, begin: 0, len: 0, first_position: 0 };
        if let Some(rows) = rows {
            rows.move_to(first);
            if self.sampler.put(first, &rows.chunks).is_ok() {
                let first_position = first * POSITIONS as u32;
                table = Table { number, begin: rows.begin, len: rows.len, first_position };
            }
        }
        let _ = self.sampler.publish(file, table);
    }

    /// Looks for files that had no room and would get some now, and lets the sampler ask for them.
    pub(super) fn plan_anew(&mut self) -> Vec<Answer> {
        let share = self.room.share();
        let is_refused = |held: &Held| (1..=share).contains(&held.needs) && held.chunks.is_empty();
        if !self.room.files().any(|(_, held)| is_refused(held)) {
            return Vec::new();
        }
        self.count();
        self.hits.clear();
        let wanted = |(file, held): (&FileKey, &Held)| {
            let &Held { needs, user, hits, .. } = held;
            Wanted { file: *file, needs, user, hits }
        };
        let refused = self.room.files().filter(|(_, held)| is_refused(held)).map(wanted);
        let files: Vec<Wanted> = refused.filter(|wanted| self.room.plan(wanted).is_some()).collect();
        self.hits.extend(files.iter().map(|wanted| (wanted.file, wanted.hits)));
        let (mut told, files) = (Vec::new(), files.iter().map(|wanted| wanted.file).collect::<Vec<_>>());
        self.give_up(&files, &mut told);
        told
    }
}
