//! The specs that commands run.

use crate::data::TaskProvider;
use crate::eval::Evaluate;
use crate::export::Save;
use crate::gin::{Configurable, Registry, Schema};
use crate::infer::Infer;
use crate::interactive::{AnswerFiles, InteractiveModel};
use crate::partition::{LocalDevice, Mesh, Process};
use crate::precompile::Precompile;
use crate::session::check::UnfitSpec;
use crate::session::made_with::Values;
use crate::train::Train;

use super::failure::Failure;

/// A spec that a command runs.
pub trait Root: Configurable {
    /// Finds the first mistake that is visible in the spec alone.
    ///
    /// # Errors
    /// The mistake that was found.
    fn check(&self) -> Result<(), UnfitSpec>;

    /// Returns the mesh of the processes that run it.
    ///
    /// # Errors
    /// They cannot divide the work.
    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec>;

    /// Describes the run, for `--dry_run`.
    ///
    /// # Errors
    /// The errors with which the run itself would end before its first step.
    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure>;
}

/// The environment of a run that is only described.
pub struct PlannedRun<'a> {
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// The processes.
    pub mesh: &'a Mesh,
    /// The values that the root gets, by their paths.
    pub values: &'a Values,
}

macro_rules! roots {
    ($($spec:ident),+) => {
        /// Returns the configurables that commands run.
        pub fn roots() -> Vec<&'static Schema> {
            vec![$($spec::schema(),)+]
        }

        /// Adds the configurables that commands run.
        pub fn with_roots(registry: Registry) -> Registry {
            registry$(.with::<$spec>())+
        }
    };
}

roots!(Train, Evaluate, Infer, Save, Precompile, InteractiveModel, AnswerFiles);
