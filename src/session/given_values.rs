//! Puts the values that arrays give into parameters.

use tch::{Device, Tensor};

use crate::models::given_rows::FirstRows;
use crate::models::parts::GivenParam;
use crate::nn::{Params, draw};

use super::error::SessionError;
use super::given_rows::{GivenParams, shape};
use super::seeds::{Purpose, derive};

impl GivenParams {
    /// Reads the values into this process's parts of the parameters. Rows that are not given are drawn.
    ///
    /// # Errors
    /// See [`GivenParams::check`].
    pub fn fill(&self, params: &Params, seed: u64) -> Result<(), SessionError> {
        (0..).zip(&self.0).try_for_each(|(place, given)| fill(given, params, (seed, place)))
    }
}

/// Fills the parameter with that place among those that are given; each draws other rows of an embedding.
fn fill(
    given: &GivenParam,
    params: &Params,
    (seed, place): (u64, u64),
) -> Result<(), SessionError> {
    let GivenParam { param, given } = given;
    let [_, width] = shape(&param.shape);
    let draws = |number: u64| derive(seed, Purpose::Initialization, &[place << 32 | number]);
    let given = given.iter().map(|given| given.read(shape(&param.shape), &draws));
    let given: Vec<FirstRows> = given.collect::<Result<_, _>>()?;
    let drawn = derive(seed, Purpose::Initialization, &[]);
    let whole = draw(param, drawn, Device::Cpu);
    for FirstRows { count, values } in given {
        let (count, width) = (count as i64, width as i64);
        whole.narrow(0, 0, count).copy_(&Tensor::from_slice(&values).view([count, width]));
    }
    let mut part = params.get(&param.name).shallow_clone();
    tch::no_grad(|| part.copy_(&params.shard(&param.name).of(&whole)));
    Ok(())
}
