//! How weights are written for transformers and PyTorch.

use crate::checkpoint::array::DType;
use crate::checkpoint::names::hugging_face;
use crate::storage::Path;

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
    /// The name of the file; it appears last and whole.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Safetensors => hugging_face::SAFETENSORS,
            Self::Torch => hugging_face::TORCH,
            Self::Flax => hugging_face::FLAX,
        }
    }
}

/// What a checkpoint does not say of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HuggingFaceOptions {
    /// The file of weights to write.
    pub weights: Weights,
    /// The type of the weights; `None` keeps theirs.
    pub dtype: Option<DType>,
    /// The SentencePiece model, copied as `spiece.model`.
    pub vocabulary: Option<Path>,
    /// Sentinel tokens behind the vocabulary's own pieces; by default 100, none where those hold them,
    /// and ByT5's 125.
    pub extra_ids: Option<usize>,
    /// Attention heads; by default those of the bias of relative positions.
    pub num_heads: Option<usize>,
    /// `t5`, `mt5`, `umt5` or `longt5`; by default what the arrays look like.
    pub model_type: Option<String>,
    /// LongT5's window on either side; by default 127. Its attention is local where `model_type` is
    /// `longt5` and the arrays have no global attention.
    pub local_radius: Option<usize>,
    /// Tokens that LongT5 sums up in a global one; by default 16.
    pub global_block_size: Option<usize>,
}
