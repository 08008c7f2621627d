//! Names offsets in a file. Usage: name FILE OFFSET… (0x… or decimal)

use std::process::ExitCode;

use icecore_symbolize::image::{FileOff, Finder, Identity, Kind, Search};
use icecore_symbolize::{Answer, Wanted, symbolize};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: name FILE OFFSET…");
        return ExitCode::from(2);
    };
    let number = |text: String| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let offsets: Result<Vec<u64>, _> = args.map(number).collect();
    let (Ok(mut offsets), Ok(path)) = (offsets, std::fs::canonicalize(&path)) else {
        eprintln!("error: no such file, or no number");
        return ExitCode::from(2);
    };
    offsets.sort_unstable();
    let offsets: Vec<FileOff> = offsets.into_iter().map(FileOff).collect();
    // Without a build-id a file is the right one if its size is.
    let size_bytes = path.metadata().map_or(0, |file| file.len());
    let path = path.display().to_string();
    let (kind, build_id, modified_unix_ns, inode, has_double) = (Kind::File, Vec::new(), 0, None, false);
    let image = Identity { kind, path, build_id, size_bytes, modified_unix_ns, inode, has_double };
    let finder = Finder { search: &Search::default(), embedded: None };
    let answers = symbolize(&[Wanted { image: &image, offsets: &offsets }], &finder, &|_| ());
    for (off, answer) in offsets.iter().zip(&answers[0]) {
        match answer {
            Answer::Named(functions) => {
                for function in functions {
                    let file = function.file.as_deref().unwrap_or("?");
                    let declared = match &function.origin.declared {
                        Some((file, line)) => format!(", declared at {file}:{line}"),
                        None => String::new(),
                    };
                    let line = function.line.unwrap_or(0);
                    println!("{:#x} {} {file}:{line}{declared}", off.0, function.name);
                }
            }
            Answer::Unnamed { reason, .. } => println!("{:#x} no name: {reason}", off.0),
        }
    }
    ExitCode::SUCCESS
}
