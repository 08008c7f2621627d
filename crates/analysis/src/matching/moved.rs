//! Joins functions that moved to another image: the program was renamed, or they were linked statically, or moved to another
//! library.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::numbers::unnumbered;
use super::open::{Clue, Open, Single};

/// Functions of every program; they do not identify a program.
const COMMON: [&str; 12] = [
    "main",
    "main.main",
    "_start",
    "_init",
    "_fini",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__libc_csu_init",
    "__libc_csu_fini",
    "call_weak_fn",
];

/// The images of both sides, by their keys.
struct Images<'a> {
    before: HashSet<&'a str>,
    after: HashSet<&'a str>,
}

/// Joins functions across images: first all of a renamed image, then functions with a unique name.
pub(super) fn join(open: &mut Open<'_>, [before, after]: [HashSet<&str>; 2]) {
    let images = Images { before, after };
    let new_names = images.new_names(open);
    let in_renamed = |it: &Single<'_>| {
        let own = it.image.filter(|_| !it.is_final)?;
        let image = new_names.get(own).map_or(own, String::as_str);
        // The name of an unnamed function contains that of its image.
        let key = it.key.strip_prefix(own).filter(|rest| rest.starts_with("+?")).unwrap_or(&it.key);
        Some((unnumbered(key).into_owned(), image.to_owned()))
    };
    open.join(Clue::Image, in_renamed, |_, _| true);
    let settled = |it: &Single<'_>| (!it.is_final).then(|| it.key.to_string());
    open.join(Clue::Image, settled, |before, after| images.is_move(before, after));
    let loose = |it: &Single<'_>| (!it.is_final).then(|| unnumbered(&it.key).into_owned());
    open.join(Clue::Image, loose, |before, after| images.is_move(before, after));
}

impl Images<'_> {
    /// Finds images that are gone and probably have a new name: among all new images this one shares most functions with it, and
    /// vice versa.
    fn new_names(&self, open: &Open<'_>) -> HashMap<String, String> {
        let mut after_by_key: HashMap<&str, Vec<&str>> = HashMap::new();
        for single in &open.after {
            if let Some(image) = single.image.filter(|image| !self.before.contains(*image)) {
                after_by_key.entry(&single.key).or_default().push(image);
            }
        }
        let mut shared: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for single in open.before.iter().filter(|single| !COMMON.contains(&&*single.key)) {
            let Some(gone) = single.image.filter(|image| !self.after.contains(*image)) else {
                continue;
            };
            for new in after_by_key.get(&*single.key).into_iter().flatten() {
                *shared.entry((gone, new)).or_default() += 1;
            }
        }
        let is_best = |&(gone, new): &(&str, &str), count: usize| {
            shared.iter().all(|(other, other_count)| {
                *other == (gone, new) || (other.0 != gone && other.1 != new) || *other_count < count
            })
        };
        let best = shared.iter().filter(|(pair, count)| is_best(pair, **count));
        best.map(|((gone, new), _)| ((*gone).to_owned(), (*new).to_owned())).collect()
    }

    /// Returns true if the items are one function that moved: the only one of its name on either side, and not from different
    /// source files. If both sides have both images, a plain C name is not enough: `error` of one program is not `error` of
    /// another.
    fn is_move(&self, before: &[&Single<'_>], after: &[&Single<'_>]) -> bool {
        let ([from], [to]) = (before, after) else { return false };
        let (Some(from_image), Some(to_image)) = (from.image, to.image) else {
            return false;
        };
        let is_elsewhere = !self.after.contains(from_image) || !self.before.contains(to_image);
        let is_told = is_elsewhere || from.key.contains("::");
        is_told
            && !COMMON.contains(&&*from.key)
            && (from.file.map(base).zip(to.file.map(base))).is_none_or(|(a, b)| a == b)
    }
}

/// Returns the last part of a source file's path.
fn base(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}
