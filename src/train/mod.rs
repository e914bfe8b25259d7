//! L5: `gimlet train`: T5X's `train`, the training step and its loop.
//!
//! `spec`, `periods` and the checks are torch-free: they describe a run and its schedule.

mod beginning;
mod best;
mod check;
mod initial;
mod inputs;
mod memory;
mod mesh;
mod periods;
mod plateau;
mod preflight;
mod record;
mod spec;
mod traffic;
mod watched;

#[cfg(feature = "torch")]
mod actions;
#[cfg(feature = "torch")]
mod after_training;
#[cfg(feature = "torch")]
pub mod bench;
#[cfg(feature = "torch")]
mod checkpointing;
#[cfg(feature = "torch")]
mod last_evaluation;
#[cfg(feature = "torch")]
mod logs;
#[cfg(feature = "torch")]
mod measured;
#[cfg(feature = "torch")]
mod monitor;
#[cfg(feature = "torch")]
mod run;
#[cfg(feature = "torch")]
mod slowest;
#[cfg(feature = "torch")]
mod start;
#[cfg(feature = "torch")]
mod step;
#[cfg(feature = "torch")]
mod step_graph;
#[cfg(feature = "torch")]
mod trainer_forms;
#[cfg(feature = "torch")]
mod trainer_log;
#[cfg(feature = "torch")]
mod window;

pub use best::{BestModel, BestSoFar};
pub use check::check;
pub use inputs::{decoding_shape, training_options, training_shape};
pub use memory::{batch_shortage, cannot_fit, saving_bytes, shortage, step_estimate};
pub use periods::Periods;
pub use plateau::{Plateau, ReduceLROnPlateau, ThresholdMode};
pub use preflight::preflight;
pub use spec::Train;
pub use traffic::{Traffic, bytes_sent, traffic};

#[cfg(feature = "torch")]
pub use run::{Outcome, train};
#[cfg(feature = "torch")]
pub use start::initialize;
#[cfg(feature = "torch")]
pub use step::{StepReport, Stepper};
#[cfg(feature = "torch")]
pub use step_graph::{Recorder, StepGraphs};
