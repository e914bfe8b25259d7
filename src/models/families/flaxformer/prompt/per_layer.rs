//! Prompts in the layers of an encoder. Source: prompt-tuning `extended/train/per_layer.py`.

use super::combine::CombinationFn;
use super::prompts::TrainPrompt;
use crate::gin::{Configurable, Ref};
use crate::models::flaxformer::stacks::EncoderLayer;
use crate::models::parts::LayerRows;

/// Any layer of an encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum EncoderLayerFactory {
    /// T5's.
    Plain(Box<EncoderLayer>),
    /// One with a prompt.
    Prompted(Box<PromptEncoderLayer>),
}

/// A layer of an encoder with a prompt of its own, the parameter `encoder/layers_0/prompt/prompt/prompt`. Source: prompt-tuning
/// `extended/train/per_layer.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.per_layer.PromptEncoderLayer")]
pub struct PromptEncoderLayer {
    /// Parameters of the layer without it.
    #[gin(flatten)]
    pub layer: EncoderLayer,
    /// The prompt, with @per_layer.replace_prompt or @per_layer.add_prompt as `combine`. It is at most as long as that of the
    /// encoder.
    pub prompt_factory: Ref<TrainPrompt>,
}

impl EncoderLayerFactory {
    /// The layer without its prompt.
    pub(in crate::models::families::flaxformer) fn layer(&self) -> &EncoderLayer {
        match self {
            Self::Plain(layer) => layer,
            Self::Prompted(prompted) => &prompted.layer,
        }
    }

    /// Its prompt.
    pub(in crate::models::families::flaxformer) fn prompt(&self) -> Option<&TrainPrompt> {
        match self {
            Self::Plain(_) => None,
            Self::Prompted(prompted) => Some(&prompted.prompt_factory),
        }
    }
}

impl TrainPrompt {
    /// The prompt as a part of each layer.
    pub(in crate::models::families::flaxformer) fn layer_rows(&self) -> LayerRows {
        LayerRows {
            count: self.prompt.length,
            replaces: matches!(self.combine.0, CombinationFn::Replace(_)),
            initializer: self.prompt.prompt_init.drawn(),
            given: self.prompt.prompt_init.given(),
        }
    }

    /// Finds a prompt of layers that cannot meet the `length` rows of the encoder's prompt.
    pub(super) fn check_in_layer(&self, length: usize) -> Result<(), String> {
        if self.combine.place().is_some() {
            return Err(format!(
                "combine of per_layer.PromptEncoderLayer.prompt_factory is {}, expected @per_layer.replace_prompt or \
                 @per_layer.add_prompt",
                self.combine.name()
            ));
        }
        match self.prompt.length {
            0 => Err(
                "prompts.Prompt.length of per_layer.PromptEncoderLayer is 0, expected at least 1"
                    .to_string(),
            ),
            own if own > length => Err(format!(
                "prompts.Prompt.length of per_layer.PromptEncoderLayer is {own}, and the prompt of the encoder has {length} rows, \
                 which those of a layer meet, expected at most {length}: lower it, or raise PROMPT_LENGTH"
            )),
            _ => Ok(()),
        }
    }
}
