//! A term of a loss that keeps learned rows near given ones, with its tensors. Source: prompt-tuning `extended/train/wayward.py`.

use tch::{Device, Kind, Tensor};

use super::anchor::Anchor;
use super::error::GivenRowsError;
use crate::nn::Params;

/// The term with its rows.
#[derive(Debug)]
pub struct Anchored {
    name: String,
    weight: f64,
    rows: Tensor,
}

impl Anchored {
    /// Reads the rows.
    ///
    /// # Errors
    /// An array is missing or does not fit.
    pub fn new(anchor: &Anchor, device: Device) -> Result<Self, GivenRowsError> {
        let [count, width] = anchor.shape.map(|extent| extent as i64);
        let rows = Tensor::from_slice(&anchor.read()?).view([count, width]).to_device(device);
        Ok(Self { name: anchor.name.clone(), weight: anchor.weight, rows })
    }

    /// The term.
    pub fn loss(&self, params: &Params) -> Tensor {
        let distance = (params.read(&self.name) - &self.rows).square().sum(Kind::Float);
        distance * (self.weight / self.rows.size()[0] as f64)
    }
}
