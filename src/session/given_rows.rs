//! The parameter whose initial values are given by arrays, such as a soft prompt that begins as the embeddings of labels.

use crate::checkpoint::{Plan, TARGET};
use crate::models::Model;
use crate::models::given_rows::GivenRows;
use crate::models::parts::LearnedRows;

use super::error::SessionError;

/// Learned rows with given values.
#[derive(Clone, Debug)]
pub struct GivenParam {
    rows: LearnedRows,
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

    fn shape(&self) -> [usize; 2] {
        [self.rows.count, self.rows.stream.emb_dim]
    }
}

#[cfg(feature = "torch")]
mod body {
    use tch::{Device, Tensor};

    use super::{GivenParam, SessionError};
    use crate::models::given_rows::FirstRows;
    use crate::nn::{Params, draw};
    use crate::session::seeds::{Purpose, derive};

    impl GivenParam {
        /// Reads the values into this process's part of the parameter. Rows that are not given are drawn.
        ///
        /// # Errors
        /// See [`GivenParam::check`].
        pub fn fill(&self, params: &Params, seed: u64) -> Result<(), SessionError> {
            let draws = |number| derive(seed, Purpose::Initialization, &[number]);
            let mut firsts = Vec::new();
            for given in &self.rows.given {
                firsts.push(given.read(self.shape(), &draws)?);
            }
            let drawn = derive(seed, Purpose::Initialization, &[]);
            let whole = draw(&self.rows.param(), drawn, Device::Cpu);
            for FirstRows { count, values } in firsts {
                let (count, width) = (count as i64, self.rows.stream.emb_dim as i64);
                let values = Tensor::from_slice(&values).view([count, width]);
                tch::no_grad(|| whole.narrow(0, 0, count).copy_(&values));
            }
            let mut part = params.get(self.name()).shallow_clone();
            tch::no_grad(|| part.copy_(&params.shard(self.name()).of(&whole)));
            Ok(())
        }
    }
}
