//! Asks the kernel for the names of its functions: of those that were hit, which are hundreds of 100,000.

use std::io::Read as _;

use icecore_elf::Avma;
use libbpf_rs::{Iter, Link, MapCore as _, MapFlags, MapHandle};

use crate::proc::kallsyms::{KernelFunction, parse_place};
use crate::skeleton::types::limits;

const MAX_ASKED: usize = limits::MAX_ASKED.0 as usize;

/// The names of kernel functions.
#[derive(Debug)]
pub struct KernelNames {
    asked: MapHandle,
    link: Link,
}

impl KernelNames {
    /// `link` is of a program that names the addresses in `asked`.
    pub(super) fn new(asked: MapHandle, link: Link) -> Self {
        Self { asked, link }
    }

    /// Gives `take` the function around each address, by the name that the kernel itself prints.
    ///
    /// # Cost
    /// 1 µs for each address, and 0.2 ms.
    ///
    /// # Errors
    /// If the kernel takes no addresses, or prints no names.
    pub(crate) fn find(
        &self,
        addresses: &[Avma],
        mut take: impl FnMut(KernelFunction<'_>),
    ) -> anyhow::Result<()> {
        for part in addresses.chunks(MAX_ASKED) {
            let asked = part.iter().map(|address| address.0).chain(std::iter::repeat(0));
            for (key, address) in (0..MAX_ASKED as u32).zip(asked) {
                self.asked.update(&key.to_ne_bytes(), &address.to_ne_bytes(), MapFlags::ANY)?;
            }
            let mut text = Vec::new();
            Iter::new(&self.link)?.read_to_end(&mut text)?;
            // The program of older kernels (5.10) prints no names.
            anyhow::ensure!(!text.is_empty(), "the kernel names no functions");
            text.split(|&b| b == b'\n').filter_map(parse_place).for_each(&mut take);
        }
        Ok(())
    }
}
