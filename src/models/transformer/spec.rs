//! The description of a Transformer, from which everything else about it follows: its parameters,
//! its passes in training and prediction, its memory and its operations.

use std::sync::Arc;

use super::layer_arrays::LayerArrays;
use super::sparse::SparseLayers;
use crate::models::contract::memory::StepShape;
use crate::models::parts::{
    Attention, AttentionSpec, ClassHead, EncoderEnds, FeedForward, FeedForwardDropout,
    FeedForwardSpec, GivenParam, LayerRows, LearnedRows, LoRA, NormSpec, Part, Reach, RelativeBias,
    Rotary, StreamDims, TokenEmbedding, Tokens,
};
use crate::nn::{
    Activation, BlockLayout, Distribution, Dtype, FanMode, Initializer, NormKind, RematPolicy,
    TransformerEngineConfig,
};

/// The addend of the mean square in norms; fixed in T5X's `layers.py`.
pub const LAYER_NORM_EPSILON: f64 = 1e-6;

/// A Transformer: a stack whose result the heads read, and perhaps an encoder before it whose result that stack reads.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerSpec {
    /// The embedding of tokens, which all stacks share, and their logits.
    pub tokens: TokenEmbedding,
    /// Learned rows among the encoder's tokens, if there are some.
    pub learned_rows: Option<LearnedRows>,
    /// The parameters before and after the layers of an encoder alone, in the way of BERT.
    pub encoder_ends: Option<EncoderEnds>,
    /// The head that names the class of a row, if there is one.
    pub class_head: Option<ClassHead>,
    /// The encoder before the last stack, if there is one.
    pub encoder: Option<StackSpec>,
    /// The last stack: a decoder, or an encoder alone.
    pub last: StackSpec,
    /// Probability that an activation is dropped in training.
    pub dropout_rate: f64,
    /// Formats of products in 8-bit floats.
    pub fp8: Option<TransformerEngineConfig>,
    /// The arrays in which the parameters of layers lie.
    pub layer_arrays: LayerArrays,
}

/// Layers one after the other, biases of relative position, and perhaps a norm after them. An encoder may have the
/// names of the decoder's parameters, which it then reads too.
#[derive(Clone, Debug, PartialEq)]
pub struct StackSpec {
    /// The path that all its parameters begin with.
    pub name: &'static str,
    /// Number of layers.
    pub num_layers: usize,
    /// The attentions of a layer, in order. Feed-forward blocks follow them.
    pub attentions: &'static [AttentionSpec],
    /// The biases of relative position, if there are some.
    pub position: Option<RelativeBias>,
    /// The rotary positions, if there are some.
    pub rotary: Option<Rotary>,
    /// The norm after the layers, and its dropout.
    pub end: StackEnd,
    /// The stack's own positions that a position attends to.
    pub reach: Reach,
    /// The blocks that it attends to in each layer, with [`Reach::Layout`].
    pub layouts: Arc<[BlockLayout]>,
    /// Dimensions of a layer.
    pub dims: LayerDims,
    /// The layers with experts, if there are some.
    pub sparse: Option<SparseLayers>,
    /// Additions of low rank to its kernels, if there are some.
    pub lora: Option<Arc<LoRA>>,
    /// Learned rows that each layer has among its inputs, if there are some.
    pub layer_rows: Option<Arc<LayerRows>>,
}

/// The end of a stack, after its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// No norm, as where layers end in one (BERT).
    Open,
    /// A norm (BERT with norms before).
    Norm,
    /// A norm, and dropout of its result (T5).
    NormAndDropout {
        /// Whether positions share its mask.
        is_shared: bool,
    },
}

/// The variants of layers by which families differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStyle {
    /// The kind of norms.
    pub norm: NormKind,
    /// Whether a part normalizes the stream after it has added to it, instead of what it reads of the stream.
    pub norm_comes_after: bool,
    /// Whether projections have biases.
    pub has_biases: bool,
    /// The dropouts of feed-forward blocks.
    pub feed_forward_dropout: FeedForwardDropout,
    /// Probability that an attention weight is dropped, if it is not that of all activations.
    pub attention_dropout_rate: Option<f64>,
    /// Whether learned vectors multiply keys, values, and what is between the projections of feed-forward blocks (IA3; Liu
    /// et al. 2022, arXiv:2205.05638).
    pub has_scales: bool,
}

