//! The T5 of T5X's `examples/scalable_t5`, which trained umT5: a bias of relative position in every layer, and layers that
//! share arrays.

use super::spec::T5Config;
use crate::gin::Configurable;
use crate::models::transformer::{LayerArrays, SCAN_AXIS, TransformerSpec};
use crate::nn::{Activation, Dtype, RematPolicy};

/// Dimensions and variants of a T5 encoder-decoder whose layers have their own biases of relative position. Source: T5X
/// `examples/scalable_t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.examples.scalable_t5.network.T5Config")]
pub struct ScalableConfig {
    /// Rows of the token embedding; at least the vocabulary's size, often padded to a multiple of 128.
    pub vocab_size: usize,
    /// Format of activations; parameters stay float32.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Width of the residual stream (papers: d_model).
    #[gin(default = 512)]
    pub emb_dim: usize,
    /// Attention heads.
    #[gin(default = 8)]
    pub num_heads: usize,
    /// Encoder layers.
    #[gin(default = 6)]
    pub num_encoder_layers: usize,
    /// Decoder layers.
    #[gin(default = 6)]
    pub num_decoder_layers: usize,
    /// Width of one attention head.
    #[gin(default = 64)]
    pub head_dim: usize,
    /// Width between the two projections of the feed-forward block (papers: d_ff).
    #[gin(default = 2048)]
    pub mlp_dim: usize,
    /// One activation per input projection; their results are multiplied (`('gelu', 'linear')` is gated GELU).
    #[gin(default = vec![Activation::Relu])]
    pub mlp_activations: Vec<Activation>,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Whether the embedding also maps to logits, instead of a matrix of its own.
    #[gin(default = false)]
    pub logits_via_embedding: bool,
    /// The tensors that each layer keeps for its backward pass: less memory for more computing.
    #[gin(default = RematPolicy::None)]
    pub remat_policy: RematPolicy,
    /// Whether all layers of a stack lie in one array of each kind, in memory and in checkpoints. Results are the same; a
    /// checkpoint of either kind can be restored.
    #[gin(default = true)]
    pub scan_layers: bool,
    /// The axis of layers in these arrays; only 1.
    #[gin(default = SCAN_AXIS)]
    pub param_scan_axis: usize,
}

/// The network with layers that share arrays. Source: T5X `examples/scalable_t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5x.examples.scalable_t5.network.Transformer")]
pub struct ScalableTransformer {
    /// Its dimensions.
    pub config: ScalableConfig,
}

impl ScalableConfig {
    /// The same dimensions of a T5.
    pub fn t5_config(&self) -> T5Config {
        T5Config {
            vocab_size: self.vocab_size,
            dtype: self.dtype,
            emb_dim: self.emb_dim,
            num_heads: self.num_heads,
            num_encoder_layers: self.num_encoder_layers,
            num_decoder_layers: self.num_decoder_layers,
            head_dim: self.head_dim,
            mlp_dim: self.mlp_dim,
            mlp_activations: self.mlp_activations.clone(),
            relpos_bias_per_layer: true,
            dropout_rate: self.dropout_rate,
            logits_via_embedding: self.logits_via_embedding,
            remat_policy: self.remat_policy,
            ..T5Config::t5_1_1_small()
        }
    }

    /// The arrays in which its layers lie.
    pub fn layer_arrays(&self) -> LayerArrays {
        match self.scan_layers {
            true => LayerArrays::Stacked,
            false => LayerArrays::ByHead,
        }
    }

    /// The network of these dimensions.
    pub fn transformer(&self) -> TransformerSpec {
        TransformerSpec { layer_arrays: self.layer_arrays(), ..self.t5_config().transformer() }
    }

    /// Finds an axis of layers that no published model has.
    ///
    /// # Errors
    /// The axis is not 1.
    pub fn check_axis(&self) -> Result<(), String> {
        match self.param_scan_axis {
            SCAN_AXIS => Ok(()),
            other => Err(format!(
                "network.T5Config.param_scan_axis is {other}, expected {SCAN_AXIS}, the axis of layers in every published \
                 checkpoint"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> ScalableConfig {
        ScalableConfig {
            vocab_size: 256_384,
            dtype: Dtype::Float32,
            emb_dim: 512,
            num_heads: 6,
            num_encoder_layers: 8,
            num_decoder_layers: 8,
            head_dim: 64,
            mlp_dim: 1024,
            mlp_activations: vec![Activation::Gelu, Activation::Linear],
            dropout_rate: 0.0,
            logits_via_embedding: false,
            remat_policy: RematPolicy::Minimal,
            scan_layers: true,
            param_scan_axis: 1,
        }
    }

    /// Shapes and axes as T5X's own tree has them.
    #[test]
    fn layers_have_an_axis_of_each_array() {
        let spec = small().transformer();
        let tree = spec.param_tree();
        let check = |name: &str, shape: &[usize], axes: &[&str]| {
            let param = tree.iter().find(|param| param.name == name);
            let param = param.unwrap_or_else(|| panic!("there is {name}"));
            assert_eq!((&param.shape[..], &param.axes[..]), (shape, axes), "{name}");
        };
        let kernel = ["embed", "layers", "heads", "kv"];
        check("encoder/encoder/attention/query/kernel", &[512, 8, 6, 64], &kernel);
        let out = ["heads", "layers", "kv", "embed"];
        check("decoder/decoder/self_attention/out/kernel", &[6, 8, 64, 512], &out);
        check("decoder/decoder/mlp/wo/kernel", &[1024, 8, 512], &["mlp", "layers", "embed"]);
        let bias = ["heads", "layers", "relpos_buckets"];
        check("decoder/decoder/relpos_bias/rel_embedding", &[6, 8, 32], &bias);
        check("encoder/encoder/pre_mlp_layer_norm/scale", &[512, 8], &["embed", "layers"]);
        check("encoder/encoder_norm/scale", &[512], &["embed"]);
        assert_eq!(tree.len(), 29);
        assert_eq!(spec.num_params(), small().t5_config().transformer().num_params());
    }

    #[test]
    fn layers_apart_have_kernels_by_head() {
        let apart = ScalableConfig { scan_layers: false, ..small() };
        let tree = apart.transformer().param_tree();
        let named = |name: &str| tree.iter().find(|param| param.name == name).map(|p| &p.shape[..]);
        assert_eq!(named("encoder/layers_7/attention/out/kernel"), Some(&[6, 64, 512][..]));
        assert_eq!(named("encoder/layers_7/mlp/wi_1/kernel"), Some(&[512, 1024][..]));
    }

    #[test]
    fn another_axis_is_refused() {
        let config = ScalableConfig { param_scan_axis: 0, ..small() };
        assert!(config.check_axis().unwrap_err().contains("param_scan_axis is 0, expected 1"));
    }
}
