//! The prompt itself, and its place among the tokens.

use super::combine::CombinationFn;
use super::initial::PromptInit;
use crate::gin::{Configurable, Ref};
use crate::models::flaxformer::values::only_axes;
use crate::models::parts::{LearnedRows, RowsKind, RowsPlace, StreamDims};
use crate::nn::Dtype;

/// A prompt among the embedded tokens, or in a layer. Source: prompt-tuning `train/prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.prompts.Prompt")]
pub struct TrainPrompt {
    /// The prompt.
    pub prompt: Prompt,
    /// Its place.
    #[gin(default = Ref(CombinationFn::default()))]
    pub combine: Ref<CombinationFn>,
}

/// Learned rows, the parameter `encoder/prompt/prompt/prompt`, or of a layer. Source: prompt-tuning `prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.Prompt")]
pub struct Prompt {
    /// Number of rows.
    pub length: usize,
    /// Their initial values.
    #[gin(default = PromptInit::uniform())]
    pub prompt_init: PromptInit,
    /// Only ('prompt', 'prompt_embed') is supported, with which every process has the whole prompt.
    #[gin(default = PromptAxes)]
    pub axis_names: PromptAxes,
    /// Format of its rows: that of activations, or float32, which the network turns into that of activations.
    #[gin(default = Dtype::Float32)]
    pub dtype: Dtype,
}

impl TrainPrompt {
    /// The prompt as a part of a network.
    pub fn rows(&self, stream: StreamDims) -> LearnedRows {
        LearnedRows {
            kind: RowsKind::Prompt,
            count: self.prompt.length,
            stream,
            place: self.combine.place().unwrap_or(RowsPlace::Before),
            is_causal: false,
            initializer: self.prompt.prompt_init.drawn(),
            given: self.prompt.prompt_init.given(),
            tasks: None,
        }
    }

    /// Finds a way of combining that is for prompts of layers.
    pub(in crate::models) fn check(&self) -> Result<(), String> {
        match self.combine.place() {
            Some(_) => Ok(()),
            None => Err(format!(
                "train.prompts.Prompt.combine is {}, which is for prompts of layers, expected one among tokens, such as \
                 @train.prompts.prefix_prompt",
                self.combine.name()
            )),
        }
    }
}

only_axes! {
    /// The logical axes of a prompt.
    PromptAxes = ["prompt", "prompt_embed"], "every process has the whole prompt, so that files hold it";
}
