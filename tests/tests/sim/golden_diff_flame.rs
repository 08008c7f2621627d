//! Compares the differential flame graph with its snapshot.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test sim -- golden_diff_flame::` rewrites `tests/golden/diff_flame.snap`.

use icecore_report::views::diff::flame::{Picture, draw};

fn stacks(lines: &str) -> Vec<(String, f64)> {
    let stack = |line: &str| {
        line.rsplit_once(' ').map(|(stack, weight)| (stack.into(), weight.parse().expect("a number")))
    };
    lines.lines().filter_map(stack).collect()
}

#[test]
fn both_widths_of_a_change() {
    let before = stacks(
        "app;main;parse;read_[k] 120\napp;main;parse 300\napp;main;compress.llvm.17 200\napp;main;compress.llvm.17;hash_[i] 80
app;main;legacy;convert 150\napp;libx.so.1+0x10 50",
    );
    let after = stacks(
        "app;main;parse;read_[k] 130\napp;main;parse 310\napp;main;compress.llvm.99 620\napp;main;compress.llvm.99;hash_[i] 90
app;main;modern 40\napp;libx.so.2+0x99 60",
    );
    let changed = ["compress", "convert", "modern", "hash"].map(str::to_owned).into_iter().collect();
    let picture = Picture {
        title: "diff",
        filtered: Some("filtered: --comm app"),
        changed: Some(&changed),
        as_shares: true,
    };
    let svg = draw(&before, &after, picture).expect("drawn");
    let svg = String::from_utf8(svg).expect("UTF-8");
    // A line per frame is easier to read in a snapshot.
    let svg = svg.replace("<g><title>", "\n<g><title>").replace("<svg ", "\n<svg ");
    insta::with_settings!({ snapshot_path => "../../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("diff_flame", svg);
    });
}
