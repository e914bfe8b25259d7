//! Parameters whose initial values are given by arrays, such as a soft prompt that begins as the embeddings of labels.

use crate::checkpoint::Plan;
use crate::models::Model;
use crate::models::given_rows::GivenRows;
use crate::models::parts::GivenParam;

use super::error::SessionError;
use super::state_layout::target;

/// The parameters of a model that arrays give initial values.
#[derive(Clone, Debug)]
pub struct GivenParams(pub(super) Vec<GivenParam>);

impl GivenParams {
    /// Returns those of a model.
    pub fn of(model: &Model) -> Self {
        Self(model.transformer().given_params())
    }

    /// Returns those that no checkpoint has.
    pub fn new_in(mut self, plan: Option<&Plan>) -> Self {
        let is_new = |name| plan.is_none_or(|plan| plan.from_scratch.contains(&name));
        self.0.retain(|given| is_new(target(&given.param.name)));
        self
    }

    /// The names in checkpoints of those of which one array holds all values, so that no seed matters.
    pub fn of_arrays(&self) -> impl Iterator<Item = String> {
        let is_array = |given: &&GivenParam| matches!(given.given[..], [GivenRows::Array(_)]);
        self.0.iter().filter(is_array).map(|given| target(&given.param.name))
    }

    /// Opens the arrays, and compares their shapes with the parameters'.
    ///
    /// # Errors
    /// An array is missing or has another shape, or a text cannot be encoded.
    pub fn check(&self) -> Result<(), SessionError> {
        for GivenParam { param, given } in &self.0 {
            given.iter().try_for_each(|given| given.check(shape(&param.shape)))?;
        }
        Ok(())
    }
}

/// The number and the width of rows.
pub(super) fn shape(shape: &[usize]) -> [usize; 2] {
    shape.try_into().expect("rows have two axes")
}
