//! Values that have one meaning here.

use crate::gin::{Value, ValueKind};

gimlet_gin::only! {
    /// Projections without bias.
    NoBias = ValueKind::Bool(false), "projections have no bias, as T5's";
    /// Layers that do not share arrays.
    NoScan = ValueKind::Bool(false), "layers have arrays of their own; scalable_t5's `scan_layers` joins them";
    /// One embedding for inputs and targets.
    NoOwnEmbedder = ValueKind::None, "both stacks read `EncoderDecoder.shared_token_embedder_factory`";
    /// No absolute positions.
    NoPositionEmbedder = ValueKind::None, "positions are relative, as T5's";
    /// Attention before the feed-forward block.
    NotParallel = ValueKind::Bool(false), "attention comes before the feed-forward block, as in T5";
    /// The path of the embedding.
    EmbedderName = ValueKind::Str("token_embedder".to_string()), "checkpoints have T5X's names";
    /// Norms with a learned scale.
    Scaled = ValueKind::Bool(true), "norms have a learned scale, as T5's";
    /// Scales that begin with ones.
    ScaleAsIs = ValueKind::Bool(false), "the scale of a norm begins with ones, as T5's";
    /// No convolution.
    NoConvolution = ValueKind::None, "T5 has no convolutions";
    /// Buckets of relative positions.
    Buckets = ValueKind::from(32), "relative positions have T5's 32 buckets";
    /// The distance of the last bucket.
    MaxDistance = ValueKind::from(128), "positions more than 128 apart share a bucket, as in T5";
    /// Outputs as wide as inputs.
    NoOutputWidth = ValueKind::None, "a block's outputs are as wide as its inputs";
    /// A projection of the averages.
    OutputProjection = ValueKind::Bool(true), "an attention ends in a projection, as T5's";
    /// Masks of dropout that queries share.
    BroadcastDropout = ValueKind::Bool(true), "queries share the dropout of attention weights, as in T5";
    /// Softmax over the keys alone.
    NoExtraLogit = ValueKind::Bool(false), "attention weights of the keys sum to 1, as in T5";
    /// Kernels apart.
    NoFusedKernels = ValueKind::None, "each projection has a kernel; `network.T5Config.fuse_qkv_params` joins them";
    /// Kernels of the feed-forward block apart.
    NoFusedMlp = ValueKind::Bool(false), "each projection has a kernel; `network.T5Config.fuse_qkv_params` joins them";
    /// Keys on both sides.
    NotCausal = ValueKind::Bool(false), "an encoder's positions attend to both sides";
    /// A bias of relative position for all layers.
    NoLayerBias = ValueKind::None, "all layers of LongT5's encoder share `LongEncoder.shared_relpos_bias_factory`";
    /// No rotation.
    NoRotation = ValueKind::Bool(false), "positions are biases of attention scores, as T5's";
    /// Dropout by its rate.
    NoDropoutModule = ValueKind::None, "dropout has a rate, `intermediate_dropout_rate`, and is shared along the length";
    /// Projections that the block computes itself.
    NotPrecomputed = ValueKind::Bool(false), "a feed-forward block computes its own projections";
    /// Products in the format of activations.
    NotQuantized = ValueKind::Bool(false), "kernels are not quantized; `train.te_config_cls` has 8-bit products";
    /// No options of quantization.
    NoQuantization = ValueKind::None, "kernels are not quantized; `train.te_config_cls` has 8-bit products";
}

/// Declares types that read one tuple of names of axes, or a list of them.
macro_rules! only_axes {
    ($($(#[$doc:meta])* $name:ident = $axes:expr, $reason:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl crate::gin::FromGin for $name {
            fn expected() -> String {
                $crate::models::flaxformer::values::names(&$axes, crate::gin::ValueKind::Tuple).to_string()
            }

            fn from_gin(
                value: &crate::gin::Value,
                cx: &mut crate::gin::Evaluator<'_>,
            ) -> Result<Self, crate::gin::Reported> {
                use crate::gin::{ValueKind, is_same};
                let names = |kind| crate::models::flaxformer::values::names(&$axes, kind);
                let is = |kind| is_same(&value.kind, &names(kind));
                match is(ValueKind::Tuple) || is(ValueKind::List) {
                    true => Ok(Self),
                    false => Err(cx.unfit_because(value, &Self::expected(), $reason)),
                }
            }

            fn to_gin(&self) -> Option<crate::gin::ValueKind> {
                let tuple = crate::gin::ValueKind::Tuple;
                Some(crate::models::flaxformer::values::names(&$axes, tuple))
            }
        }
    )*};
}
pub(super) use only_axes;

/// Names of axes as a tuple, or as a list.
pub(super) fn names(axes: &[&str], kind: fn(Vec<Value>) -> ValueKind) -> ValueKind {
    let name = |axis: &&str| Value::unplaced(ValueKind::Str(axis.to_string()));
    kind(axes.iter().map(name).collect())
}
