//! The contract of a command on a model, as far as it needs no libtorch.

use crate::data::TaskProvider;
use crate::gin::Configurable;
use crate::launch::DistributedArgs;
use crate::partition::Partitioner;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::session::check::UnfitSpec;

/// A spec that a command runs.
pub trait Root: Configurable {
    /// Finds the first mistake that is visible in the spec alone.
    ///
    /// # Errors
    /// The mistake that was found.
    fn check(&self) -> Result<(), UnfitSpec>;

    /// The division of the model over processes.
    fn partitioner(&self) -> &Partitioner;

    /// Describes the run, for `--dry_run`.
    ///
    /// # Errors
    /// The errors with which the run itself would end before its first step.
    fn dry_run(&self, tasks: &dyn TaskProvider) -> Result<String, Failure>;
}

/// The flags of a command that runs a spec.
pub trait RootCommand {
    /// The spec.
    type Spec: Root;

    /// Returns the flags of the configuration.
    fn gin(&self) -> &GinArgs;

    /// Whether the run is only described.
    fn is_dry_run(&self) -> bool;

    /// Returns T5X's flags for many processes.
    fn distributed(&self) -> DistributedArgs {
        DistributedArgs::default()
    }
}
