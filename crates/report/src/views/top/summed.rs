//! Sums up who ran the code, which code, or both.

use super::by::{By, finest};
use super::subject::{Contexts, Subject, Value};
use icecore_profile::map::Interned;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Profile, Sum, groups, sums, sums_apart};

/// Sums, and what they are of.
pub(super) struct Summed {
    pub(super) sums: Vec<Sum>,
    contexts: Contexts,
    /// Subjects of the finest key of code; none if no key is of code.
    code: Vec<Subject>,
    /// What each sum is of: positions in `contexts` and in `code`.
    pairs: Vec<(u32, u32)>,
}

impl Summed {
    /// Sums up a profile by keys. Code that occurs several times in one stack counts once.
    pub(super) fn new(report: &Report<'_>, keys: &[By]) -> Self {
        let profile = &report.profile;
        let who: Vec<By> = keys.iter().copied().filter(|by| !by.is_of_code()).collect();
        let contexts = if who.is_empty() { Contexts::default() } else { Contexts::new(report, &who) };
        let Some(by) = finest(keys) else {
            let mut sums = vec![Sum::default(); contexts.all.len()];
            for (row, context) in profile.rows.iter().zip(&contexts.of_row) {
                let sum = &mut sums[*context as usize];
                sum.own.add(row.amount());
                sum.total = sum.own;
            }
            let pairs = (0..contexts.all.len() as u32).map(|context| (context, 0)).collect();
            return Self { sums, contexts, code: Vec::new(), pairs };
        };
        let (code, of_stack) = code(profile, by);
        let (pairs, sums) = if who.is_empty() {
            ((0..code.len() as u32).map(|code| (0, code)).collect(), sums(profile, &of_stack, code.len()))
        } else {
            sums_apart(profile, &contexts.of_row, &of_stack)
        };
        Self { sums, contexts, code, pairs }
    }

    /// Describes a sum by each key.
    pub(super) fn values(&self, report: &Report<'_>, keys: &[By], at: usize) -> Vec<Value> {
        let (context, code) = self.pairs[at];
        let context = self.contexts.all.get(context as usize);
        let mut who = context.iter().flat_map(|(subjects, _)| subjects);
        let cgroup = context.and_then(|(_, cgroup)| *cgroup);
        let mut values = Vec::with_capacity(keys.len());
        for by in keys {
            let subject = if by.is_of_code() { self.code.get(code as usize) } else { who.next() };
            values.extend(subject.map(|subject| Value::new(report, *by, subject, cgroup)));
        }
        values
    }
}

/// Lists functions, lines or images, and the one of each stack's innermost frame.
fn code(profile: &Profile, by: By) -> (Vec<Subject>, Vec<u32>) {
    let mut keys: Interned<Subject> = Interned::new();
    let key_of_frame: Vec<u32> = profile
        .names
        .frames
        .iter()
        .map(|frame| {
            let function = &profile.names.functions[frame.function as usize];
            keys.intern(match by {
                By::Image => Subject::Image(function.image),
                By::Line => Subject::Line(frame.function, frame.file, frame.line),
                _ => Subject::Function(frame.function),
            })
        })
        .collect();
    let is_apart = matches!(by, By::Line | By::Inlined);
    let of_stack = groups(profile, &key_of_frame, |_| is_apart);
    (keys.into_items(), of_stack)
}
