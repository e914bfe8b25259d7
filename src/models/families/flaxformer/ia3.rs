//! Learned factors of keys, values and the insides of feed-forward blocks (IA3; Liu et al. 2022, arXiv:2205.05638), which
//! prompt-tuning puts where flaxformer's layers may have convolutions. Source: prompt-tuning `extended/train/ia3.py`.

use super::values::only_axes;
use crate::gin::Configurable;
use crate::nn::Dtype;

/// A factor for each head and number of keys or values, `ia3_scaling`. They begin with 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.ia3.IA3Attention")]
pub struct IA3Attention {
    /// Only ('heads', 'kv') is supported.
    #[gin(default = OfHeads)]
    pub axis_names: OfHeads,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

/// A factor for each number between the projections of a feed-forward block, `ia3_scaling`. They begin with 1.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.ia3.IA3")]
pub struct IA3 {
    /// Only ('mlp',) is supported; prompt-tuning's default is ('embed',).
    pub axis_name: OfMlp,
    /// Format of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

only_axes! {
    /// The axes of factors of keys or values.
    OfHeads = ["heads", "kv"], "axes have T5X's names";
    /// The axis of factors in a feed-forward block.
    OfMlp = ["mlp"], "axes have T5X's names";
}
