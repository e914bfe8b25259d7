//! The parameter whose initial values are given by arrays, such as a soft prompt that begins as the embeddings of labels.

use crate::checkpoint::{Plan, TARGET};
use crate::models::Model;
use crate::models::given_rows::GivenRows;
use crate::models::parts::LearnedRows;

use super::error::SessionError;

/// Learned rows with given values.
#[derive(Clone, Debug)]
pub struct GivenParam {
    pub(super) rows: LearnedRows,
}

impl GivenParam {
    /// Returns those of a model, if it has some.
    pub fn of(model: &Model) -> Option<Self> {
        let rows = model.transformer().learned_rows.filter(|rows| !rows.given.is_empty())?;
        Some(Self { rows })
    }

    /// The parameter's name.
    pub fn name(&self) -> &'static str {
        self.rows.kind.name()
    }

    /// The parameter's name in checkpoints.
    pub fn target(&self) -> String {
        format!("{TARGET}{}", self.name())
    }

    /// Whether one array holds all values, so that no seed matters.
    pub fn is_array(&self) -> bool {
        matches!(self.rows.given[..], [GivenRows::Array(_)])
    }

    /// Whether the values are read: no checkpoint has the parameter.
    pub fn is_new(&self, plan: Option<&Plan>) -> bool {
        plan.is_none_or(|plan| plan.from_scratch.contains(&self.target()))
    }

    /// Opens the arrays, and compares their shapes with the parameter's.
    ///
    /// # Errors
    /// An array is missing or has another shape, or a text cannot be encoded.
    pub fn check(&self) -> Result<(), SessionError> {
        let shape = self.shape();
        Ok(self.rows.given.iter().try_for_each(|given| given.check(shape))?)
    }

    /// The shape of the parameter.
    pub(super) fn shape(&self) -> [usize; 2] {
        [self.rows.count, self.rows.stream.emb_dim]
    }
}
