//! Dimensions of a T5 and the parameter tree that follows from them.

use crate::gin::Configurable;
use crate::nn::{
    Activation, Distribution, Dtype, FanMode, Initializer, ParamSpec, RematPolicy,
    TransformerEngineConfig,
};

/// Buckets of relative position; fixed in T5X's `network.py`.
pub const NUM_BUCKETS: usize = 32;
/// Distance from which all positions share a bucket; fixed in T5X's `network.py`.
pub const MAX_DISTANCE: usize = 128;

/// Dimensions and variants of a T5 encoder-decoder. Source: T5X `examples/t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.examples.t5.network.T5Config",
    alias = "t5x.contrib.gpu.t5.network.T5Config",
    ignored(
        transpose_batch_sequence = "it is about speed in NVIDIA's branch of T5X only",
        fuse_qkv_params = "projections are joined in memory, and checkpoints keep T5X's names"
    )
)]
pub struct T5Config {
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
    #[gin(default = 0.1)]
    pub dropout_rate: f64,
    /// Whether the embedding also maps to logits (T5 1.0), instead of a matrix of its own (1.1).
    #[gin(default = false)]
    pub logits_via_embedding: bool,
    /// Whether attention scores are computed in float32, for any `dtype`.
    #[gin(default = false)]
    pub float32_attention_logits: bool,
    /// Whether attention scores are divided by sqrt(head_dim), for optimizers whose steps do not depend on a
    /// parameter's scale, such as AdamW. The query's first values are as small either way. Source: T5X
    /// `contrib/gpu/t5/layers.py`.
    #[gin(default = false)]
    pub scale_attn_logits: bool,
    /// The tensors that each layer keeps for its backward pass: less memory for more computing.
    #[gin(default = RematPolicy::None)]
    pub remat_policy: RematPolicy,
    /// Whether projections compute in 8-bit floats, except those to logits and those of a decoder
    /// that predicts step by step. With it, a remat_policy of 'minimal' is 'full'. None means no.
    #[gin(default = None)]
    pub fp8: Option<TransformerEngineConfig>,
}

/// The T5 network. Source: T5X `examples/t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.examples.t5.network.Transformer",
    alias = "t5x.contrib.gpu.t5.network.Transformer"
)]
pub struct Transformer {
    /// Its dimensions.
    pub config: T5Config,
}

impl T5Config {
    /// T5 1.1 small in float32 and without dropout, as a base for tests and benchmarks. Source: T5X
    /// `examples/t5/t5_1_1/small.gin`.
    pub fn t5_1_1_small() -> Self {
        Self {
            vocab_size: 32128,
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
            float32_attention_logits: false,
            scale_attn_logits: false,
            remat_policy: RematPolicy::None,
            fp8: None,
        }
    }

    /// Every parameter, sorted by name as flax sorts them.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        let mut tree = vec![self.embedding()];
        for stack in [Stack::Encoder, Stack::Decoder] {
            self.push_stack(stack, &mut tree);
        }
        if !self.logits_via_embedding {
            let shape = [self.emb_dim, self.vocab_size];
            tree.push(kernel("decoder/logits_dense", shape, ["embed", "vocab"], TRUNCATED));
        }
        tree.sort_by(|a, b| a.name.cmp(&b.name));
        tree
    }

    /// Number of parameters.
    pub fn num_params(&self) -> u64 {
        self.param_tree().iter().map(ParamSpec::num_elements).sum()
    }

    /// Names of the feed-forward block's input projections: `wi`, or `wi_0`, `wi_1`, ...
    pub fn input_projections(&self) -> Vec<String> {
        match self.mlp_activations.len() {
            1 => vec!["wi".to_string()],
            count => (0..count).map(|i| format!("wi_{i}")).collect(),
        }
    }

    fn embedding(&self) -> ParamSpec {
        ParamSpec {
            name: "token_embedder/embedding".to_string(),
            shape: vec![self.vocab_size, self.emb_dim],
            axes: vec!["vocab", "embed"],
            initializer: Initializer::Normal { stddev: 1.0 },
            dtype: Dtype::Float32,
        }
    }

    fn push_stack(&self, stack: Stack, tree: &mut Vec<ParamSpec>) {
        let name = stack.name();
        tree.push(ParamSpec {
            name: format!("{name}/relpos_bias/rel_embedding"),
            shape: vec![self.num_heads, NUM_BUCKETS],
            axes: vec!["heads", "relpos_buckets"],
            initializer: variance_scaling(1.0, FanMode::FanAvg, Distribution::Uniform),
            dtype: Dtype::Float32,
        });
        tree.push(self.scale(format!("{name}/{name}_norm")));
        let num_layers = match stack {
            Stack::Encoder => self.num_encoder_layers,
            Stack::Decoder => self.num_decoder_layers,
        };
        for layer in 0..num_layers {
            let prefix = format!("{name}/layers_{layer}");
            for (norm, attention) in stack.attentions() {
                tree.push(self.scale(format!("{prefix}/{norm}")));
                self.push_attention(&format!("{prefix}/{attention}"), tree);
            }
            tree.push(self.scale(format!("{prefix}/pre_mlp_layer_norm")));
            self.push_mlp(&format!("{prefix}/mlp"), tree);
        }
    }

    fn push_attention(&self, prefix: &str, tree: &mut Vec<ParamSpec>) {
        let joined = self.num_heads * self.head_dim;
        let normal = |scale| variance_scaling(scale, FanMode::FanIn, Distribution::Normal);
        // T5 does not divide attention scores by sqrt(head_dim): the query's initializer does.
        let query = normal(1.0 / self.head_dim as f64);
        for (name, initializer) in [("query", query), ("key", normal(1.0)), ("value", normal(1.0))]
        {
            let (shape, axes) = ([self.emb_dim, joined], ["embed", "joined_kv"]);
            tree.push(kernel(&format!("{prefix}/{name}"), shape, axes, initializer));
        }
        let (shape, axes) = ([joined, self.emb_dim], ["joined_kv", "embed"]);
        tree.push(kernel(&format!("{prefix}/out"), shape, axes, normal(1.0)));
    }

    fn push_mlp(&self, prefix: &str, tree: &mut Vec<ParamSpec>) {
        for name in self.input_projections() {
            let (shape, axes) = ([self.emb_dim, self.mlp_dim], ["embed", "mlp"]);
            tree.push(kernel(&format!("{prefix}/{name}"), shape, axes, TRUNCATED));
        }
        let (shape, axes) = ([self.mlp_dim, self.emb_dim], ["mlp", "embed"]);
        tree.push(kernel(&format!("{prefix}/wo"), shape, axes, TRUNCATED));
    }

    fn scale(&self, prefix: String) -> ParamSpec {
        ParamSpec {
            name: prefix + "/scale",
            shape: vec![self.emb_dim],
            axes: vec!["embed"],
            initializer: Initializer::Ones,
            dtype: Dtype::Float32,
        }
    }
}

