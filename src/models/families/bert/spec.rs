//! Dimensions of a BERT as gin binds them, and the network that they describe.

use crate::gin::Configurable;
use crate::models::contract::ModuleSpec;
use crate::models::parts::{
    AttentionSpec, ClassHead, EncoderEnds, FeedForwardDropout, Reach, ReadPosition, RelativeBias,
    Rotary, TokenEmbedding,
};
use crate::models::transformer::{
    DimensionNames, LayerArrays, LayerDims, LayerInitializers, LayerStyle, StackEnd, StackSpec,
    TransformerSpec,
};
use crate::nn::{
    Activation, BlockLayout, Dtype, Initializer, NormKind, PythonRandom, RelativePosition,
    RematPolicy, SparsityConfig,
};

/// The classes of two texts: in their order, or swapped.
const NUM_ORDERS: usize = 2;

/// Dimensions and variants of a BERT, with the names of transformers' `config.json`. Source: transformers
/// `configuration_bert.py`, and t5-experiments `modeling_bert.py` for positions and norms.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "bert.BertConfig")]
pub struct BertConfig {
    /// Rows of the token embedding; at least the vocabulary's size.
    pub vocab_size: usize,
    /// Format of activations; parameters stay float32. 'float16' needs a GPU, and trains with a scale of the loss:
    /// `trainer.Trainer.loss_scaler`.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
    /// Width of the residual stream.
    #[gin(default = 768)]
    pub hidden_size: usize,
    /// Layers.
    #[gin(default = 12)]
    pub num_hidden_layers: usize,
    /// Attention heads, which divide `hidden_size`.
    #[gin(default = 12)]
    pub num_attention_heads: usize,
    /// Width between the two projections of the feed-forward block.
    #[gin(default = 3072)]
    pub intermediate_size: usize,
    /// Activation between them, and before the logits of masked tokens.
    #[gin(default = Activation::GeluExact)]
    pub hidden_act: Activation,
    /// Probability that an activation is dropped in training.
    #[gin(default = 0.1, limit = BelowOne)]
    pub hidden_dropout_prob: f64,
    /// Probability that an attention weight is dropped in training, by one mask for all queries.
    #[gin(default = 0.1, limit = BelowOne)]
    pub attention_probs_dropout_prob: f64,
    /// Greatest length of a row, and rows of the embedding of absolute positions.
    #[gin(default = 512)]
    pub max_position_embeddings: usize,
    /// Rows of the embedding of types of tokens.
    #[gin(default = 2)]
    pub type_vocab_size: usize,
    /// Standard deviation of the initial values of embeddings and kernels.
    #[gin(default = 0.02, limit = NonNegative)]
    pub initializer_range: f64,
    /// The addend of the variance in norms.
    #[gin(default = 1e-12, limit = NonNegative)]
    pub layer_norm_eps: f64,
    /// The positions: `@bert.absolute()`, `@bert.rotary()`, `@bert.relative_attention_bias()` or `@bert.no_positions()`.
    #[gin(default = PositionEmbedding::Absolute(AbsolutePositions {}))]
    pub position_embedding: PositionEmbedding,
    /// Whether norms stand before attentions and feed-forward blocks, instead of after them.
    #[gin(default = false)]
    pub pre_layer_norm: bool,
    /// Whether a norm follows the layers; None means `pre_layer_norm`. Layers that end in a norm have none after them.
    #[gin(default = None)]
    pub last_layer_norm: Option<bool>,
    /// The blocks of a row that each block of positions attends to, such as `@bert.BigBirdSparsityConfig()`; None means all.
    /// They are laid over the row: in a packed one, positions attend to those of their own example in these blocks.
    #[gin(default = None)]
    pub sparsity: Option<SparsityConfig>,
    /// The seed of random blocks, which each layer draws anew. (t5-experiments has no seed, and computes all layers with the
    /// blocks of the first one.)
    #[gin(default = 42)]
    pub sparsity_seed: u64,
    /// The tensors that each layer keeps for its backward pass: less memory for more computing.
    #[gin(default = RematPolicy::None)]
    pub remat_policy: RematPolicy,
}

/// The positions of a BERT.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum PositionEmbedding {
    /// Learned rows, added to those of tokens.
    Absolute(AbsolutePositions),
    /// Queries and keys that are turned.
    Rotary(RotaryPositions),
    /// A learned addend of scores.
    Relative(RelativeAttentionBias),
    /// None.
    Absent(NoPositions),
}

/// Learned rows of absolute positions, added to those of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "bert.absolute")]
pub struct AbsolutePositions {}

/// No positions: rows are sets of tokens. t5-experiments trains so with `relative_attention_bias` and without sparse attention, since
/// it does not add its table there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "bert.no_positions")]
pub struct NoPositions {}

