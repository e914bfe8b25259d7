//! The contract of a command on a model, as far as it needs no libtorch.

use std::borrow::Cow;

use crate::data::TaskProvider;
use crate::gin::Configurable;
use crate::launch::DistributedArgs;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::session::check::UnfitSpec;
use crate::session::made_with::Values;

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

/// The flags of a command that runs a spec.
pub trait RootCommand {
    /// The spec.
    type Spec: Root;

    /// Returns the flags of the configuration, with the files and bindings that other flags stand for.
    ///
    /// # Errors
    /// Flags that contradict themselves.
    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure>;

    /// Whether processes on several devices share the work.
    fn is_shared(&self) -> bool {
        true
    }

    /// Whether the run is only described.
    fn is_dry_run(&self) -> bool;

    /// Returns T5X's flags for many processes.
    fn distributed(&self) -> DistributedArgs {
        DistributedArgs::default()
    }
}
