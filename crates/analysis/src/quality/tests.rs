use super::problems::Problem;
use super::runtimes::Runtime;
use super::*;
use icecore_format::records::{EmbedMode, RateCause, UnwindMode};

use icecore_profile::named::fixture;

use crate::account::Disagreement;
use crate::audit::{Audit, ImageAudit};
use icecore_profile::stacks::calls::{FoundBy, ImpossibleRow};

const SETTINGS: Settings = Settings {
    is_foreign: false,
    unwind: UnwindMode::FRAME_POINTERS,
    stack_bytes: 64 << 10,
    max_depth: 1024,
    is_exact: false,
    takes_each: false,
    embed: EmbedMode::HITS,
    is_kernel_hidden: false,
    copies_nothing: false,
    copies_little_of_waits: false,
    has_no_programs: false,
};

const FINE: Facts<'_> = Facts {
    samples: 1000,
    is_drawn: true,
    is_filtered: false,
    settings: SETTINGS,
    thinned: None,
    has_stacks: true,
    is_shortened: false,
    in_step: None,
    lost_share: 0.0,
    lost_share_of_samples: 0.0,
    lost_to: None,
    unfollowed: 0,
    followed: 10,
    crowded: &[],
    named_share: Some(1.0),
    rooted_share: Some(1.0),
    unproven_share: 0.0,
    suspect_share: 0.0,
    guessed_share: 0.0,
    skipping: None,
    is_of_signals: false,
    impossible_share: 0.0,
    worst_edges: None,
    audit: None,
    interpreted: None,
    broken: None,
    is_walked_only: true,
    worst: None,
    runtime: None,
    damage: 0,
    endless: 0,
    lost_blocks: 0,
    file: "x.icecore",
};

fn verdict(facts: Facts<'_>) -> Verdict {
    problems(facts).first().map_or(Verdict::Good, |problem| problem.verdict)
}

