use super::*;

const FINE: Facts<'_> = Facts {
    samples: 1000,
    lost_share: 0.0,
    lost_to: None,
    named_share: Some(1.0),
    rooted_share: Some(1.0),
    suspect_share: 0.0,
    skipping: None,
    broken: None,
    is_walked_only: true,
    worst: None,
    damage: 0,
    endless: 0,
    lost_blocks: 0,
    file: "x.icecore",
};

fn verdict(facts: Facts<'_>) -> Verdict {
    problems(facts).first().map_or(Verdict::Good, |(verdict, _)| *verdict)
}

#[test]
fn each_threshold_decides_on_its_own() {
    assert_eq!(verdict(FINE), Verdict::Good);
    assert_eq!(verdict(Facts { samples: 0, ..FINE }), Verdict::Misleading);
    assert_eq!(verdict(Facts { damage: 1, ..FINE }), Verdict::Usable);
    assert_eq!(verdict(Facts { endless: 1, ..FINE }), Verdict::Usable);
    assert_eq!(verdict(Facts { lost_blocks: 1, ..FINE }), Verdict::Usable);
    for (lost_share, expected) in
        [(0.01, Verdict::Good), (0.011, Verdict::Usable), (0.11, Verdict::Misleading)]
    {
        assert_eq!(verdict(Facts { lost_share, ..FINE }), expected);
    }
    for (share, expected) in [(0.9, Verdict::Good), (0.89, Verdict::Usable), (0.49, Verdict::Misleading)] {
        assert_eq!(verdict(Facts { named_share: Some(share), ..FINE }), expected);
    }
    for (share, expected) in [(0.9, Verdict::Good), (0.5, Verdict::Usable), (0.49, Verdict::Misleading)] {
        assert_eq!(verdict(Facts { rooted_share: Some(share), ..FINE }), expected);
    }
}

#[test]
fn stacks_that_break_are_told_where_and_what_helps() {
    let broken = |end| Break { image: Some("/lib/libfoo.so".into()), end, samples: 3, share: 0.31 };
    let told = |end, is_walked_only| {
        let broken = broken(end);
        let facts = Facts { rooted_share: Some(0.5), broken: Some(&broken), is_walked_only, ..FINE };
        problems(facts)[0].1.clone()
    };
    let walked = told(WalkEnd::MISALIGNED, true);
    assert!(
        walked.ends_with(
            "31.0% break in `/lib/libfoo.so`, which has no frame pointers: record with --unwind auto"
        ),
        "{walked}"
    );
    assert!(told(WalkEnd::NOT_COPIED, false).ends_with("--stack-bytes 1M"));
    assert!(told(WalkEnd::NO_RULES, false).contains("--symbols"));
    assert!(told(WalkEnd::DEPTH, true).ends_with("--max-depth"));
}

#[test]
fn stacks_that_lack_callers_are_told_with_what_helps() {
    let skipping = Some("/lib/libfoo.so");
    assert_eq!(verdict(Facts { suspect_share: 0.1, skipping, ..FINE }), Verdict::Good);
    let told = |is_walked_only| {
        let (verdict, text) =
            problems(Facts { suspect_share: 0.31, skipping, is_walked_only, ..FINE }).remove(0);
        assert_eq!(verdict, Verdict::Usable);
        text
    };
    assert_eq!(
        told(true),
        "31.0% of the user stacks pass through code without frame pointers, most of them through `/lib/libfoo.so`, \
         and lack callers there: record with --unwind auto"
    );
    assert!(told(false).ends_with("record with --unwind dwarf"));
}

#[test]
fn what_is_unknown_is_no_problem() {
    assert_eq!(verdict(Facts { named_share: None, rooted_share: None, ..FINE }), Verdict::Good);
}

#[test]
fn the_worst_problem_comes_first_and_names_its_remedy() {
    let facts = Facts { lost_share: 0.02, named_share: Some(0.1), worst: Some(Reason::NoSymbol), ..FINE };
    let problems = problems(facts);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].1.contains("10.0% of the frames"));
    assert!(problems[0].1.ends_with("`icecore-report missing x.icecore` says which"), "{}", problems[0].1);
}
