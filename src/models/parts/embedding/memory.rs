//! The description of memory tokens (Burtsev et al. 2020, arXiv:2006.11527). Source: t5-experiments `modeling_t5.py`.

use crate::models::parts::{StreamDims, param};
use crate::nn::{Initializer, ParamSpec};

/// Learned rows before the embedded tokens of an encoder, which are the same for every example. Whoever reads tokens or
/// their encoding reads them too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryTokens {
    /// Number of rows.
    pub count: usize,
    /// The stream that they begin.
    pub stream: StreamDims,
    /// Their initial values.
    pub initializer: Initializer,
}

impl MemoryTokens {
    /// Name of the rows.
    pub(super) const NAME: &str = "encoder/memory_tokens/embedding";

    /// The rows: `[memory, embed]`.
    pub fn param(&self) -> ParamSpec {
        let shape = vec![self.count, self.stream.emb_dim];
        param(Self::NAME.to_string(), shape, vec!["memory", "embed"], self.initializer)
    }
}
