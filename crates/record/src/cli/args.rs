//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::ArgGroup;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use icecore_text::door::{Door, Kind};
use icecore_text::quantity::size;

use super::budget;
use super::conditions;
use super::rotation;
use super::seconds::{self, Interval};
use crate::settings::{Budget, Condition, Duty, Embed, Flight, Rotate, Unwind};
use crate::skeleton::types::limits;

/// Samples this machine with eBPF and writes what it saw into one small file
///
/// Every sample has its kernel stack and its user stack, also in programs without frame pointers: the sampler walks the stack by the
/// unwind tables of the code, or copies what the report needs to unwind it. The recorder analyses nothing: icecore-report reads the
/// file, on any machine.
#[derive(Debug, clap::Parser)]
#[command(
    name = "icecore-record",
    version,
    max_term_width = 100,
    group = ArgGroup::new("processes").multiple(true),
    group = ArgGroup::new("files").multiple(true),
    after_help = "\
Examples:
  icecore-record make -j8                    a command and its children
  icecore-record -a -d 10                    the whole machine for ten seconds
  icecore-record -p $(pidof postgres) -d 30  processes and their new children
  icecore-record --name 'postgres*' -d 30    processes of this name
  icecore-record --cgroup /system.slice/nginx.service -d 30
  icecore-record -a -F 999 -K -C 0,2-3       kernel mode, three CPUs, 999 Hz
  icecore-record --delay 5 -d 10 ./server    skip the first 5 s, sample 10 s
  icecore-record --as www-data ./server      the command runs as another user
  icecore-record -e page-faults -- ./app     page faults instead of CPU time
  icecore-record -e 'uprobe:python3:PyObject_Call*' -p PID -d 5
  icecore-record -a -e cycles -e sched:sched_switch,every=100 -d 10
  icecore-record --off-cpu --wakers -p PID   also waits, and who ends them
  icecore-record -a -F 19 --rotate 10min --keep-for 7d -o DIR/x.icecore
  icecore-record -a --flight 30s             memory only, until SIGUSR1
  icecore-record -a --rotate 1h --budget cpu=1%,memory=96M
  icecore-record -a --rotate 10min --ship /mnt/profiles -o DIR/x.icecore
  icecore-record -a -d 10 -o - | ssh HOST 'cat > FILE'
  icecore-record ctl status                  ask a recorder that runs
  icecore-record doctor                      what is missing here, and remedies
  icecore-record cache --clear               remove unwind tables that it keeps
  icecore-report FILE                        shows where time went

Needs root, or CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE to see processes of other users). Without them it samples a command, or \
processes of its user (-p, -t), in user mode alone, if kernel.perf_event_paranoid is at most 2, and says what is missing.

SIGINT (Ctrl-C), SIGTERM and SIGHUP end the recording, and the file is complete (under nohup, SIGHUP is ignored). The recorder then \
sends SIGTERM to the command and waits for it. After Ctrl-C it only waits, because the terminal has sent SIGINT to the command as \
well. A second SIGINT or SIGTERM ends the recorder at once; what has been written can be read.

Exit codes: that of the command; 0 without a command; 2 if recording failed, or if the file was removed or renamed meanwhile; 130, \
143 or 129 if a signal came before the recording began: then the command has not run, and there is no file."
)]
pub struct Args {
    /// Record the whole machine (with a command: while it runs)
    #[arg(short = 'a', long = "all")]
    pub all: bool,

    /// Record these processes and the children that they fork from now on
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', num_args = 1.., conflicts_with = "all", group = "processes")]
    pub pids: Vec<u32>,

    /// Record the processes that have this name when recording begins, and the children that they fork from then on; * and ? match parts
    /// of names; may be repeated, also beside -p. Names are those of `ps -e`; where they have 15 bytes, those of the files that they begin.
    /// A process that gets the name later is recorded only as a child of these: for others record a --cgroup, or -a, and choose with
    /// icecore-report --comm
    #[arg(long = "name", value_name = "PATTERN", conflicts_with_all = ["all", "tids"], group = "processes")]
    pub names: Vec<String>,

