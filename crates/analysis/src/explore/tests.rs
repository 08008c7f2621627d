use super::call_tree::{CallTree, Direction, Ground, Label};
use super::filters::{Filters, Matching, Subject, Verb};
use super::selected::{Row, Selected};
use super::*;
use icecore_profile::named::{Thread, fixture};
use icecore_profile::stacks::hits::Moment;

const STACKS: [(&str, u64); 4] = [("main;a;b", 1), ("main;c", 5), ("main;a", 2), ("x;b", 2)];

/// Makes a profile of two processes, 1 and 2 in turn; every sample is a moment, one each 100 ns, row after row.
fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = fixture::profile(stacks);
    let thread = |tid| Thread {
        part: 0,
        tgid: tid,
        tid,
        comm: "t".into(),
        process: "p".into(),
        cgroup: 0,
        field: None,
    };
    profile.threads = vec![thread(1), thread(2)];
    for (number, row) in (0..).zip(&mut profile.rows) {
        row.thread = number % 2;
        let moments = 0..row.samples;
        profile.moments.extend(moments.map(|_| Moment {
            time_ns: 0,
            row: number,
            hit: 0,
            cpu: 0,
            lasted_ns: 0,
            late_ns: 0,
            weight: 10,
        }));
    }
    (1..).zip(&mut profile.moments).for_each(|(number, moment)| moment.time_ns = number * 100);
    profile
}

fn owners(units: &[&str]) -> Owners {
    let units = units.iter().map(|unit| Box::from(*unit)).collect();
    let (process_of_thread, thread_of_thread) = (vec![0, 1], vec![0, 1]);
    Owners { process_of_thread, thread_of_thread, processes: 2, threads: 2, units }
}

fn all() -> Filters {
    Filters::of(vec![true])
}

/// Lists functions as `name own/total`.
fn functions(explorer: &Explorer<'_>, selected: &Selected) -> Vec<String> {
    let row = |row: &Row| {
        let (own, total) = (row.sum.own.samples, row.sum.total.samples);
        format!("{} {own}/{total}", explorer.name(row.number))
    };
    selected.functions(explorer).iter().map(row).collect()
}

fn function(profile: &Profile, name: &str) -> u32 {
    let found = profile.names.functions.iter().position(|function| &*function.name == name);
    found.expect("it is there") as u32
}

/// Lists the visible nodes of a tree as `name own/total`, indented.
fn printed(explorer: &Explorer<'_>, tree: &CallTree) -> Vec<String> {
    let line = |position: u32| {
        let node = &tree.nodes[position as usize];
        let mut depth = 0;
        let mut at = node.parent;
        while at != 0 {
            (depth, at) = (depth + 1, tree.nodes[at as usize].parent);
        }
        let name = match node.label {
            Label::Function(function) => explorer.name(function),
            Label::Outermost => "[outermost]",
            Label::NoFrames => "[none]",
            Label::Root => "[root]",
        };
        format!("{}{name} {}/{}", " ".repeat(depth), node.own.samples, node.total.samples)
    };
    tree.visible().into_iter().map(line).collect()
}

#[test]
fn without_filters_everything_is_selected() {
    let profile = profile(&STACKS);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(all(), None);
    assert_eq!((selected.whole, &*selected.unit), (Amount { samples: 10, weight: 100 }, "ns"));
    assert_eq!(functions(&explorer, &selected), ["main 0/8", "a 2/3", "b 3/3", "c 5/5", "x 0/2"]);
    let processes = selected.processes(&explorer);
    assert_eq!(processes.iter().map(|row| row.sum.own.samples).collect::<Vec<_>>(), [3, 7]);
    assert_eq!(selected.images(&explorer).iter().map(|row| row.sum.total.samples).collect::<Vec<_>>(), [10]);
}

#[test]
fn rules_hold_together_and_each_can_be_taken_back() {
    let profile = profile(&STACKS);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let b = Subject::Function(function(&profile, "b"));
    let only = all().with(Verb::Only, b.clone());
    let selected = explorer.select(only.clone(), None);
    assert_eq!(functions(&explorer, &selected), ["main 0/1", "a 0/1", "b 3/3", "x 0/2"]);
    let process = only.with(Verb::Only, Subject::Process(1));
    assert_eq!(functions(&explorer, &explorer.select(process, None)), ["b 2/2", "x 0/2"]);
    let without = all().with(Verb::Without, b.clone()).with(Verb::Without, Subject::Thread(0));
    assert_eq!(functions(&explorer, &explorer.select(without, None)), ["main 0/5", "c 5/5"]);
    // What is hidden selects all the same.
    let hidden = only.with(Verb::Hide, b);
    assert_eq!(
        functions(&explorer, &explorer.select(hidden, Some(&selected))),
        ["main 0/1", "a 1/1", "x 2/2"]
    );
    assert_eq!(explorer.select(all(), Some(&selected)).whole.samples, 10);
}

