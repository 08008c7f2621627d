//! What profiles say: over time, against each other, and of themselves.
//!
//! | module | what lives there |
//! |---|---|
//! | [`matching`] | which functions of two builds are the same |
//! | [`compare`](mod@compare) | rates of two sides, their noise, and what is more than that |
//! | [`activity`] | what was spent when |
//! | [`changes`](mod@changes) | where a series of values goes over to another level |
//! | [`depths`] | how deep stacks are, and what recurs in them |
//! | [`trend`] | shares over many recordings |
//! | [`quality`] | how good a recording is: one verdict, each problem a sentence |
//! | [`account`], `asked` | where CPU time went that no sample shows; what the recorder was asked for |

pub mod account;
pub mod activity;
pub(crate) mod asked;
pub mod changes;
pub mod compare;
pub mod depths;
pub mod matching;
pub mod quality;
pub mod trend;