/// The two halves of the network.
#[derive(Clone, Copy)]
enum Stack {
    Encoder,
    Decoder,
}

impl Stack {
    fn name(self) -> &'static str {
        match self {
            Stack::Encoder => "encoder",
            Stack::Decoder => "decoder",
        }
    }

    /// The norm before, and the name of, each attention of a layer.
    fn attentions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Stack::Encoder => &[("pre_attention_layer_norm", "attention")],
            Stack::Decoder => &[
                ("pre_self_attention_layer_norm", "self_attention"),
                ("pre_cross_attention_layer_norm", "encoder_decoder_attention"),
            ],
        }
    }
}

/// The initializer of feed-forward and logits kernels.
const TRUNCATED: Initializer = variance_scaling(1.0, FanMode::FanIn, Distribution::TruncatedNormal);

const fn variance_scaling(scale: f64, mode: FanMode, distribution: Distribution) -> Initializer {
    Initializer::VarianceScaling { scale, mode, distribution }
}

fn kernel(
    prefix: &str,
    shape: [usize; 2],
    axes: [&'static str; 2],
    initializer: Initializer,
) -> ParamSpec {
    ParamSpec {
        name: format!("{prefix}/kernel"),
        shape: shape.to_vec(),
        axes: axes.to_vec(),
        initializer,
        dtype: Dtype::Float32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sizes_have_their_published_number_of_parameters() {
        assert_eq!(T5Config::t5_1_1_small().num_params(), 76_961_152);
        let base_1_0 = T5Config {
            emb_dim: 768,
            num_heads: 12,
            num_encoder_layers: 12,
            num_decoder_layers: 12,
            mlp_dim: 3072,
            mlp_activations: vec![Activation::Relu],
            logits_via_embedding: true,
            ..T5Config::t5_1_1_small()
        };
        assert_eq!(base_1_0.num_params(), 222_903_552);
    }

    #[test]
    fn the_tree_is_sorted_as_nested_dicts_are() {
        let config = T5Config { num_encoder_layers: 11, ..T5Config::t5_1_1_small() };
        let names: Vec<String> = config.param_tree().into_iter().map(|p| p.name).collect();
        let mut nested = names.clone();
        nested.sort_by_key(|name| name.split('/').map(str::to_string).collect::<Vec<_>>());
        assert_eq!(names, nested);
    }

    #[test]
    fn a_single_activation_has_an_unnumbered_projection() {
        let config =
            T5Config { mlp_activations: vec![Activation::Relu], ..T5Config::t5_1_1_small() };
        let tree = config.param_tree();
        assert!(tree.iter().any(|p| p.name == "encoder/layers_0/mlp/wi/kernel"));
        assert!(!tree.iter().any(|p| p.name.contains("wi_0")));
    }
}
