//! Tells functions of one name apart in every build: by version, or by source file and order in it. Lines move between builds, and
//! addresses all the more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::function;
use icecore_profile::named::names::{Names, Side};

/// What separates the key of a name from what tells functions of this name apart; no name contains it.
const SEPARATOR: char = '\u{1f}';

/// The key of a name, and that of an image.
type Shared<'a> = (String, &'a str);

/// What tells the functions of recordings apart, where names do not.
#[derive(Debug, Default)]
pub struct Twins {
    /// The mark of each function of each recording; `None` for a function that is the only one of its name.
    of: Vec<Vec<Option<String>>>,
    /// Counts the functions that share a name with others and have a mark.
    pub told_apart: u64,
    /// Counts the names of several functions that no mark distinguishes in all recordings. Each such name counts as one function.
    pub summed: u64,
}

impl Twins {
    /// Compares the functions of recordings; `images` are the keys of their images, `builds` their build-ids.
    pub fn new(recordings: &[&Names], images: &[Vec<String>], builds: &[Vec<Vec<u8>>]) -> Self {
        let keys: Vec<Vec<Option<Shared<'_>>>> =
            recordings.iter().zip(images).map(|(names, images)| shared(names, images)).collect();
        let mut several: HashSet<&Shared<'_>> = HashSet::new();
        for keys in &keys {
            let mut seen: HashSet<&Shared<'_>> = HashSet::new();
            several.extend(keys.iter().flatten().filter(|key| !seen.insert(key)));
        }
        let mut of: Vec<Vec<Option<String>>> = keys.iter().map(|keys| vec![None; keys.len()]).collect();
        let (mut told_apart, mut summed) = (0, 0);
        let mut members: HashMap<&Shared<'_>, Vec<(usize, usize)>> = HashMap::new();
        for (recording, keys) in keys.iter().enumerate() {
            for (at, key) in keys.iter().enumerate() {
                if let Some(key) = key.as_ref().filter(|key| several.contains(key)) {
                    members.entry(key).or_default().push((recording, at));
                }
            }
        }
        for members in members.into_values() {
            let marks = stable(&members, recordings).or_else(|| by_start(&members, recordings, builds));
            let Some(marks) = marks else {
                summed += 1;
                continue;
            };
            told_apart += marks.iter().collect::<HashSet<_>>().len() as u64;
            for ((recording, at), mark) in members.into_iter().zip(marks) {
                of[recording][at] = Some(mark);
            }
        }
        Self { of, told_apart, summed }
    }

    /// Returns what tells a function apart.
    pub fn mark(&self, recording: usize, at: usize) -> Option<&str> {
        self.of[recording][at].as_deref()
    }
}

/// Returns what tells each function of one recording apart from others of its name, wherever these are; `None` if nothing does that is
/// the same in every build.
pub fn marks(names: &Names, images: &[String]) -> Vec<Option<String>> {
    let keys = shared(names, images);
    let mut members: HashMap<&Shared<'_>, Vec<(usize, usize)>> = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        key.iter().for_each(|key| members.entry(key).or_default().push((0, at)));
    }
    let mut all = vec![None; keys.len()];
    for members in members.into_values() {
        let marks = stable(&members, &[names]).into_iter().flatten();
        members.iter().zip(marks).for_each(|((_, at), mark)| all[*at] = Some(mark));
    }
    all
}

/// Removes what tells functions apart from keys of names that no recording has twice. Returns the names of several functions that a
/// recording cannot tell apart while another can: their rows do not compare.
pub fn join<R>(recordings: &mut [&mut BTreeMap<(String, String), R>]) -> BTreeSet<String> {
    let base = |name: &str| name.split(SEPARATOR).next().unwrap_or_default().to_owned();
    let mut several: HashSet<(String, String)> = HashSet::new();
    for rows in recordings.iter() {
        let mut seen = HashSet::new();
        let bases = rows.keys().map(|(name, image)| (base(name), image.clone()));
        several.extend(bases.filter(|key| !seen.insert(key.clone())));
    }
    let known = recordings.iter().flat_map(|rows| rows.keys());
    let mixed = known.filter(|key| several.contains(key)).map(|(name, _)| name.clone()).collect();
    for rows in recordings {
        let joined = std::mem::take(*rows).into_iter().map(|((name, image), row)| {
            let key = (base(&name), image);
            if several.contains(&key) { ((name, key.1), row) } else { (key, row) }
        });
        **rows = joined.collect();
    }
    mixed
}

