//! Remembers the bytes around return addresses in JIT code, and decides which of them the reader reads, and when.
//!
//! ```text
//! address is hit ─► read ─► a call ends there: never read again
//!                     └───► no call ends there: read again and again, since JIT code is freed, replaced and patched
//! ```

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use icecore_elf::{Avma, calls};
use icecore_format::records::CallSite;
use rustc_hash::FxHashMap;

use super::reader::{Around, Bytes, Fronts, PATIENCE, Reader};

/// The number of addresses that are remembered, of all processes together: 32 MiB of memory. Further ones are not read.
const MAX_SITES: usize = 128 << 10;
/// The number of addresses in one request.
const PER_REQUEST: usize = 1024;
/// At most this many addresses are read in a second, a few µs each, and this many at once.
const PER_SECOND: f64 = 10_000.0;
const AT_ONCE: f64 = 4096.0;
/// Addresses without a call are read again after this part of the time that their address space has been known, within these bounds.
const AGAIN_PART: u32 = 16;
const AGAIN_EVERY: RangeInclusive<Duration> = Duration::from_millis(90)..=Duration::from_secs(1);
/// An address whose bytes changed this often is given up: it gets no row.
const MAX_READINGS: usize = 4;

/// The addresses of all processes.
#[derive(Debug)]
pub(super) struct Sites {
    /// The thread that reads. It is started for the first address; `None` before, and if it could not be started.
    reader: Option<Reader>,
    lives: FxHashMap<u64, SpaceSites>,
    /// The number of addresses of all lives.
    count: usize,
    /// The number of addresses that may be read now.
    allowed: f64,
    allowed_at: Instant,
}

/// The addresses of one address space.
#[derive(Debug)]
struct SpaceSites {
    tgid: u32,
    known_at: Instant,
    /// By address.
    sites: FxHashMap<Avma, Site>,
    /// Addresses that were never read.
    new: Vec<Avma>,
    /// Addresses without a call: those that this round still has to read, and those that it has read.
    negative: Vec<Avma>,
    reread: Vec<Avma>,
    again_at: Instant,
}

/// What was found at one address, reading after reading.
#[derive(Debug, Default)]
struct Site(Vec<Unchanged>);

/// The same bytes, from their first reading to their last one.
#[derive(Debug, Clone, Copy)]
struct Unchanged {
    around: Around,
    first_ns: u64,
    last_ns: u64,
}

impl Sites {
    pub(super) fn new() -> Self {
        let (reader, lives, count) = Default::default();
        Self { reader, lives, count, allowed: AT_ONCE, allowed_at: Instant::now() }
    }

    /// Remembers an address of the address space with the number `life`.
    pub(super) fn hit(&mut self, life: u64, tgid: u32, address: Avma) {
        if self.count >= MAX_SITES {
            return;
        }
        let life = self.lives.entry(life).or_insert_with(|| SpaceSites::new(tgid));
        if let std::collections::hash_map::Entry::Vacant(vacant) = life.sites.entry(address) {
            vacant.insert(Site::default());
            life.new.push(address);
            self.count += 1;
        }
    }

    /// Takes the answers of the reader, and requests the addresses that are due.
    pub(super) fn go_on(&mut self) {
        if self.lives.is_empty() {
            return;
        }
        let Some(reader) = self.reader.take().or_else(Reader::start) else { return };
        let reader = self.reader.insert(reader);
        for answer in reader.take_answers() {
            take(&mut self.lives, &answer);
        }
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut self.allowed_at, now));
        self.allowed = (self.allowed + passed.as_secs_f64() * PER_SECOND).min(AT_ONCE);
        // Addresses that were never read come first.
        for (number, life) in &mut self.lives {
            while !life.new.is_empty() && ask(reader, *number, life.tgid, &mut life.new, &mut self.allowed) {}
        }
        for (number, life) in &mut self.lives {
            if life.again_at <= now {
                let part = now.duration_since(life.known_at) / AGAIN_PART;
                life.again_at = now + part.clamp(*AGAIN_EVERY.start(), *AGAIN_EVERY.end());
                life.negative.append(&mut life.reread);
                while !life.negative.is_empty()
                    && ask(reader, *number, life.tgid, &mut life.negative, &mut self.allowed)
                {
                }
            }
        }
    }

    /// Reads the addresses without a call for the last time, before the recording ends.
    pub(super) fn finish(&mut self) {
        let until = Instant::now() + PATIENCE;
        let wait = |sites: &mut Self| {
            while let Some(answer) = sites.reader.as_mut().and_then(|reader| reader.wait(until)) {
                take(&mut sites.lives, &answer);
            }
        };
        wait(self);
        let now = Instant::now();
        self.lives.values_mut().for_each(|life| life.again_at = now);
        self.go_on();
        wait(self);
    }

    /// Forgets an address space that ended at `gone_ns`, and returns its rows.
    pub(super) fn end(&mut self, number: u64, gone_ns: u64) -> Vec<CallSite> {
        if let Some(reader) = &mut self.reader {
            for answer in reader.take_answers() {
                take(&mut self.lives, &answer);
            }
        }
        let Some(SpaceSites { tgid, sites, .. }) = self.lives.remove(&number) else { return Vec::new() };
        self.count -= sites.len();
        let mut rows: Vec<CallSite> = Vec::new();
        for (address, Site(readings)) in sites {
            // A reading after the end may be one of the next program's memory.
            let readings = readings.iter().filter(|reading| reading.first_ns < gone_ns);
            rows.extend(readings.map(|reading| CallSite {
                tgid,
                address: address.0,
                first_ns: reading.first_ns,
                last_ns: if reading.last_ns < gone_ns { reading.last_ns } else { reading.first_ns },
                front: reading.around.front.get().to_vec(),
                behind: reading.around.behind.get().to_vec(),
            }));
        }
        rows.sort_unstable();
        rows
    }
}

