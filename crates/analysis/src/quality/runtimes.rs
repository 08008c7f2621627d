//! Finds the runtimes that made unnamed code, and the interpreters whose functions are not shown; says how they provide names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use icecore_format::records::{Change, Language};

use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, ProfileRow};
use icecore_symbolize::Reason;

/// A program that runs functions which are in no file of the system: it compiles them to JIT code, or interprets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// HotSpot.
    Java,
    /// Another virtual machine of Java.
    OpenJ9,
    /// V8 in Node.js.
    Node,
    /// .NET, its own implementation and not Mono.
    DotNet,
    /// Erlang/OTP.
    Erlang,
    /// PHP, with the JIT of opcache or without.
    Php,
    /// CPython.
    Python,
    /// LuaJIT, which interprets functions until it compiles them.
    LuaJit,
    /// The interpreter of Lua's authors.
    Lua,
    /// Perl.
    Perl,
    /// CRuby, with YJIT or without.
    Ruby,
}

/// How the names of files begin, behind `lib`; then comes a version, or the end of the name of a library.
const FILES: [(&str, Runtime); 17] = [
    ("jvm", Runtime::Java),
    ("java", Runtime::Java),
    ("j9vm", Runtime::OpenJ9),
    ("j9jit", Runtime::OpenJ9),
    ("node", Runtime::Node),
    ("dotnet", Runtime::DotNet),
    ("coreclr", Runtime::DotNet),
    ("clrjit", Runtime::DotNet),
    ("beam.smp", Runtime::Erlang),
    ("php", Runtime::Php),
    ("php-cgi", Runtime::Php),
    ("php-fpm", Runtime::Php),
    ("python", Runtime::Python),
    ("luajit", Runtime::LuaJit),
    ("lua", Runtime::Lua),
    ("perl", Runtime::Perl),
    ("ruby", Runtime::Ruby),
];

impl Runtime {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Java => "Java",
            Self::OpenJ9 => "OpenJ9",
            Self::Node => "Node.js",
            Self::DotNet => ".NET",
            Self::Erlang => "Erlang",
            Self::Php => "PHP",
            Self::Python => "Python",
            Self::LuaJit => "LuaJIT",
            Self::Lua => "Lua",
            Self::Perl => "Perl",
            Self::Ruby => "Ruby",
        }
    }

    /// Suggests how to run it so that it provides names of its JIT code; `None` if it makes none.
    pub fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Java => {
                "run `jcmd PID Compiler.perfmap` before the recording ends (JDK 17), or java with \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit; the recorder needs neither if it may read the memory of the \
                 process (JDK 8)"
            }
            Self::OpenJ9 => "run java with -XX:+PerfTool (OpenJ9)",
            Self::Node => "run node with --perf-basic-prof",
            Self::DotNet => {
                "run it with DOTNET_PerfMapEnabled=1 in its environment (before .NET 6: COMPlus_PerfMapEnabled=1)"
            }
            Self::Erlang => {
                "run erl with +JPperf true (OTP 24), or with ERL_FLAGS='+JPperf true' in its environment"
            }
            Self::Php => "run php with -d opcache.jit_debug=16 (8.0); code of regular expressions has none",
            Self::Python => {
                "run python with -X perf (3.12) if the recorder does not know its version or build; code of extensions, such as \
                 Numba, has none"
            }
            Self::LuaJit => "build LuaJIT with -DLUAJIT_USE_PERFTOOLS; no option of the usual builds does it",
            Self::Ruby => "run ruby with --yjit-perf (3.3)",
            Self::Lua | Self::Perl => return None,
        })
    }

    /// Suggests how to see the functions that it interprets; `None` if it only compiles.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Python => {
                "the recorder reads those of 3.9 to 3.15 on x86-64 with the global lock, unless a process ends at once; others since \
                 3.12 report them if they run with -X perf"
            }
            Self::Php => {
                "the recorder reads those of 7.4 to 8.5 on x86-64 without threads, unless a process ends at once; others have no \
                 option that reports them"
            }
            Self::LuaJit | Self::Lua | Self::Perl | Self::Ruby => {
                "the recorder does not read them, and no option makes the interpreter report them"
            }
            Self::Java | Self::OpenJ9 | Self::Node | Self::DotNet | Self::Erlang => return None,
        })
    }

    /// Returns the language of the functions that the recorder reads from its memory.
    fn language(self) -> Option<Language> {
        match self {
            Self::Python => Some(Language::PYTHON),
            Self::Php => Some(Language::PHP),
            _ => None,
        }
    }

    /// Finds the runtime to which a file belongs, by its name.
    fn of_image(path: &str) -> Option<Self> {
        let name = path.trim_end_matches(" (deleted)").rsplit('/').next()?;
        let name = name.strip_prefix("lib").unwrap_or(name);
        let is_rest = |rest: &str| {
            let is_version = rest.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
            rest.is_empty() || is_version || rest.starts_with(".so")
        };
        FILES.iter().find(|(begin, _)| name.strip_prefix(begin).is_some_and(is_rest)).map(|(_, it)| *it)
    }
}

