//! Tests through real eBPF: programs whose stacks, times or counts are known are recorded on this machine.
//!
//! The name of a test that needs eBPF begins with `root_`. The other tests here compare made-up recordings in the same way.

mod archive;
mod builds;
mod cache;
mod callers;
mod cgroups;
mod compact;
mod control;
mod counters;
mod cpu_time;
mod crash;
mod debug_files;
mod depth;
mod diff;
mod doctor;
mod embed;
mod embed_files;
mod exports;
mod fields;
mod flight;
mod foreign;
#[cfg(target_arch = "x86_64")]
mod frame_pointers;
mod frames;
mod functions;
mod go;
mod guesses;
mod hours;
mod identity;
mod import;
mod import_files;
#[cfg(target_arch = "x86_64")]
mod java;
mod jit;
mod jit_lines;
#[cfg(target_arch = "x86_64")]
mod live;
mod made;
mod mounts;
mod named;
mod neighbours;
mod node;
mod own_output;
mod pack;
mod php;
mod pidfile;
mod pipes;
mod places;
mod probes;
mod python;
mod python_reader;
mod queues;
mod rates;
mod refusals;
mod returns;
mod rights;
mod rotation;
mod running;
mod secrets;
mod service_manager;
mod ship;
#[cfg(target_arch = "x86_64")]
mod skips;
mod steering;
mod storms;
mod tables;
mod timeline;
mod truth;
mod unprivileged;
mod unwinding;
mod waits;
mod walks;