#[test]
fn each_threshold_decides_on_its_own() {
    assert_eq!(verdict(FINE), Verdict::Good);
    let by_kernel =
        Facts { settings: Settings { copies_nothing: true, ..SETTINGS }, rooted_share: None, ..FINE };
    assert_eq!(verdict(by_kernel), Verdict::Usable);
    assert_eq!(verdict(Facts { has_stacks: false, ..by_kernel }), Verdict::Good);
    let by_user = Facts { settings: Settings { has_no_programs: true, ..SETTINGS }, ..FINE };
    assert_eq!(verdict(by_user), Verdict::Good);
    assert_eq!(verdict(Facts { rooted_share: None, ..by_user }), Verdict::Usable);
    assert_eq!(verdict(Facts { samples: 0, ..FINE }), Verdict::Misleading);
    assert_eq!(verdict(Facts { samples: 99, ..FINE }), Verdict::Usable);
    assert_eq!(verdict(Facts { samples: 100, ..FINE }), Verdict::Good);
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
fn walks_by_unwind_tables_that_differ_from_copies_are_a_problem() {
    let row = |differ| ImageAudit { image: Some("/lib/a.so".to_owned()), checked: 1000, differ };
    let audit = |differ| Audit {
        walked: 64_000,
        checked: 1000,
        agree: 1000 - differ,
        differ,
        by_image: vec![row(differ)],
        ..Audit::default()
    };
    for (differ, expected) in
        [(0, Verdict::Good), (5, Verdict::Good), (6, Verdict::Usable), (101, Verdict::Misleading)]
    {
        assert_eq!(verdict(Facts { audit: Some(&audit(differ)), ..FINE }), expected, "{differ}");
    }
    let problems = problems(Facts { audit: Some(&audit(20)), ..FINE });
    let told = "2.0% of the 1,000 walks by unwind tables in the kernel that were checked differ";
    assert!(problems[0].text.starts_with(told) && problems[0].text.contains("`/lib/a.so`"), "{problems:?}");
    let unchecked = Audit { walked: 9, ..Audit::default() };
    assert_eq!(verdict(Facts { audit: Some(&unchecked), ..FINE }), Verdict::Good);
}

#[test]
fn processes_that_were_not_followed_are_a_loss() {
    for (unfollowed, expected) in [(0, Verdict::Good), (1, Verdict::Usable), (2, Verdict::Misleading)] {
        assert_eq!(verdict(Facts { unfollowed, ..FINE }), expected);
    }
}

#[test]
fn guessed_frames_are_told_and_are_not_good() {
    assert_eq!(verdict(Facts { guessed_share: 0.10, ..FINE }), Verdict::Good);
    assert_eq!(verdict(Facts { guessed_share: 0.97, ..FINE }), Verdict::Usable);
}

#[test]
fn stacks_that_break_are_told_where_and_what_helps() {
    let broken = |end| Break { image: Some("/lib/libfoo.so".into()), end, samples: 3, share: 0.31 };
    let told = |end, is_walked_only| {
        let broken = broken(end);
        let facts = Facts { rooted_share: Some(0.5), broken: Some(&broken), is_walked_only, ..FINE };
        problems(facts)[0].text.clone()
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
    assert!(told(WalkEnd::DEPTH, true).ends_with("--max-depth (at most 4096)"));
}

#[test]
fn stacks_that_lack_callers_are_told_with_what_helps() {
    let skipping = Some("/lib/libfoo.so");
    assert_eq!(verdict(Facts { suspect_share: 0.1, skipping, ..FINE }), Verdict::Good);
    let told = |is_walked_only| {
        let unwind = if is_walked_only { UnwindMode::FRAME_POINTERS } else { UnwindMode::AUTO };
        let settings = Settings { unwind, ..SETTINGS };
        let Problem { verdict, text, .. } =
            problems(Facts { suspect_share: 0.31, skipping, is_walked_only, settings, ..FINE }).remove(0);
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
    let facts = Facts {
        lost_share: 0.02,
        lost_share_of_samples: 0.02,
        named_share: Some(0.1),
        worst: Some(Reason::NoSymbol),
        ..FINE
    };
    let problems = problems(facts);
    assert_eq!(problems.len(), 2);
    assert!(problems[0].text.contains("10.0% of the frames"));
    assert!(
        problems[0].text.ends_with("`icecore-report missing x.icecore` says which"),
        "{}",
        problems[0].text
    );
}

#[test]
fn few_samples_are_told_with_what_shares_are_worth() {
    let told = |facts| problems(facts)[0].text.clone();
    let few = told(Facts { samples: 5, ..FINE });
    assert_eq!(
        few,
        "there are only 5 samples: shares are right to ±45 points; record for longer, or with a higher -F"
    );
    assert!(told(Facts { samples: 5, is_filtered: true, ..FINE }).ends_with("loosen the filters"));
    let exact = Settings { is_exact: true, ..SETTINGS };
    assert!(told(Facts { samples: 5, settings: exact, ..FINE }).ends_with("smaller -c"));
    let thinned = |cause| told(Facts { samples: 5, thinned: Some(cause), ..FINE });
    assert!(thinned(RateCause::CPU).contains("with a larger --budget"));
    assert!(thinned(RateCause::DUTY).ends_with("(--duty)"));
    assert!(thinned(RateCause(900)).ends_with("higher -F"));
    assert!(told(Facts { lost_share: 0.2, settings: exact, ..FINE }).ends_with("larger -c"));
}

#[test]
fn who_was_sampled_in_step_is_told_with_both_figures_unless_samples_were_lost() {
    let who = "`x` (process 7)".to_owned();
    let disagreement = Disagreement { who, kernel_ns: 1_200_000_000, sampled_ns: 100_000_000 };
    let in_step = |share| Some(InStep { disagreement: &disagreement, share });
    let Problem { verdict: verdict_of_all, text, .. } =
        problems(Facts { in_step: in_step(0.9), ..FINE }).remove(0);
    assert_eq!(verdict_of_all, Verdict::Misleading);
    assert_eq!(
        text,
        "`x` (process 7) ran 1.20 s by the kernel's account, and 100.0 ms by samples: sampling ran in step with it, it gives up \
         the CPU so often that samples hit who is next, or the machine did not run meanwhile; record with another -F and compare"
    );
    assert_eq!(verdict(Facts { in_step: in_step(0.06), ..FINE }), Verdict::Usable);
    assert_eq!(verdict(Facts { in_step: in_step(0.04), ..FINE }), Verdict::Good);
    let lost = problems(Facts { in_step: in_step(0.9), lost_share: 0.02, ..FINE });
    assert!(lost.iter().all(|problem| !problem.text.contains("in step")), "{lost:?}");
}

#[test]
fn nothing_is_advised_that_is_in_force_or_impossible() {
    let broken = |end| Break { image: Some("/lib/libfoo.so".into()), end, samples: 3, share: 0.31 };
    let told = |end, is_walked_only, settings| {
        let broken = broken(end);
        let facts =
            Facts { rooted_share: Some(0.5), broken: Some(&broken), is_walked_only, settings, ..FINE };
        problems(facts)[0].text.clone()
    };
    let default = Settings { unwind: UnwindMode::AUTO, stack_bytes: 1 << 20, ..SETTINGS };
    assert!(told(WalkEnd::MISALIGNED, true, default).ends_with("which has no frame pointers"));
    assert!(told(WalkEnd::NOT_COPIED, false, default).ends_with("the most that is copied"));
    let most = Settings { unwind: UnwindMode::DWARF, max_depth: 4096, ..default };
    assert!(told(WalkEnd::NOT_COPIED, false, most).ends_with("1 MiB of a stack is the most that is copied"));
    assert!(told(WalkEnd::DEPTH, false, most).ends_with("the 4096 of the longest stack that is kept"));
    assert!(
        told(WalkEnd::DEPTH, true, most)
            .ends_with("4096 frames are the most that a stack has in a recording")
    );
    let suspect = |settings, is_walked_only| {
        problems(Facts { suspect_share: 0.31, settings, is_walked_only, ..FINE })[0].text.clone()
    };
    assert!(suspect(most, false).ends_with("lack callers there"));
    assert!(suspect(default, false).ends_with("record with --unwind dwarf"));
    // Copies of the stack do not help where nothing proves what the signal has interrupted.
    let of_signals = Facts { suspect_share: 0.31, settings: default, is_of_signals: true, ..FINE };
    assert!(
        problems(of_signals)[0]
            .text
            .starts_with("31.0% of the user stacks lack what a signal has interrupted")
    );
    let kernel = |settings| {
        let worst = Some(Reason::KernelSymbolMissing);
        problems(Facts { named_share: Some(0.1), worst, settings, ..FINE })[0].text.clone()
    };
    assert!(!kernel(default).contains("record"), "{}", kernel(default));
    assert!(kernel(Settings { is_kernel_hidden: true, ..default }).contains("as root"));
    assert!(kernel(Settings { is_foreign: true, ..default }).contains("files of perf"));
}

#[test]
fn who_makes_code_is_told_how_to_name_it_unless_it_does_or_nobody_listened() {
    let told = |runtime, embed| {
        let settings = Settings { embed, ..SETTINGS };
        let facts = Facts { named_share: Some(0.1), worst: Some(Reason::Jit), runtime, settings, ..FINE };
        problems(facts)[0].text.clone()
    };
    assert!(told(Some(Runtime::Node), EmbedMode::HITS).ends_with("run node with --perf-basic-prof"));
    assert!(told(Some(Runtime::Java), EmbedMode::HITS).contains("jcmd PID Compiler.perfmap"));
    assert!(told(Some(Runtime::Python), EmbedMode::HITS).contains("-X perf"));
    assert!(told(None, EmbedMode::HITS).ends_with("JIT code"));
    assert!(told(Some(Runtime::Node), EmbedMode::NONE).ends_with("--embed none takes no names"));
}

#[test]
fn no_file_is_asked_for_where_code_is_in_none() {
    let told = |image: Option<&str>| {
        let broken = Break { image: image.map(Into::into), end: WalkEnd::NO_RULES, samples: 3, share: 0.31 };
        problems(Facts { rooted_share: Some(0.5), broken: Some(&broken), ..FINE })[0].text.clone()
    };
    assert!(told(Some("/lib/libfoo.so")).ends_with("or its file is missing: then give it with --symbols"));
    for image in [None, Some("//anon"), Some("[vdso]")] {
        assert!(told(image).ends_with("for which there are no unwind tables"), "{image:?}");
    }
}

#[test]
fn stacks_with_calls_that_no_code_makes_are_told_with_what_helps() {
    assert_eq!(verdict(Facts { impossible_share: 0.01, ..FINE }), Verdict::Good);
    assert_eq!(verdict(Facts { impossible_share: 0.02, ..FINE }), Verdict::Usable);
    let told = |by, is_walked_only| {
        let image = Some("/usr/lib/libfoo.so".to_owned());
        let row = ImpossibleRow { image, by, checked: 10, impossible: 3, share: 0.3 };
        let facts = Facts { impossible_share: 0.31, worst_edges: Some(&row), is_walked_only, ..FINE };
        let Problem { verdict, text, .. } = problems(facts).remove(0);
        assert_eq!(verdict, Verdict::Misleading);
        text
    };
    assert_eq!(
        told(FoundBy::FramePointers, true),
        "at least 31.0% of the user stacks are wrong: they hold a call that the code does not make, most often of \
         `/usr/lib/libfoo.so`: record with --unwind auto"
    );
    assert!(told(FoundBy::UnwindRules, false).contains("it has no unwind tables that fit"));
}

#[test]
fn names_and_stacks_are_problems_of_their_own() {
    let limits = |facts: Facts<'_>| problems(facts).iter().map(|problem| problem.limits).collect::<Vec<_>>();
    let nameless = Facts { named_share: Some(0.1), worst: Some(Reason::NoSymbol), ..FINE };
    assert_eq!(limits(nameless), [Limits::Names]);
    assert_eq!(limits(Facts { rooted_share: Some(0.1), ..FINE }), [Limits::Stacks]);
    assert_eq!(
        limits(Facts { rooted_share: Some(0.1), ..nameless }),
        [Limits::Stacks, Limits::Names],
        "the worse first"
    );
    // Addresses in no mapping are no code that lacks a name.
    assert_eq!(limits(Facts { worst: Some(Reason::Unmapped), ..nameless }), [Limits::Stacks]);
}

#[test]
fn a_deep_stack_counts_as_much_as_a_shallow_one() {
    let deep: Vec<String> = (0..1_000).map(|_| "?".to_owned()).collect();
    let mut profile = fixture::profile(&[("main;work", 97), (&deep.join(";"), 3)]);
    for function in &mut profile.names.functions {
        function.reason = (&*function.name == "?").then_some(Reason::Jit);
    }
    let found = unnamed(&profile);
    assert_eq!((found.frames, found.by_frame[&Reason::Jit]), (97 * 2 + 3_000, 3_000));
    assert!((found.by_sample[&Reason::Jit] - 0.03).abs() < 1e-9, "{:?}", found.by_sample);
}