/// Appends the mark of a function to the key of its name.
pub(crate) fn marked(key: &str, mark: &str) -> String {
    format!("{key}{SEPARATOR}{mark}")
}

/// Returns the key of each function that has a name.
fn shared<'a>(names: &Names, images: &'a [String]) -> Vec<Option<Shared<'a>>> {
    let key = |function: &icecore_profile::named::names::Function| {
        let image = function.image.filter(|_| function.reason.is_none())?;
        Some((self::function(function.own_name()).into_owned(), &*images[image as usize]))
    };
    names.functions.iter().map(key).collect()
}

/// What is the same in every build; `None` if a function has nothing of the kind, or two of one recording have the same.
fn stable(members: &[(usize, usize)], recordings: &[&Names]) -> Option<Vec<String>> {
    // Functions of one file, in each recording, by their lines.
    let mut of_file: BTreeMap<(usize, &str), Vec<(u32, usize)>> = BTreeMap::new();
    let mut marks = vec![String::new(); members.len()];
    for (number, (recording, at)) in members.iter().enumerate() {
        let names = recordings[*recording];
        let it = &names.functions[*at];
        match (&it.version, it.declared.or(it.seen), &it.source) {
            (Some(version), _, _) => marks[number] = version.to_string(),
            (None, Some((file, line)), _) => {
                let file = base_name(&names.files[file as usize]);
                of_file.entry((*recording, file)).or_default().push((line, number));
            }
            (None, None, Some(source)) => {
                let start = it.start.unwrap_or_default().min(u64::from(u32::MAX)) as u32;
                of_file.entry((*recording, base_name(source))).or_default().push((start, number));
            }
            (None, None, None) => return None,
        }
    }
    for ((_, file), mut all) in of_file {
        all.sort_unstable();
        for (order, (_, number)) in all.into_iter().enumerate() {
            marks[number] = format!("{file}#{order}");
        }
    }
    let mut seen = HashSet::new();
    let is_alone = |(member, mark): (&(usize, usize), &String)| seen.insert((member.0, mark.clone()));
    members.iter().zip(&marks).all(is_alone).then_some(marks)
}

