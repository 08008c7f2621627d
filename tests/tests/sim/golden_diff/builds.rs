//! Functions of two builds, and images that have names in one recording only.

use icecore_tests::inside::golden;

use super::{Service, USUAL, folder, json, row, with_status};

#[test]
fn functions_are_the_same_in_another_build_whatever_compilers_add_to_their_names() {
    let dir = folder();
    let before = &[
        ("_ZN7service8compress17h0123456789abcdefE", 300),
        ("parse.isra.0", 250),
        ("hash.llvm.1234567890", 200),
        ("was_called_so", 150),
        ("is_gone", 30),
    ];
    let after = &[
        ("_ZN7service8compress17hfedcba9876543210E", 300),
        ("parse", 150),
        ("parse.part.0", 100),
        ("hash.llvm.99", 200),
        ("is_called_so", 150),
        ("is_new", 700),
    ];
    Service { functions: before, ..USUAL }.write(dir.path(), "before");
    Service { functions: after, image: "/srv/1.3/bin/service", seed: 7, ..USUAL }.write(dir.path(), "after");
    golden(dir.path(), "diff_builds", &["diff", "DIR/before", "DIR/after", "--all"]);
    let diff = json(dir.path(), &["diff", "DIR/before", "DIR/after", "--all", "--unit", "cpu"]);
    assert_eq!(with_status(&diff, "renamed"), ["is_called_so"]);
    assert_eq!(row(&diff, "is_called_so")["before_name"], "was_called_so");
    assert_eq!(
        (with_status(&diff, "added"), with_status(&diff, "removed")),
        (vec!["is_new"], vec!["is_gone"])
    );
    // Both parts of `parse` form one row.
    let rows = diff["rows"].as_array().expect("rows").iter();
    let parts = rows.filter(|row| row["name"].as_str().is_some_and(|name| name.starts_with("parse")));
    assert_eq!(parts.map(|row| &row["name"]).collect::<Vec<_>>(), ["parse"]);
}

#[test]
fn an_image_that_has_names_on_one_side_only_is_compared_as_a_whole() {
    let dir = folder();
    USUAL.write(dir.path(), "named");
    let mut nameless = Service { seed: 3, ..USUAL }.recorded();
    nameless.symbols.clear();
    nameless.write(&dir.path().join("nameless"), true).expect("written");
    for (before, after) in [("DIR/named", "DIR/nameless"), ("DIR/nameless", "DIR/named")] {
        for by in ["function", "line", "stack"] {
            let diff = json(dir.path(), &["diff", before, after, "--by", by]);
            assert_eq!(
                (&diff["changed"], diff["rows"].as_array().map(Vec::len)),
                (&0.into(), Some(1)),
                "{by}: {diff:#}"
            );
        }
        let diff = json(dir.path(), &["diff", before, after]);
        assert_eq!(row(&diff, "[all of service]")["before"], 1.0);
    }
}
