//! Files made by hand, sound and not. What `llvm-gsymutil` writes is compared in tests/oracles.

use super::*;

const STRINGS: &[u8] = b"\0outer\0inner\0innermost\0dir\0a.c\0";
const OUTER: u32 = 1;
const INNER: u32 = 7;
const INNERMOST: u32 = 13;

/// A little-endian file: per function its address, and its record. Addresses count from 0x1000.
fn file(functions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let files = [2_u32, 0, 0, 23, 27].map(u32::to_le_bytes).concat();
    let addresses: Vec<u8> = functions.iter().flat_map(|(at, _)| at.to_le_bytes()).collect();
    let tables = (48 + addresses.len()).next_multiple_of(4) + 4 * functions.len() + files.len();
    let mut bytes = [&0x4753_594d_u32.to_le_bytes()[..], &[1, 0, 2, 0], &0x1000_u64.to_le_bytes()].concat();
    bytes
        .extend([functions.len() as u32, tables as u32, STRINGS.len() as u32].map(u32::to_le_bytes).concat());
    bytes.extend([0; 20]);
    bytes.extend(addresses);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut off = (tables + STRINGS.len()) as u32;
    for (_, record) in functions {
        bytes.extend(off.to_le_bytes());
        off += record.len() as u32;
    }
    bytes.extend(files);
    bytes.extend(STRINGS);
    bytes.extend(functions.iter().flat_map(|(_, record)| record));
    bytes
}

/// A record: size, name, parts.
fn record(size: u32, name: u32, parts: &[(u32, &[u8])]) -> Vec<u8> {
    let mut bytes = [size, name].map(u32::to_le_bytes).concat();
    for (kind, part) in parts {
        bytes.extend([*kind, part.len() as u32].map(u32::to_le_bytes).concat());
        bytes.extend(*part);
    }
    bytes.extend([0; 8]);
    bytes
}

/// One node of a tree with one range; file 1.
fn node(begin: u8, size: u8, has_children: bool, name: u32, line: u8) -> Vec<u8> {
    [&[1, begin, size, has_children.into()][..], &name.to_le_bytes(), &[1, line]].concat()
}

fn ask(bytes: &[u8], at: &[u64]) -> Result<FoundFunctions, Broken> {
    let at: Vec<Svma> = at.iter().map(|at| Svma(*at)).collect();
    look_up(bytes, &at, &|start, at| at.0 - start.0 < 4, &Strings::default())
}

/// `name:line` of each function, innermost first.
fn names(bytes: &[u8], at: &[u64]) -> Vec<String> {
    let answers = ask(bytes, at).expect("sound");
    assert!(!answers.is_broken);
    let function = |it: &Function| format!("{}:{}", it.name, it.line.unwrap_or(0));
    let answer =
        |all: &Option<Vec<Function>>| all.iter().flatten().map(function).collect::<Vec<_>>().join(" ");
    answers.functions.iter().map(answer).collect()
}

/// Lines 10, then from the fourth byte on 12; in it a call of line 20, and in that one of line 30.
fn nested() -> Vec<u8> {
    // Lowest and highest step, first line; a row at once; line + 2; address + 4.
    let lines = [0x7f, 4, 10, 2, 0, 3, 2, 2, 4, 0];
    let tree = [
        node(0, 16, true, OUTER, 0),
        node(4, 8, true, INNER, 20),
        node(2, 2, false, INNERMOST, 30),
        node(4, 2, false, INNERMOST, 31),
        vec![0],
        vec![0],
    ];
    record(16, OUTER, &[(7, b"call sites"), (1, &lines), (2, &tree.concat())])
}

