use proptest::prelude::*;

use super::*;

fn item(text: &'static str) -> Item<'static> {
    let (name, image) = text.split_once(" in ").unwrap_or((text, "/bin/app"));
    Item { name, image: Some(image), build_id: b"", file: None, twin: None }
}

/// Groups as text, with the names of their items: `a+b = c`.
fn groups(before: &[Item<'_>], after: &[Item<'_>]) -> Vec<(String, Clue)> {
    let text = |items: &[Item<'_>], side: &[usize]| {
        side.iter().map(|position| items[*position].name).collect::<Vec<_>>().join(" + ")
    };
    let group = |it: &Group| (format!("{} = {}", text(before, &it.before), text(after, &it.after)), it.by);
    matched(before, after).iter().map(group).collect()
}

fn check(before: &[&'static str], after: &[&'static str], expected: &[(&str, Clue)]) {
    let [before, after] = [before, after].map(|side| side.iter().copied().map(item).collect::<Vec<_>>());
    let expected: Vec<_> = expected.iter().map(|(text, by)| ((*text).to_owned(), *by)).collect();
    assert_eq!(groups(&before, &after), expected);
}

#[test]
fn parts_of_a_function_are_one() {
    check(
        &["f", "f.cold", "g.llvm.1", "gone"],
        &["f.part.0", "f", "g.llvm.2", "new.cold", "new"],
        &[
            ("f + f.cold = f.part.0 + f", Clue::Decoration),
            ("g.llvm.1 = g.llvm.2", Clue::Decoration),
            ("gone = ", Clue::Name),
            (" = new.cold + new", Clue::Name),
        ],
    );
}

#[test]
fn closures_keep_their_numbers_while_these_fit() {
    check(
        &["f::{closure#0}", "f::{closure#1}"],
        &["f::{closure#1}", "f::{closure#0}"],
        &[("f::{closure#0} = f::{closure#0}", Clue::Name), ("f::{closure#1} = f::{closure#1}", Clue::Name)],
    );
    check(
        &["f::{closure#0}", "f::{closure#1}"],
        &["f::{closure#0}", "f::{closure#2}", "f::{closure#3}"],
        &[
            ("f::{closure#0} = f::{closure#0}", Clue::Name),
            ("f::{closure#1} = f::{closure#2} + f::{closure#3}", Clue::Number),
        ],
    );
}

#[test]
fn manglings_are_only_reconciled_if_there_are_two() {
    let v0 = ["<a::V<u8>>::f", "<a::V<u16>>::f", "a::g::{closure#0}"];
    check(
        &v0,
        &["a::V<T>::f", "a::g::{{closure}}"],
        &[
            ("<a::V<u8>>::f + <a::V<u16>>::f = a::V<T>::f", Clue::Mangling),
            ("a::g::{closure#0} = a::g::{{closure}}", Clue::Number),
        ],
    );
    check(
        &["<a::V<u8>>::f", "a::g::{closure#0}"],
        &["<a::V<u16>>::f", "a::g::{closure#0}"],
        &[
            ("<a::V<u8>>::f = ", Clue::Name),
            ("a::g::{closure#0} = a::g::{closure#0}", Clue::Name),
            (" = <a::V<u16>>::f", Clue::Name),
        ],
    );
}

#[test]
fn a_changed_signature_is_believed_of_one_only() {
    check(&["f(int)"], &["f(long)"], &[("f(int) = f(long)", Clue::Signature)]);
    check(
        &["f(int)"],
        &["f(long)", "f(char)"],
        &[("f(int) = ", Clue::Name), (" = f(long)", Clue::Name), (" = f(char)", Clue::Name)],
    );
}

#[test]
fn an_image_may_have_another_version_or_name() {
    check(
        &["f in /lib/libx.so.1.2", "main in /opt/old", "work in /opt/old", "old+0x12 in /opt/old"],
        &["f in /lib/libx.so.2", "main in /opt/new", "work in /opt/new", "new+0x34 in /opt/new"],
        &[
            ("f = f", Clue::Name),
            ("main = main", Clue::Image),
            ("work = work", Clue::Image),
            ("old+0x12 = new+0x34", Clue::Image),
        ],
    );
}

#[test]
fn a_function_moves_if_nothing_speaks_against_it() {
    // Linked statically.
    check(
        &["main in /bin/app", "memcpy in /lib/libc.so.6"],
        &["main in /bin/app", "memcpy in /bin/app"],
        &[("main = main", Clue::Name), ("memcpy = memcpy", Clue::Image)],
    );
    // Two programs that have a function of that name each.
    let [ours, other] = ["x in /bin/ours", "x in /bin/other"];
    check(
        &["error in /bin/ours", ours, other],
        &["error in /bin/other", ours, other],
        &[("error = ", Clue::Name), ("x = x", Clue::Name), ("x = x", Clue::Name), (" = error", Clue::Name)],
    );
    // Every program has one.
    check(
        &["main in /bin/ours"],
        &["main in /bin/other"],
        &[("main = ", Clue::Name), (" = main", Clue::Name)],
    );
}

#[test]
fn different_files_are_different_functions() {
    let at = |file| Item { file: Some(file), ..item("work in /lib/a.so") };
    let to = |file| Item { file: Some(file), ..item("work in /bin/b") };
    assert!(matched(&[at("/x/src/w.c")], &[to("/y/w.c")])[0].is_pair());
    // One function alone does not make an image another's new name.
    let groups = matched(&[at("/x/w.c"), item("k in /lib/a.so")], &[to("/x/v.c"), item("k in /lib/a.so")]);
    assert_eq!(groups.iter().filter(|group| group.is_pair()).count(), 1);
}

#[test]
fn addresses_say_something_within_one_build_only() {
    let of = |name, build_id| Item { build_id, ..item(name) };
    let [a, b] = ["app+0x10", "app+0x20"];
    let both = [of(a, b"1"), of(b, b"1")];
    assert_eq!(
        groups(&both, &[both[1]]),
        [("app+0x10 = ".to_owned(), Clue::Name), ("app+0x20 = app+0x20".to_owned(), Clue::Name)]
    );
    let other = [of(a, b"2"), of("app+0x30", b"2")];
    assert_eq!(
        groups(&both, &other),
        [("app+0x10 + app+0x20 = app+0x10 + app+0x30".to_owned(), Clue::Decoration)]
    );
    // In one build, number 1 is not number 2.
    let closures = ["f::{closure#1}", "f::{closure#2}"].map(|name| of(name, b"1"));
    assert!(matched(&closures[..1], &closures[1..]).iter().all(|group| !group.is_pair()));
}

const NAMES: &[&str] = &[
    "f",
    "f.cold",
    "f.llvm.1",
    "f.llvm.2",
    "g::{closure#0}",
    "g::{closure#1}",
    "g::{{closure}}",
    "a::V<T>::h",
    "<a::V<u8>>::h",
    "<a::V<u16>>::h",
    "k(int)",
    "k(long)",
    "k(char)",
    "main",
    "x.so+0x1",
    "x.so+0x2",
    "x.so+?",
];
const IMAGES: &[&str] = &["/bin/a", "/bin/b", "/lib/x.so.1", "/lib/x.so.2"];

fn side() -> impl Strategy<Value = Vec<Item<'static>>> {
    let item =
        (prop::sample::select(NAMES), prop::option::of(prop::sample::select(IMAGES)), 0_usize..3, 0_usize..3);
    let item = item.prop_map(|(name, image, build, file)| Item {
        name,
        image,
        build_id: [&b""[..], b"1", b"2"][build],
        file: [None, Some("/s/a.c"), Some("b.c")][file],
        twin: None,
    });
    prop::collection::vec(item, 0..12)
}

