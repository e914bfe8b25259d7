//! L5: the commands: from the words on the command line to a finished run.
//!
//! [`Cli`] is the whole of a program. `gimlet` never loads libtorch: it checks the configuration and
//! hands commands that need tensors to `gimlet-torch`, the second binary. A program of another crate,
//! with configurables of its own, does both.

mod bench;
mod cache;
mod checkpoint;
mod cli;
mod commands;
mod configure;
mod declarations;
mod derived;
mod dialect;
mod failure;
mod foreign;
mod functions;
mod gin_flags;
mod interrupt;
mod launch;
mod launch_flags;
mod library;
mod machines;
mod megatron_index;
mod named_tasks;
mod older;
mod output;
mod plan;
mod program;
mod python_only_names;
mod python_tasks;
mod record;
mod report;
mod root;
mod shares;
mod shell;
mod shims;
mod start;
mod sweep;
mod t5_experiments;
mod t5_mesh_transformer;
mod task;
mod tasks;
mod tools;
mod version;
mod vocab;
mod world;

mod doctor;
mod gimlet_program;
mod gin;
#[cfg(feature = "torch")]
mod torch;

pub use commands::ModelCommand;
pub use configure::{Configured, Settings, configure, documented_registry, registry};
pub use failure::Failure;
pub use foreign::{ForeignCommand, Translated};
pub use gin::REFERENCE_PAGES;
pub use library::Library;
pub use program::Cli;
pub use record::{Record, RecordFile};
pub use root::{PlannedRun, Root};
pub use t5_experiments::translate_t5_experiments;
pub use t5_mesh_transformer::translate_mesh_tf;
pub use tasks::GinTasks;
