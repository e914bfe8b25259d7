//! The contract of a command on a model, as far as it needs no libtorch.

use std::borrow::Cow;

use crate::launch::DistributedArgs;
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::Root;
use crate::session::error::SessionError;

/// The flags of a command that runs a spec.
pub trait RootCommand {
    /// The spec.
    type Spec: Root;

    /// Returns the flags of the configuration, with the files and bindings that other flags stand for.
    ///
    /// # Errors
    /// Flags that contradict themselves.
    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure>;

    /// Finds a spec that is right for other commands, but not for this one.
    ///
    /// # Errors
    /// Found, expected and a remedy.
    fn suits(&self, _spec: &Self::Spec) -> Result<(), SessionError> {
        Ok(())
    }

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