#[test]
fn samples_of_which_nothing_is_left_are_counted() {
    let profile = profile(&[("main;a", 3), ("b", 2)]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let hidden = all().with(Verb::Hide, Subject::Function(function(&profile, "b")));
    let selected = explorer.select(hidden, None);
    assert_eq!((selected.whole.samples, selected.emptied), (3, 2));
}

#[test]
fn a_range_selects_moments_and_parts_of_waits() {
    let mut profile = profile(&STACKS);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    // The first is b, the five after it are c.
    let range = |range_ns| Filters { range_ns: Some(range_ns), ..all() };
    let selected = explorer.select(range((100, 400)), None);
    assert_eq!(functions(&explorer, &selected), ["main 0/3", "a 0/1", "b 1/1", "c 2/2"]);
    assert_eq!(explorer.select(range((5_000, 6_000)), None).whole, Amount::default());
    assert_eq!(explorer.select(range((400, 100)), None).whole, Amount::default());
    // The last begins before the range, and ends after it.
    let last = profile.moments.last_mut().expect("moments");
    (last.lasted_ns, last.weight) = (800, 1_600);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(range((150, 250)), None);
    assert_eq!(functions(&explorer, &selected), ["main 0/1", "b 1/1", "c 1/1", "x 0/1"]);
    assert_eq!(selected.whole, Amount { samples: 2, weight: 10 + 100 });
}

#[test]
fn events_of_different_units_count_samples() {
    let mut profile = profile(&STACKS);
    profile.rows[1].event = 1;
    let explorer = Explorer::new(&profile, owners(&["ns", "bytes"]));
    let both = explorer.select(Filters::of(vec![true, true]), None);
    assert_eq!((both.whole, &*both.unit), (Amount { samples: 10, weight: 10 }, "samples"));
    assert_eq!(both.events[1], Amount { samples: 5, weight: 50 });
    let one = explorer.select(Filters::of(vec![false, true]), None);
    assert_eq!((one.whole, &*one.unit), (Amount { samples: 5, weight: 50 }, "bytes"));
    assert_eq!(one.events, both.events, "what is not selected keeps its amount");
}

#[test]
fn inlined_functions_count_for_the_function_around_them_unless_apart() {
    let mut profile = profile(&[("main;a;b", 3), ("main;a", 2)]);
    let b = function(&profile, "b");
    profile.names.frames.iter_mut().for_each(|frame| frame.inlined = frame.function == b);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let folded = explorer.select(all(), None);
    assert_eq!(functions(&explorer, &folded), ["main 0/5", "a 5/5"]);
    let apart = explorer.select(Filters { inlined_apart: true, ..all() }, Some(&folded));
    assert_eq!(functions(&explorer, &apart), ["main 0/5", "a 2/5", "b 3/3"]);
}

#[test]
fn trees_of_callees_and_callers_add_up_to_the_function() {
    let profile = profile(&[("main;f;g;f", 3), ("main;g", 2), ("f", 1), ("main;f", 4)]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(all(), None);
    let ground = Ground { explorer: &explorer, selected: &selected };
    assert_eq!(
        printed(&explorer, &CallTree::all(ground)),
        ["main 0/9", " f 4/7", "  g 0/3", "   f 3/3", " g 2/2", "f 1/1"]
    );
    let f = function(&profile, "f");
    let callees = CallTree::of(ground, f, Direction::Callees);
    assert_eq!(callees.nodes[0].total.samples, 8);
    assert_eq!(printed(&explorer, &callees), ["g 0/3", " f 3/3"]);
    let callers = CallTree::of(ground, f, Direction::Callers);
    assert_eq!(callers.nodes[0].total.samples, 8);
    assert_eq!(printed(&explorer, &callers), ["main 7/7", "[outermost] 1/1"]);
}

#[test]
fn a_tree_of_another_selection_keeps_what_is_open() {
    let profile = profile(&[("main;a;b;c", 9), ("main;d;e", 1), ("main;d", 90)]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let everything = explorer.select(all(), None);
    let ground = Ground { explorer: &explorer, selected: &everything };
    let mut tree = CallTree::all(ground);
    assert_eq!(printed(&explorer, &tree), ["main 0/100", " d 90/91", "  e 1/1", " a 0/9"]);
    let a = tree.visible()[3];
    let c = tree.open_heaviest(ground, a);
    let without =
        explorer.select(all().with(Verb::Without, Subject::Function(function(&profile, "d"))), None);
    let (tree, marked) = tree.again(Ground { explorer: &explorer, selected: &without }, None, c);
    assert_eq!(printed(&explorer, &tree), ["main 0/9", " a 0/9", "  b 0/9", "   c 9/9"]);
    assert_eq!(tree.nodes[marked as usize].label, Label::Function(function(&profile, "c")));
    let none = explorer.select(Filters::of(vec![false]), None);
    let (tree, marked) = tree.again(Ground { explorer: &explorer, selected: &none }, None, marked);
    assert_eq!((printed(&explorer, &tree), marked), (Vec::new(), 0));
}

#[test]
fn a_search_says_how_much_matches_and_opens_what_leads_there() {
    let profile = profile(&[("main;a;b;c;b", 1), ("main;d", 99)]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(all(), None);
    let ground = Ground { explorer: &explorer, selected: &selected };
    let is_in = profile.names.functions.iter().map(|function| &*function.name == "b").collect();
    let found = explorer.find(&selected, Matching { pattern: "^b$".into(), is_in });
    assert_eq!((found.functions, found.amount.samples), (1, 1));
    let mut tree = CallTree::all(ground);
    assert_eq!(printed(&explorer, &tree), ["main 0/100", " d 99/99", " a 0/1"]);
    assert!(tree.open_to(ground, &found), "few nodes are opened");
    assert_eq!(printed(&explorer, &tree)[3..], ["  b 0/1", "   c 0/1", "    b 1/1"]);
    let mut callers = CallTree::of(ground, function(&profile, "d"), Direction::Callers);
    callers.open_to(ground, &found);
    assert_eq!(printed(&explorer, &callers), ["main 99/99"], "nothing leads to a match");
}

#[test]
fn lanes_show_what_lies_beside_the_range() {
    let mut profile = profile(&STACKS);
    profile.rows[3].event = 1;
    profile.moments.iter_mut().filter(|moment| moment.row == 3).for_each(|moment| moment.lasted_ns = 200);
    let explorer = Explorer::new(&profile, owners(&["ns", "ns"]));
    let filters = Filters { range_ns: Some((100, 200)), ..Filters::of(vec![true, false]) };
    let selected = explorer.select(filters, None);
    let lanes = explorer.lanes(&selected, (0, 1_000), 5);
    assert_eq!(lanes.shown, [10, 20, 20, 20, 10]);
    // Two waits of 200 ns each end at 900 and 1,000.
    assert_eq!(lanes.events, [(0, vec![10, 20, 20, 20, 10]), (1, vec![0, 0, 0, 5, 15])]);
    let zoomed = explorer.lanes(&selected, (200, 400), 2);
    assert_eq!((zoomed.shown, zoomed.slices.len_ns), (vec![10, 10], 100));
}

#[test]
fn a_stack_of_ten_thousand_frames_overflows_nothing() {
    let deep = (0..10_000).map(|depth| if depth % 2 == 0 { "f" } else { "g" }).collect::<Vec<_>>().join(";");
    let profile = profile(&[(&deep, 1)]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(all(), None);
    let ground = Ground { explorer: &explorer, selected: &selected };
    let tree = CallTree::all(ground);
    assert_eq!(tree.visible().len(), 10_000);
    assert_eq!(tree.again(ground, None, 0).0.visible().len(), 10_000);
    assert_eq!(functions(&explorer, &selected), ["f 0/1", "g 1/1"]);
}

#[test]
fn an_empty_profile_selects_nothing() {
    let profile = profile(&[]);
    let explorer = Explorer::new(&profile, owners(&["ns"]));
    let selected = explorer.select(all(), None);
    assert_eq!((selected.whole, functions(&explorer, &selected)), (Amount::default(), Vec::new()));
    assert_eq!(explorer.lanes(&selected, explorer.span_ns(), 10).shown.iter().sum::<u64>(), 0);
    assert!(CallTree::all(Ground { explorer: &explorer, selected: &selected }).visible().is_empty());
}
