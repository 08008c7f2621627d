//! The driver of `make fuzz`: libFuzzer, guided by coverage. `ICECORE_FUZZ_TARGET` names the target.
#![no_main]
#![allow(unsafe_code)] // the macro exports the functions that libFuzzer calls

use std::sync::OnceLock;

use icecore_fuzz::targets::{Target, find};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        // libfuzzer-sys aborts in its hook, also where a panic of a library is caught on purpose. A panic that nobody
        // catches still ends the run.
        drop(std::panic::take_hook());
        let name = std::env::var("ICECORE_FUZZ_TARGET").expect("ICECORE_FUZZ_TARGET names a target");
        let target = find(&name).expect("ICECORE_FUZZ_TARGET names a target");
        // What it prepares for all runs takes none of the time of the first.
        (target.run)(&[]);
        TARGET.set(target).expect("bug: initialized twice");
    },
    |data: &[u8]| {
        (TARGET.get().expect("bug: initialized first").run)(data);
    }
);
