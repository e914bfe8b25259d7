//! The description of learned rows among the embedded tokens of an encoder: memory tokens (Burtsev et al. 2020,
//! arXiv:2006.11527; t5-experiments `modeling_t5.py`) and soft prompts (Lester et al. 2021, arXiv:2104.08691; prompt-tuning
//! `train/prompts.py`).

use crate::models::given_rows::GivenRows;
use crate::models::parts::{StreamDims, param};
use crate::nn::{Initializer, ParamSpec};

/// Learned rows among the embedded tokens of an encoder, which are the same for every example. Whoever reads tokens or
/// their encoding reads them too.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedRows {
    /// Their name, axes and parameter.
    pub kind: RowsKind,
    /// Number of rows.
    pub count: usize,
    /// The stream that they enter.
    pub stream: StreamDims,
    /// Their place in the row of an example.
    pub place: RowsPlace,
    /// Their initial values, as far as they are drawn.
    pub initializer: Initializer,
    /// The initial values that then replace the first rows, in order.
    pub given: Vec<GivenRows>,
}

/// The use of learned rows, which says how they are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// Memory tokens, a part of the model.
    Memory,
    /// A soft prompt, which adapts a model that was trained without it.
    Prompt,
}

/// The place of learned rows in the row of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPlace {
    /// Before the tokens.
    Before,
    /// After the first token.
    AfterFirst,
    /// Before the last token that is not padding, which ends the text.
    BeforeLast,
    /// After the last token that is not padding.
    AfterLast,
}

impl RowsKind {
    /// Name of the rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "encoder/memory_tokens/embedding",
            Self::Prompt => "encoder/prompt/prompt/prompt",
        }
    }

    /// The axes of the rows and of their numbers.
    fn axes(self) -> [&'static str; 2] {
        match self {
            Self::Memory => ["memory", "embed"],
            // The rows of a prompt are whole on every device, so that files hold them.
            Self::Prompt => ["prompt", "prompt_embed"],
        }
    }

    /// The dimension that is their number.
    pub fn dimension(self) -> &'static str {
        match self {
            Self::Memory => "num_memory_tokens",
            Self::Prompt => "prompt_length",
        }
    }
}

impl LearnedRows {
    /// Memory tokens.
    pub fn memory(count: usize, stream: StreamDims, initializer: Initializer) -> Self {
        let (kind, place) = (RowsKind::Memory, RowsPlace::Before);
        Self { kind, count, stream, place, initializer, given: Vec::new() }
    }

    /// The rows as a parameter.
    pub fn param(&self) -> ParamSpec {
        let shape = vec![self.count, self.stream.emb_dim];
        param(self.kind.name().to_string(), shape, self.kind.axes().to_vec(), self.initializer)
    }
}
