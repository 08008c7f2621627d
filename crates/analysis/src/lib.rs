//! What profiles say: over time, against each other, and of themselves.
//!
//! | module | what lives there |
//! |---|---|
//! | [`matching`] | which functions of two builds are the same |
//! | [`compare`](mod@compare) | rates of two sides, their noise, and significant differences |
//! | [`activity`] | weight over time |
//! | [`changes`](mod@changes) | change points of series of values |
//! | [`counters`] | counters of machines, processes and cgroups over time |
//! | [`depths`] | how deep stacks are, and which functions recur in them |
//! | [`trend`] | shares over many recordings |
//! | [`quality`] | how good a recording is: one verdict, each problem a sentence |
//! | [`interpreted`] | whether the functions that interpreters run agree with the machine frames |
//! | [`audit`] | whether walks by unwind tables in the kernel are right |
//! | [`account`], `clock` | CPU time that no sample shows; what only samples of CPU time tell |
//! | [`explore`] | filters over a loaded profile, and the rows, trees and time lines that they leave |
//! | [`wall_time`] | what threads ran, and for what they waited |
//! | [`settings`] | what a session was recorded with, and what advice follows |

pub mod account;
pub mod activity;
pub mod audit;
pub mod changes;
pub mod clock;
pub mod compare;
pub mod counters;
pub mod depths;
pub mod explore;
pub mod interpreted;
pub mod matching;
pub mod quality;
pub mod settings;
pub mod trend;
pub mod wall_time;
