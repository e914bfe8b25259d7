//! L5: `gimlet eval`: T5X's `evaluate`, which measures checkpoints and trains nothing.
//!
//! The spec, its check, the choice of checkpoints and the list of those that are done are
//! torch-free; `run` restores the parameters of one checkpoint after another and evaluates the same
//! examples with each.

mod check;
mod chosen;
mod done;
mod preflight;
mod record;
mod spec;

#[cfg(feature = "torch")]
mod run;

pub use check::check;
pub use chosen::{Chosen, left_to_evaluate};
pub use done::DoneCheckpoints;
pub use preflight::preflight;
pub use spec::Evaluate;

#[cfg(feature = "torch")]
pub use run::{Evaluations, evaluate};
