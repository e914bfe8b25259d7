//! The description of a Transformer, from which everything else about it follows: its parameters,
//! its passes in training and prediction, its memory and its operations.

use super::layer_arrays::LayerArrays;
use super::sparse::SparseLayers;
use crate::models::contract::memory::StepShape;
use crate::nn::{
    Activation, Distribution, Dtype, ExpertsSpec, FanMode, Initializer, RelativePosition,
    RematPolicy, RoutingMode, TransformerEngineConfig,
};

/// Buckets of relative position; fixed in T5X's `network.py`.
pub const NUM_BUCKETS: usize = 32;
/// The addend of the mean square in norms; fixed in T5X's `layers.py`.
pub const LAYER_NORM_EPSILON: f64 = 1e-6;
/// Distance from which all positions share a bucket; fixed in T5X's `network.py`.
pub const MAX_DISTANCE: usize = 128;

/// A Transformer: a stack whose result the heads read, and perhaps an encoder before it whose result that stack reads.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerSpec {
    /// Path of the token embedding, which all stacks share.
    pub embedding: &'static str,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Whether the embedding also maps to logits, instead of a matrix of its own.
    pub logits_via_embedding: bool,
    /// The encoder before the last stack, if there is one.
    pub encoder: Option<StackSpec>,
    /// The last stack: a decoder, or an encoder alone.
    pub last: StackSpec,
    /// The initial values of the embedding.
    pub embedding_init: Initializer,
    /// Those of the logits' own matrix.
    pub logits_init: Initializer,
    /// Probability that an activation is dropped in training.
    pub dropout_rate: f64,
    /// Formats of products in 8-bit floats.
    pub fp8: Option<TransformerEngineConfig>,
    /// The arrays in which the parameters of layers lie.
    pub layer_arrays: LayerArrays,
}

/// Layers one after the other, biases of relative position, and a norm after them. An encoder may have the
/// names of the decoder's parameters, which it then reads too.
#[derive(Clone, Debug, PartialEq)]
pub struct StackSpec {
    /// The path that all its parameters begin with.
    pub name: &'static str,
    /// Number of layers.
    pub num_layers: usize,
    /// The attentions of a layer, in order. Feed-forward blocks follow them.
    pub attentions: &'static [AttentionSpec],
    /// Whether keys after a query have buckets of their own.
    pub direction: RelativePosition,
    /// Whether each layer has a bias of relative position of its own, instead of one that all share.
    pub bias_per_layer: bool,
    /// Whether positions share the dropout of the last norm's result.
    pub shares_last_dropout: bool,
    /// The stack's own positions that a position attends to.
    pub reach: Reach,
    /// Dimensions of a layer.
    pub dims: LayerDims,
    /// The layers with experts, if there are some.
    pub sparse: Option<SparseLayers>,
}

/// The positions of its own stack that a position attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that the mask allows.
    All,
    /// Neighbours (LongT5).
    Local {
        /// Positions before and after it.
        radius: usize,
    },
    /// Neighbours, and tokens beside the sequence, each of which stands for a block of positions. A layer makes them of the
    /// normalized sums of its inputs (LongT5).
    TransientGlobal {
        /// Positions before and after it.
        radius: usize,
        /// Positions of a block.
        tokens_per_block: usize,
    },
}

/// An attention of a layer, with the norm before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSpec {
    /// Name of the norm.
    pub norm: &'static str,
    /// Name of the attention.
    pub name: &'static str,
    /// Whether keys and values come from the encoding, instead of the stack's own positions.
    pub reads_encoding: bool,
}