impl LayerStyle {
    /// T5's.
    pub const T5: Self = Self {
        norm: NormKind::Rms,
        norm_comes_after: false,
        has_biases: false,
        feed_forward_dropout: FeedForwardDropout::Between,
        attention_dropout_rate: None,
        has_scales: false,
    };
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
    /// Those of them whose queries depend on the row too.
    pub num_cdq_heads: usize,
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
    /// The variants of its parts.
    pub style: LayerStyle,
    /// The tensors that each layer keeps for its backward pass.
    pub remat_policy: RematPolicy,
    /// The initial values of its parameters.
    pub initializers: LayerInitializers,
}

/// The initial values of the parameters of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerInitializers {
    /// Kernels of queries.
    pub query: Initializer,
    /// The other kernels of attentions.
    pub attention: Initializer,
    /// Kernels of feed-forward blocks.
    pub feed_forward: Initializer,
    /// Scales of norms.
    pub norm: Initializer,
}

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
            norm: Initializer::ONES,
        }
    }

    /// The same values times a factor.
    pub fn times(self, factor: f64) -> Self {
        let Self { query, attention, feed_forward, norm } = self;
        let [query, attention, feed_forward, norm] =
            [query, attention, feed_forward, norm].map(|values| values.times(factor));
        Self { query, attention, feed_forward, norm }
    }
}

impl TransformerSpec {
    /// The same network with projections in fp8, if `fp8` is given.
    pub fn with_fp8(self, fp8: Option<&TransformerEngineConfig>) -> Self {
        Self { fp8: fp8.cloned().or(self.fp8), ..self }
    }

    /// The same network with additions of low rank to kernels of all stacks, if `lora` is given.
    pub fn with_lora(self, lora: Option<&LoRA>) -> Self {
        let Some(lora) = lora else { return self };
        let lora = Some(Arc::new(lora.clone()));
        let encoder = self.encoder.map(|stack| StackSpec { lora: lora.clone(), ..stack });
        Self { encoder, last: StackSpec { lora, ..self.last }, ..self }
    }

    /// The same network without additions of low rank to kernels.
    pub fn without_lora(self) -> Self {
        let encoder = self.encoder.map(|stack| StackSpec { lora: None, ..stack });
        Self { encoder, last: StackSpec { lora: None, ..self.last }, ..self }
    }

    /// About how many positions of the last stack have logits of tokens.
    pub fn num_predicted(&self, shape: &StepShape) -> usize {
        let positions = shape.rows * shape.last_length();
        match (&self.encoder_ends, self.class_head) {
            (Some(ends), _) => ends.num_predicted(positions),
            (None, Some(_)) => 0,
            (None, None) => positions,
        }
    }

    /// The stacks, the encoder first.
    pub fn stacks(&self) -> impl Iterator<Item = &StackSpec> {
        self.encoder.iter().chain([&self.last])
    }

    /// Number of learned rows among the encoder's tokens.
    pub fn num_learned_rows(&self) -> usize {
        self.learned_rows.as_ref().map_or(0, LearnedRows::total)
    }

    /// The parameters of learned rows whose initial values arrays give.
    pub fn given_params(&self) -> Vec<GivenParam> {
        let own = self.learned_rows.as_ref();
        let own = own.map(|rows| GivenParam { param: rows.param(), given: rows.given.clone() });
        let of_layers = self.stacks().flat_map(StackSpec::given_params);
        own.into_iter().chain(of_layers).filter(|param| !param.given.is_empty()).collect()
    }

    /// The stacks with the rows that pass through each.
    ///
    /// # Panics
    /// The shape has another number of lengths.
    pub fn stacks_of(&self, shape: &StepShape) -> impl Iterator<Item = (&StackSpec, Tokens)> {
        let StepShape { rows, num_processes, ref lengths } = *shape;
        assert_eq!(lengths.len(), self.stacks().count(), "each stack has a length");
        let mut lengths = lengths.clone();
        // Of the encoder, the first of two stacks.
        lengths[0] += self.learned_rows.as_ref().map_or(0, LearnedRows::growth);
        let encodings = [0].into_iter().chain(lengths.clone());
        let lengths = lengths.into_iter().zip(encodings);
        let tokens =
            lengths.map(move |(length, encoding)| Tokens { rows, length, encoding, num_processes });
        self.stacks().zip(tokens)
    }
}

