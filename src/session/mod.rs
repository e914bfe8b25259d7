//! L4: the parts that the commands on a model share: their environment, errors and checks, the state of a
//! model, its forward pass, and the evaluations on held-out data.
//!
//! `train`, `eval`, `infer` and `interactive` stand beside each other above this layer, which knows no root spec.

pub mod check;
pub mod described;
pub mod error;
pub mod given_rows;
pub mod held_out_task;
pub mod loss_scaler;
pub mod made_with;
pub mod memory;
pub mod model_info;
pub mod named_checkpoints;
pub mod preflight;
pub mod restored_params;
pub mod seeds;
pub mod spec;
pub mod start_record;
pub mod state_layout;
pub mod step_memory;
pub mod vocabularies;

#[cfg(feature = "torch")]
pub mod agreement;
#[cfg(feature = "torch")]
pub mod context;
#[cfg(feature = "torch")]
pub mod damaged_checkpoints;
#[cfg(feature = "torch")]
pub mod describe;
#[cfg(feature = "torch")]
pub mod eval_context;
#[cfg(feature = "torch")]
pub mod forward;
#[cfg(feature = "torch")]
mod given_values;
#[cfg(feature = "torch")]
pub mod guard;
#[cfg(feature = "torch")]
pub mod held_out;
#[cfg(feature = "torch")]
pub mod inference_evaluation;
#[cfg(feature = "torch")]
pub mod kernel_trials;
#[cfg(feature = "torch")]
pub mod model_dir_lock;
#[cfg(feature = "torch")]
mod passed_trials;
#[cfg(feature = "torch")]
pub mod rank_log;
#[cfg(feature = "torch")]
mod spans;
#[cfg(feature = "torch")]
pub mod state;
#[cfg(feature = "torch")]
pub mod state_arrays;
#[cfg(feature = "torch")]
pub mod text_predictor;
#[cfg(feature = "torch")]
pub mod training_evaluation;
#[cfg(feature = "torch")]
pub mod unfinished;
#[cfg(feature = "torch")]
pub mod weights;