/// Dimensions and variants of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerDims {
    /// Format of activations.
    pub dtype: Dtype,
    /// Width of the residual stream.
    pub emb_dim: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width between the two projections of the feed-forward block.
    pub mlp_dim: usize,
    /// One activation for each of its input projections, whose results are multiplied.
    pub mlp_activations: Vec<Activation>,
    /// Width between the two projections of a task adapter, a second feed-forward block, if there is one.
    pub adapter_dim: Option<usize>,
    /// The addend of the mean square in norms.
    pub layer_norm_epsilon: f64,
    /// Whether attention scores are computed in float32, for any `dtype`.
    pub float32_attention_logits: bool,
    /// Whether attention scores are divided by `sqrt(head_dim)`.
    pub scale_attn_logits: bool,
    /// Whether the feed-forward block's result is dropped once more, before the dropout of every block's (LongT5).
    pub drops_mlp_twice: bool,
    /// The tensors that each layer keeps for its backward pass.
    pub remat_policy: RematPolicy,
    /// The initial values of its parameters.
    pub initializers: LayerInitializers,
}

/// The initial values of the parameters of a layer; scales of norms begin with ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerInitializers {
    /// Kernels of queries.
    pub query: Initializer,
    /// The other kernels of attentions.
    pub attention: Initializer,
    /// Kernels of feed-forward blocks.
    pub feed_forward: Initializer,
    /// Embeddings of relative positions.
    pub rel_embedding: Initializer,
}

/// A feed-forward block of a layer, with the norm before it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForwardSpec {
    /// Name of the norm.
    pub norm: &'static str,
    /// Name of the block.
    pub name: &'static str,
    /// Width between its two projections.
    pub dim: usize,
    /// One activation for each of its input projections.
    pub activations: Vec<Activation>,
    /// The experts, of which each has two such projections, if it is a block of experts.
    pub experts: Option<ExpertsSpec>,
}

/// A kernel of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// Its path, without `/kernel`.
    pub path: String,
    /// The divisor of its products.
    pub divisor: Option<f64>,
}

/// The first values of T5's embedding of tokens.
pub const EMBEDDING_INIT: Initializer = Initializer::Normal { stddev: 1.0 };

/// The first values of T5's feed-forward and logits kernels: a Gaussian cut as in jax, or as in TensorFlow.
pub fn kernel_init(correct_truncation: bool) -> Initializer {
    let distribution = match correct_truncation {
        true => Distribution::TruncatedNormal,
        false => Distribution::NarrowedTruncatedNormal,
    };
    Initializer::VarianceScaling { scale: 1.0, mode: FanMode::FanIn, distribution }
}

impl LayerInitializers {
    /// T5's, for heads of that width. Source: T5X `examples/t5/layers.py`.
    pub fn t5(head_dim: usize, feed_forward: Initializer) -> Self {
        let normal = |scale| Initializer::VarianceScaling {
            scale,
            mode: FanMode::FanIn,
            distribution: Distribution::Normal,
        };
        Self {
            // T5 does not divide attention scores by sqrt(head_dim): the query's initializer does.
            query: normal(1.0 / head_dim as f64),
            attention: normal(1.0),
            feed_forward,
            rel_embedding: Initializer::VarianceScaling {
                scale: 1.0,
                mode: FanMode::FanAvg,
                distribution: Distribution::Uniform,
            },
        }
    }
}

impl TransformerSpec {
    /// The same with projections in fp8, if `fp8` is given.
    pub fn with_fp8(self, fp8: Option<&TransformerEngineConfig>) -> Self {
        Self { fp8: fp8.cloned().or(self.fp8), ..self }
    }

    /// The stacks, the encoder first.
    pub fn stacks(&self) -> impl Iterator<Item = &StackSpec> {
        self.encoder.iter().chain([&self.last])
    }

    /// The stacks with the lengths of their rows, and of the encoder's rows that each reads, 0 for none.
    pub fn stacks_of(&self, shape: &StepShape) -> impl Iterator<Item = (&StackSpec, usize, usize)> {
        let read = [0].into_iter().chain(shape.lengths.iter().copied());
        self.stacks()
            .zip(&shape.lengths)
            .zip(read)
            .map(|((stack, length), read)| (stack, *length, read))
    }

    /// Path of the logits' own kernel.
    pub fn logits_dense(&self) -> String {
        format!("{}/logits_dense", self.last.name)
    }
}

