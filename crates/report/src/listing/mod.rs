//! The source and the instructions of functions, and how often samples hit them. Prints nothing: `annotate` shows it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`stacks`] | samples by groups of places |
//! | [`lines`](mod@lines) | the source lines of a function, and what was inlined at each |
//! | [`code`] | the instructions of a function: text, whom they call, source lines, inlined functions |
//! | [`parts`](mod@parts) | the stretches of code in which a function was hit |
//! | [`decode`](mod@decode) | machine code as text |
//! | `data` | names of data that code refers to |

pub mod code;
mod data;
pub mod decode;
pub mod lines;
pub mod parts;
pub mod stacks;
