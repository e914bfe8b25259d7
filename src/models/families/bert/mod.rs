//! BERT: an encoder alone that restores masked tokens (Devlin et al. 2018, arXiv:1810.04805), with the positions and the
//! places of norms of t5-experiments.

pub mod hugging_face;

mod model;
mod spec;

#[cfg(feature = "torch")]
mod network;

pub use model::{BertForMaskedLM, BertForPreTraining};
pub use spec::{
    AbsolutePositions, BertConfig, BertHeads, NoPositions, PositionEmbedding,
    RelativeAttentionBias, RotaryPositions,
};

#[cfg(feature = "torch")]
pub use network::Bert;