    /// With -p and --name, also record the children that these processes have already, and theirs
    #[arg(long, requires = "processes")]
    pub children: bool,

    /// Record these threads only
    #[arg(short = 't', long = "tid", value_name = "TID", value_delimiter = ',', num_args = 1.., conflicts_with_all = ["all", "pids"])]
    pub tids: Vec<u32>,

    /// Record the processes of this cgroup (v2) and of those below it, such as /system.slice/x.service; may be repeated (with a
    /// command: while it runs). If the cgroup is removed and made again, as when a service restarts, the new one is recorded; the
    /// recording ends when there was none for 10 s (with --rotate it waits)
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with_all = ["all", "processes", "tids"])]
    pub cgroups: Vec<String>,

    /// Sample this event; may be repeated [default: cycles, or cpu-clock on machines without counters]. Events: perf's names
    /// (page-faults, cache-misses:u, r01c2); tracepoints (CATEGORY:NAME); functions of programs (uprobe:PATH:FUNCTION,
    /// uretprobe:PATH:FUNCTION) and of the kernel (kprobe:FUNCTION, kretprobe, fentry, fexit); static probes
    /// (usdt:PATH:PROVIDER:NAME). * and ? match parts of names. Options of counters: ,count=N or ,freq=HZ; of all others: ,every=N
    /// ,weight=argN|argN:int|retval|retval32|duration|FIELD ,min=N ,unit=TEXT; of tracepoints: ,field=FIELD keeps a field, as in
    /// syscalls:sys_enter_write,field=fd
    #[arg(short = 'e', long = "event", value_name = "EVENT[,KEY=VALUE]…")]
    pub events: Vec<String>,

    /// Limit the samples of one probe or tracepoint, and those of waits, to N per second. Beyond that one sample stands for several hits
    /// or short waits, and its weight is their sum. 0: no limit
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_event_rate: u64,

    /// Sample this often per second on each CPU (clocks and hardware counters)
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub frequency: u64,

    /// Sample every COUNT units of the event instead (nanoseconds of cpu-clock, cycles)
    #[arg(short = 'c', long = "count", value_name = "COUNT", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(20_000..=1_000_000_000_000))]
    pub count: Option<u64>,

    /// Also record how long threads wait, with their stacks: for an event (`off-cpu`) and for a CPU (`run-delay`). Waits of at least
    /// TIME (1ms, 100us) are always kept, shorter ones with a probability of length / TIME [default: the interval between samples]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = seconds::parse, group = "waits")]
    pub off_cpu: Option<Option<std::time::Duration>>,

    /// Like --off-cpu, but sample nothing else except the events of -e
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = seconds::parse, group = "waits")]
    pub off_cpu_only: Option<Option<std::time::Duration>>,

    /// Also record which thread ended each wait, with its stack (`waker`)
    #[arg(long, requires = "waits")]
    pub wakers: bool,

    /// Interval between counter readings (0.1 to 30), or `off`. Counters of the machine, processes and cgroups: CPU time, memory, page
    /// faults, context switches, bytes read and written, threads, pressure
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::parse_counters)]
    pub counters: Interval,

    /// Stop sampling after SECONDS (2.5, 10s, 500ms); the command keeps running, and the recorder waits for it
    #[arg(short = 'd', long = "duration", value_name = "SECONDS", value_parser = seconds::parse)]
    pub duration: Option<std::time::Duration>,

    /// Start sampling SECONDS after the command has started or, without a command, after the recorder is ready (2.5, 10s, 500ms). The
    /// recorder follows new processes and mappings from the start
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds::parse_delay)]
    pub delay: Option<std::time::Duration>,

    /// Start sampling when the time since 1970 (UTC) is next a multiple of TIME, such as */10s or */1min (at most a day): recorders on
    /// several machines begin together
    #[arg(long, value_name = "*/TIME", conflicts_with = "delay", value_parser = seconds::parse_multiple)]
    pub at: Option<std::time::Duration>,

    /// Run the command as this user (name or number), with the user's groups, HOME, USER, LOGNAME and SHELL, in a session and on a terminal
    /// of its own; of the environment it keeps PATH, TERM, COLORTERM, DISPLAY, LANG, LANGUAGE, LS_COLORS and LC_…, and of the open files
    /// the first three; needs root. (--user is another option: -U)
    #[arg(long = "as", value_name = "USER")]
    pub run_as: Option<String>,

    /// Sample user mode only
    #[arg(short = 'U', long = "user", conflicts_with = "kernel")]
    pub user: bool,

    /// Sample kernel mode only, without user stacks
    #[arg(short = 'K', long = "kernel")]
    pub kernel: bool,

    /// Also sample idle CPUs
    #[arg(long)]
    pub include_idle: bool,

    /// Sample these CPUs only: a list such as 0,2-3
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub cpus: Option<String>,

    /// Record at most N user frames of a stack (1 to 4096); longer stacks are truncated and marked
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MAX_USER_FRAMES.0)))]
    pub max_depth: u32,

    /// How to find user stacks
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Unwind::Auto)]
    pub unwind: Unwind,

    /// Check one of N walks by unwind tables against a copy of the stack; 0: check none
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub audit: u32,

    /// Neither read nor write the cache of compiled unwind tables on disk (`icecore-record cache` shows where it is, and clears it)
    #[arg(long)]
    pub no_cache: bool,

    /// Copy at most SIZE of a stack (4K to 1M), from the innermost frame on
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_stack_bytes)]
    pub stack_bytes: u32,

    /// Store the label KEY=VALUE in the file; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,

    /// What to store of programs and libraries, for reports on machines without them
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Embed::Hits)]
    pub embed: Embed,

    /// Embed at most SIZE of files before compression, and a quarter of it from one file; larger files are skipped and listed
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub embed_max: u64,

    /// Size of the buffer between kernel and recorder, 256K to 1G [default: 8M per CPU, 16M to 256M; --unwind fp: 1M per CPU, 4M to 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub ring: Option<u64>,

    /// Write at least every SECONDS (0.1 to 60): if the recorder is killed, no more than that is lost
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::parse_flush)]
    pub flush: std::time::Duration,

    /// Write as soon as SIZE is waiting (64K to 16M)
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_flush_bytes)]
    pub flush_bytes: u64,

    /// The file to write, or `-` for stdout [default: icecore-HOST-TIME.icecore in this folder]. With `-` the command's stdout goes to
    /// stderr, so that the two do not mix
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Go on in another file, without a gap, when the file is so old (100ms to 30d) or so much of it is written (64K to 1T); both may be
    /// given: 10min,256M. With `-o DIR/x.icecore`, files are named DIR/x-TIME.icecore. Each stands alone
    #[arg(long, value_name = "TIME|SIZE", value_parser = rotation::parse, group = "files")]
    pub rotate: Option<Rotate>,

    /// Hold what was recorded in the last TIME (1s to 1d) in memory, SIZE at most (16M to 64G) [default: 64M], and write it only when something asks: SIGUSR1,
    /// --when, or a command that a signal ends. What asked stands in the file, whose name is as with --rotate. What was
    /// written is not in the next file again
    #[arg(long, value_name = "TIME[,SIZE]", conflicts_with = "rotate", value_parser = rotation::parse_flight, group = "files")]
    pub flight: Option<Flight>,

    /// With --flight, write the history when this holds; may be repeated. cpu>80%, memory>90%, psi.cpu.some>30 (memory, io; full): the machine,
    /// at each reading of --counters; cpu(NAME)>150% of one CPU, rss(NAME)>4G: one process of this name (* and ? match parts); `… for 5s`: so long.
    /// exit(NAME)!=0: such a process ends so (a signal is 128 and its number). run_delay>100ms: with --off-cpu, a thread waits so long for a CPU. It
    /// asks again only after it did not hold
    #[arg(long, value_name = "CONDITION", requires = "flight", value_parser = conditions::parse)]
    pub when: Vec<Condition>,

    /// Hand each finished file to an archive: a folder, s3://BUCKET/PREFIX, ssh://HOST:PORT/PATH. What has arrived is removed here, unless
    /// --keep… keeps it. What has not stays, within --keep… or else 1G: then the oldest go. The recorder waits for no archive; at its end, for 60 s.
    /// It starts the icecore-report that lies beside it, without any capability (`icecore-report ship --help`)
    #[arg(long, value_name = "DEST", group = "files")]
    pub ship: Option<String>,

    /// With --rotate and --flight, keep at most N files of this name, the one that is written included: older ones are removed
    #[arg(long, value_name = "N", requires = "files", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,

    /// Keep at most SIZE of such files, the one that is written included
    #[arg(long, value_name = "SIZE", requires = "files", value_parser = size)]
    pub keep_bytes: Option<u64>,

    /// Remove such files when nothing was written to them for TIME (7d, 12h)
    #[arg(long, value_name = "TIME", requires = "files", value_parser = rotation::parse_age)]
    pub keep_for: Option<std::time::Duration>,

    /// Write the process id of the recorder into FILE once recording has begun (with --delay: once the recorder is ready), and remove FILE at
    /// the end. A FILE whose recorder still runs is refused, a stale one is replaced
    #[arg(long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,

    /// Make the control socket at PATH: icecore-record ctl asks there [default: with --rotate, --flight, --duty
    /// and --budget, in a folder that ctl knows]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,

    /// Sample the first TIME of each period and pause for the rest, counted from the begin of sampling. Samples weigh the time that was sampled:
    /// reports do not make up for pauses, and show them
    #[arg(long, value_name = "TIME/PERIOD", value_parser = budget::parse_duty)]
    pub duty: Option<Duty>,

    /// Use no more than cpu=PERCENT of one CPU (programs in the kernel that sample included) and disk=SIZE/s over any ten seconds of
    /// sampling, and memory=SIZE: the recorder samples less often or pauses, and the file says when, how often, and why.
    /// cpu=1%,memory=64M,disk=1M/s
    #[arg(long, value_name = "LIMITS", value_parser = budget::parse)]
    pub budget: Option<Budget>,

    /// Show on the terminal, every two seconds, which functions the samples of the last ten seconds hit, as `icecore-report tui --follow FILE`
    /// does: the recorder starts the icecore-report that lies beside it, without any capability. q or Ctrl-C closes the table, and the recording
    /// goes on until the next Ctrl-C. Not with a command, which has the terminal
    #[arg(long, conflicts_with_all = ["quiet", "flight"])]
    pub live: bool,

    /// Replace an existing file as soon as recording has begun. The new file belongs to the user who records and has mode 0600. A
    /// symbolic link stays: the file that it leads to is replaced
    #[arg(long)]
    pub force: bool,

    /// Print nothing but errors; losses and notes are in the recording, and icecore-report shows them
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print each step and the messages of libbpf
    #[arg(short = 'v', long)]
    pub verbose: bool,

    /// The command to record, with its arguments; it starts when the recorder is ready. Options of icecore-record come before it, and
    /// `--` may separate them
    #[arg(trailing_var_arg = true, value_name = "CMD", conflicts_with_all = ["processes", "tids"])]
    pub command: Vec<OsString>,
}

