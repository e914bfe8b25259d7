//! Dimensions of a T5 as gin binds them, and the network that they describe.

use super::initializers::{FirstValues, T5Initializers};
use crate::gin::Configurable;
use crate::models::parts::{
    AttentionSpec, LearnedRows, LogitsKernel, Reach, RelativeBias, TokenEmbedding,
};
use crate::models::transformer::{
    LAYER_NORM_EPSILON, LayerArrays, LayerDims, LayerStyle, StackEnd, StackSpec, TransformerSpec,
};
use crate::nn::{
    Activation, Dtype, ParamSpec, RelativePosition, RematPolicy, TransformerEngineConfig,
};

/// Dimensions and variants of a T5 encoder-decoder. Source: T5X `examples/t5/network.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.examples.t5.network.T5Config",
    alias = "t5x.contrib.gpu.t5.network.T5Config",
    ignored(transpose_batch_sequence = "it is about speed in NVIDIA's branch of T5X only")
)]
pub struct T5Config {
    /// Rows of the token embedding; at least the vocabulary's size, often padded to a multiple of 128.
    pub vocab_size: usize,
    /// Format of activations; parameters stay float32. 'float16' needs a GPU, and trains with a scale of the loss:
    /// `trainer.Trainer.loss_scaler`.
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
    /// Width of a task adapter at the end of each layer: a norm, a feed-forward block with relu, dropout and a residual
    /// (Houlsby et al. 2019, arXiv:1902.00751, as in Mesh TensorFlow's T5). None means no adapters.
    #[gin(default = None)]
    pub adapter_dim: Option<usize>,
    /// Whether the encoder reads the decoder's parameters: those of self-attentions, feed-forward blocks and all norms, and
    /// the embedding of relative positions.
    #[gin(default = false)]
    pub tie_encoder_decoder: bool,
    /// The addend of the mean square in norms, which T5X fixes (transformers: `layer_norm_epsilon`).
    #[gin(default = LAYER_NORM_EPSILON)]
    pub layer_norm_epsilon: f64,
    /// Learned rows before the encoder's inputs, which all positions of encoder and decoder attend to (Burtsev et al. 2020,
    /// arXiv:2006.11527). With them, rows are not packed, and processes do not divide the model.
    #[gin(default = 0)]
    pub num_memory_tokens: usize,
    /// The encoder's heads whose queries depend on the whole row too: none, half of `num_heads`, each of which shares keys,
    /// values and biases with one of the others, or all. With them, rows are not packed, and processes do not divide the
    /// model. Source: t5-experiments `modeling_t5.py`, `T5CDQAttention`.
    #[gin(default = 0)]
    pub num_cdq_heads: usize,
    /// Whether each layer has a bias of relative position of its own (umT5), instead of one for all layers of a stack.
    #[gin(default = false)]
    pub relpos_bias_per_layer: bool,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1, limit = BelowOne)]
    pub dropout_rate: f64,
    /// Whether all positions of a row share the dropout of the encoder's result, as of everything else.
    #[gin(default = false)]
    pub broadcast_encoder_output_dropout: bool,
    /// Whether the first values of feed-forward and logits kernels, a Gaussian cut at two deviations, are widened to the
    /// deviation of an uncut one, as in jax; Mesh TensorFlow's are not.
    #[gin(default = true)]
    pub correct_truncation: bool,
    /// The distributions of first values.
    #[gin(default = FirstValues::T5x)]
    pub initializers: FirstValues,
    /// The factor of the first values of 'transformers', except those of a logits kernel.
    #[gin(default = 1.0, limit = NonNegative)]
    pub initializer_factor: f64,
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
    /// Whether queries, keys and values have one kernel, in memory and in checkpoints, as NVIDIA's Transformer Engine lays
    /// them out: `encoder/layers_0/attention/qkv/kernel`. Results are the same. Source: NVIDIA's branch of T5X.
    #[gin(default = false)]
    pub fuse_qkv_params: bool,
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
    /// T5 1.1 small in float32 and without dropout, as a base for networks with fewer parameters, tests and benchmarks.
    /// Source: T5X `examples/t5/t5_1_1/small.gin`.
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
            adapter_dim: None,
            tie_encoder_decoder: false,
            layer_norm_epsilon: LAYER_NORM_EPSILON,
            num_memory_tokens: 0,
            num_cdq_heads: 0,
            relpos_bias_per_layer: false,
            dropout_rate: 0.0,
            broadcast_encoder_output_dropout: false,
            correct_truncation: true,
            initializers: FirstValues::T5x,
            initializer_factor: 1.0,
            logits_via_embedding: false,
            float32_attention_logits: false,
            scale_attn_logits: false,
            fuse_qkv_params: false,
            remat_policy: RematPolicy::None,
            fp8: None,
        }
    }

    /// The network of these dimensions.
    pub fn transformer(&self) -> TransformerSpec {
        let initializers = T5Initializers::of(self);
        let dims = LayerDims {
            dtype: self.dtype,
            emb_dim: self.emb_dim,
            num_heads: self.num_heads,
            num_cdq_heads: 0,
            head_dim: self.head_dim,
            mlp_dim: self.mlp_dim,
            mlp_activations: self.mlp_activations.clone(),
            adapter_dim: self.adapter_dim,
            layer_norm_epsilon: self.layer_norm_epsilon,
            float32_attention_logits: self.float32_attention_logits,
            scale_attn_logits: self.scale_attn_logits,
            style: LayerStyle::T5,
            remat_policy: self.remat_policy,
            initializers: initializers.layers,
        };
        let tokens = TokenEmbedding {
            path: "token_embedder",
            vocab_size: self.vocab_size,
            stream: dims.stream(),
            initializer: initializers.embedding,
            learns_padding: true,
            logits: (!self.logits_via_embedding)
                .then(|| LogitsKernel::of_decoder(initializers.logits)),
        };
        let count = self.num_memory_tokens;
        let learned_rows =
            (count > 0).then(|| LearnedRows::memory(count, dims.stream(), initializers.embedding));
        let position = |direction| RelativeBias {
            direction,
            per_layer: self.relpos_bias_per_layer,
            initializer: initializers.rel_embedding,
            ..RelativeBias::t5(direction)
        };
        let share_biases = (1..self.num_heads).contains(&self.num_cdq_heads);
        let (name, attentions) = match self.tie_encoder_decoder {
            true => ("decoder", &TIED_ENCODER),
            false => ("encoder", &ENCODER),
        };
        let decoder = StackSpec {
            name: "decoder",
            num_layers: self.num_decoder_layers,
            attentions: &DECODER,
            position: Some(position(RelativePosition::Causal)),
            rotary: None,
            end: StackEnd::NormAndDropout { is_shared: true },
            reach: Reach::All,
            layouts: [].into(),
            dims,
            sparse: None,
            lora: None,
            layer_rows: None,
        };
        let encoder = StackSpec {
            name,
            num_layers: self.num_encoder_layers,
            attentions,
            position: Some(RelativeBias {
                heads_of_bias: if share_biases { 2 } else { 1 },
                ..position(RelativePosition::Bidirectional)
            }),
            end: StackEnd::NormAndDropout { is_shared: self.broadcast_encoder_output_dropout },
            dims: LayerDims { num_cdq_heads: self.num_cdq_heads, ..decoder.dims.clone() },
            ..decoder.clone()
        };
        TransformerSpec {
            tokens,
            learned_rows,
            encoder_ends: None,
            class_head: None,
            encoder: Some(encoder),
            last: decoder,
            dropout_rate: self.dropout_rate,
            fp8: self.fp8.clone(),
            layer_arrays: self.layer_arrays(),
        }
    }

    /// The arrays in which the parameters of its layers lie.
    pub fn layer_arrays(&self) -> LayerArrays {
        match self.fuse_qkv_params {
            true => LayerArrays::Fused,
            false => LayerArrays::Joined,
        }
    }

    /// Finds stacks that cannot share their parameters.
    ///
    /// # Errors
    /// They differ in their number of layers.
    pub fn check_tying(&self) -> Result<(), String> {
        let (encoder, decoder) = (self.num_encoder_layers, self.num_decoder_layers);
        match self.tie_encoder_decoder && encoder != decoder {
            true => Err(format!(
                "network.T5Config.tie_encoder_decoder needs as many layers in both stacks, found \
                 num_encoder_layers = {encoder} and num_decoder_layers = {decoder}"
            )),
            false => Ok(()),
        }
    }

    /// Finds heads whose queries depend on the row and that no network has.
    ///
    /// # Errors
    /// Their number, or a parameter with which they do not go together.
    pub fn check_cdq_heads(&self) -> Result<(), String> {
        let (found, all) = (self.num_cdq_heads, self.num_heads);
        if found == 0 {
            return Ok(());
        }
        let half = Some(all / 2).filter(|half| 2 * half == all);
        if found != all && Some(found) != half {
            let half = half.map_or(String::new(), |half| format!(", {half}"));
            return Err(format!(
                "network.T5Config.num_cdq_heads is {found}, expected 0{half} or {all} of num_heads = {all}: each of these \
                 heads shares keys and values with another one, unless there is no other"
            ));
        }
        let others = [
            (self.tie_encoder_decoder, "tie_encoder_decoder", "the decoder has no such heads"),
            (self.fuse_qkv_params, "fuse_qkv_params", "their kernels differ in size"),
        ];
        match others.into_iter().find(|(is_set, ..)| *is_set) {
            None => Ok(()),
            Some((_, other, reason)) => Err(format!(
                "network.T5Config.num_cdq_heads is {found} and {other} is True, expected one of the two, since {reason}: \
                 bind num_cdq_heads = 0 or {other} = False"
            )),
        }
    }

    /// Every parameter, sorted by name as flax sorts them.
    pub fn param_tree(&self) -> Vec<ParamSpec> {
        self.transformer().param_tree()
    }
}

