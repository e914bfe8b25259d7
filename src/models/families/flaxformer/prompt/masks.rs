//! The lengths that masks add for a prompt. All positions attend to the rows of a prompt, wherever they are, so that only the
//! length is a choice.

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
    /// The length of the prompt, as prompts.Prompt has it.
    pub prompt_length: usize,
    /// Only False is supported.
    #[gin(default = OneTask)]
    pub multitask: OneTask,
}

gimlet_gin::only! {
    /// One prompt for all examples.
    OneTask = ValueKind::Bool(false), "all examples of a run have one prompt, and no token is the number of a task";
}
