//! The places of a prompt among the tokens.

use crate::gin::{Configurable, ValueKind};
use crate::models::parts::RowsPlace;

/// Any place of a prompt.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum CombinationFn {
    /// Before the tokens.
    Prefix(PrefixPrompt),
    /// After the first token.
    AfterBos(PrefixPromptAfterBos),
    /// After the tokens.
    Suffix(SuffixPrompt),
}

/// The prompt before the tokens. Source: prompt-tuning `train/prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.train.prompts.prefix_prompt",
    ignored(
        prompt = "the network gives it",
        x_embed = "the network gives it",
        x = "the network gives it"
    )
)]
pub struct PrefixPrompt {}

/// The prompt after the first token. Source: prompt-tuning `train/prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.train.prompts.prefix_prompt_after_bos",
    ignored(
        prompt = "the network gives it",
        x_embed = "the network gives it",
        x = "the network gives it"
    )
)]
pub struct PrefixPromptAfterBos {}

/// The prompt after the tokens of each example. Source: prompt-tuning `train/prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.train.prompts.suffix_prompt",
    ignored(
        prompt = "the network gives it",
        x_embed = "the network gives it",
        x = "the network gives it"
    )
)]
pub struct SuffixPrompt {
    /// Only False is supported.
    #[gin(default = OfEncoder)]
    pub decoder_only: OfEncoder,
    /// Whether the last token of an example, which ends the text, comes after the prompt.
    #[gin(default = true)]
    pub before_eos: bool,
}

gimlet_gin::only! {
    /// A prompt of an encoder.
    OfEncoder = ValueKind::Bool(false), "prompts are among the tokens of an encoder";
}

impl Default for CombinationFn {
    fn default() -> Self {
        Self::Prefix(PrefixPrompt {})
    }
}

impl CombinationFn {
    /// The place of the rows.
    pub(super) fn place(&self) -> RowsPlace {
        match self {
            Self::Prefix(_) => RowsPlace::Before,
            Self::AfterBos(_) => RowsPlace::AfterFirst,
            Self::Suffix(SuffixPrompt { before_eos: true, .. }) => RowsPlace::BeforeLast,
            Self::Suffix(SuffixPrompt { before_eos: false, .. }) => RowsPlace::AfterLast,
        }
    }
}
