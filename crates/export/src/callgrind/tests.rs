use super::*;
use icecore_profile::named::fixture;
use icecore_profile::named::names::{Frame, ImageName};

fn text(profile: &Profile, events: &[u8]) -> String {
    let mut out = Vec::new();
    body(profile, events, &mut out).expect("memory can be written");
    String::from_utf8(out).expect("text")
}

/// Own costs, and what programs take for totals: the sums of all calls of a function. Names stand for their numbers.
fn sums(text: &str) -> Vec<(String, u64, u64)> {
    let mut names: Vec<(String, u64, u64)> = Vec::new();
    let mut numbers: Vec<String> = Vec::new();
    let mut position = |name: &str, names: &mut Vec<(String, u64, u64)>| {
        let (number, rest) = name.split_once(')').expect("a number");
        numbers.iter().position(|it| it == number).unwrap_or_else(|| {
            numbers.push(number.to_owned());
            names.push((rest.trim().to_owned(), 0, 0));
            names.len() - 1
        })
    };
    let (mut function, mut callee) = (0, None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=(") {
            function = position(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=(") {
            callee = Some(position(name, &mut names));
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            let cost: u64 = line.split(' ').nth(1).and_then(|cost| cost.parse().ok()).expect("a cost");
            match callee.take() {
                Some(callee) => names[callee].2 += cost,
                None => names[function].1 += cost,
            }
        }
    }
    names.sort();
    names
}

fn expected(rows: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    rows.iter().map(|(name, own, total)| ((*name).to_owned(), *own, *total)).collect()
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let profile = fixture::profile(&[("main;f;f;g", 1), ("main;f;f;f", 2), ("f", 4)]);
    let rows = [("[process x]", 0, 0), ("f", 60, 70), ("g", 10, 10), ("main", 0, 30)];
    assert_eq!(sums(&text(&profile, &[0])), expected(&rows));
}

#[test]
fn functions_that_call_each_other_count_once() {
    let profile = fixture::profile(&[("main;f;g;f;g;f", 1), ("main;g;f;h", 2), ("main;f;f;h;f;k", 4)]);
    let rows =
        [("[process x]", 0, 0), ("f", 10, 70), ("g", 0, 30), ("h", 20, 60), ("k", 40, 40), ("main", 0, 70)];
    assert_eq!(sums(&text(&profile, &[0])), expected(&rows));
}

#[test]
fn lines_files_events_and_names_are_where_the_format_has_them() {
    let mut profile = fixture::profile(&[("main;(f)", 1), ("main", 2), ("", 4)]);
    profile.names.files = vec!["a.c".into(), "b.h".into()];
    profile.names.functions[0].declared = Some((0, 3));
    profile.names.frames[0] = Frame { file: Some(0), line: Some(5), ..profile.names.frames[0] };
    profile.rows[1].event = 1;
    // The second sample was in a macro of another file.
    let other = profile.names.frames.len() as u32;
    profile.names.frames.push(Frame { file: Some(1), line: Some(9), ..profile.names.frames[0] });
    profile.stacks.push(icecore_profile::named::Stack { caller: 0, frame: other });
    profile.rows[1].stack = profile.stacks.len() as u32 - 1;
    profile.rows[2].stack = 0;
    let expected = "
ob=(2) /bin/x
fl=(2) a.c
fn=(1) main
cob=(2)
cfi=(1) ???
cfn=(2) (f)
calls=1 0
5 10 0
fi=(3) b.h
9 0 20

ob=(2)
fl=(1)
fn=(2)
0 10 0

ob=(1) ???
fl=(1)
fn=(4) [process x]
0 40 0
cob=(2)
cfi=(2)
cfn=(1)
calls=3 3
0 10 20
";
    assert_eq!(text(&profile, &[0, 1]), expected);
}

#[test]
fn namesakes_without_a_file_stay_apart() {
    let mut profile = fixture::profile(&[("f;g", 1)]);
    profile.names.images.push(ImageName { path: "/bin/y".into() });
    profile.names.functions[1].name = "f".into();
    profile.names.functions[1].image = Some(1);
    let text = text(&profile, &[0]);
    assert!(text.contains("fl=(2) ??? /bin/x\nfn=(1) f\n"), "{text}");
    assert!(text.contains("cfi=(3) ??? /bin/y\ncfn=(2) f\n"), "{text}");
}

#[test]
fn events_are_words_and_the_head_is_short() {
    let names = ["cpu-clock", "sched:sched_switch", "cpu_clock", "0x", "ü", "a b"];
    assert_eq!(
        event_names(names.into_iter()),
        ["cpu_clock", "sched_sched_switch", "cpu_clock_", "e0x", "e_", "a_b"]
    );
    let lines: Vec<String> = (0..90).map(|number| format!("desc: {number} {}\nx", "y".repeat(90))).collect();
    let head = composed(&lines, "a b");
    assert!(head.find("\nevents: a b\n").is_some_and(|at| at + 12 < HEAD_BYTES), "{head}");
    assert!(head.contains("\ndesc: 0 y") && head.contains("\n# desc: 89 y"), "{head}");
    assert!(head.lines().all(|line| !line.starts_with('x')), "{head}");
}
