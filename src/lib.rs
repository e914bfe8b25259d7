//! Gimlet: gin files fully describe a run; `gimlet` turns them into tokenized batches, a libtorch
//! model, a training loop and checkpoints. `ARCHITECTURE.md` is the map.

// The derive writes absolute paths, so that downstream crates can use it as we do.
extern crate self as gimlet;

pub mod gin;

pub mod metrics;
pub mod python;
pub mod schedule;
pub mod storage;
pub mod telemetry;
pub mod vocab;

pub mod checkpoint;
pub mod data;
pub mod evaluation;

pub mod models;
pub mod nn;
pub mod optim;
pub mod partition;
pub mod train;

pub mod run;
