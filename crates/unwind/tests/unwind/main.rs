//! The unwinder against the truth: programs of three languages whose every call and return is followed, step by step; and
//! against framehop, on real programs that were stopped anywhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod census;
mod follow;
mod images;
mod programs;
mod real;
mod running;
mod stopped;
mod truth;
