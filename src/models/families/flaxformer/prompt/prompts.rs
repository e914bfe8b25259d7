//! The prompt itself, and its place among the tokens.

use super::combine::CombinationFn;
use super::initial::PromptInit;
use crate::gin::{Configurable, Evaluator, FromGin, Ref, Reported, Value, ValueKind, is_same};
use crate::models::parts::{LearnedRows, RowsKind, StreamDims};
use crate::nn::Dtype;

/// A prompt among the embedded tokens. Source: prompt-tuning `train/prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.prompts.Prompt")]
pub struct TrainPrompt {
    /// The prompt.
    pub prompt: Prompt,
    /// Its place.
    #[gin(default = Ref(CombinationFn::default()))]
    pub combine: Ref<CombinationFn>,
}

/// Learned rows, the parameter `encoder/prompt/prompt/prompt`. Source: prompt-tuning `prompts.py`.
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
    /// Format of activations.
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
            place: self.combine.place(),
            initializer: self.prompt.prompt_init.drawn(),
            given: self.prompt.prompt_init.given(),
        }
    }
}

/// The logical axes of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptAxes;

impl PromptAxes {
    fn value(items: fn(Vec<Value>) -> ValueKind) -> ValueKind {
        let axis = |name: &str| Value::unplaced(ValueKind::Str(name.to_string()));
        items(["prompt", "prompt_embed"].map(axis).to_vec())
    }
}

impl FromGin for PromptAxes {
    fn expected() -> String {
        Self::value(ValueKind::Tuple).to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        let is = |items| is_same(&value.kind, &Self::value(items));
        match is(ValueKind::Tuple) || is(ValueKind::List) {
            true => Ok(Self),
            false => {
                let reason = "every process has the whole prompt, so that files hold it";
                Err(cx.unfit_because(value, &Self::expected(), reason))
            }
        }
    }

    fn to_gin(&self) -> Option<ValueKind> {
        Some(Self::value(ValueKind::Tuple))
    }
}
