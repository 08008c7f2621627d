//! Which programs made the code that has no name, and how they are told to name it.

use std::collections::BTreeMap;

use crate::pipeline::Report;
use crate::symbolize::Reason;

/// A program that makes code at run time, and can tell its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runtime {
    Java,
    Node,
    Python,
}

impl Runtime {
    /// What makes it tell names.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Java => {
                "run `jcmd PID Compiler.perfmap` before the recording ends (JDK 17), or java with \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
            }
            Self::Node => "run node with --perf-basic-prof",
            Self::Python => "run python with -X perf (3.12)",
        }
    }

    /// The one that a file belongs to, by its name.
    fn of_image(path: &str) -> Option<Self> {
        match path.trim_end_matches(" (deleted)").rsplit('/').next()? {
            "libjvm.so" | "java" => Some(Self::Java),
            name if name == "node" || name.starts_with("libnode.so") => Some(Self::Node),
            name if name.starts_with("python3") || name.starts_with("libpython3") => Some(Self::Python),
            _ => None,
        }
    }
}

/// The runtime on whose stacks most of the code without a name is, among processes that told no names at all; `None` if no
/// runtime is on them.
pub(crate) fn nameless(report: &Report<'_>) -> Option<Runtime> {
    let profile = &report.profile;
    let told: std::collections::BTreeSet<u32> =
        report.loaded.tables.jit.iter().map(|code| code.tgid).collect();
    let mut samples: BTreeMap<Option<Runtime>, u64> = BTreeMap::new();
    for row in &profile.rows {
        let functions = || profile.walk(row.stack).map(|stack| profile.function(stack));
        let tgid = profile.threads[row.thread as usize].tgid;
        if told.contains(&tgid) || !functions().any(|function| function.reason == Some(Reason::Jit)) {
            continue;
        }
        let image = |image: u32| Runtime::of_image(&profile.names.images[image as usize].path);
        let runtime = functions().filter_map(|function| image(function.image?)).last();
        *samples.entry(runtime).or_default() += row.samples;
    }
    samples.into_iter().max_by_key(|(_, samples)| *samples)?.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_their_files() {
        for (path, runtime) in [
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", Some(Runtime::Java)),
            ("/usr/bin/node", Some(Runtime::Node)),
            ("/usr/lib/libnode.so.115 (deleted)", Some(Runtime::Node)),
            ("/usr/bin/python3.12", Some(Runtime::Python)),
            ("/usr/lib/libpython3.12.so.1.0", Some(Runtime::Python)),
            ("/usr/bin/nodejs-notes", None),
            ("", None),
        ] {
            assert_eq!(Runtime::of_image(path), runtime, "{path}");
        }
    }
}
