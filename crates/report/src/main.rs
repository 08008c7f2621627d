//! The command: connects the library to the terminal.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use icecore_profile::named::cache::Cache;
use icecore_report::{Streams, run};
use icecore_symbolize::image::{READER, answer_requests};

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == READER) {
        answer_requests();
        return ExitCode::SUCCESS;
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut err = io::stderr();
    let mut streams = Streams {
        out: &mut out,
        err: &mut err,
        color: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        width: terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| u32::from(width.0)),
        progress: io::stderr().is_terminal(),
        cache: Cache::of_user(),
        // This very file, even if another one has taken its place.
        reader: Some(PathBuf::from("/proc/self/exe")),
    };
    let code = run(std::env::args_os(), &mut streams);
    match out.flush() {
        // If the run failed, its error has been told: most likely this one.
        Err(error) if code == 0 && error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to stdout: {error}");
            ExitCode::from(2)
        }
        _ => ExitCode::from(code),
    }
}
