//! The whole `main` of a program that runs gin files: of Gimlet's own two, and of other crates'.

use std::process::ExitCode;

use crate::gin::{Fills, admit};

use super::gimlet_program;

/// A program that runs gin files with Gimlet's configurables and those of other crates:
/// `gimlet::Cli::new().register::<MyOptimizer>().run()`.
#[derive(Debug, Default)]
#[must_use]
pub struct Cli(());

impl Cli {
    /// Creates a program with Gimlet's configurables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets gin files name a spec of another crate, in the slot that it says.
    pub fn register<T: Fills>(self) -> Self {
        admit::<T>();
        self
    }

    /// Runs the command line without libtorch. Work on tensors is handed to the program `gimlet-torch`
    /// beside this one, which knows Gimlet's configurables only.
    pub fn run_without_torch(self) -> ExitCode {
        gimlet_program::program(gimlet_program::run)
    }
}