/// Queries and keys turned by angles that grow with their position (Su et al. 2021, arXiv:2104.09864).
#[derive(Clone, Copy, Debug, PartialEq, Configurable)]
#[gin(name = "bert.rotary")]
pub struct RotaryPositions {
    /// The greatest wavelength over 2 pi, in positions.
    #[gin(default = 10000.0)]
    pub base: f64,
    /// Numbers of each head that are turned; None means all.
    #[gin(default = None)]
    pub dim: Option<usize>,
}

/// A learned addend of scores for each head and bucket of distance, as in T5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "bert.relative_attention_bias")]
pub struct RelativeAttentionBias {
    /// Buckets of distance, half of them for keys after the query.
    #[gin(default = 32)]
    pub num_buckets: usize,
    /// Distance from which all positions share a bucket.
    #[gin(default = 128)]
    pub last_bucket_distance: usize,
}

/// The attention of each layer.
const ATTENTION: [AttentionSpec; 1] =
    [AttentionSpec { norm: "pre_attention_layer_norm", name: "attention", reads_encoding: false }];

/// The heads of a BERT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BertHeads {
    /// One for masked tokens.
    MaskedTokens,
    /// That, and one for the order of two texts.
    MaskedTokensAndOrder,
    /// One for so many classes of rows, with a rate of dropout, or that of activations.
    Classes(usize, Option<f64>),
}

impl BertConfig {
    /// Width of one head.
    fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads.max(1)
    }

    /// The blocks of all layers; none without sparsity.
    ///
    /// # Errors
    /// They contradict each other, the heads or the greatest length.
    fn layouts(&self) -> Result<Vec<BlockLayout>, String> {
        let Some(sparsity) = &self.sparsity else { return Ok(Vec::new()) };
        let heads = sparsity.heads().num_heads;
        if heads != self.num_attention_heads {
            return Err(format!(
                "bert.BertConfig.num_attention_heads is {}, and its sparsity has num_heads = {heads}, expected the same",
                self.num_attention_heads
            ));
        }
        let mut random = PythonRandom::new(self.sparsity_seed);
        (0..self.num_hidden_layers)
            .map(|_| sparsity.layout(self.max_position_embeddings, &mut random))
            .collect()
    }

    /// Finds rows that are longer than positions are known for.
    ///
    /// # Errors
    /// The length, and the greatest one.
    pub fn check_length(&self, length: usize) -> Result<(), String> {
        let most = self.max_position_embeddings;
        match length <= most {
            true => Ok(()),
            false => Err(format!(
                "rows have {length} tokens, expected at most bert.BertConfig.max_position_embeddings, which is {most}"
            )),
        }
    }

    fn has_last_norm(&self) -> bool {
        self.last_layer_norm.unwrap_or(self.pre_layer_norm)
    }

    fn dims(&self) -> LayerDims {
        let kernels = Initializer::Normal { stddev: self.initializer_range };
        LayerDims {
            dtype: self.dtype,
            emb_dim: self.hidden_size,
            num_heads: self.num_attention_heads,
            num_cdq_heads: 0,
            head_dim: self.head_dim(),
            mlp_dim: self.intermediate_size,
            mlp_activations: vec![self.hidden_act],
            adapter_dim: None,
            layer_norm_epsilon: self.layer_norm_eps,
            float32_attention_logits: false,
            scale_attn_logits: true,
            style: LayerStyle {
                norm: NormKind::Layer,
                norm_comes_after: !self.pre_layer_norm,
                has_biases: true,
                feed_forward_dropout: FeedForwardDropout::Nowhere,
                attention_dropout_rate: Some(self.attention_probs_dropout_prob),
                has_scales: false,
            },
            remat_policy: self.remat_policy,
            initializers: LayerInitializers {
                query: kernels,
                attention: kernels,
                feed_forward: kernels,
                norm: Initializer::ONES,
            },
        }
    }

    fn position(&self) -> (Option<RelativeBias>, Option<Rotary>) {
        match &self.position_embedding {
            PositionEmbedding::Absolute(_) | PositionEmbedding::Absent(_) => (None, None),
            PositionEmbedding::Rotary(RotaryPositions { base, dim }) => {
                let dim = dim.unwrap_or_else(|| self.head_dim());
                (None, Some(Rotary { dim, base: *base }))
            }
            PositionEmbedding::Relative(relative) => {
                let bias = RelativeBias {
                    initializer: Initializer::Normal { stddev: self.initializer_range },
                    num_buckets: relative.num_buckets,
                    max_distance: relative.last_bucket_distance,
                    ..RelativeBias::t5(RelativePosition::Bidirectional)
                };
                (Some(bias), None)
            }
        }
    }

    /// The network with those heads.
    pub fn network(&self, heads: BertHeads) -> TransformerSpec {
        let dims = self.dims();
        let (position, rotary) = self.position();
        // `check` tells of those that cannot be drawn.
        let layouts = self.layouts().unwrap_or_default();
        let mean_keys = |layout: &BlockLayout| layout.mean_keys(self.max_position_embeddings);
        let reach = layouts.first().map(mean_keys);
        let reach = reach.map_or(Reach::All, |keys| Reach::Layout { mean_keys: keys as usize });
        let initializer = Initializer::Normal { stddev: self.initializer_range };
        let predicts_tokens = !matches!(heads, BertHeads::Classes(..));
        let classes = match heads {
            BertHeads::MaskedTokens => None,
            BertHeads::MaskedTokensAndOrder => Some(("classes", NUM_ORDERS, 0.0)),
            BertHeads::Classes(count, rate) => {
                Some(("classifier", count, rate.unwrap_or(self.hidden_dropout_prob)))
            }
        };
        let is_absolute = matches!(self.position_embedding, PositionEmbedding::Absolute(_));
        TransformerSpec {
            tokens: TokenEmbedding {
                path: "token_embedder",
                vocab_size: self.vocab_size,
                stream: dims.stream(),
                initializer,
                learns_padding: false,
                logits: None,
            },
            learned_rows: None,
            encoder_ends: Some(EncoderEnds {
                stream: dims.stream(),
                num_positions: is_absolute.then_some(self.max_position_embeddings),
                num_types: self.type_vocab_size,
                predicted_tokens: predicts_tokens.then_some(self.vocab_size),
                activation: self.hidden_act,
                initializer,
            }),
            class_head: classes.map(|(path, num_classes, dropout_rate)| ClassHead {
                stream: dims.stream(),
                reads: ReadPosition::First,
                path,
                num_classes,
                dropout_rate,
                initializer,
            }),
            encoder: None,
            last: StackSpec {
                name: "encoder",
                num_layers: self.num_hidden_layers,
                attentions: &ATTENTION,
                position,
                rotary,
                end: if self.has_last_norm() { StackEnd::Norm } else { StackEnd::Open },
                reach,
                layouts: layouts.into(),
                dims,
                sparse: None,
                lora: None,
                layer_rows: None,
            },
            dropout_rate: self.hidden_dropout_prob,
            fp8: None,
            layer_arrays: LayerArrays::Joined,
        }
    }
}

