//! The file as others see it: its bytes, its document, and what happens to it when it is damaged.

mod example;
mod layout;
mod torture;