impl StackSpec {
    /// The same stack as one of `count` processes computes it that divide heads and feed-forward blocks.
    pub fn part(&self, count: usize) -> Self {
        let dims = LayerDims {
            num_heads: self.dims.num_heads / count,
            mlp_dim: self.dims.mlp_dim / count,
            adapter_dim: self.dims.adapter_dim.map(|dim| dim / count),
            ..self.dims.clone()
        };
        let sparse = self.sparse.as_ref().map(|sparse| sparse.part(count));
        Self { dims, sparse, ..self.clone() }
    }

    /// Path of a layer.
    pub fn layer(&self, index: usize) -> String {
        format!("{}/layers_{index}", self.name)
    }

    /// Paths of the layers' parameters, in the order of a forward pass.
    pub fn layers(&self) -> impl Iterator<Item = String> {
        (0..self.num_layers).map(|index| self.layer(index))
    }

    /// Path of the embedding of relative positions that all layers share, if they share one.
    pub fn shared_rel_embedding(&self) -> Option<String> {
        (!self.bias_per_layer).then(|| rel_embedding(self.name))
    }

    /// Path of the embedding of relative positions of the layer of that path, if it has its own.
    pub fn own_rel_embedding(&self, layer: &str) -> Option<String> {
        self.bias_per_layer.then(|| rel_embedding(layer))
    }

    /// Paths of all its embeddings of relative positions.
    pub fn rel_embeddings(&self) -> impl Iterator<Item = String> {
        let own = self.layers().filter_map(|layer| self.own_rel_embedding(&layer));
        self.shared_rel_embedding().into_iter().chain(own)
    }

    /// Path of the embedding of positions relative to tokens beside the sequence, if there are such tokens.
    pub fn side_rel_embedding(&self) -> Option<String> {
        let path = || format!("{}/side_relpos_bias/rel_embedding", self.name);
        self.reach.tokens_per_block().map(|_| path())
    }

    /// Path of the scale of the norm of these tokens in the layer of that path. Source: flaxformer `long_attention.py`, whose
    /// norm has no name of its own.
    pub fn side_norm(&self, layer: &str) -> Option<String> {
        let path = || format!("{layer}/{}/T5LayerNorm_0/scale", self.attentions[0].name);
        self.reach.tokens_per_block().map(|_| path())
    }

    /// Path of the scale of the norm after the layers.
    pub fn last_norm(&self) -> String {
        format!("{0}/{0}_norm/scale", self.name)
    }
}

impl Reach {
    /// Positions that each token beside the sequence stands for, if there are such tokens.
    pub fn tokens_per_block(self) -> Option<usize> {
        match self {
            Self::All | Self::Local { .. } => None,
            Self::TransientGlobal { tokens_per_block, .. } => Some(tokens_per_block),
        }
    }

    /// Positions that a position attends to on either side; `None` if all.
    pub fn radius(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Local { radius } | Self::TransientGlobal { radius, .. } => Some(radius),
        }
    }

    /// Tokens beside a sequence of that length.
    pub fn num_beside(self, length: f64) -> f64 {
        self.tokens_per_block().map_or(0.0, |tokens| (length / tokens as f64).floor())
    }

    /// Keys of a query in a sequence of that length.
    pub fn num_keys(self, length: f64) -> f64 {
        let near = self.radius().map_or(length, |radius| length.min((2 * radius + 1) as f64));
        near + self.num_beside(length)
    }
}

fn rel_embedding(owner: &str) -> String {
    format!("{owner}/relpos_bias/rel_embedding")
}

impl AttentionSpec {
    /// The norm's scale in the layer of that path.
    pub fn scale(&self, layer: &str) -> String {
        format!("{layer}/{}/scale", self.norm)
    }

    /// Kernels of the layer of that path by their names. Queries are divided where scores are.
    pub fn kernels<const N: usize>(
        &self,
        layer: &str,
        dims: &LayerDims,
        names: [&str; N],
    ) -> [KernelSpec; N] {
        let divisor = dims.scale_attn_logits.then(|| (dims.head_dim as f64).sqrt());
        names.map(|name| KernelSpec {
            path: format!("{layer}/{}/{name}", self.name),
            divisor: divisor.filter(|_| name == "query"),
        })
    }
}

