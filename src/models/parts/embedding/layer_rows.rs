//! The description of prompts in the layers of an encoder, between prompt tuning and prefix tuning (Li and Liang 2021,
//! arXiv:2101.00190). Source: prompt-tuning `extended/train/per_layer.py`.

use super::learned_rows::GivenParam;
use crate::models::given_rows::GivenRows;
use crate::models::parts::{StreamDims, param};
use crate::nn::{Initializer, ParamSpec};

/// Learned rows of each layer, which meet the first rows that enter the layer: those of the encoder's prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerRows {
    /// Number of rows.
    pub count: usize,
    /// Whether they replace these rows, or are added to them.
    pub replaces: bool,
    /// Their initial values, as far as they are drawn.
    pub initializer: Initializer,
    /// The initial values that then replace the first rows, in order.
    pub given: Vec<GivenRows>,
}

impl LayerRows {
    /// Name of the rows of the layer of that path.
    pub fn name(layer: &str) -> String {
        format!("{layer}/prompt/prompt/prompt")
    }

    /// The rows of a layer as a parameter.
    pub fn param(&self, layer: &str, stream: StreamDims) -> ParamSpec {
        let (shape, axes) = (vec![self.count, stream.emb_dim], vec!["prompt", "prompt_embed"]);
        param(Self::name(layer), shape, axes, self.initializer)
    }

    /// The same with the values that arrays give.
    pub fn given(&self, layer: &str, stream: StreamDims) -> GivenParam {
        GivenParam { param: self.param(layer, stream), given: self.given.clone() }
    }
}