/// Joins `--off-cpu` and the time after it by `=`: what stands after it may also be the command.
fn joined(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut is_over = false;
    for arg in args {
        let takes_time = |option: &OsString| option == "--off-cpu" || option == "--off-cpu-only";
        let is_time = arg.to_str().is_some_and(|text| seconds::parse(text).is_ok());
        match out.last_mut().filter(|last| !is_over && is_time && takes_time(last)) {
            Some(option) => {
                option.push("=");
                option.push(arg);
            }
            None => {
                is_over |= arg == "--";
                out.push(arg);
            }
        }
    }
    out
}

/// Parses a command line whose first word is the name of the program. Prints the text of `--help` and `--version`, and the error
/// if the command line cannot be parsed.
///
/// # Errors
/// The exit code: 2, or 0 for `--help` and `--version`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Args, u8> {
    parsed(joined(args))
}

/// Parses any command line, as [`parse`] does.
fn parsed<A: clap::Parser>(args: impl IntoIterator<Item = OsString>) -> Result<A, u8> {
    A::try_parse_from(args).map_err(|error| {
        let failed = error.use_stderr();
        let is_terminal = if failed { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let is_styled = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let text = error.render();
        let (text, kind) = match (hint(&error), is_styled) {
            (Some(hint), _) => (format!("error: {hint}\n"), Kind::Plain),
            (None, true) => (text.ansi().to_string(), Kind::Styled),
            (None, false) => (text.to_string(), Kind::Plain),
        };
        // Nobody may be there to read it.
        let _ = if failed {
            Door::new(io::stderr(), kind).write_all(text.as_bytes())
        } else {
            Door::new(io::stdout(), kind).write_all(text.as_bytes())
        };
        if failed { 2 } else { 0 }
    })
}

/// Parses the command line of another command than to record, if the first word is its name; prints help or the error if it cannot be parsed.
///
/// # Errors
/// The exit code: 2, or 0 for `--help`.
pub(super) fn command<A: clap::Parser>(
    name: &str,
    mut args: impl Iterator<Item = OsString>,
) -> Option<Result<A, u8>> {
    let _program = args.next();
    let first = args.next().filter(|first| first == name)?;
    Some(parsed(std::iter::once(first).chain(args)))
}

impl clap::ValueEnum for Embed {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::None, Self::Hits, Self::Sections, Self::All]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::None => ("none", "Nothing: the report needs the same files"),
            Self::Hits => (
                "hits",
                "The names of all functions that were hit: from symbol tables, for JIT code from perf maps and jitdump files",
            ),
            Self::Sections => ("sections", "Also symbol tables and unwind tables of the files that were hit"),
            Self::All => ("all", "Also these files, whole"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl clap::ValueEnum for Unwind {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Auto, Self::Copy, Self::Dwarf, Self::Fp]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Auto => (
                "auto",
                "Walk in the kernel by unwind tables; copy, as with `copy`, where the tables are not ready or not enough",
            ),
            Self::Copy => (
                "copy",
                "Copy registers and stack, which the report unwinds; if all code of a process keeps frame pointers, walk and copy only the top",
            ),
            Self::Dwarf => ("dwarf", "Copy registers and stack, also if the code keeps frame pointers"),
            Self::Fp => ("fp", "Walk along frame pointers only: stacks of programs without them are wrong"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Returns advice for a user who typed an option of perf or of another profiler.
fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = typed.split('=').next().unwrap_or(typed);
    let hint = match option {
        "-g" => "every sample has its stack; leave it out",
        "--call-graph" => {
            "every sample has its stack; leave it out, or choose --unwind auto, copy, dwarf or fp"
        }
        "-m" | "--mmap-pages" => "use --ring SIZE",
        "--freq" | "-r" | "--rate" => "use -F HZ",
        "-G" => "use --cgroup PATH",
        "--all-cpus" => "use -a",
        "-u" | "--uid" => "record -a, and choose later with icecore-report",
        "-f" | "--flame" | "--svg" => "draw it afterwards: icecore-report flame FILE",
        _ => return None,
    };
    Some(format!("unexpected argument `{option}`: {hint} (see --help)"))
}

/// Returns advice for a user who typed a subcommand of perf as the command.
pub(crate) fn no_command(word: &str) -> &'static str {
    match word {
        "record" => "; icecore-record needs no such word: icecore-record [OPTIONS] CMD",
        "report" | "script" | "annotate" | "flamegraph" | "flame" | "top" | "summary" | "diff" => {
            "; to read a recording, run icecore-report FILE"
        }
        "stat" | "list" | "bench" | "trace" => "; icecore-record only records (see --help)",
        _ => "",
    }
}

fn parse_flush_bytes(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (64 << 10..=16 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("must lie between 64K and 16M".to_owned())
    }
}

fn parse_stack_bytes(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(size(text)?)
        .ok()
        .filter(|bytes| (limits::STACK_PAGE_LEN.0..=limits::MAX_STACK_BYTES.0).contains(bytes));
    bytes.ok_or("must lie between 4K and 1M".to_owned())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// Returns the lines that a terminal of this width has room to continue, and the examples that it breaks.
    fn broken(render: impl Fn(usize) -> String, width: usize) -> Vec<String> {
        let (help, wide) = (render(width), render(1_000));
        let is_text = |line: &str| line.starts_with(|first: char| first.is_alphanumeric());
        let has_room = |line: &str, next: &str| {
            let word = next.split(' ').next().unwrap_or_default();
            is_text(line) && is_text(next) && line.chars().count() + 1 + word.chars().count() <= width
        };
        let lines: Vec<&str> = help.lines().collect();
        let forced =
            lines.windows(2).filter(|pair| has_room(pair[0], pair[1])).map(|pair| pair[0].to_owned());
        let examples = wide.lines().skip_while(|line| *line != "Examples:").skip(1);
        let examples = examples.take_while(|line| !line.is_empty()).filter(|line| !lines.contains(line));
        forced.chain(examples.map(str::to_owned)).collect()
    }

    #[test]
    fn help_fits_a_terminal_of_80_and_of_100_columns() {
        let render =
            |width| Args::command().max_term_width(0).term_width(width).render_long_help().to_string();
        for width in [80, 100] {
            assert_eq!(broken(render, width), [""; 0], "{width}");
        }
        assert_eq!(
            broken(|_| "Two lines\nby force.\nExamples:\n  x\n".to_owned(), 80),
            ["Two lines", "by force."]
        );
    }

    #[test]
    fn several_pids_may_stand_behind_one_option() {
        let args =
            Args::try_parse_from(["icecore-record", "-p", "1", "2", "-d", "0.5"]).expect("pidof prints so");
        assert_eq!(args.pids, [1, 2]);
        let args = Args::try_parse_from(["icecore-record", "-p", "1,2"]).expect("commas");
        assert_eq!(args.pids, [1, 2]);
    }

    #[test]
    fn names_may_be_repeated_and_stand_beside_pids() {
        let args =
            Args::try_parse_from(["icecore-record", "--name", "a*", "-p", "1", "--name", "b", "--children"]);
        let args = args.expect("both are processes");
        assert_eq!((args.names, args.pids), (vec!["a*".to_owned(), "b".to_owned()], vec![1]));
        assert!(Args::try_parse_from(["icecore-record", "--name", "a", "--children"]).is_ok());
    }

    #[test]
    fn a_command_needs_no_dashes_and_keeps_its_options() {
        for line in [&["-F", "99", "ls", "-a", "--", "-F"][..], &["-F", "99", "--", "ls", "-a", "--", "-F"]] {
            let args = Args::try_parse_from([&["icecore-record"], line].concat()).expect("a command");
            assert_eq!(
                (args.all, args.frequency, &args.command[..]),
                (false, 99, &["ls", "-a", "--", "-F"].map(OsString::from)[..])
            );
        }
    }

    #[test]
    fn options_of_others_are_told_what_to_use_instead() {
        let advice = |line: &[&str]| {
            let line = [&["icecore-record"], line].concat();
            hint(&Args::try_parse_from(line).expect_err("no such option"))
        };
        assert!(advice(&["-g", "-a"]).is_some_and(|text| text.contains("`-g`: every sample has its stack")));
        assert!(
            advice(&["-a", "--call-graph", "dwarf"])
                .is_some_and(|text| text.contains("--unwind auto, copy, dwarf or fp"))
        );
        assert!(advice(&["-a", "--call-graph=dwarf"]).is_some_and(|text| text.contains("`--call-graph`")));
        assert_eq!(advice(&["-a", "--frob"]), None);
    }

    #[test]
    fn the_user_of_the_command_and_user_mode_are_two_things() {
        let args =
            Args::try_parse_from(["icecore-record", "--as", "1000", "-D", "500ms", "ls"]).expect("both");
        assert_eq!((args.run_as.as_deref(), args.user), (Some("1000"), false));
        assert_eq!(args.delay.map(|delay| delay.as_millis()), Some(500));
        let args = Args::try_parse_from(["icecore-record", "--user", "ls"]).expect("a flag");
        assert_eq!((args.run_as, args.user, args.command), (None, true, vec!["ls".into()]));
    }

    #[test]
    fn the_time_of_a_wait_may_stand_behind_its_option() {
        let parse = |line: &[&str]| {
            let line = [&["icecore-record"], line].concat().into_iter().map(OsString::from);
            Args::try_parse_from(joined(line)).expect("it is right")
        };
        let millisecond = Some(Some(std::time::Duration::from_millis(1)));
        assert_eq!(parse(&["--off-cpu", "1ms", "sleep", "1"]).off_cpu, millisecond);
        assert_eq!(parse(&["--off-cpu=1ms", "--", "sleep", "1"]).off_cpu, millisecond);
        let args = parse(&["--off-cpu", "sleep", "1"]);
        assert_eq!((args.off_cpu, args.command.len()), (Some(None), 2));
        let args = parse(&["-a", "--", "--off-cpu", "1"]);
        assert_eq!((args.off_cpu, args.command.len()), (None, 2));
        assert!(Args::try_parse_from(["icecore-record", "-a", "--wakers"]).is_err(), "of which waits?");
    }

    #[test]
    fn what_is_written_waits_a_second_or_a_mebibyte_unless_asked_otherwise() {
        let parse = |args: &[&str]| Args::try_parse_from([&["icecore-record", "-a"], args].concat());
        let args = parse(&[]).expect("defaults");
        assert_eq!((args.flush.as_secs_f64(), args.flush_bytes), (1.0, 1 << 20));
        let args = parse(&["--flush", "0.1", "--flush-bytes", "64K"]).expect("the least");
        assert_eq!((args.flush.as_millis(), args.flush_bytes), (100, 64 << 10));
        assert!(parse(&["--flush", "60s", "--flush-bytes", "16M"]).is_ok());
        for wrong in [
            ["--flush", "0.09"],
            ["--flush", "61"],
            ["--flush", "nan"],
            ["--flush-bytes", "63K"],
            ["--flush-bytes", "17M"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for wrong in [
            &["-a", "-p", "1"][..],
            &["-U", "-K"],
            &["-F", "0"],
            &["--label", "x"],
            &["-d", "-1"],
            &["-p", "1", "--", "ls"],
            &["--name", "x", "--", "ls"],
            &["--name", "x", "-a"],
            &["--name", "x", "-t", "1"],
            &["--name", "x", "--cgroup", "/"],
            &["-a", "--children"],
            &["-a", "--cgroup", "/"],
            &["-t", "1", "--cgroup", "/"],
        ] {
            assert!(Args::try_parse_from([&["icecore-record"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