impl LayerDims {
    /// Width of all heads.
    pub fn joined(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// The feed-forward blocks of a layer without experts, in order.
    pub fn feed_forwards(&self) -> Vec<FeedForwardSpec> {
        let mlp = FeedForwardSpec {
            norm: "pre_mlp_layer_norm",
            name: "mlp",
            dim: self.mlp_dim,
            activations: self.mlp_activations.clone(),
            experts: None,
        };
        let adapter = self.adapter_dim.map(|dim| FeedForwardSpec {
            norm: "pre_task_adapter_layer_norm",
            name: "task_adapter",
            dim,
            activations: vec![Activation::Relu],
            experts: None,
        });
        [mlp].into_iter().chain(adapter).collect()
    }
}

impl StackSpec {
    /// The feed-forward blocks of the layer with that number, in order.
    pub fn feed_forwards(&self, index: usize) -> Vec<FeedForwardSpec> {
        match self.sparse.as_ref().filter(|sparse| sparse.has(index, self.num_layers)) {
            Some(sparse) => sparse.blocks.clone(),
            None => self.dims.feed_forwards(),
        }
    }

    /// The kinds of layers, by their feed-forward blocks, with the number of layers of each.
    pub fn layer_kinds(&self) -> Vec<(usize, Vec<FeedForwardSpec>)> {
        let sparse = self.sparse.as_ref();
        let num_sparse = sparse.map_or(0, |sparse| sparse.count(self.num_layers));
        let dense = (self.num_layers - num_sparse, self.dims.feed_forwards());
        let sparse = sparse.map(|sparse| (num_sparse, sparse.blocks.clone()));
        [dense].into_iter().chain(sparse).filter(|(count, _)| *count > 0).collect()
    }

    /// Number of attentions and feed-forward blocks of all layers.
    pub fn num_blocks(&self) -> usize {
        let blocks =
            |(count, blocks): (usize, Vec<_>)| count * (self.attentions.len() + blocks.len());
        self.layer_kinds().into_iter().map(blocks).sum()
    }
}

impl FeedForwardSpec {
    /// The norm's scale in the layer of that path.
    pub fn scale(&self, layer: &str) -> String {
        format!("{layer}/{}/scale", self.norm)
    }

    /// The input kernels: `wi`, or `wi_0`, `wi_1`, ...
    pub fn inputs(&self, layer: &str) -> Vec<KernelSpec> {
        let name = |index: usize| match self.activations.len() {
            1 => "wi".to_string(),
            _ => format!("wi_{index}"),
        };
        let path = |index| format!("{}/{}", self.path(layer), name(index));
        let kernel = |index| KernelSpec { path: path(index), divisor: None };
        (0..self.activations.len()).map(kernel).collect()
    }

    /// The output kernel.
    pub fn output(&self, layer: &str) -> KernelSpec {
        KernelSpec { path: format!("{}/wo", self.path(layer)), divisor: None }
    }

    /// Returns the number of places that rows of `length` tokens have at experts in training, or of the tokens without
    /// experts. The rows are one of `parts` equal parts of a batch.
    pub fn num_places(&self, (rows, length): (usize, usize), parts: usize) -> f64 {
        let places = match &self.experts {
            None => rows * length,
            Some(experts) => {
                let groups = experts.groups((rows, length), parts, RoutingMode::Training);
                experts.num_experts * groups.count * groups.capacity
            }
        };
        places as f64
    }

    /// Path of the router's projection in the layer of that path.
    pub fn router(&self, layer: &str) -> String {
        format!("{layer}/{}/router/router_weights/w", self.name)
    }

    fn path(&self, layer: &str) -> String {
        match self.experts {
            Some(_) => format!("{layer}/{}/expert", self.name),
            None => format!("{layer}/{}", self.name),
        }
    }
}
