//! The models: an encoder and a decoder, or a decoder alone, and how they decode.

use gimlet_gin::Configurable;

use super::layers::{MakeLayerStack, VocabEmbedding};
use crate::mesh_tf::values::{
    NoEnsemble, NoLossFn, NoSinusoids, NoSmoothing, NoTokenDropout, SharedEmbedding,
};

/// A stack with embedding, logits and loss. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.transformer.Unitransformer",
    ignored(
        layer_stack = "the model gives it",
        input_vocab_size = "the model gives it",
        output_vocab_size = "the model gives it",
        autoregressive = "the model gives it",
        layout = "the run gives it",
        mesh_shape = "the run gives it",
        max_length = "there are no positions in the embedding"
    )
)]
pub struct Unitransformer {
    /// Width of the residual stream.
    #[gin(default = 1024)]
    pub d_model: u64,
    /// Whether the embedding also maps to logits. The decoder's counts.
    #[gin(default = false)]
    pub shared_embedding_and_softmax_weights: bool,
    /// Only 0.0 is supported.
    #[gin(default = NoSmoothing)]
    pub label_smoothing: NoSmoothing,
    /// Weight of the squared logarithm of the softmax's normalizer. The decoder's counts.
    #[gin(default = 1e-4)]
    pub z_loss: f64,
    /// Name of its variables; a model has 'encoder' and 'decoder', or 'transformer'.
    #[gin(default = "transformer".to_string())]
    pub name: String,
    /// The vocabulary's size is rounded up to a multiple of it.
    #[gin(default = 128)]
    pub vocab_divisor: u64,
    /// Only None is supported.
    #[gin(default = NoEnsemble)]
    pub ensemble: NoEnsemble,
    /// Only None is supported.
    #[gin(default = NoLossFn)]
    pub loss_fn: NoLossFn,
    /// Only False is supported: positions are relative.
    #[gin(default = true)]
    pub positional_embedding: bool,
    /// Only False is supported.
    #[gin(default = NoSinusoids)]
    pub sinusoid_positional_embedding: NoSinusoids,
    /// Whether a decoder alone sees all of its inputs at once.
    #[gin(default = false)]
    pub input_full_attention: bool,
    /// Whether the loss of a decoder alone leaves out its inputs.
    #[gin(default = false)]
    pub loss_on_targets_only: bool,
    /// Divisor of the summed loss; None is the number of targets in a batch, padding included. The decoder's counts.
    #[gin(default = None)]
    pub loss_denominator: Option<f64>,
    /// Only 0.0 is supported.
    #[gin(default = NoTokenDropout)]
    pub token_dropout_rate: NoTokenDropout,
    /// The embedding.
    #[gin(method, call(inherits))]
    pub embedding: VocabEmbedding,
}

/// Makes an encoder and a decoder, in scopes of these names. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.transformer.make_bitransformer",
    ignored(
        input_vocab_size = "the run gives it",
        output_vocab_size = "the run gives it",
        layout = "the run gives it",
        mesh_shape = "the run gives it"
    )
)]
pub struct MakeBitransformer {
    /// Name of the encoder's variables: 'encoder', or 'decoder' for an encoder that shares the decoder's.
    #[gin(default = "encoder".to_string())]
    pub encoder_name: String,
    /// Name of the decoder's variables; only 'decoder' is supported.
    #[gin(default = "decoder".to_string())]
    pub decoder_name: String,
    /// The encoder's layers.
    #[gin(method, call(inherits, scope = "encoder"))]
    pub encoder_layers: MakeLayerStack,
    /// The encoder.
    #[gin(method, call(inherits, scope = "encoder", supplies = ["name"]))]
    pub encoder: Unitransformer,
    /// The decoder's layers.
    #[gin(method, call(inherits, scope = "decoder"))]
    pub decoder_layers: MakeLayerStack,
    /// The decoder.
    #[gin(method, call(inherits, scope = "decoder", supplies = ["name"]))]
    pub decoder: Unitransformer,
    /// Both together.
    #[gin(method, call(inherits))]
    pub bitransformer: Bitransformer,
}

/// An encoder and a decoder. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "mesh_tensorflow.transformer.transformer.Bitransformer",
    ignored(encoder = "`make_bitransformer` gives it", decoder = "`make_bitransformer` gives it")
)]
pub struct Bitransformer {
    /// Only True is supported.
    #[gin(default = SharedEmbedding)]
    pub shared_embedding: SharedEmbedding,
}

/// The decoding of an encoder-decoder. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "Bitransformer.decode",
    ignored(
        inputs = "the run gives it",
        variable_dtype = "the run gives it",
        decode_length_multiplier = "sequences end at `max_decode_length`",
        decode_length_constant = "sequences end at `max_decode_length`"
    )
)]
pub struct Decode {
    /// Beams; 1 takes the most probable token or a sample.
    #[gin(default = 1)]
    pub beam_size: u64,
    /// Exponent of the length penalty of beams.
    #[gin(default = 0.6)]
    pub alpha: f64,
    /// Temperature of samples; 0 takes the most probable token.
    #[gin(default = 0.0)]
    pub temperature: f64,
    /// Most probable tokens that samples are drawn from; -1 is all.
    #[gin(default = -1)]
    pub sampling_keep_top_k: i64,
    /// The longest sequence; None is the length of the inputs.
    #[gin(default = None)]
    pub max_decode_length: Option<u64>,
}

/// The decoding of a decoder alone. Source: mesh `transformer/transformer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "Unitransformer.sample_autoregressive",
    ignored(
        partial_sequences = "the run gives it",
        stop_at_token = "the vocabulary's end of a sequence",
        max_steps = "sequences fill the lengths of inputs and targets",
        variable_dtype = "the run gives it",
        has_partial_sequences = "the run gives it",
        remove_partial_sequences = "the inputs are always removed",
        never_end = "sequences end at the vocabulary's end of a sequence",
        bos_id = "sequences begin with padding"
    )
)]
pub struct SampleAutoregressive {
    /// Temperature of samples; 0 takes the most probable token.
    #[gin(default = 0.0)]
    pub temperature: f64,
    /// Most probable tokens that samples are drawn from; -1 is all.
    #[gin(default = -1)]
    pub sampling_keep_top_k: i64,
}

/// A decoder alone, which `run` makes in the root scope: it has no name in Mesh TensorFlow, where files cannot bind it.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "mesh_tensorflow.transformer.utils.build_model.lm")]
pub struct LanguageModel {
    /// Its layers.
    #[gin(method, call(inherits))]
    pub layers: MakeLayerStack,
    /// Embedding, logits and loss.
    #[gin(method, call(inherits))]
    pub decoder: Unitransformer,
}
