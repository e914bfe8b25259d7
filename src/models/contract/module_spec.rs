//! The module of a model: the configurable that describes its network.

use std::fmt::Debug;

use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::nn::RematPolicy;

/// A module as gin binds it.
pub trait ModuleSpec: Debug {
    /// The network that it describes.
    fn transformer(&self) -> TransformerSpec;

    /// The parameters that set its dimensions, for messages.
    fn dimensions(&self) -> DimensionNames;

    /// Finds values that contradict each other or are not supported.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Names of the parameters that say what layers keep for the backward pass; none if there is no such choice.
    fn remat_parameters(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lets layers keep other tensors for the backward pass; `None` if there is no such choice.
    fn set_remat_policy(&mut self, _: RematPolicy) -> Option<()> {
        None
    }
}
