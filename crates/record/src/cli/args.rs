//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Parser as _;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use icecore_text::door::{Door, Kind};

use super::seconds::{self, Interval};
use crate::settings::{Embed, Unwind};

/// Samples this machine with eBPF and writes what it saw into one small file
///
/// Every sample has its kernel stack and its user stack, also of programs without frame pointers: the sampler walks it by the unwind
/// tables of the code, or copies what the report needs to unwind it. The recorder analyses nothing itself: read the file with
/// icecore-report, on any machine.
#[derive(Debug, clap::Parser)]
#[command(
    name = "icecore-record",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  icecore-record make -j8                    a command and everything that it starts
  icecore-record -a -d 10                    the whole machine for ten seconds
  icecore-record -p $(pidof postgres) -d 30  processes, and the children that they fork
  icecore-record --cgroup /system.slice/nginx.service -d 30
  icecore-record -a -F 999 -K -C 0,2-3       kernel mode only, three CPUs, 999 Hz
  icecore-record --delay 5 -d 10 ./server    ten seconds, from five seconds after the start
  icecore-record --as www-data ./server      the command runs as another user
  icecore-record -e page-faults -- ./app     every page fault instead of CPU time
  icecore-record -e 'uprobe:python3:PyObject_Call*' -p PID -d 5
  icecore-record -a -e cycles -e sched:sched_switch,every=100 -d 10
  icecore-record --off-cpu --wakers -p PID   also how long threads wait, for what, and who wakes them
  icecore-record -a -d 10 -o - | ssh HOST 'cat > FILE'
  icecore-report FILE                        what it saw

Needs root, or CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE to see other users' processes).
SIGINT (Ctrl-C), SIGTERM and SIGHUP end the recording, and the file is whole; under nohup SIGHUP is ignored.
The recorder then sends SIGTERM to the command and waits for it. It only waits if the terminal sent Ctrl-C, because the
command has got that as well. A second SIGINT or SIGTERM ends the recorder at once; what was written can be read.
Exit code: that of the command; 0 without a command; 2 if recording failed, or the file is no longer where it was to be;
130, 143 or 129 if it was stopped before it began: then nothing was run, and there is no file."
)]
pub struct Args {
    /// Record the whole machine (with a command: while it runs)
    #[arg(short = 'a', long = "all")]
    pub all: bool,

    /// Record these processes, and the children that they fork from now on
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', num_args = 1.., conflicts_with = "all")]
    pub pids: Vec<u32>,

    /// Record these threads only
    #[arg(short = 't', long = "tid", value_name = "TID", value_delimiter = ',', num_args = 1.., conflicts_with_all = ["all", "pids"])]
    pub tids: Vec<u32>,

    /// Record what runs in this cgroup (of cgroup2) and those below it, such as /system.slice/x.service; may be
    /// repeated (with a command: while it runs)
    #[arg(long = "cgroup", value_name = "PATH", conflicts_with_all = ["all", "pids", "tids"])]
    pub cgroups: Vec<String>,

    /// Sample this event; may be repeated. By default cycles, or cpu-clock where no counter is. A name of perf (page-faults, cache-misses:u,
    /// r01c2), CATEGORY:NAME of a tracepoint, uprobe:PATH:FUNCTION, uretprobe:PATH:FUNCTION, usdt:PATH:PROVIDER:NAME; * and ? stand for
    /// parts of names; kprobe:FUNCTION, kretprobe, fentry, fexit of the kernel. Behind it options: ,count=N or ,freq=HZ of counters;
    /// ,every=N ,weight=argN|argN:int|retval|retval32|duration ,min=N ,unit=TEXT of all others
    #[arg(short = 'e', long = "event", value_name = "EVENT[,KEY=VALUE]…")]
    pub events: Vec<String>,

    /// The most samples per second of one probe or tracepoint. Above it, one sample stands for several hits and weighs as much more. 0: no
    /// limit
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_event_rate: u64,

    /// Samples per second and CPU, of clocks and counters of the hardware
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub frequency: u64,

    /// Take a sample every COUNT units of the event instead (ns of cpu-clock, cycles)
    #[arg(short = 'c', long = "count", value_name = "COUNT", conflicts_with = "frequency", value_parser = clap::value_parser!(u64).range(20_000..=1_000_000_000_000))]
    pub count: Option<u64>,