#[test]
fn calls_nest_and_their_lines_belong_to_the_one_around() {
    let bytes = file(&[(0, nested())]);
    let expected = [
        (0x0fff, ""),
        (0x1000, "outer:10"),
        (0x1003, "outer:10"),
        (0x1004, "inner:12 outer:20"),
        (0x1006, "innermost:12 inner:30 outer:20"),
        (0x1007, "innermost:12 inner:30 outer:20"),
        (0x1008, "innermost:12 inner:31 outer:20"),
        (0x100b, "inner:12 outer:20"),
        (0x100c, "outer:12"),
        (0x1010, ""),
    ];
    let (at, expected): (Vec<u64>, Vec<&str>) = expected.into_iter().unzip();
    assert_eq!(names(&bytes, &at), expected);
    let answers = ask(&bytes, &[0x1000]).expect("sound").functions;
    let first = answers.into_iter().flatten().flatten().next().expect("one");
    assert_eq!(first.file.as_deref(), Some("dir/a.c"));
}

#[test]
fn an_address_is_in_the_function_that_begins_next_before_it() {
    let functions = [
        (0, record(16, OUTER, &[])),
        (4, record(4, INNER, &[])),
        (4, record(2, INNERMOST, &[])),
        (32, record(0, OUTER, &[])),
        (40, record(4, INNER, &[])),
    ];
    let at = [0x1003, 0x1004, 0x1006, 0x1008, 0x1020, 0x1023, 0x1024, 0x1028, 0x102c];
    let expected = ["outer:0", "inner:0", "inner:0", "", "outer:0", "outer:0", "", "inner:0", ""];
    assert_eq!(names(&file(&functions), &at), expected, "what has no size reaches as far as it may");
}

#[test]
fn bottomless_nesting_costs_no_stack() {
    let mut tree = node(0, 16, true, OUTER, 0);
    for _ in 0..1_000_000 {
        tree.extend(node(0, 16, true, 0, 1));
    }
    tree.extend(node(0, 16, true, INNER, 7));
    tree.resize(tree.len() + 1_000_002, 0);
    assert_only_the_name_is_known(&tree);
}

#[test]
fn calls_beside_each_other_that_overlap_are_not_believed() {
    let calls = [node(2, 4, false, INNER, 1), node(5, 4, false, INNERMOST, 1)].concat();
    assert_only_the_name_is_known(&[node(0, 16, true, OUTER, 0), calls, vec![0]].concat());
}

/// Of the function with this tree.
fn assert_only_the_name_is_known(tree: &[u8]) {
    let answers = ask(&file(&[(0, record(16, OUTER, &[(2, tree)]))]), &[0x1000]).expect("sound tables");
    let functions = answers.functions[0].as_deref().expect("its name is known");
    assert_eq!((&*functions[0].name, functions.len(), answers.is_broken), ("outer", 1, true));
}

#[test]
fn functions_and_calls_have_no_empty_names() {
    let tree = [node(0, 16, true, OUTER, 0), node(4, 8, false, 0, 20), vec![0]].concat();
    let lines = [0x7f, 4, 10, 2, 0, 3, 2, 2, 4, 0];
    let nameless_call = file(&[(0, record(16, OUTER, &[(1, &lines), (2, &tree)]))]);
    let answers = ask(&nameless_call, &[0x1004]).expect("sound tables");
    let functions = answers.functions[0].as_deref().expect("its name is known");
    assert_eq!((&*functions[0].name, functions.len()), ("outer", 1));
    let nameless = file(&[(0, record(16, 0, &[]))]);
    let answers = ask(&nameless, &[0x1000]).expect("sound tables");
    assert!(answers.functions[0].is_none());
}

#[test]
fn calls_nest_as_deep_as_is_allowed_on_the_stack_of_a_small_thread() {
    let mut tree = node(0, 16, true, OUTER, 0);
    for _ in 1..record::MAX_NESTED {
        tree.extend(node(0, 16, true, INNER, 1));
    }
    tree.resize(tree.len() + record::MAX_NESTED, 0);
    let bytes = file(&[(0, record(16, OUTER, &[(1, &[0, 1, 10, 2, 0, 0]), (2, &tree)]))]);
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let thread = small.spawn(move || names(&bytes, &[0x1000]).remove(0)).expect("started");
    let named = thread.join().expect("no overflow");
    assert_eq!(named.split(' ').count(), record::MAX_NESTED);
    assert!(named.starts_with("inner:10 inner:1 ") && named.ends_with(" inner:1 outer:1"), "{named}");
}

