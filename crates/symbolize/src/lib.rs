//! Names frames: (image, file offset) in, functions or a reason out.
//!
//! Addresses stay addresses here: this crate knows neither processes nor samples. What cannot be named is
//! answered with a [`Reason`], never with the nearest symbol, and never with an error: one bad image must not
//! cost the names of the others.
//!
//! | module | what lives there |
//! |---|---|
//! | [`image`] | files of an image, found and proven; what their headers say |
//! | [`debuginfod`] | files that are missing, downloaded if the user requests it |
//! | `job` | one image: what its files say of all offsets |
//! | `dwarf`, `gsym`, `tables`, `go`, `stubs` | sources of names |
//! | `symbol` | joins what symbol tables and debug information say about one function |
//! | `starts` | where functions begin, by unwind tables |
//! | [`source`] | texts of source files, and whether they are what was compiled |
//! | [`Known`] | answers from earlier |
//!
//! # Example
//! The function that this program begins with:
//! ```
//! use icecore_symbolize::image::{ElfFile, Finder, Identity, Kind, Search};
//! use icecore_symbolize::{Answer, Wanted, symbolize};
//!
//! let path = std::env::current_exe()?;
//! let file = ElfFile::open(&path)?;
//! let layout = file.layout()?;
//! let (entry, _) = layout.rest_of_segment(layout.entry).expect("an executable has code");
//! let (build_id, path) = (layout.build_id, path.display().to_string());
//! let (kind, size_bytes, inode) = (Kind::File, file.len, file.inode);
//! let image = Identity { kind, path, build_id, size_bytes, modified_unix_ns: 0, inode, has_double: false };
//!
//! let finder = Finder { search: &Search::default(), embedded: None };
//! let answers = symbolize(&[Wanted { image: &image, offsets: &[entry] }], &finder, &|_| ());
//! let Answer::Named(functions) = &answers[0][0] else { panic!("{:?}", answers[0][0]) };
//! assert_eq!(&*functions[0].name, "_start");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
pub mod debuginfod;
mod dwarf;
mod go;
mod gsym;
mod guard;
mod identity;
pub mod image;
mod job;
mod known;
mod map;
mod reason;
pub mod source;
mod starts;
mod strings;
mod stubs;
mod symbol;
mod tables;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub use answer::{Answer, EntryId, Function, Origin, Wanted};
pub use job::source_checksums;
pub use known::{Answers, Known};
pub use reason::Reason;
pub use symbol::{Joiner, Symbol};

use crate::image::{ElfFile, Finder, Layout, Svma};

/// What one offset costs against one byte of the image, to order the jobs; measured, roughly.
const BYTES_PER_OFFSET: u64 = 8192;

/// Symbolizes all offsets of all images; one job per image, largest first, on the threads of the current pool.
///
/// # Shape   one list per requested image, one answer per offset, in the same order; the same for any number of
/// threads. `tick(n)` is called from any thread when `n` more offsets are done; all calls add up to the number
/// of offsets.
/// # Cost    opening an image with DWARF reads all its unit headers; one without costs a sort of its symbols
pub fn symbolize(
    wanted: &[Wanted<'_>],
    finder: &Finder<'_>,
    tick: &(dyn Fn(u64) + Sync),
) -> Vec<Vec<Answer>> {
    // Taking images from a list, largest first, keeps all threads busy; those that find it empty help with the units of
    // the images that are left.
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    let cost = |i: usize| {
        let offsets = wanted[i].offsets.len() as u64;
        offsets.saturating_mul(BYTES_PER_OFFSET).saturating_add(wanted[i].image.size_bytes)
    };
    order.sort_by_key(|&i| (Reverse(cost(i)), i));

    let next = AtomicUsize::new(0);
    let done: Vec<OnceLock<job::Done>> = wanted.iter().map(|_| OnceLock::new()).collect();
    rayon::broadcast(|_| {
        while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answers = job::run(&wanted[i], finder, tick);
            done[i].set(answers).expect("bug: an image was symbolized twice");
        }
    });
    let mut done: Vec<job::Done> =
        done.into_iter().map(|it| it.into_inner().expect("bug: an image was left out")).collect();
    // Images that were refused memory while others held it are read again when none does: answers do not depend on threads.
    for i in order.into_iter().filter(|_| wanted.len() > 1) {
        if done[i].lacked_memory {
            done[i] = job::run(&wanted[i], finder, &|_| ());
        }
    }
    if let Some(known) = &finder.search.known {
        known.finish();
    }
    done.into_iter().map(|done| done.answers).collect()
}

/// Names the PLT stub at each address; `None` where there is none. The addresses ascend.
pub fn stub_names(file: &ElfFile, layout: &Layout, at: &[Svma]) -> Vec<Option<Arc<str>>> {
    stubs::look_up(file, layout, at, &strings::Strings::default())
}

#[cfg(test)]
mod tests;
