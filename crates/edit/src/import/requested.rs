//! Finds what `perf record` was asked to sample: perf says it only in the flags of its events and in its own arguments.

use icecore_format::records::{CpuScope, TargetKind};

/// Options without a value that perf lets a user join, as in `-ag`.
const JOINED: &str = "agqvdTW";

/// What was to be sampled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requested {
    pub(super) target: TargetKind,
    pub(super) target_ids: Vec<u32>,
    pub(super) cpu_scope: CpuScope,
    pub(super) cpus: Vec<u32>,
}

impl Requested {
    /// `seen` are the CPUs of the samples; `is_of_command` is true if an event began with perf's command.
    pub(super) fn of(args: &[String], seen: Vec<u32>, is_of_command: bool) -> Self {
        // perf lets an event begin with its command only if no CPUs, processes or threads were named.
        if is_of_command {
            let (target, cpu_scope) = (TargetKind::COMMAND, CpuScope::ALL);
            return Self { target, target_ids: Vec::new(), cpu_scope, cpus: seen };
        }
        let (target, ids) = target(args);
        let target_ids = ids.and_then(numbers).unwrap_or_default();
        let (cpu_scope, cpus) = match option(args, ["-C", "--cpu"]) {
            None if args.is_empty() => (CpuScope::UNKNOWN, seen),
            None => (CpuScope::ALL, seen),
            // Samples of other CPUs prove that the word was no option of perf.
            Some(list) => match numbers(list) {
                Some(list) if seen.iter().all(|cpu| list.contains(cpu)) => (CpuScope::SOME, list),
                _ => (CpuScope::UNKNOWN, seen),
            },
        };
        Self { target, target_ids, cpu_scope, cpus }
    }
}

/// Returns what arguments name: whom, and the list of processes or threads.
fn target(args: &[String]) -> (TargetKind, Option<&str>) {
    let is_all = |arg: &str| {
        let joined = arg.strip_prefix('-').unwrap_or_default();
        arg == "--all-cpus" || joined.contains('a') && joined.chars().all(|flag| JOINED.contains(flag))
    };
    if own(args).any(is_all) {
        return (TargetKind::SYSTEM, None);
    }
    match (option(args, ["-p", "--pid"]), option(args, ["-t", "--tid"]), option(args, ["-C", "--cpu"])) {
        (Some(ids), ..) => (TargetKind::PROCESSES, Some(ids)),
        (_, Some(ids), _) => (TargetKind::THREADS, Some(ids)),
        (_, _, Some(_)) => (TargetKind::SYSTEM, None),
        _ => (TargetKind::UNKNOWN, None),
    }
}

/// Lists perf's arguments, without those of its command.
fn own(args: &[String]) -> impl Iterator<Item = &str> {
    args.iter().skip(1).map(String::as_str).take_while(|arg| *arg != "--")
}

/// Returns the value of an option.
fn option<'a>(args: &'a [String], [short, long]: [&str; 2]) -> Option<&'a str> {
    let mut args = own(args);
    while let Some(arg) = args.next() {
        if arg == short || arg == long {
            return args.next();
        }
        let joined = arg.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let value = joined.or_else(|| arg.strip_prefix(short).filter(|_| !arg.starts_with("--")));
        if value.is_some() {
            return value;
        }
    }
    None
}

/// Parses numbers and ranges, as `0-3,7`; `None` if these are none.
fn numbers(list: &str) -> Option<Vec<u32>> {
    /// More are no list that a person typed.
    const MOST: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last.checked_sub(first)? >= MOST || numbers.len() >= MOST as usize {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(command: &str, seen: &[u32]) -> Requested {
        let args: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        Requested::of(&args, seen.to_vec(), false)
    }

    fn requested(command: &str, seen: &[u32]) -> (TargetKind, Vec<u32>, CpuScope) {
        let Requested { target, target_ids, cpu_scope, .. } = by(command, seen);
        (target, target_ids, cpu_scope)
    }

    #[test]
    fn options_of_perf_name_whom_it_sampled() {
        let (all, some, unknown) = (CpuScope::ALL, CpuScope::SOME, CpuScope::UNKNOWN);
        assert_eq!(requested("perf record -ag", &[0]), (TargetKind::SYSTEM, vec![], all));
        assert_eq!(requested("perf record -p 7,9", &[0]), (TargetKind::PROCESSES, vec![7, 9], all));
        assert_eq!(requested("perf record --tid=7", &[0]), (TargetKind::THREADS, vec![7], all));
        assert_eq!(requested("perf record -C0-1,3", &[0, 3]), (TargetKind::SYSTEM, vec![], some));
        assert_eq!(by("perf record -C 0-1,3", &[3]).cpus, [0, 1, 3]);
        // A word behind the command is not perf's.
        assert_eq!(requested("perf record -a x -C 1", &[0, 1]), (TargetKind::SYSTEM, vec![], unknown));
        assert_eq!(requested("perf record -a -- x -C 1", &[1]), (TargetKind::SYSTEM, vec![], all));
        assert_eq!(requested("", &[0]), (TargetKind::UNKNOWN, vec![], unknown));
        assert_eq!(requested("perf record -u me", &[0]), (TargetKind::UNKNOWN, vec![], all));
    }

    #[test]
    fn lists_are_numbers_and_ranges() {
        assert_eq!(numbers("0-2,7"), Some(vec![0, 1, 2, 7]));
        for wrong in ["", "x", "3-1", "0-4294967295", "1,,2"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