/// The first addresses, if all recordings are of one build.
fn by_start(
    members: &[(usize, usize)],
    recordings: &[&Names],
    builds: &[Vec<Vec<u8>>],
) -> Option<Vec<String>> {
    let it = |(recording, at): &(usize, usize)| &recordings[*recording].functions[*at];
    let build = |member: &(usize, usize)| Some(&builds[member.0][it(member).image? as usize][..]);
    let first = build(members.first()?).filter(|build| !build.is_empty())?;
    let is_one = members.iter().all(|member| build(member) == Some(first) && it(member).side == Side::User);
    let starts: Option<Vec<u64>> = members.iter().map(|member| it(member).start).collect();
    Some(starts.filter(|_| is_one)?.into_iter().map(|start| format!("+{start:#x}")).collect())
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::names::{Function, ImageName};

    /// A name, the place of the declaration, and the first address.
    type Row<'a> = (&'a str, Option<(u32, u32)>, u64);

    fn names(functions: &[Row<'_>]) -> Names {
        let function = |(name, declared, start): &Row<'_>| Function {
            image: Some(0),
            declared: *declared,
            start: Some(*start),
            ..Function::new(name)
        };
        Names {
            images: vec![ImageName { path: "/bin/x".into() }],
            functions: functions.iter().map(function).collect(),
            files: ["/src/a.c", "/src/b.c"].map(Box::from).into(),
            ..Names::default()
        }
    }

    fn twins(recordings: &[&Names], builds: [&[u8]; 2]) -> (Vec<Vec<Option<String>>>, u64, u64) {
        let images = vec![vec!["x".to_owned()]; 2];
        let builds = builds.map(|build| vec![build.to_vec()]);
        let twins = Twins::new(recordings, &images, &builds);
        (twins.of, twins.told_apart, twins.summed)
    }

    fn some(mark: &str) -> Option<String> {
        Some(mark.to_owned())
    }

    #[test]
    fn moved_lines_and_addresses_change_nothing() {
        let before = names(&[("helper", Some((0, 3)), 16), ("helper", Some((1, 3)), 48), ("main", None, 64)]);
        let after = names(&[("helper", Some((1, 9)), 16), ("helper", Some((0, 5)), 32)]);
        let (of, told_apart, summed) = twins(&[&before, &after], [b"1", b"2"]);
        assert_eq!(of[0], [some("a.c#0"), some("b.c#0"), None]);
        assert_eq!((of[1].clone(), told_apart, summed), (vec![some("b.c#0"), some("a.c#0")], 2, 0));
    }

    #[test]
    fn a_recording_that_has_one_of_two_says_which() {
        let (both, one) =
            (names(&[("f", Some((0, 3)), 16), ("f", Some((1, 3)), 48)]), names(&[("f", Some((1, 7)), 16)]));
        assert_eq!(twins(&[&both, &one], [b"1", b"2"]).0[1], [some("b.c#0")]);
    }

    #[test]
    fn what_nothing_tells_apart_in_all_builds_is_one() {
        let (both, unknown) =
            (names(&[("f", Some((0, 3)), 16), ("f", Some((1, 3)), 48)]), names(&[("f", None, 16)]));
        let (of, told_apart, summed) = twins(&[&both, &unknown], [b"1", b"2"]);
        assert_eq!((of, told_apart, summed), (vec![vec![None, None], vec![None]], 0, 1));
        let start = names(&[("f", None, 16), ("f", None, 48)]);
        assert_eq!(twins(&[&start, &start], [b"1", b"2"]).2, 1);
        assert_eq!(twins(&[&start, &start], [b"1", b"1"]).0[0], [some("+0x10"), some("+0x30")]);
        assert_eq!(twins(&[&start, &start], [b"", b""]).2, 1, "nobody knows the build");
    }

    #[test]
    fn keys_of_many_recordings_have_marks_where_one_of_them_has_two() {
        let recording = |keys: &[&str]| -> BTreeMap<(String, String), ()> {
            keys.iter().map(|key| ((key.replace('@', "\u{1f}"), "x".to_owned()), ())).collect()
        };
        let mut all = [recording(&["f@a.c#0", "f@b.c#0", "g@a.c#0"]), recording(&["f@b.c#0", "g@c.c#0"])];
        assert_eq!(join(&mut all.each_mut().map(|rows| rows)), BTreeSet::new());
        assert_eq!(all, [recording(&["f@a.c#0", "f@b.c#0", "g"]), recording(&["f@b.c#0", "g"])]);
        let mut all = [recording(&["f@a.c#0", "f@b.c#0", "g@a.c#0"]), recording(&["f", "g"])];
        assert_eq!(join(&mut all.each_mut().map(|rows| rows)), BTreeSet::from(["f".to_owned()]));
        assert_eq!(all, [recording(&["f@a.c#0", "f@b.c#0", "g"]), recording(&["f", "g"])]);
        let one = names(&[("f", Some((0, 3)), 16), ("g", None, 48)]);
        assert_eq!(marks(&one, &["x".to_owned()]), [some("a.c#0"), None]);
    }

    #[test]
    fn one_function_of_a_name_needs_no_mark() {
        let one = names(&[("f", Some((0, 3)), 16)]);
        assert_eq!(twins(&[&one, &one], [b"1", b"2"]), (vec![vec![None], vec![None]], 0, 0));
    }
}