impl StackSpec {
    /// The same stack as one of `count` processes computes it that divide heads and feed-forward blocks.
    pub fn share(&self, count: usize) -> Self {
        let dims = LayerDims {
            num_heads: self.dims.num_heads / count,
            mlp_dim: self.dims.mlp_dim / count,
            adapter_dim: self.dims.adapter_dim.map(|dim| dim / count),
            ..self.dims.clone()
        };
        let sparse = self.sparse.as_ref().map(|sparse| sparse.share(count));
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

    /// The learned rows of its layers.
    pub(super) fn given_params(&self) -> impl Iterator<Item = GivenParam> {
        let of_layer = |rows: &LayerRows, layer: &str| rows.given(layer, self.dims.stream());
        let rows = self.layer_rows.as_ref();
        rows.into_iter().flat_map(move |rows| self.layers().map(move |it| of_layer(rows, &it)))
    }

    /// Path of the embedding of relative positions that all layers share, if they share one.
    pub fn shared_rel_embedding(&self) -> Option<String> {
        self.position.filter(|position| !position.per_layer).map(|_| RelativeBias::path(self.name))
    }

    /// Path of the embedding of relative positions of the layer of that path, if it has its own.
    pub fn own_rel_embedding(&self, layer: &str) -> Option<String> {
        self.position.filter(|position| position.per_layer).map(|_| RelativeBias::path(layer))
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

    /// Path of the norm after the layers, if there is one.
    pub fn last_norm(&self) -> Option<String> {
        (self.end != StackEnd::Open).then(|| format!("{0}/{0}_norm", self.name))
    }
}

impl LayerDims {
    /// The stream that parts read and add to.
    pub fn stream(&self) -> StreamDims {
        StreamDims {
            emb_dim: self.emb_dim,
            dtype: self.dtype,
            norm: NormSpec {
                kind: self.style.norm,
                comes_after: self.style.norm_comes_after,
                epsilon: self.layer_norm_epsilon,
                initializer: self.initializers.norm,
            },
            has_biases: self.style.has_biases,
        }
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

    /// The attentions of a layer as parts.
    pub fn attention_parts(&self) -> impl Iterator<Item = Attention> {
        let dims = &self.dims;
        self.attentions.iter().map(|spec| Attention {
            spec: *spec,
            stream: dims.stream(),
            num_heads: dims.num_heads,
            num_cdq_heads: dims.num_cdq_heads,
            head_dim: dims.head_dim,
            float32_logits: dims.float32_attention_logits,
            scales_logits: dims.scale_attn_logits,
            reach: self.reach,
            query: dims.initializers.query,
            others: dims.initializers.attention,
            has_scales: dims.style.has_scales,
        })
    }

    /// The parts of the layer with that number, in order.
    pub fn parts(&self, index: usize) -> Vec<Box<dyn Part>> {
        self.parts_with(self.feed_forwards(index))
    }

    /// The kinds of layers, by their parts, with the number of layers of each.
    pub fn layer_kinds(&self) -> Vec<(usize, Vec<Box<dyn Part>>)> {
        let sparse = self.sparse.as_ref();
        let num_sparse = sparse.map_or(0, |sparse| sparse.count(self.num_layers));
        let dense = (self.num_layers - num_sparse, self.dims.feed_forwards());
        let sparse = sparse.map(|sparse| (num_sparse, sparse.blocks.clone()));
        let kinds = [dense].into_iter().chain(sparse).filter(|(count, _)| *count > 0);
        kinds.map(|(count, blocks)| (count, self.parts_with(blocks))).collect()
    }

    /// The sum of numbers of all parts of all layers.
    pub fn sum_of_parts(&self, number: impl Fn(&dyn Part) -> f64) -> f64 {
        let of_layer =
            |parts: &[Box<dyn Part>]| parts.iter().map(|part| number(&**part)).sum::<f64>();
        self.layer_kinds().iter().map(|(count, parts)| *count as f64 * of_layer(parts)).sum()
    }

    /// Number of parts of all layers.
    pub fn num_parts(&self) -> usize {
        self.layer_kinds().iter().map(|(count, parts)| count * parts.len()).sum()
    }

    fn parts_with(&self, feed_forwards: Vec<FeedForwardSpec>) -> Vec<Box<dyn Part>> {
        let attentions = self.attention_parts().map(|part| Box::new(part) as Box<dyn Part>);
        let feed_forwards = self.as_parts(feed_forwards);
        attentions.chain(feed_forwards.map(|part| Box::new(part) as Box<dyn Part>)).collect()
    }

    /// Feed-forward blocks of a layer as parts.
    pub fn as_parts(&self, blocks: Vec<FeedForwardSpec>) -> impl Iterator<Item = FeedForward> {
        let dims = &self.dims;
        let (stream, initializer) = (dims.stream(), dims.initializers.feed_forward);
        let LayerStyle { feed_forward_dropout: drops, has_scales, .. } = dims.style;
        let part = move |spec| FeedForward { spec, stream, initializer, drops, has_scales };
        blocks.into_iter().map(part)
    }
}
