//! All functions of two builds, matched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use icecore_analysis::matching::{Clue, Group, Item, matched};

use crate::builds::{Yard, functions};

/// What became of the functions of two builds.
#[derive(Debug)]
struct Matching {
    gone: Vec<String>,
    new: Vec<String>,
    pairs: Vec<(Vec<String>, Vec<String>, Clue)>,
}

fn compare(before: &Path, after: &Path) -> Matching {
    let [before, after] = [before, after].map(functions).map(|names| names.into_iter().collect::<Vec<_>>());
    let [a, b] = [&before, &after].map(|names| items(names));
    let groups = matched(&a, &b);
    let names =
        |names: &[String], side: &[usize]| side.iter().map(|at| names[*at].clone()).collect::<Vec<_>>();
    let alone = |is: fn(&Group) -> bool| groups.iter().filter(move |group| is(group));
    Matching {
        gone: alone(|it| it.after.is_empty()).flat_map(|it| names(&before, &it.before)).collect(),
        new: alone(|it| it.before.is_empty()).flat_map(|it| names(&after, &it.after)).collect(),
        pairs: alone(Group::is_pair)
            .map(|it| (names(&before, &it.before), names(&after, &it.after), it.by))
            .collect(),
    }
}

fn items(names: &[String]) -> Vec<Item<'_>> {
    names
        .iter()
        .map(|name| Item { name, image: Some("/bin/program"), build_id: b"", file: None, twin: None })
        .collect()
}

/// A name without anything that only a compiler puts there: an oracle that knows nothing of the patterns under test.
fn plain(name: &str) -> String {
    let name = name.split(" [clone").next().unwrap_or(name);
    let end = name.rfind([')', '>', ':']).unwrap_or(0);
    let end = name[end..].find('.').map_or(name.len(), |dot| end + dot.max(1));
    name[..end].replace(|c: char| c.is_ascii_digit() || "{}#$_'".contains(c), "")
}

/// The last part of a path of Rust, without its types.
fn last(name: &str) -> &str {
    let name = name.split("::<").next().unwrap_or(name);
    name.rsplit("::").find(|part| !part.starts_with('{') && !part.contains('>')).unwrap_or(name)
}

/// Compares every two builds, prints what came of it, and asserts that no function is both new and gone.
fn each_pair(builds: &[(&str, PathBuf)], check: impl Fn(&str, &str, &Matching)) {
    for (position, (before_flags, before)) in builds.iter().enumerate() {
        for (after_flags, after) in &builds[position + 1..] {
            let found = compare(before, after);
            let count = |by| found.pairs.iter().filter(|pair| pair.2 == by).count();
            println!(
                "{before_flags:?} → {after_flags:?}: {} by name, {} by decoration, {} by number, {} by mangling, {} by \
                 signature, {} gone, {} new",
                count(Clue::Name),
                count(Clue::Decoration),
                count(Clue::Number),
                count(Clue::Mangling),
                count(Clue::Signature),
                found.gone.len(),
                found.new.len(),
            );
            let [gone, new] =
                [&found.gone, &found.new].map(|names| names.iter().map(|name| plain(name)).collect());
            let both: Vec<&String> = BTreeSet::intersection(&gone, &new).collect();
            assert!(both.is_empty(), "{before_flags:?} → {after_flags:?}: {both:?}");
            assert!(found.pairs.iter().any(|pair| pair.2 == Clue::Name));
            check(before_flags, after_flags, &found);
        }
    }
}

#[test]
fn functions_of_rust_survive_compiler_settings() {
    const V0: &str = "-O -C symbol-mangling-version=v0";
    let settings = [
        "-O",
        "-C opt-level=3 -C codegen-units=1",
        "-C opt-level=1",
        "-O -C lto=fat -C embed-bitcode=yes",
        V0,
    ];
    let yard = Yard::new();
    let build = |(position, flags)| (flags, yard.rust(flags, false, &format!("program-{position}")));
    let builds: Vec<_> = settings.into_iter().enumerate().map(build).collect();
    each_pair(&builds, |before, after, found| {
        if (before, after) != ("-O", V0) {
            return;
        }
        // The same code under other names. An instance of a generic function of the library may have in v0 the very name
        // that the library's own has.
        let gone: BTreeSet<&str> = found.gone.iter().map(|name| last(name)).collect();
        let new: BTreeSet<&str> = found.new.iter().map(|name| last(name)).collect();
        assert!(gone.is_disjoint(&new), "{found:?}");
        let ours = |name: &&String| name.contains("program::");
        assert_eq!(found.gone.iter().chain(&found.new).filter(ours).count(), 0, "{found:?}");
        assert!(found.pairs.iter().filter(|pair| pair.2 == Clue::Mangling).count() > 20);
    });
}

#[test]
fn an_added_dependency_adds_its_functions_only() {
    let yard = Yard::new();
    let before = yard.rust("-O", false, "before");
    let after = yard.rust("-O -C metadata=x", true, "after");
    let found = compare(&before, &after);
    println!("{} pairs, gone {:?}, new {:?}", found.pairs.len(), found.gone, found.new);
    assert_eq!(found.gone, [] as [&str; 0]);
    assert!(
        !found.new.is_empty() && found.new.iter().all(|name| name.contains("other::")),
        "{:?}",
        found.new
    );
    assert!(found.pairs.iter().all(|pair| pair.2 == Clue::Name), "{:?}", found.pairs);
}

#[test]
fn functions_of_cpp_survive_compilers_and_settings() {
    let settings =
        [("g++", "-O2"), ("g++", "-O3"), ("g++", "-O2 -flto"), ("clang++", "-O2"), ("clang++", "-O3")];
    let yard = Yard::new();
    let build = |(position, (compiler, flags))| {
        (
            if compiler == "g++" { flags } else { "clang" },
            yard.cpp(compiler, flags, &format!("cpp-{position}")),
        )
    };
    let builds: Vec<_> = settings.into_iter().enumerate().map(build).collect();
    each_pair(&builds, |_, _, found| {
        let ours =
            |name: &&String| ["helper(", "Hidden::go(", "Local::method("].iter().any(|it| name.contains(it));
        assert_eq!(found.gone.iter().chain(&found.new).filter(ours).count(), 0, "{found:?}");
        assert!(found.pairs.iter().any(|pair| pair.0[0].starts_with("helper(")), "{found:?}");
    });
}

#[test]
fn functions_of_go_survive_inlining() {
    let yard = Yard::new();
    let builds = ["", "-gcflags=all=-l", "-gcflags=-N"];
    let builds: Vec<_> = builds
        .into_iter()
        .enumerate()
        .map(|(n, flags)| (flags, yard.go(flags, &format!("go-{n}"))))
        .collect();
    each_pair(&builds, |_, _, found| {
        let ours = |name: &&String| name.starts_with("main.work");
        assert_eq!(found.gone.iter().chain(&found.new).filter(ours).count(), 0, "{found:?}");
    });
}
