//! T5 and LongT5 as flaxformer puts them together: modules that gin files choose and connect, each with parameters of its own.
//!
//! ```text
//! t5_architecture.EncoderDecoder.encoder_factory = @t5_architecture.Encoder
//! t5_architecture.Encoder.layer_factory = @t5_architecture.EncoderLayer
//! t5_architecture.EncoderLayer.attention = @dense_attention.MultiHeadDotProductAttention()
//! ```
//! They describe the network of every T5 here, with the same names of parameters. Values that describe another network are
//! refused: some where they are read (`values`), those that contradict each other by `check`.
//!
//! Source: flaxformer `architectures/t5/t5_architecture.py`, `architectures/longt5/` and `components/`.

mod attention;
mod check;
mod components;
mod dense;
mod describe;
mod ia3;
mod long_attention;
mod long_stacks;
mod moe;
mod parts;
mod prompt;
mod stacks;
mod values;

pub use attention::{AttentionFn, MultiHeadAttention, MultiQueryAttention};
pub use components::{Dropout, Embed, InitFn, RelativePositionBiases, T5LayerNorm};
pub use dense::{DenseGeneral, MlpBlock};
pub use ia3::{IA3, IA3Attention};
pub use long_attention::{
    EncoderLocalSelfAttention, EtcTransientGlobalSelfAttention, LongAttention,
    RelativePositionBiasesGeneral,
};
pub use long_stacks::{LongEncoder, LongEncoderDecoder, LongEncoderLayer};
pub use moe::{MoeLayer, Router, SparseDecoder, SparseEncoder};
pub use prompt::{
    AddFakePrompt, CombinationFn, CreatePromptEncoderMask, EncoderLayerFactory, EncoderMask,
    MultiTaskPrompt, Prompt, PromptEncoder, PromptEncoderAttentionMask, PromptEncoderDecoder,
    PromptEncoderLayer, PromptFactory, PromptInit, TrainMultiTaskPrompt, TrainPrompt,
};
pub use stacks::{
    Decoder, DecoderFactory, DecoderLayer, DecoderOnly, Encoder, EncoderDecoder, EncoderFactory,
    EncoderLayer, LayerRemat,
};
