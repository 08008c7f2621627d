//! The source and the instructions of functions, and how often samples hit them. Nothing here prints.
//!
//! | module | what lives there |
//! |---|---|
//! | [`stacks`] | samples by groups of places |
//! | [`lines`](mod@lines) | the source lines of a function, and what was inlined at each |
//! | [`code`] | the instructions of a function: text, whom they call, source lines, inlined functions |
//! | [`parts`](mod@parts) | the stretches of code in which a function was hit |
//! | [`decode`](mod@decode) | machine code as text |
//! | `data` | names of data that code refers to |
//! | [`rows`] | source lines as rows of documents, and why lines or instructions are missing |

pub mod code;
mod data;
pub mod decode;
pub mod lines;
pub mod parts;
pub mod rows;
pub mod stacks;
