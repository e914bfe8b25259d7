//! L5: `gimlet precompile`: T5X's `precompile`, which finds out without data whether a training could run.
//!
//! T5X compiles a training step and writes down its program for a TPU. Gimlet has nothing to compile: it checks
//! the same things, which are the shapes, the vocabularies, the division over devices and the memory of a step.

mod check;
mod spec;

pub use check::{check, mesh, preflight, step_memory};
pub use spec::Precompile;
