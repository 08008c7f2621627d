//! The keys by which `top` makes rows, and the order of the rows.

use std::str::FromStr;

use clap::ValueEnum;

use super::Args;
use crate::cli::Sort;
use crate::views::{Error, Result};

/// What tells the rows of `top` apart. The aliases are the words of `perf report --sort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Functions of an image; what was inlined into one counts for it.
    #[value(aliases = ["symbol", "sym"])]
    Function,
    /// Functions as they are written: inlined ones apart.
    Inlined,
    /// Source lines.
    #[value(alias = "srcline")]
    Line,
    /// Addresses of code.
    Address,
    /// Executable files.
    #[value(alias = "dso")]
    Image,
    /// Processes.
    #[value(alias = "pid")]
    Process,
    /// Threads.
    #[value(alias = "tid")]
    Thread,
    /// Names of threads.
    Comm,
    /// CPUs.
    Cpu,
    /// Control groups.
    Cgroup,
    /// Hosts.
    Host,
    /// Fields of tracepoints.
    Field,
    /// Kinds of waits.
    Wait,
    /// Processes that ended waits.
    Waker,
    /// Threads that ended waits.
    WakerThread,
}

impl By {
    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Inlined => "inlined",
            Self::Line => "line",
            Self::Address => "address",
            Self::Image => "image",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Comm => "comm",
            Self::Cpu => "cpu",
            Self::Cgroup => "cgroup",
            Self::Host => "host",
            Self::Field => "field",
            Self::Wait => "wait",
            Self::Waker => "waker",
            Self::WakerThread => "waker-thread",
        }
    }

    /// Returns how finely a key tells code apart: lines lie in functions, and these in images. Other keys tell apart who ran it.
    fn fineness(self) -> Option<u8> {
        match self {
            Self::Image => Some(0),
            Self::Function | Self::Inlined => Some(1),
            Self::Line => Some(2),
            Self::Address => Some(3),
            _ => None,
        }
    }

    /// Returns true if a key is of code.
    pub(super) fn is_of_code(self) -> bool {
        self.fineness().is_some()
    }

    /// Returns true if rows of waits matter.
    pub(super) fn is_of_waits(self) -> bool {
        matches!(self, Self::Wait | Self::Waker | Self::WakerThread)
    }
}

/// Returns the finest key of code: its rows are those of all of them.
pub(super) fn finest(keys: &[By]) -> Option<By> {
    keys.iter().copied().filter(|by| by.is_of_code()).max_by_key(|by| by.fineness())
}

/// A word of `--sort`: what orders the rows, or, as in `perf report`, a key of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortWord {
    /// The weight that orders the rows.
    Weight(Sort),
    /// A key.
    Key(By),
}

impl FromStr for SortWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let weight = Sort::from_str(text, false).map(Self::Weight);
        weight.or_else(|_| By::from_str(text, false).map(Self::Key)).map_err(|_| {
            "use self or total, or keys as those of perf: comm, dso, symbol, pid, tid, cpu, srcline"
                .to_owned()
        })
    }
}

impl Args {
    /// Returns the keys of the rows, each once.
    pub(super) fn keys(&self) -> Vec<By> {
        let of_perf = self.sort.iter().filter_map(|word| match word {
            SortWord::Key(by) => Some(*by),
            SortWord::Weight(_) => None,
        });
        let mut keys: Vec<By> = Vec::new();
        for by in self.by.iter().copied().chain(of_perf) {
            if !keys.contains(&by) {
                keys.push(by);
            }
        }
        if keys.is_empty() { vec![By::Function] } else { keys }
    }

    /// Returns the weight that orders the rows.
    pub(super) fn order(&self) -> Sort {
        let total = self.sort.contains(&SortWord::Weight(Sort::Total));
        if total || self.children { Sort::Total } else { Sort::Own }
    }

    /// Refuses keys and orders that contradict each other.
    pub(super) fn check(&self, user_only: bool) -> Result<()> {
        let keys = self.keys();
        let [own, total] = [Sort::Own, Sort::Total].map(|sort| self.sort.contains(&SortWord::Weight(sort)));
        let has_keys = self.sort.iter().any(|word| matches!(word, SortWord::Key(_)));
        let why = if keys.contains(&By::Wait) && user_only {
            "cannot tell kinds of waits without the functions of the kernel: leave out --user"
        } else if keys.contains(&By::Function) && keys.contains(&By::Inlined) {
            "cannot show functions both with and without inlined code: use one of function and inlined"
        } else if keys.contains(&By::Address) && (keys.len() > 1 || self.wakers) {
            "cannot tell addresses apart by other keys or below wakers: use --by address alone"
        } else if has_keys && !self.by.is_empty() {
            "cannot take keys of rows from both --by and --sort: name all with --by"
        } else if (total || self.children) && (own || self.no_children) {
            "cannot order rows by self and by total: choose one"
        } else {
            return Ok(());
        };
        Err(Error::Refused(why.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn typed(line: &str) -> Args {
        let words = std::iter::once("top").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).expect("parses")
    }

    #[test]
    fn the_words_of_perf_are_keys() {
        let keys = |line: &str| typed(line).keys();
        assert_eq!(keys("--sort comm,dso,symbol"), [By::Comm, By::Image, By::Function]);
        assert_eq!(keys("--by comm,image,function"), keys("--sort comm,dso,sym"));
        assert_eq!(keys("--sort pid,tid,cpu,srcline"), [By::Process, By::Thread, By::Cpu, By::Line]);
        assert_eq!((keys(""), keys("--sort total")), (vec![By::Function], vec![By::Function]));
        assert_eq!(keys("--by comm --by comm,cpu"), [By::Comm, By::Cpu]);
    }

    #[test]
    fn rows_are_ordered_by_self_unless_the_total_is_requested() {
        let order = |line: &str| typed(line).order();
        for line in ["", "--sort self", "--no-children", "--sort dso,symbol"] {
            assert_eq!(order(line), Sort::Own, "{line}");
        }
        for line in ["--sort total", "--children", "--sort dso,total", "--children --sort dso"] {
            assert_eq!(order(line), Sort::Total, "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (line, user_only, why) in [
            ("--by wait", true, "leave out --user"),
            ("--by function,inlined", false, "one of function and inlined"),
            ("--by address,comm", false, "alone"),
            ("--by address --wakers", false, "alone"),
            ("--by comm --sort dso", false, "name all with --by"),
            ("--sort self,total", false, "choose one"),
            ("--children --sort self", false, "choose one"),
            ("--no-children --sort total", false, "choose one"),
        ] {
            let text = typed(line).check(user_only).expect_err("refused").to_string();
            assert!(text.contains(why), "{line}: {text}");
        }
        assert!(typed("--by comm --sort total").check(true).is_ok());
        let bad = Line::try_parse_from(["top", "--sort", "frob"]).err().expect("refused").to_string();
        assert!(bad.contains("use self or total"), "{bad}");
    }

    #[test]
    fn the_finest_key_of_code_has_the_rows_of_the_others() {
        assert_eq!(finest(&[By::Image, By::Line, By::Function]), Some(By::Line));
        assert_eq!(finest(&[By::Comm, By::Image]), Some(By::Image));
        assert_eq!(finest(&[By::Comm, By::Cpu]), None);
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for by in By::value_variants() {
            assert_eq!(By::from_str(by.name(), false), Ok(*by));
        }
    }
}