proptest! {
    #[test]
    fn every_item_is_in_one_group_whichever_side_is_first((before, after) in (side(), side())) {
        let groups = matched(&before, &after);
        let all = |side: fn(&Group) -> &Vec<usize>| {
            let mut all: Vec<usize> = groups.iter().flat_map(side).copied().collect();
            all.sort_unstable();
            all
        };
        prop_assert_eq!(all(|group| &group.before), (0..before.len()).collect::<Vec<_>>());
        prop_assert_eq!(all(|group| &group.after), (0..after.len()).collect::<Vec<_>>());
        prop_assert!(groups.iter().all(|group| !group.before.is_empty() || !group.after.is_empty()));
        prop_assert_eq!(&matched(&before, &after), &groups);

        let sorted = |mut groups: Vec<Group>| {
            groups.sort_by(|a, b| (&a.before, &a.after).cmp(&(&b.before, &b.after)));
            groups
        };
        let exchanged = matched(&after, &before).into_iter();
        let exchanged = exchanged.map(|it| Group { before: it.after, after: it.before, by: it.by }).collect();
        prop_assert_eq!(sorted(exchanged), sorted(groups));
    }

    #[test]
    fn no_key_is_both_new_and_gone((before, after) in (side(), side())) {
        let groups = matched(&before, &after);
        let keys = |items: &[Item<'_>], side: fn(&Group) -> &Vec<usize>| -> HashSet<_> {
            let alone = groups.iter().filter(|group| !group.is_pair()).flat_map(side);
            // Addresses of builds that are on both sides are compared as they are.
            let named = alone.map(|position| items[*position]).filter(|item| !item.name.contains("+0x"));
            named.map(|item| (function(item.name).into_owned(), item.image.map(|path| super::super::image(path).into_owned()))).collect()
        };
        let (gone, new) = (keys(&before, |group| &group.before), keys(&after, |group| &group.after));
        prop_assert!(gone.is_disjoint(&new), "{gone:?} {new:?}");
    }
}