    /// Record also how long threads wait, with their stacks: for an event (`off-cpu`) and for a CPU (`run-delay`). A wait of TIME (1ms,
    /// 100us) is always kept, a shorter one with the probability length / TIME; default: the time between two samples
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = seconds::parse, group = "waits")]
    pub off_cpu: Option<Option<std::time::Duration>>,

    /// The same, and sample nothing else except for what -e names
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = seconds::parse, group = "waits")]
    pub off_cpu_only: Option<Option<std::time::Duration>>,

    /// Record also who ended each wait (`waker`)
    #[arg(long, requires = "waits")]
    pub wakers: bool,

    /// Read counters of the machine, of processes and of cgroups so often (0.1 to 30 seconds): CPU time, memory, faults, switches, bytes
    /// read and written, threads, pressure. `off`: never
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::parse_counters)]
    pub counters: Interval,

    /// Stop after this many seconds of sampling (2.5, 10s, 500ms); a command goes on, and is waited for
    #[arg(short = 'd', long = "duration", value_name = "SECONDS", value_parser = seconds::parse)]
    pub duration: Option<std::time::Duration>,

    /// Begin to sample so many seconds after the command has started, or without a command after the recorder is ready
    /// (2.5, 10s, 500ms). New processes and mappings are followed meanwhile
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds::parse_delay)]
    pub delay: Option<std::time::Duration>,

    /// Run the command as this user (a name or a number), with the user's groups, HOME, USER, LOGNAME and SHELL; needs root.
    /// (--user is -U)
    #[arg(long = "as", value_name = "USER")]
    pub run_as: Option<String>,

    /// Sample user mode only
    #[arg(short = 'U', long = "user", conflicts_with = "kernel")]
    pub user: bool,

    /// Sample kernel mode only, without user frames
    #[arg(short = 'K', long = "kernel")]
    pub kernel: bool,

    /// Sample idle CPUs as well
    #[arg(long)]
    pub include_idle: bool,

    /// Sample these CPUs only: a list such as 0,2-3
    #[arg(short = 'C', long = "cpu", value_name = "CPUS")]
    pub cpus: Option<String>,

    /// The most user frames of one stack, 1 to 4096; a stack cut here is marked as cut
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_depth: u32,

    /// How user stacks are found, also those of programs without frame pointers
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Unwind::Auto)]
    pub unwind: Unwind,

    /// Check one of N walks by unwind tables against a copy of the stack; 0: none
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub audit: u32,

    /// Use no unwind tables that an earlier recording has kept on disk, and keep none
    #[arg(long)]
    pub no_cache: bool,

    /// Copy at most so much of a stack, 4K to 1M, beginning at the innermost frame
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_stack_bytes)]
    pub stack_bytes: u32,

    /// Store the label KEY=VALUE in the file; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,

    /// What to keep of programs and libraries, for reports where they are not
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Embed::Hits)]
    pub embed: Embed,

    /// Embed at most this many bytes of files, before compression, and a quarter of that from one file. Larger files are skipped and listed
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub embed_max: u64,

    /// Memory between kernel and recorder, 256K to 1G; default 8M per CPU, 16M to 256M (--unwind fp: 1M per CPU, 4M to 256M)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub ring: Option<u64>,

    /// Write at least this often: if the recorder is killed, at most this many seconds are lost (0.1 to 60)
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::parse_flush)]
    pub flush: std::time::Duration,

    /// Write at the latest when this many bytes wait: 64K to 16M
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_flush_bytes)]
    pub flush_bytes: u64,

    /// The file to write; default icecore-HOST-TIME.icecore here. `-`: stdout; a command then gets
    /// stderr as its stdout, so that the two do not mix
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace an existing file once recording has begun. A symbolic link stays a link: the file that it leads to is replaced.
    /// The new file belongs to the user who records and has mode 0600, whatever the mode of the old one was
    #[arg(long)]
    pub force: bool,

    /// Print nothing but errors
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print each step, and the messages of libbpf
    #[arg(short = 'v', long)]
    pub verbose: bool,

    /// The command to record, and its arguments. It starts when the recorder is ready. Options of icecore-record come before
    /// it; `--` may separate them
    #[arg(trailing_var_arg = true, value_name = "CMD", conflicts_with_all = ["pids", "tids"])]
    pub command: Vec<OsString>,
}

/// Joins `--off-cpu` and the time behind it by `=`: what stands behind it may also be the command.
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
    Args::try_parse_from(joined(args)).map_err(|error| {
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

impl clap::ValueEnum for Embed {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::None, Self::Hits, Self::Sections, Self::All]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::None => ("none", "Nothing: a report needs the very files"),
            Self::Hits => (
                "hits",
                "The name of every function that was hit, from the symbol tables of its file; of JIT code, from perf maps and jitdump files",
            ),
            Self::Sections => {
                ("sections", "Also the symbol tables and unwind tables of the files that were hit")
            }
            Self::All => ("all", "Also these files as a whole"),
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
                "In the kernel by the unwind tables of the programs; a copy, as with `copy`, where these are not ready or not enough",
            ),
            Self::Copy => (
                "copy",
                "Copies of registers and stack, which the report unwinds; of processes whose code all keeps frame pointers, a walk and the top of the stack",
            ),
            Self::Dwarf => ("dwarf", "Copies of registers and stack, also of code that keeps frame pointers"),
            Self::Fp => ("fp", "By frame pointers alone: stacks of programs without them are wrong"),
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
    let bytes = parse_size(text)?;
    if (64 << 10..=16 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("must lie between 64K and 16M".to_owned())
    }
}

fn parse_stack_bytes(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_size(text)?).ok().filter(|bytes| (4 << 10..=1 << 20).contains(bytes));
    bytes.ok_or("must lie between 4K and 1M".to_owned())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err("expected bytes, or a number with K, M or G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected bytes, or a number with K, M or G".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
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
        let told = |line: &[&str]| {
            let line = [&["icecore-record"], line].concat();
            hint(&Args::try_parse_from(line).expect_err("no such option"))
        };
        assert!(told(&["-g", "-a"]).is_some_and(|text| text.contains("`-g`: every sample has its stack")));
        assert!(
            told(&["-a", "--call-graph", "dwarf"])
                .is_some_and(|text| text.contains("--unwind auto, copy, dwarf or fp"))
        );
        assert!(told(&["-a", "--call-graph=dwarf"]).is_some_and(|text| text.contains("`--call-graph`")));
        assert_eq!(told(&["-a", "--frob"]), None);
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
    fn sizes_know_their_units() {
        assert_eq!(parse_size("8M"), Ok(8 << 20));
        assert_eq!(parse_size("65536"), Ok(65536));
        assert!(parse_size("8X").is_err());
        assert!(parse_size("M").is_err());
        assert!(parse_size("99999999999G").is_err());
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
            &["-a", "--cgroup", "/"],
            &["-t", "1", "--cgroup", "/"],
        ] {
            assert!(Args::try_parse_from([&["icecore-record"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
