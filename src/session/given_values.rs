//! Puts the values that arrays give into a parameter.

use tch::{Device, Tensor};

use crate::models::given_rows::FirstRows;
use crate::nn::{Params, draw};

use super::error::SessionError;
use super::given_rows::GivenParam;
use super::seeds::{Purpose, derive};

impl GivenParam {
    /// Reads the values into this process's part of the parameter. Rows that are not given are drawn.
    ///
    /// # Errors
    /// See [`GivenParam::check`].
    pub fn fill(&self, params: &Params, seed: u64) -> Result<(), SessionError> {
        let draws = |number| derive(seed, Purpose::Initialization, &[number]);
        let given = self.rows.given.iter().map(|given| given.read(self.shape(), &draws));
        let given: Vec<FirstRows> = given.collect::<Result<_, _>>()?;
        let drawn = derive(seed, Purpose::Initialization, &[]);
        let whole = draw(&self.rows.param(), drawn, Device::Cpu);
        for FirstRows { count, values } in given {
            let (count, width) = (count as i64, self.rows.stream.emb_dim as i64);
            let values = Tensor::from_slice(&values).view([count, width]);
            whole.narrow(0, 0, count).copy_(&values);
        }
        let mut part = params.get(self.name()).shallow_clone();
        tch::no_grad(|| part.copy_(&params.shard(self.name()).of(&whole)));
        Ok(())
    }
}