/// Requests addresses from the end of the list; returns false if no more can be requested now.
fn ask(reader: &mut Reader, life: u64, tgid: u32, addresses: &mut Vec<Avma>, allowed: &mut f64) -> bool {
    let some = addresses.len().min(PER_REQUEST).min(*allowed as usize);
    if some == 0 {
        return false;
    }
    match reader.ask(life, tgid, addresses.split_off(addresses.len() - some)) {
        Ok(()) => {
            *allowed -= some as f64;
            true
        }
        Err(mut back) => {
            addresses.append(&mut back);
            false
        }
    }
}

/// Notes the readings of an answer.
fn take(lives: &mut FxHashMap<u64, SpaceSites>, answer: &Fronts) {
    let Some(life) = lives.get_mut(&answer.life) else { return };
    for (address, around) in &answer.fronts {
        if let Some(site) = life.sites.get_mut(address)
            && site.read(*around, answer.began_ns, answer.ended_ns)
        {
            life.reread.push(*address);
        }
    }
}

impl SpaceSites {
    fn new(tgid: u32) -> Self {
        let (sites, new, negative, reread) = Default::default();
        let now = Instant::now();
        Self { tgid, known_at: now, sites, new, negative, reread, again_at: now }
    }
}

impl Site {
    /// Notes bytes that were read between two moments; returns true if the address must be read again.
    fn read(&mut self, mut around: Around, began_ns: u64, ended_ns: u64) -> bool {
        let is_call = is_call(around.front.get());
        if is_call {
            around.behind = Bytes::default();
        }
        match self.0.last_mut() {
            Some(last) if last.around == around => last.last_ns = last.last_ns.max(began_ns),
            _ => self.0.push(Unchanged { around, first_ns: ended_ns, last_ns: ended_ns }),
        }
        if self.0.len() > MAX_READINGS {
            self.0.clear();
            return false;
        }
        !is_call
    }
}

/// Returns true if these bytes may end with a call of this machine.
fn is_call(front: &[u8]) -> bool {
    if cfg!(target_arch = "aarch64") {
        calls::aarch64::before(front, 0).is_some()
    } else {
        calls::x86_64::before(front, 0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: [u8; 8] = [0x90, 0x90, 0x90, 0xe8, 0x10, 0, 0, 0];
    const NONE: [u8; 8] = [0x90; 8];

    fn answer(address: u64, bytes: &[u8], began_ns: u64) -> Fronts {
        let around = Around { front: Bytes::new(bytes), behind: Bytes::new(&[0xc3]) };
        Fronts { life: 1, began_ns, ended_ns: began_ns + 10, fronts: vec![(Avma(address), around)] }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_read_again_is_what_no_call_ends_with() {
        let mut sites = Sites::new();
        sites.hit(1, 7, Avma(0x1000));
        sites.hit(1, 7, Avma(0x2000));
        take(&mut sites.lives, &answer(0x1000, &CALL, 100));
        take(&mut sites.lives, &answer(0x2000, &NONE, 100));
        assert_eq!(sites.lives[&1].reread, [Avma(0x2000)]);
        take(&mut sites.lives, &answer(0x2000, &NONE, 300));
        let row = |address, first_ns, last_ns, bytes: &[u8]| CallSite {
            tgid: 7,
            address,
            first_ns,
            last_ns,
            front: bytes.to_vec(),
            behind: if bytes == CALL { vec![] } else { vec![0xc3] },
        };
        assert_eq!(sites.end(1, 900), [row(0x1000, 110, 110, &CALL), row(0x2000, 110, 300, &NONE)]);
        assert_eq!((sites.end(1, 900), sites.count), (vec![], 0));
    }

    #[test]
    fn what_changes_begins_a_row_and_what_changes_too_often_has_none() {
        let mut sites = Sites::new();
        sites.hit(1, 7, Avma(0x1000));
        for number in 0..4 {
            take(&mut sites.lives, &answer(0x1000, &[number; 8], 100 * u64::from(number)));
        }
        let known = &sites.lives[&1].sites[&Avma(0x1000)].0;
        assert_eq!(known.iter().map(|it| it.first_ns).collect::<Vec<_>>(), [10, 110, 210, 310]);
        take(&mut sites.lives, &answer(0x1000, &[4; 8], 400));
        assert_eq!(sites.end(1, 900), []);
    }

    #[test]
    fn what_was_read_of_the_next_program_does_not_count() {
        let mut sites = Sites::new();
        sites.hit(1, 7, Avma(0x1000));
        sites.hit(1, 7, Avma(0x2000));
        take(&mut sites.lives, &answer(0x1000, &NONE, 100));
        take(&mut sites.lives, &answer(0x1000, &NONE, 300));
        take(&mut sites.lives, &answer(0x2000, &NONE, 300));
        let rows = sites.end(1, 200);
        assert_eq!(rows.iter().map(|row| (row.address, row.last_ns)).collect::<Vec<_>>(), [(0x1000, 110)]);
    }
}
