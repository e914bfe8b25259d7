//! Gimlet: gin files fully describe a run; `gimlet` turns them into tokenized batches, a libtorch
//! model, a training loop and checkpoints. `ARCHITECTURE.md` is the map.

pub use gimlet_checkpoint as checkpoint;
pub use gimlet_data as data;
pub use gimlet_dialects as dialects;
pub use gimlet_evaluation as evaluation;
pub use gimlet_gin as gin;
pub use gimlet_metrics as metrics;
pub use gimlet_python as python;
pub use gimlet_schedule as schedule;
pub use gimlet_storage as storage;
pub use gimlet_telemetry as telemetry;
pub use gimlet_vocab as vocab;

pub mod eval;
pub mod export;
pub mod infer;
pub mod interactive;
pub mod launch;
pub mod models;
pub mod nn;
pub mod optim;
pub mod partition;
pub mod precompile;
pub mod run;
pub mod serve;
pub mod session;
pub mod train;

pub use run::Cli;
