//! Samples as stacks of addresses: counted, unwound, checked against the code, and told where in which image they lie.
//!
//! | module | what lives there |
//! |---|---|
//! | [`hits`] | samples, filtered and made distinct |
//! | [`repair`](mod@repair) | stacks of programs without frame pointers, made whole |
//! | `calls` | which calls stand in the code, and which stacks cannot be for that |
//! | [`locate`](mod@locate), [`kernel`] | addresses as places in images and in the kernel |
//! | [`mounts`] | whose paths recorded paths are |
//! | `weigh` | how many samples an image is hit by |

pub(crate) mod calls;
pub mod hits;
pub mod kernel;
pub mod locate;
pub mod mounts;
pub mod repair;
pub(crate) mod weigh;
