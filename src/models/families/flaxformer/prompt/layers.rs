//! The encoder with a prompt, and the network that has it.

use super::masks::{AddFakePrompt, CreatePromptEncoderMask};
use super::prompts::TrainPrompt;
use crate::gin::{Configurable, Ref};
use crate::models::flaxformer::components::Embed;
use crate::models::flaxformer::stacks::{DecoderFactory, Encoder};
use crate::models::flaxformer::values::NoScan;
use crate::models::parts::{LearnedRows, StreamDims};
use crate::nn::Dtype;

/// T5's network with a prompt in the encoder. Source: prompt-tuning `train/layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.train.layers.PromptEncoderDecoder",
    ignored(dtype = "it is the format of masks; those of activations are the components'"),
    ignored(spmd_annotations = "layers have arrays of their own")
)]
pub struct PromptEncoderDecoder {
    /// The encoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub encoder_factory: Ref<PromptEncoder>,
    /// The decoder.
    #[gin(call(supplies = ["shared_token_embedder", "spmd_annotations"]))]
    pub decoder_factory: Ref<DecoderFactory>,
    /// Only False is supported.
    #[gin(default = NoScan)]
    pub scan_layers: NoScan,
    /// The embedding of inputs and targets; it must be given.
    #[gin(default = None)]
    pub shared_token_embedder_factory: Option<Ref<Embed>>,
    /// The mask of the encoder: the length of the prompt.
    pub encoder_mask_factory: Ref<CreatePromptEncoderMask>,
    /// The mask of the decoder: the length of the prompt.
    pub add_fake_prompt_factory: Ref<AddFakePrompt>,
}

/// T5's encoder with a prompt. Source: prompt-tuning `train/layers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.train.layers.PromptEncoder")]
pub struct PromptEncoder {
    /// Parameters of the encoder without it.
    #[gin(flatten)]
    pub encoder: Encoder,
    /// The prompt.
    pub prompt_factory: Ref<TrainPrompt>,
    /// The mask of the encoder's result: the length of the prompt.
    pub add_fake_prompt_factory: Ref<AddFakePrompt>,
}

impl PromptEncoderDecoder {
    /// The prompt's lengths, each with the parameter that sets it.
    pub(in crate::models::families::flaxformer) fn lengths(&self) -> [(String, usize); 4] {
        let encoder = &self.encoder_factory;
        [
            ("prompts.Prompt.length", encoder.prompt_factory.prompt.length),
            (
                "masks.create_prompt_encoder_mask.prompt_length",
                self.encoder_mask_factory.prompt_length,
            ),
            ("masks.add_fake_prompt.prompt_length", self.add_fake_prompt_factory.prompt_length),
            ("masks.add_fake_prompt.prompt_length", encoder.add_fake_prompt_factory.prompt_length),
        ]
        .map(|(name, length)| (name.to_string(), length))
    }

    /// The format of the prompt's activations, with its parameter.
    pub(in crate::models::families::flaxformer) fn dtype(&self) -> (String, Dtype) {
        let prompt = &self.encoder_factory.prompt_factory.prompt;
        ("prompts.Prompt.dtype".to_string(), prompt.dtype)
    }

    /// The prompt as a part of the network.
    pub(in crate::models::families::flaxformer) fn rows(&self, stream: StreamDims) -> LearnedRows {
        self.encoder_factory.prompt_factory.rows(stream)
    }
}