#[test]
fn a_file_may_lie_at_any_address() {
    let bytes = file(&[(0, nested())]);
    for begin in 0..8 {
        let moved = [&vec![0; begin], &*bytes].concat();
        assert_eq!(names(&moved[begin..], &[0x1004]), ["inner:12 outer:20"], "{begin}");
    }
}

#[test]
fn broken_parts_cost_what_they_would_have_told() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let lowest = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f];
    let bad_lines = [
        vec![],
        vec![0, 0],
        // No steps at all, but one is used; a range of more than all numbers; an address after all of them.
        vec![4, 0, 10, 9],
        [&lowest[..], &[0x7f, 10, 9]].concat(),
        [&[0, 4, 10, 2][..], &huge].concat(),
        [&[0, 4][..], &huge].concat(),
    ];
    let bad_trees = [
        vec![],
        vec![1],
        [&[1, 0, 16, 1, OUTER as u8, 0, 0, 0, 0, 0, 1][..], &huge].concat(),
        [&huge[..], &[0, 16]].concat(),
    ];
    let parts = bad_lines.iter().map(|bad| (1, bad)).chain(bad_trees.iter().map(|bad| (2, bad)));
    for (kind, bad) in parts {
        let answers = ask(&file(&[(0, record(16, OUTER, &[(kind, bad)]))]), &[0x1000]).expect("sound tables");
        assert!(answers.is_broken, "{kind} {bad:?}");
        let functions = answers.functions[0].as_deref().expect("its name is known");
        assert_eq!((&*functions[0].name, functions[0].line), ("outer", None), "{kind} {bad:?}");
    }
}

#[test]
fn cut_and_flipped_files_are_no_panic() {
    let whole = file(&[(0, nested()), (20, nested()), (40, nested())]);
    let at: Vec<u64> = (0x0ff0..0x1050).collect();
    for len in 0..whole.len() {
        let _ = ask(&whole[..len], &at); // whatever it says
    }
    for off in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[off] = value;
            let _ = ask(&bytes, &at); // whatever it says
        }
    }
}

#[test]
fn many_addresses_that_lead_to_one_large_record_are_given_up() {
    let calls = node(0, 0, false, INNERMOST, 1).repeat(100_000);
    let tree = [node(0, 1, true, OUTER, 0), node(0, 1, false, INNER, 1), calls, vec![0]].concat();
    // Without lines blazesym looks for no calls.
    let lines = [0, 1, 10, 2, 0, 0];
    let mut bytes = file(&[(0, record(1, OUTER, &[(1, &lines), (2, &tree)]))]);
    let (end, count) = (bytes.len() as u32, 60_000_u32);
    // Another file of the same strings, in which all addresses have the record of this one.
    let record = u32::from_le_bytes(*bytes[52..].first_chunk().expect("an offset"));
    let addresses: Vec<u8> = (0..count as u16).flat_map(u16::to_le_bytes).collect();
    let shift = (addresses.len() - 4 + 4 * (count as usize - 1)) as u32;
    let records = (record + shift).to_le_bytes().repeat(count as usize);
    let strings = u32::from_le_bytes(*bytes[20..].first_chunk().expect("an offset")) + shift;
    bytes[16..20].copy_from_slice(&count.to_le_bytes());
    bytes[20..24].copy_from_slice(&strings.to_le_bytes());
    bytes.splice(48..56, addresses.into_iter().chain(records));
    assert_eq!(bytes.len(), (end + shift) as usize);
    let at: Vec<u64> = (0x1000..0x1000 + 2_000).collect();
    assert_eq!(ask(&bytes, &at).err(), Some(Broken));
    assert_eq!(names(&bytes, &at[..3]), ["inner:10 outer:1"; 3]);
}
