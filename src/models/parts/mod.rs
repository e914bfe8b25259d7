//! The parts of a layer. A part is one folder that answers every question about itself: its parameters, its work and memory, what it
//! exchanges with other processes, and with torch its tensors. [`transformer`](super::transformer) puts parts together and sums
//! their answers.

mod attention;
mod class_head;
mod embedding;
mod encoder_ends;
mod experts;
mod feed_forward;
mod kernel;
mod lora;
mod part;
mod relative_position;
mod rotary;
mod work;

#[cfg(feature = "torch")]
mod product;

pub use attention::{Attention, AttentionSpec, Kernels, LearnedBias, Pairs, Reach};
pub use class_head::{ClassHead, ReadPosition};
pub use embedding::{
    EMBEDDING_INIT, GivenParam, LayerRows, LearnedRows, LogitsKernel, RowsKind, RowsPlace,
    TaskNaming, TaskRows, TaskUnion, TokenEmbedding,
};
pub use encoder_ends::EncoderEnds;
pub use feed_forward::{FeedForward, FeedForwardDropout, FeedForwardSpec};
pub use kernel::{KernelScale, KernelSpec, ScaledSide, biased_kernel, kernel, param};
pub use lora::LoRA;
pub use part::{NormSpec, Part, PassContext, StreamDims, Tokens};
pub use relative_position::RelativeBias;
pub use rotary::Rotary;
pub use work::{ForwardWork, MatrixProducts};

#[cfg(feature = "torch")]
pub use attention::AttentionBlock;
#[cfg(feature = "torch")]
pub use feed_forward::FeedForwardBlock;
#[cfg(feature = "torch")]
pub use product::{Load, Product, ResidualStream, RowTensors, biased_product, norm};
