//! Matches the names that runtimes give to JIT code.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{pattern, replaced};

/// V8: what kind of code (`JS`, earlier `LazyCompile`, `Function`), its tier (`~` interpreted, `^` baseline, `+` and `*`
/// optimized), name, file, position.
static SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:JS|LazyCompile|Function|Eval|Script):[~^+*]?(?P<name>\S*)(?: (?P<file>.+?)(?P<at>(?::\d+){0,2}))?$",
    )
});
/// CPython: `py::name:/folder/file.py`.
static PYTHON: LazyLock<Regex> = LazyLock::new(|| pattern(r"^py::(?P<name>[^:]*):(?P<file>/.*)$"));
/// .NET: the tier after the name.
static TIER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?P<name>.)\[(?:PreJIT|MinOptJitted|Optimized|QuickJitted|(?:Optimized)?Tier[01](?:_?OSR)?|Tier-?\d\w*|Unknown)\]$",
    )
});
/// Java: the address of a hidden class, `Main$$Lambda$14/0x0000000800c03000::apply`.
static HIDDEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"[/.]0x[0-9a-f]{8,}"));

/// Reduces such a name to the part that stays when the program is built, installed and started again.
///
/// The key of a script's function is its name and the last two parts of its file's path; its position changes with every edit. Only
/// a function without a name keeps the position, because it has nothing else.
pub(super) fn settled(name: Cow<'_, str>) -> Cow<'_, str> {
    let script = |it: &Captures<'_>| {
        let part = |part: &str| it.name(part).map_or("", |part| part.as_str());
        let at = if part("name").is_empty() { part("at") } else { "" };
        format!("JS:{} {}{at}", part("name"), tail(part("file"), 2)).trim_end().to_owned()
    };
    let python = |it: &Captures<'_>| format!("py::{}:/{}", &it["name"], tail(&it["file"], 2));
    match () {
        () if name.contains(':') && SCRIPT.is_match(&name) => replaced(name, &SCRIPT, script),
        () if name.starts_with("py::") => replaced(name, &PYTHON, python),
        () if name.ends_with(']') => replaced(name, &TIER, "${name}"),
        () if name.contains("$$") || name.contains("LambdaForm") => replaced(name, &HIDDEN, ""),
        () => name,
    }
}

/// The position of an unnamed function of a script, and folders of files.
static POSITION: LazyLock<Regex> = LazyLock::new(|| pattern(r"^JS: (?P<file>.+?)(?::\d+){1,2}$"));
static FOLDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?P<name>JS:\S* |py::[^:]*:)(?P<file>.*)$"));
/// Java: classes and methods that are numbered in the order of their first use.
static NUMBERED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<kind>\$\$Lambda|LambdaForm\$\w+|lambda\$\w+|Accessor|\$)\$?\d+"));

/// Reduces a settled name further: no position, no folder, no number that counts functions.
pub(super) fn unnumbered(name: Cow<'_, str>) -> Cow<'_, str> {
    if name.starts_with("JS:") || name.starts_with("py::") {
        let name = replaced(name, &POSITION, "JS: ${file}");
        return replaced(name, &FOLDER, |it: &Captures<'_>| {
            format!("{}{}", &it["name"], tail(&it["file"], 1))
        });
    }
    if name.contains(['$', 'A']) { replaced(name, &NUMBERED, "${kind}") } else { name }
}

/// Returns the last parts of a path.
fn tail(path: &str, parts: usize) -> &str {
    let begin = path.rmatch_indices('/').nth(parts - 1).map_or(0, |(slash, _)| slash + 1);
    path[begin..].trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(name: &str) -> (String, String) {
        let settled = settled(name.into());
        (settled.to_string(), unnumbered(settled).into_owned())
    }

    #[test]
    fn tiers_and_moved_lines_are_no_other_function() {
        for name in [
            "JS:~foo /srv/v1/app/a.js:1:13",
            "JS:^foo /srv/v2/app/a.js:7:1",
            "JS:*foo file:///srv/app/a.js:1",
            "LazyCompile:+foo /app/a.js:99:2",
            "Function:foo app/a.js",
        ] {
            assert_eq!(both(name), ("JS:foo app/a.js".into(), "JS:foo a.js".into()), "{name}");
        }
    }

    #[test]
    fn a_nameless_function_keeps_its_position_until_nothing_else_fits() {
        assert_eq!(both("JS:* /app/a.js:2:34"), ("JS: app/a.js:2:34".into(), "JS: a.js".into()));
        assert_eq!(both("Eval:~ /app/a.js:1:1"), ("JS: app/a.js:1:1".into(), "JS: a.js".into()));
    }

    #[test]
    fn other_run_times_are_known() {
        for (name, first, second) in [
            ("py::f:/srv/1/pkg/m.py", "py::f:/pkg/m.py", "py::f:m.py"),
            ("Foo::Bar(int)[OptimizedTier1]", "Foo::Bar(int)", "Foo::Bar(int)"),
            ("Main$$Lambda$14/0x0000000800c03000::apply", "Main$$Lambda$14::apply", "Main$$Lambda::apply"),
            ("Main.lambda$main$3", "Main.lambda$main$3", "Main.lambda$main"),
            ("Main$1::run", "Main$1::run", "Main$::run"),
        ] {
            assert_eq!(both(name), (first.into(), second.into()));
        }
    }

    #[test]
    fn names_of_compilers_are_left_alone() {
        for name in
            ["f", "operator[]", "a::b(int)", "JSON::parse", "std::sort<int*>", "node::Start", "JS:", "py::"]
        {
            assert_eq!(both(name), (name.into(), name.into()));
        }
    }
}
