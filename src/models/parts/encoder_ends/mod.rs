//! The beginning and the end of an encoder alone, in the way of BERT: embeddings of positions and types that are added to
//! those of tokens, a norm of the sum; and after the layers a head for masked tokens.

mod spec;

#[cfg(feature = "torch")]
mod tensors;

pub use spec::EncoderEnds;
