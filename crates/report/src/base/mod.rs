//! What commands of every kind use.
//!
//! | module | what lives there |
//! |---|---|
//! | `output` | writes files whole or not at all |
//! | `progress` | a progress bar |
//! | `did_you_mean` | words of other profilers, and what they are called here |

pub(crate) mod did_you_mean;
pub(crate) mod output;
pub(crate) mod progress;
