//! The lengths that masks add for a prompt. All tokens attend to the rows of a prompt, wherever they are, so that only the length
//! is a choice, and whether these rows attend to all of themselves or to those before.

use crate::gin::{Configurable, ValueKind};

/// The mask of an encoder's positions and its prompt. Source: prompt-tuning `masks.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.masks.create_prompt_encoder_mask")]
pub struct CreatePromptEncoderMask {
    /// The length of the prompt, as prompts.Prompt has it.
    pub prompt_length: usize,
}

/// The positions of the prompt among those that are not padding. Source: prompt-tuning `masks.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.masks.add_fake_prompt")]
pub struct AddFakePrompt {
    /// The length of the prompt, as prompts.Prompt or the prompt of several tasks has it.
    pub prompt_length: usize,
    /// Whether the first token of an example names its task.
    #[gin(default = false)]
    pub multitask: bool,
}

/// The mask of an encoder's positions and its prompt, of which a row sees only those before it. Source: prompt-tuning
/// `extended/masks.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.masks.prompt_encoder_attention_mask")]
pub struct PromptEncoderAttentionMask {
    /// The length of the prompt, as prompts.Prompt or the prompt of several tasks has it.
    pub prompt_length: usize,
    /// Only None is supported, with which all other pairs see each other.
    #[gin(default = AllAttention)]
    pub allowable_attention: AllAttention,
    /// Whether the first token of an example names its task.
    #[gin(default = false)]
    pub multitask: bool,
}

/// Any mask of an encoder with a prompt.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum EncoderMask {
    /// One with which all positions see each other.
    All(CreatePromptEncoderMask),
    /// One with which rows of the prompt see those before them.
    Causal(PromptEncoderAttentionMask),
}

gimlet_gin::only! {
    /// Pairs of tokens and rows.
    AllAttention = ValueKind::None, "tokens and rows of the prompt see each other, and a row sees those before it";
}

impl EncoderMask {
    /// The length of the prompt, with its parameter.
    pub(super) fn length(&self) -> (String, usize) {
        let (name, length) = match self {
            Self::All(mask) => ("masks.create_prompt_encoder_mask", mask.prompt_length),
            Self::Causal(mask) => ("masks.prompt_encoder_attention_mask", mask.prompt_length),
        };
        (format!("{name}.prompt_length"), length)
    }

    /// Whether the first token of an example names its task, with the parameter.
    pub(super) fn multitask(&self) -> (String, bool) {
        let (name, multitask) = match self {
            Self::All(_) => ("masks.create_prompt_encoder_mask", false),
            Self::Causal(mask) => ("masks.prompt_encoder_attention_mask", mask.multitask),
        };
        (format!("multitask of {name}"), multitask)
    }
}