impl ModuleSpec for BertConfig {
    fn transformer(&self) -> TransformerSpec {
        self.network(BertHeads::MaskedTokensAndOrder)
    }

    fn dimensions(&self) -> DimensionNames {
        DimensionNames {
            configurable: "bert.BertConfig",
            elsewhere: &[
                ("emb_dim", "bert.BertConfig.hidden_size"),
                ("num_heads", "bert.BertConfig.num_attention_heads"),
                ("num_layers", "bert.BertConfig.num_hidden_layers"),
                ("head_dim", "bert.BertConfig.hidden_size"),
                ("mlp_dim", "bert.BertConfig.intermediate_size"),
                ("layer_norm_epsilon", "bert.BertConfig.layer_norm_eps"),
            ],
        }
    }

    fn check(&self) -> Result<(), String> {
        self.layouts()?;
        let (width, heads) = (self.hidden_size, self.num_attention_heads);
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(format!(
                "bert.BertConfig.hidden_size is {width}, expected a multiple of num_attention_heads, which is {heads}"
            ));
        }
        if self.type_vocab_size == 0 {
            return Err("bert.BertConfig.type_vocab_size is 0, expected at least 1".to_string());
        }
        if self.last_layer_norm == Some(true) && !self.pre_layer_norm {
            return Err(
                "bert.BertConfig.last_layer_norm is True and pre_layer_norm is False, expected both or neither: layers \
                 whose norms come last end in one already"
                    .to_string(),
            );
        }
        match &self.position_embedding {
            PositionEmbedding::Rotary(RotaryPositions { base, dim }) => {
                let dim = dim.unwrap_or_else(|| self.head_dim());
                if dim == 0 || dim > self.head_dim() || !dim.is_multiple_of(2) {
                    return Err(format!(
                        "bert.rotary.dim is {dim}, expected an even number up to the width of a head, {}",
                        self.head_dim()
                    ));
                }
                match *base > 1.0 {
                    true => Ok(()),
                    false => Err(format!("bert.rotary.base is {base}, expected more than 1")),
                }
            }
            PositionEmbedding::Relative(relative) => {
                let (buckets, last) = (relative.num_buckets, relative.last_bucket_distance);
                match buckets >= 4 && buckets.is_multiple_of(2) && last > buckets / 4 {
                    true => Ok(()),
                    false => Err(format!(
                        "bert.relative_attention_bias has num_buckets = {buckets} and last_bucket_distance = {last}, \
                         expected an even number from 4 on, and more than a fourth of it"
                    )),
                }
            }
            PositionEmbedding::Absolute(_) | PositionEmbedding::Absent(_) => Ok(()),
        }
    }

    fn remat_parameters(&self) -> Vec<String> {
        vec!["bert.BertConfig.remat_policy".to_string()]
    }

    fn set_remat_policy(&mut self, policy: RematPolicy) -> Option<()> {
        self.remat_policy = policy;
        Some(())
    }
}
