//! What happens to a recording that is cut, flipped, shuffled, forged or foreign: every whole block stays readable, what
//! is missing is named, nothing panics.

mod sample;

mod damage;
mod evolution;
mod hostile;
mod stacks;
