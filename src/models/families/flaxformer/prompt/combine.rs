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
    /// In a layer, instead of the first rows.
    Replace(ReplacePrompt),
    /// In a layer, added to the first rows.
    Add(AddPrompt),
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

/// A layer's prompt instead of the first rows that enter the layer. Source: prompt-tuning `extended/train/per_layer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.train.per_layer.replace_prompt",
    ignored(
        prompt = "the network gives it",
        x_embed = "the network gives it",
        x = "the network gives it"
    )
)]
pub struct ReplacePrompt {}

/// A layer's prompt added to the first rows that enter the layer. Source: prompt-tuning `extended/train/per_layer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.train.per_layer.add_prompt",
    ignored(
        prompt = "the network gives it",
        x_embed = "the network gives it",
        x = "the network gives it"
    )
)]
pub struct AddPrompt {}

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
    /// The place of the rows among tokens; `None` in layers.
    pub(super) fn place(&self) -> Option<RowsPlace> {
        match self {
            Self::Prefix(_) => Some(RowsPlace::Before),
            Self::AfterBos(_) => Some(RowsPlace::AfterFirst),
            Self::Suffix(SuffixPrompt { before_eos: true, .. }) => Some(RowsPlace::BeforeLast),
            Self::Suffix(SuffixPrompt { before_eos: false, .. }) => Some(RowsPlace::AfterLast),
            Self::Replace(_) | Self::Add(_) => None,
        }
    }

    /// Whether the rows come before all tokens.
    pub(super) fn is_prefix(&self) -> bool {
        self.place() == Some(RowsPlace::Before)
    }

    /// Its name, as messages have it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Prefix(_) => "@train.prompts.prefix_prompt",
            Self::AfterBos(_) => "@train.prompts.prefix_prompt_after_bos",
            Self::Suffix(_) => "@train.prompts.suffix_prompt",
            Self::Replace(_) => "@per_layer.replace_prompt",
            Self::Add(_) => "@per_layer.add_prompt",
        }
    }
}