/// Finds the runtime that made most of the unnamed code, among processes that provided no names at all: the one on the stack or
/// else, since unwinding often ends in such code, the one that the process has mapped. `None` if there is none.
pub fn nameless(report: &Report<'_>) -> Option<Runtime> {
    let (profile, tables) = (&report.profile, &report.loaded.tables);
    let told = told(report);
    let of_image = |path: &str| Runtime::of_image(path).filter(|it| it.remedy().is_some());
    let runtimes: BTreeMap<u32, Runtime> = tables
        .images
        .iter()
        .filter_map(|(id, image)| Some((id, of_image(tables.text(image.path))?)))
        .collect();
    // By process and moment: a process maps a runtime, or executes another program, which has none yet.
    let mut mapped: BTreeMap<(u32, u64), Option<Runtime>> = BTreeMap::new();
    for row in tables.lifecycle.iter().filter(|row| row.change == Change::EXEC) {
        mapped.insert((row.tgid, row.time_ns), None);
    }
    for row in &tables.mappings {
        if let Some(runtime) = runtimes.get(&row.image) {
            mapped.insert((row.tgid, row.time_ns), Some(*runtime));
        }
    }
    let mut samples: BTreeMap<Option<Runtime>, u64> = BTreeMap::new();
    for row in &profile.rows {
        let functions = || profile.walk(row.stack).map(|stack| profile.function(stack));
        let tgid = tgid(report, row);
        if told.contains(&tgid) || !functions().any(|function| function.reason == Some(Reason::Jit)) {
            continue;
        }
        let image = |image: u32| of_image(&profile.names.images[image as usize].path);
        let on_stack = functions().filter_map(|function| image(function.image?)).last();
        let mut before = mapped.range((tgid, 0)..=(tgid, row.span_ns.1));
        let runtime = on_stack.or_else(|| *before.next_back()?.1);
        *samples.entry(runtime).or_default() += row.samples;
    }
    samples.into_iter().max_by_key(|(_, samples)| *samples)?.0
}

/// Counts the samples in interpreters, of processes in which no stack shows a function that these run; the most first.
pub fn silent(report: &Report<'_>) -> Vec<(Runtime, Amount)> {
    let profile = &report.profile;
    let told = told(report);
    let interpreter = |path: &str| Runtime::of_image(path).filter(|it| it.advice().is_some());
    let of_image: Vec<Option<Runtime>> =
        profile.names.images.iter().map(|image| interpreter(&image.path)).collect();
    let mut amounts: BTreeMap<(u32, Runtime), Amount> = BTreeMap::new();
    let mut shown: BTreeSet<(u32, Language)> = BTreeSet::new();
    for row in &profile.rows {
        let tgid = tgid(report, row);
        let functions = || profile.walk(row.stack).map(|stack| profile.function(stack));
        shown.extend(functions().map(|it| (tgid, it.language)).filter(|(_, it)| it.is_interpreted()));
        if let Some(runtime) = functions().find_map(|function| of_image[function.image? as usize]) {
            amounts.entry((tgid, runtime)).or_default().add(row.amount());
        }
    }
    let shows =
        |tgid: u32, runtime: Runtime| runtime.language().is_some_and(|it| shown.contains(&(tgid, it)));
    let mut silent: BTreeMap<Runtime, Amount> = BTreeMap::new();
    for ((tgid, runtime), amount) in amounts {
        if !told.contains(&tgid) && !shows(tgid, runtime) {
            silent.entry(runtime).or_default().add(amount);
        }
    }
    let mut silent: Vec<_> = silent.into_iter().collect();
    silent.sort_by_key(|(_, amount)| Reverse(amount.weight));
    silent
}

/// Lists the processes that provided names of JIT code.
fn told(report: &Report<'_>) -> BTreeSet<u32> {
    let codes = report.loaded.tables.jit.iter();
    codes.filter(|it| !it.name.is_empty() && !it.language.is_interpreted()).map(|it| it.tgid).collect()
}

fn tgid(report: &Report<'_>, row: &ProfileRow) -> u32 {
    let thread = &report.profile.threads[row.thread as usize];
    report.loaded.tables.parts.part(thread.part).pid(thread.tgid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_files() {
        for (path, runtime) in [
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", Some(Runtime::Java)),
            ("/opt/semeru/lib/default/libj9vm29.so", Some(Runtime::OpenJ9)),
            ("/usr/bin/node", Some(Runtime::Node)),
            ("/usr/lib/libnode.so.115 (deleted)", Some(Runtime::Node)),
            ("/usr/share/dotnet/shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so", Some(Runtime::DotNet)),
            ("/usr/lib/erlang/erts-13.1.5/bin/beam.smp", Some(Runtime::Erlang)),
            ("/usr/sbin/php-fpm8.2", Some(Runtime::Php)),
            ("/usr/bin/python3.12", Some(Runtime::Python)),
            ("/usr/lib/libpython3.12.so.1.0", Some(Runtime::Python)),
            ("/usr/bin/luajit-2.1.0-beta3", Some(Runtime::LuaJit)),
            ("/usr/lib/libluajit-5.1.so.2.1.0", Some(Runtime::LuaJit)),
            ("/usr/bin/lua5.4", Some(Runtime::Lua)),
            ("/usr/lib/liblua5.4.so.0.0.0", Some(Runtime::Lua)),
            ("/usr/bin/perl", Some(Runtime::Perl)),
            ("/usr/lib/libperl.so.5.36", Some(Runtime::Perl)),
            ("/usr/lib/libruby-3.1.so.3.1.2", Some(Runtime::Ruby)),
            ("/usr/bin/nodejs-notes", None),
            ("/usr/bin/node_exporter", None),
            ("/usr/bin/perl-server", None),
            ("/usr/lib", None),
            ("", None),
        ] {
            assert_eq!(Runtime::of_image(path), runtime, "{path}");
        }
    }
}