/// The attention of the layer of an encoder that reads the decoder's parameters.
const TIED_ENCODER: [AttentionSpec; 1] = [AttentionSpec {
    norm: "pre_self_attention_layer_norm",
    name: "self_attention",
    reads_encoding: false,
}];

/// The attention of an encoder's layer.
pub(in crate::models::families) const ENCODER: [AttentionSpec; 1] =
    [AttentionSpec { norm: "pre_attention_layer_norm", name: "attention", reads_encoding: false }];

/// The attentions of a decoder's layer.
pub(in crate::models::families) const DECODER: [AttentionSpec; 2] = [
    AttentionSpec {
        norm: "pre_self_attention_layer_norm",
        name: "self_attention",
        reads_encoding: false,
    },
    AttentionSpec {
        norm: "pre_cross_attention_layer_norm",
        name: "encoder_decoder_attention",
        reads_encoding: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sizes_have_their_published_number_of_parameters() {
        assert_eq!(T5Config::t5_1_1_small().transformer().num_params(), 76_961_152);
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
        assert_eq!(base_1_0.transformer().num_params(), 222_903_552);
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
    fn tied_stacks_have_the_parameters_of_the_decoder() {
        let tied = T5Config { tie_encoder_decoder: true, ..T5Config::t5_1_1_small() };
        let separate = T5Config::t5_1_1_small().param_tree();
        let of_decoder: Vec<_> =
            separate.into_iter().filter(|param| !param.name.starts_with("encoder/")).collect();
        assert_eq!(tied.param_tree(), of_decoder);
        assert_eq!(tied.check_tying(), Ok(()));
        let uneven = T5Config { num_encoder_layers: 3, ..tied };
        assert!(uneven.check_tying().unwrap_err().contains("num_encoder_layers = 3"));
    }

    #[test]
    fn heads_with_queries_of_the_row_share_keys_and_biases_with_the_others() {
        let shapes = |num_cdq_heads| {
            let config = T5Config { num_cdq_heads, ..T5Config::t5_1_1_small() };
            assert_eq!(config.check_cdq_heads(), Ok(()));
            let of_layer = |param: ParamSpec| {
                let name = param.name.strip_prefix("encoder/layers_7/attention/")?.to_string();
                Some((name, param.shape))
            };
            config.param_tree().into_iter().filter_map(of_layer).collect::<Vec<_>>()
        };
        let named = |shapes: &[(&str, [usize; 2])]| {
            let shapes = shapes.iter();
            shapes
                .map(|(name, shape)| (format!("{name}/kernel"), shape.to_vec()))
                .collect::<Vec<_>>()
        };
        let own = |heads| {
            [
                ("cdq_mix", [1024, 512]),
                ("cdq_query", [512, 64]),
                ("cdq_scores", [512, heads]),
                ("cdq_transform", [512, 512]),
            ]
        };
        let half = [
            ("key", [512, 192]),
            ("out", [384, 512]),
            ("query", [512, 192]),
            ("value", [512, 192]),
        ];
        assert_eq!(shapes(3), named(&[&own(3)[..], &half].concat()));
        let all = [("key", [512, 384]), ("out", [384, 512]), ("value", [512, 384])];
        assert_eq!(shapes(6), named(&[&own(6)[..], &all].concat()));
    }

    #[test]
    fn heads_with_queries_of_the_row_that_no_network_has_are_refused() {
        let check = |config: T5Config, expected: &str| {
            let said = config.check_cdq_heads().expect_err("there is no such network");
            assert!(said.contains(expected), "{said}");
        };
        let with = |num_cdq_heads| T5Config { num_cdq_heads, ..T5Config::t5_1_1_small() };
        check(with(4), "num_cdq_heads is 4, expected 0, 3 or 6 of num_heads = 6");
        check(T5Config { num_heads: 5, ..with(2) }, "expected 0 or 5 of");
        check(T5Config { tie_encoder_decoder: true, ..with(6) }, "tie_encoder_decoder = False");
        check(T5Config { fuse_qkv_params: true, ..with(3) }, "fuse_qkv_params = False");
    }

    #[test]
    fn a_bias_per_layer_is_named_as_scalable_t5_names_it() {
        let config = T5Config { relpos_bias_per_layer: true, ..T5Config::t5_1_1_small() };
        let tree = config.param_tree();
        let biases = tree.iter().filter(|param| param.name.ends_with("/rel_embedding"));
        let biases: Vec<(&str, &[usize])> =
            biases.map(|param| (&param.name[..], &param.shape[..])).collect();
        assert_eq!(biases.len(), 16);
        assert_eq!(biases[0], ("decoder/layers_0/relpos_bias/rel_embedding", &[6, 32][..]));
        assert_eq!(biases[15], ("encoder/layers_7/relpos_bias/rel_embedding", &[6, 32][..]));
    }

    #[test]
    fn adapters_add_a_norm_and_two_kernels_to_each_layer() {
        let config = T5Config { adapter_dim: Some(32), ..T5Config::t5_1_1_small() };
        let more = config.transformer().num_params() - 76_961_152;
        assert_eq!(more, 16 * (512 + 2 * 512 * 32));
        let tree = config.param_tree();
        let has = |name: &str| tree.iter().any(|param| param.name == name);
        assert!(has("encoder/layers_7/pre_task_adapter_layer_norm/scale"));
        assert!(has("decoder/layers_0/task_adapter/wi/kernel"));
    }

    /// Names and shapes as NVIDIA's Transformer Engine has them.
    #[test]
    fn fused_kernels_are_named_as_the_transformer_engine_names_them() {
        let config = T5Config { fuse_qkv_params: true, ..T5Config::t5_1_1_small() };
        let tree = config.param_tree();
        let check = |layer: &str, expected: &[(&str, &[usize])]| {
            let of_layer = tree
                .iter()
                .filter_map(|param| Some((param.name.strip_prefix(layer)?, &param.shape[..])));
            assert_eq!(of_layer.collect::<Vec<_>>(), expected);
        };
        let (kernel, scale): (&[usize], &[usize]) = (&[512, 384], &[512]);
        let mlp: [(&str, &[usize]); 3] =
            [("scale", scale), ("wi_kernel", &[512, 2, 1024]), ("wo_kernel", &[1024, 512])];
        let own: [(&str, &[usize]); 3] =
            [("out/kernel", &[384, 512]), ("qkv/kernel", &[512, 3, 384]), ("qkv/scale", scale)];
        check("encoder/layers_0/attention/", &own);
        check("encoder/layers_7/mlp/", &mlp);
        check("decoder/layers_7/self_attention/", &own);
        check(
            "decoder/layers_7/encoder_decoder_attention/",
            &[
                ("kv/kernel", &[512, 2, 384]),
                ("out/kernel", &[384, 512]),
                ("query/kernel", kernel),
                ("query/scale", scale),
            ],
        );
        // Norms have no other names.
        assert_eq!(tree.iter().filter(|param| param.name.contains("layer_norm")).count(), 0);
        assert_eq!(config.transformer().num_params(), 76_961_152);
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
