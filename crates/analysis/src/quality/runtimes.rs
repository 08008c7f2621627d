//! Finds the runtimes that made unnamed code, and how to make them provide names.

use std::collections::{BTreeMap, BTreeSet};

use icecore_format::records::Change;

use icecore_profile::named::pipeline::Report;
use icecore_symbolize::Reason;

/// A runtime that makes JIT code, and can provide its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// HotSpot.
    Java,
    /// V8 in Node.js.
    Node,
    /// CPython.
    Python,
}

impl Runtime {
    /// Suggests how to run it so that it provides names.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Java => {
                "run `jcmd PID Compiler.perfmap` before the recording ends (JDK 17), or java with \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
            }
            Self::Node => "run node with --perf-basic-prof",
            Self::Python => "run python with -X perf (3.12)",
        }
    }

    /// Finds the runtime to which a file belongs, by its name.
    fn of_image(path: &str) -> Option<Self> {
        match path.trim_end_matches(" (deleted)").rsplit('/').next()? {
            "libjvm.so" | "java" => Some(Self::Java),
            name if name == "node" || name.starts_with("libnode.so") => Some(Self::Node),
            name if name.starts_with("python3") || name.starts_with("libpython3") => Some(Self::Python),
            _ => None,
        }
    }
}

/// Finds the runtime that made most of the unnamed code, among processes that provided no names at all: the one on the stack or
/// else, since unwinding often ends in such code, the one that the process has mapped. `None` if there is none.
pub fn nameless(report: &Report<'_>) -> Option<Runtime> {
    let (profile, tables) = (&report.profile, &report.loaded.tables);
    let told: BTreeSet<u32> =
        tables.jit.iter().filter(|code| !code.name.is_empty()).map(|code| code.tgid).collect();
    let runtimes: BTreeMap<u32, Runtime> = tables
        .images
        .iter()
        .filter_map(|(id, image)| Some((id, Runtime::of_image(tables.text(image.path))?)))
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
        let thread = &profile.threads[row.thread as usize];
        let tgid = tables.parts.part(thread.part).pid(thread.tgid);
        if told.contains(&tgid) || !functions().any(|function| function.reason == Some(Reason::Jit)) {
            continue;
        }
        let image = |image: u32| Runtime::of_image(&profile.names.images[image as usize].path);
        let on_stack = functions().filter_map(|function| image(function.image?)).last();
        let mut before = mapped.range((tgid, 0)..=(tgid, row.span_ns.1));
        let runtime = on_stack.or_else(|| *before.next_back()?.1);
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
