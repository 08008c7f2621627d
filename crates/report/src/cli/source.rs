//! Options that name the recording, select samples of it, and say where their names are searched.

use std::path::PathBuf;

use clap::Args;

use super::Lookup;
use icecore_profile::named::{NamePattern, Patterns};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::recording::filter::{Cpus, Filter, Moment, Sides};
use icecore_text::path::word;

/// The recording, and which samples of it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct Source {
    /// The recording; several are shown as one, of a folder the newest; `-`: stdin [default: the newest *.icecore in this folder]
    #[arg(help_heading = "Arguments", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Which samples of it.
    #[command(flatten)]
    pub select: Select,
}

/// Which samples and frames, and where their names are found.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct Select {
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
    /// Which samples, whatever their stacks.
    #[command(flatten)]
    pub which: Which,
    /// Only user frames; samples without any are dropped
    #[arg(long, conflicts_with = "kernel")]
    pub user: bool,
    /// Only kernel frames; samples without any are dropped
    #[arg(long)]
    pub kernel: bool,
    /// Also waits of kernel threads that have no work
    #[arg(long)]
    pub idle: bool,
    /// Show in stacks of tracepoints the kernel's own functions that call the sampler, too (perf_syscall_enter)
    #[arg(long)]
    pub tracing: bool,
    /// Only samples with a function anywhere in the stack that has this name, or that matches
    #[arg(long, value_name = "NAME|REGEX")]
    pub focus: Option<NamePattern>,
    /// Skip samples with a function anywhere in the stack that matches: '^(epoll_wait|worker_loop)$' skips idle threads
    #[arg(long, value_name = "NAME|REGEX")]
    pub ignore: Option<NamePattern>,
    /// Remove matching functions from the stacks
    #[arg(long, value_name = "NAME|REGEX")]
    pub hide: Option<NamePattern>,
    /// Remove all other functions from the stacks
    #[arg(long, value_name = "NAME|REGEX")]
    pub show: Option<NamePattern>,
    /// Ignore case in --focus, --ignore, --hide and --show
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Only samples with a function of this language anywhere in the stack: python, php, java, javascript
    #[arg(long, value_name = "NAME", value_parser = ["python", "php", "java", "javascript"], hide_possible_values = true)]
    pub language: Option<String>,
    /// Show also the functions of an interpreter that run those of the program (_PyEval_EvalFrameDefault)
    #[arg(long)]
    pub native: bool,
    /// Count functions of an interpreter's own file (PyDict_Merge) to the function of the program that called them
    #[arg(long, conflicts_with = "native")]
    pub fold_interpreters: bool,
}

/// Which samples, by what needs no stack.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct Which {
    /// Only these processes: 7,8; may be repeated
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Only these threads: 7,8; may be repeated
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub tid: Vec<u32>,
    /// Only threads with these names, and all threads of processes with these names: cc1,make or 'kworker/*';
    /// may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Only cgroups of this path and those below it: /system.slice/x.service; may be repeated
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Only this host of a merged recording, by its exact name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Only samples of these events: cpu-clock,off-cpu or 'uprobe:*'; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub event: Vec<String>,
    /// Only these CPUs: 0,2-3; may be repeated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpu: Vec<Cpus>,
    /// Only from this time on: seconds after the (earliest) start, or 500ms, 2s, 1m
    #[arg(long, value_name = "TIME")]
    pub from: Option<Moment>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<Moment>,
}

impl Which {
    /// Returns these options as a filter.
    pub fn filter(&self) -> Filter {
        Filter {
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            comms: self.comm.clone(),
            cgroups: self.cgroup.clone(),
            hosts: self.host.clone(),
            events: if self.event.is_empty() {
                EventChoice::All
            } else {
                EventChoice::Named(self.event.clone())
            },
            cpus: self.cpu.clone(),
            from: self.from,
            to: self.to,
            sides: Sides::Both,
            skips_idle: false,
            skips_tracing: true,
        }
    }
}

impl Select {
    /// Returns the filters that need no names. Views leave out waits that are not asked for.
    pub fn filter(&self) -> Filter {
        let filter = self.which.filter();
        Filter {
            events: if filter.events == EventChoice::All {
                EventChoice::Usual
            } else {
                filter.events.clone()
            },
            sides: match (self.user, self.kernel) {
                (true, _) => Sides::User,
                (_, true) => Sides::Kernel,
                _ => Sides::Both,
            },
            skips_idle: !self.idle,
            skips_tracing: !self.tracing,
            ..filter
        }
    }

    /// Returns the filters as options of a command line, with a space before each word; without times, and without the search of names.
    pub fn words(&self) -> String {
        let list = |name: &'static str, all: Vec<String>| (!all.is_empty()).then(|| (name, all.join(",")));
        let numbers = |all: &[u32]| all.iter().map(u32::to_string).collect();
        let each =
            |name: &'static str, all: &[String]| all.iter().map(move |one| (name, one.clone())).collect();
        let pattern =
            |name: &'static str, one: &Option<NamePattern>| one.as_ref().map(|it| (name, it.to_string()));
        let which = &self.which;
        let lists: [Vec<(&str, String)>; 3] =
            [each("comm", &which.comm), each("cgroup", &which.cgroup), each("host", &which.host)];
        let options = [list("pid", numbers(&which.pid)), list("tid", numbers(&which.tid))]
            .into_iter()
            .flatten()
            .chain(lists.into_iter().flatten())
            .chain(which.event.iter().map(|event| ("event", event.clone())))
            .chain(list("cpu", which.cpu.iter().map(Cpus::to_string).collect()))
            .chain(pattern("focus", &self.focus))
            .chain(pattern("ignore", &self.ignore))
            .chain(pattern("hide", &self.hide))
            .chain(pattern("show", &self.show))
            .chain(self.language.iter().map(|language| ("language", language.clone())));
        let ignores_case = self.ignore_case && self.has_patterns();
        let flags = [
            (ignores_case, " --ignore-case"),
            (self.user, " --user"),
            (self.kernel, " --kernel"),
            (self.idle, " --idle"),
            (self.tracing, " --tracing"),
            (self.native, " --native"),
            (self.fold_interpreters, " --fold-interpreters"),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned());
        options.map(|(name, value)| format!(" {}", word(&format!("--{name}={value}")))).chain(flags).collect()
    }

    /// Returns the filters that need names.
    pub fn patterns(&self) -> Patterns {
        let cased = |pattern: &Option<NamePattern>| match pattern {
            Some(pattern) if self.ignore_case => Some(pattern.ignoring_case()),
            pattern => pattern.clone(),
        };
        let Self { focus, ignore, hide, show, .. } = self;
        Patterns {
            focus: cased(focus),
            ignore: cased(ignore),
            hide: cased(hide),
            show: cased(show),
            language: self.language.clone(),
            native: self.native,
            folds_interpreters: self.fold_interpreters,
        }
    }

    /// Returns true if nothing was typed.
    pub fn is_default(&self) -> bool {
        let Which { from, to, .. } = &self.which;
        self.lookup == Lookup::default()
            && self.words().is_empty()
            && from.is_none()
            && to.is_none()
            && !self.ignore_case
    }

    /// Returns true if there are filters that need names.
    pub fn has_patterns(&self) -> bool {
        self.language.is_some()
            || [&self.focus, &self.ignore, &self.hide, &self.show].into_iter().any(Option::is_some)
    }
}
