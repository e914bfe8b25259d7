//! L4: the training step and its loop.
//!
//! `spec`, `periods`, `seeds` and `model_info` are torch-free: they describe a run and its
//! schedule.

mod check;
mod error;
mod evaluate;
mod foresee;
mod initial;
mod inputs;
mod memory;
mod model_info;
mod periods;
mod seeds;
mod spec;
mod state_layout;
mod vocabularies;

#[cfg(feature = "torch")]
mod actions;
#[cfg(feature = "torch")]
pub mod bench;
#[cfg(feature = "torch")]
mod checkpointing;
#[cfg(feature = "torch")]
mod evaluated;
#[cfg(feature = "torch")]
mod forward;
#[cfg(feature = "torch")]
mod guard;
#[cfg(feature = "torch")]
mod held_out;
#[cfg(feature = "torch")]
mod infer_eval;
#[cfg(feature = "torch")]
mod logs;
#[cfg(feature = "torch")]
mod monitor;
#[cfg(feature = "torch")]
mod occupied;
#[cfg(feature = "torch")]
mod run;
#[cfg(feature = "torch")]
mod spans;
#[cfg(feature = "torch")]
mod start;
#[cfg(feature = "torch")]
mod state;
#[cfg(feature = "torch")]
mod state_arrays;
#[cfg(feature = "torch")]
mod step;
#[cfg(feature = "torch")]
mod train_eval;
#[cfg(feature = "torch")]
mod unfinished;
#[cfg(feature = "torch")]
mod window;

pub use check::{UnfitSpec, check};
pub use error::TrainError;
pub use evaluate::{Chosen, DoneCheckpoints, Evaluate, check_evaluate, left_to_evaluate};
pub use foresee::{foresee, foresee_evaluation};
pub use inputs::{decoding_shape, training_options, training_shape};
pub use memory::{
    available_on_host, batch_shortage, cannot_fit, parameter_shortage, saving_bytes, shortage,
    step_estimate, total_on_host,
};
pub use model_info::{Variable, model_info};
pub use periods::{Periods, PeriodsError, Stop};
pub use seeds::{Purpose, derive};
pub use spec::{
    Action, EarlyStopping, EarlyStoppingMode, SummarizeConfig, SummarizeGinConfig, TerminateOnNan,
    Train, Trainer, TrainerClass, WeightMetricsComputer,
};
pub use state_layout::{param_shape, state_variables};

#[cfg(feature = "torch")]
pub use evaluate::{Evaluations, evaluate};
#[cfg(feature = "torch")]
pub use run::{Context, Outcome, train};
