//! Remembers who has not answered, so that nobody is asked again and again, and all waiting together has a bound.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::proc::scan;

/// How long one answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How many answers may fail to come in one recording. After that only local devices are asked, no path is followed, and no memory is read.
const MAX_SILENT: u32 = 8;
/// How many processes of one user may fail to answer before no other one is asked: this user alone then lacks what is read of processes.
const MAX_SILENT_OF_USER: u32 = 2;
/// For how long a local device is not asked after it was too slow. Others are not asked again at all.
const LOCAL_PAUSE: Duration = Duration::from_secs(10);
/// The most devices that are remembered before all that answer are forgotten.
const MAX_REMEMBERED: usize = 4096;

/// Who is asked, and may keep a request waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// A file system, by its device.
    Device(u64),
    /// Whatever lies on a path.
    Path,
    /// A process, which has mapped a file, and then the device of this file.
    Mapped(u32, u64),
    /// The memory of a process.
    Process(u32),
}

/// Who has answered so far, and who has not.
#[derive(Debug, Default)]
pub(super) struct Answers {
    local_devices: FxHashSet<u64>,
    silent_devices: FxHashMap<u64, Instant>,
    silent_processes: FxHashSet<u32>,
    /// How many processes of a user have not answered.
    silent_users: FxHashMap<u32, u32>,
    /// How many answers did not come from others than local devices.
    silent: u32,
}

impl Answers {
    /// Returns true if somebody may be asked at a moment.
    pub(super) fn may_ask(&self, whom: Whom, now: Instant) -> bool {
        let is_patient = self.silent < MAX_SILENT;
        match whom {
            Whom::Device(dev) if self.local_devices.contains(&dev) => {
                let since = self.silent_devices.get(&dev).copied();
                since.is_none_or(|since| now.saturating_duration_since(since) >= LOCAL_PAUSE)
            }
            Whom::Device(dev) => is_patient && !self.silent_devices.contains_key(&dev),
            Whom::Path => is_patient,
            Whom::Mapped(tgid, dev) => {
                self.may_ask(Whom::Process(tgid), now) && self.may_ask(Whom::Device(dev), now)
            }
            Whom::Process(tgid) => {
                is_patient && !self.silent_processes.contains(&tgid) && self.may_ask_of_user(tgid)
            }
        }
    }

    fn may_ask_of_user(&self, tgid: u32) -> bool {
        let silent = |uid| self.silent_users.get(&uid).copied().unwrap_or(0);
        self.silent_users.is_empty() || user_of(tgid).is_none_or(|uid| silent(uid) < MAX_SILENT_OF_USER)
    }

    /// Notes that a device is on this machine.
    pub(super) fn is_local(&mut self, dev: u64) {
        if self.local_devices.len() >= MAX_REMEMBERED {
            self.local_devices.clear();
        }
        self.local_devices.insert(dev);
    }

    /// Notes that somebody has not answered; of a file that a process has mapped, its device.
    pub(super) fn did_not_answer(&mut self, whom: Whom, now: Instant) {
        let whom = if let Whom::Mapped(_, dev) = whom { Whom::Device(dev) } else { whom };
        let is_local = |dev| self.local_devices.contains(&dev);
        self.silent += u32::from(!matches!(whom, Whom::Device(dev) if is_local(dev)));
        match whom {
            Whom::Device(dev) => _ = self.silent_devices.insert(dev, now),
            Whom::Process(tgid) => {
                self.silent_processes.insert(tgid);
                user_of(tgid).into_iter().for_each(|uid| *self.silent_users.entry(uid).or_default() += 1);
            }
            Whom::Path | Whom::Mapped(..) => {}
        }
    }

    /// Returns true if a device has not answered once.
    pub(super) fn is_silent(&self, dev: u64) -> bool {
        self.silent_devices.contains_key(&dev)
    }
}

/// Returns the user of a process; `None` if it has ended.
fn user_of(tgid: u32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{tgid}/status")).ok()?;
    scan::status_numbers(&status, "Uid").next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_does_not_answer_is_not_asked_again_and_a_slow_disk_is_after_a_while() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let (far, near) = (Whom::Device(1), Whom::Device(2));
        answers.is_local(2);
        for whom in [far, near] {
            assert!(answers.may_ask(whom, now));
            answers.did_not_answer(whom, now);
            assert!(!answers.may_ask(whom, now));
        }
        assert!(!answers.may_ask(far, now + LOCAL_PAUSE) && answers.may_ask(near, now + LOCAL_PAUSE));
        assert!(answers.is_silent(1) && !answers.is_silent(3));
    }

    #[test]
    fn who_keeps_many_requests_waiting_does_so_a_few_times() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.is_local(100);
        for other in 0..u64::from(MAX_SILENT) {
            let whom = [Whom::Device(other), Whom::Path, Whom::Process(other as u32)][other as usize % 3];
            assert!(answers.may_ask(whom, now), "{other}");
            answers.did_not_answer(whom, now);
        }
        let refused = [Whom::Device(99), Whom::Path, Whom::Process(99)];
        assert!(refused.iter().all(|whom| !answers.may_ask(*whom, now)));
        assert!(answers.may_ask(Whom::Device(100), now));
    }

    #[test]
    fn a_user_whose_processes_do_not_answer_takes_that_from_himself_alone() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let mut children: Vec<_> = (0..MAX_SILENT_OF_USER + 1)
            .map(|_| std::process::Command::new("sleep").arg("60").spawn().expect("a process"))
            .collect();
        let (last, silent) = children.split_last().expect("several");
        assert!(answers.may_ask(Whom::Process(last.id()), now));
        silent.iter().for_each(|child| answers.did_not_answer(Whom::Process(child.id()), now));
        assert!(!answers.may_ask(Whom::Process(last.id()), now));
        // Nobody knows whose process this is.
        assert!(answers.may_ask(Whom::Process(u32::MAX), now) && answers.may_ask(Whom::Path, now));
        for child in &mut children {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}
