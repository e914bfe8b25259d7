//! Options for writing weights for transformers and PyTorch.

use crate::array::DType;
use crate::names::mesh::MeshNorms;
use gimlet_storage::Path;
use serde_json::{Map, Value};

/// The file in which a model of transformers keeps its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// `model.safetensors`.
    #[default]
    Safetensors,
    /// `pytorch_model.bin`, a state dictionary of `torch.save`.
    Torch,
    /// `flax_model.msgpack`, of transformers' Flax models.
    Flax,
}

impl Weights {
    /// The name of the file, which becomes visible last and only when it is complete.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Safetensors => "model.safetensors",
            Self::Torch => "pytorch_model.bin",
            Self::Flax => "flax_model.msgpack",
        }
    }
}

/// Properties of a model that a checkpoint does not describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HuggingFaceOptions {
    /// The file of weights to write.
    pub weights: Weights,
    /// The type of the written weights; `None` keeps their types.
    pub dtype: Option<DType>,
    /// The SentencePiece model, copied as `spiece.model`.
    pub vocabulary: Option<Path>,
    /// Number of sentinel tokens after the vocabulary's own pieces; by default 100, 0 if the pieces
    /// include sentinels, and 125 for ByT5.
    pub extra_ids: Option<usize>,
    /// T5X's `mlp_activations`. `None` takes those of `folder`, or without one the usual ones of the family.
    pub mlp_activations: Option<Vec<String>>,
    /// Whether the embedding maps to logits, as the model's configuration says; it must agree with the arrays.
    pub logits_via_embedding: Option<bool>,
    /// The folder of transformers whose configuration and tokenizer are carried over.
    pub folder: Option<Path>,
    /// Whether no tokenizer is written, neither that of `folder` nor ByT5's.
    pub without_tokenizer: bool,
    /// Further entries of `config.json`, which win over those of `folder`.
    pub config: Map<String, Value>,
    /// Number of attention heads; by default that of `folder`, or of the relative position bias.
    pub num_heads: Option<usize>,
    /// The `model_type` of transformers; by default that of `folder`, or derived from the arrays.
    pub model_type: Option<String>,
    /// LongT5's window on either side; by default 127. Its attention is local when `model_type` is
    /// `longt5` and the arrays have no global attention.
    pub local_radius: Option<usize>,
    /// Number of tokens that LongT5 summarizes in a global token; by default 16.
    pub global_block_size: Option<usize>,
    /// Entries of `generation_config.json` beside the ids of special tokens.
    pub generation: Map<String, Value>,
}

/// Properties of Mesh TensorFlow's variables that a checkpoint does not describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshOptions {
    /// The type of the written parameters; `None` keeps their types.
    pub dtype: Option<DType>,
    /// The names of norms.
    pub norms: MeshNorms,
}
