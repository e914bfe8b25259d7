//! The encoder with a prompt, and the network that has it.

use super::masks::{AddFakePrompt, EncoderMask};
use super::multitask::TrainMultiTaskPrompt;
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
    pub encoder_mask_factory: Ref<EncoderMask>,
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
    pub prompt_factory: Ref<PromptFactory>,
    /// The mask of the encoder's result: the length of the prompt.
    pub add_fake_prompt_factory: Ref<AddFakePrompt>,
}

/// Any prompt of an encoder.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum PromptFactory {
    /// One for all examples.
    One(Box<TrainPrompt>),
    /// One for each task.
    OfTasks(Box<TrainMultiTaskPrompt>),
}

/// A value with the parameter that sets it.
type Named<T> = (String, T);

impl PromptFactory {
    fn length(&self) -> Named<usize> {
        match self {
            Self::One(prompt) => ("prompts.Prompt.length".to_string(), prompt.prompt.length),
            Self::OfTasks(prompt) => prompt.length(),
        }
    }
}

impl PromptEncoderDecoder {
    fn prompt(&self) -> &PromptFactory {
        &self.encoder_factory.prompt_factory
    }

    /// The masks of the prompt's positions beside that of the encoder.
    fn fake_prompts(&self) -> [&AddFakePrompt; 2] {
        [&self.add_fake_prompt_factory, &self.encoder_factory.add_fake_prompt_factory]
    }

    /// The prompt's lengths, each with the parameter that sets it.
    pub(in crate::models::families::flaxformer) fn lengths(&self) -> [Named<usize>; 4] {
        let name = || "masks.add_fake_prompt.prompt_length".to_string();
        let [decoder, result] = self.fake_prompts().map(|mask| (name(), mask.prompt_length));
        [self.prompt().length(), self.encoder_mask_factory.length(), decoder, result]
    }

    /// Whether the first token of an example names its task, each with the parameter that says so.
    pub(in crate::models::families::flaxformer) fn multitask(&self) -> [Named<bool>; 4] {
        let is_of_tasks = matches!(self.prompt(), PromptFactory::OfTasks(_));
        let own = ("layers.PromptEncoder.prompt_factory of several tasks".to_string(), is_of_tasks);
        let name = || "masks.add_fake_prompt.multitask".to_string();
        let [decoder, result] = self.fake_prompts().map(|mask| (name(), mask.multitask));
        [own, self.encoder_mask_factory.multitask(), decoder, result]
    }

    /// The formats of the prompts' rows, each with its parameter.
    pub(in crate::models::families::flaxformer) fn dtypes(&self) -> Vec<Named<Dtype>> {
        let of = |prompt: &TrainPrompt| ("prompts.Prompt.dtype".to_string(), prompt.prompt.dtype);
        let own = match self.prompt() {
            PromptFactory::One(prompt) => of(prompt),
            PromptFactory::OfTasks(prompt) => prompt.dtype(),
        };
        [own].into_iter().chain(self.layer_prompt().map(of)).collect()
    }

    /// The prompt as a part of the network.
    pub(in crate::models::families::flaxformer) fn rows(&self, stream: StreamDims) -> LearnedRows {
        let rows = match self.prompt() {
            PromptFactory::One(prompt) => prompt.rows(stream),
            PromptFactory::OfTasks(prompt) => prompt.rows(stream),
        };
        let is_causal = matches!(*self.encoder_mask_factory, EncoderMask::Causal(_));
        LearnedRows { is_causal, ..rows }
    }

    /// Finds prompts that contradict themselves, in a network of that width and with so many ids.
    pub(in crate::models::families::flaxformer) fn check_prompts(
        &self,
        [emb_dim, num_ids]: [usize; 2],
    ) -> Result<(), String> {
        let (name, length) = self.prompt().length();
        if length == 0 {
            return Err(format!("{name} is 0, expected at least 1: set PROMPT_LENGTH"));
        }
        let combine = match self.prompt() {
            PromptFactory::One(prompt) => {
                prompt.check()?;
                Some(&*prompt.combine).filter(|combine| !combine.is_prefix())
            }
            PromptFactory::OfTasks(prompt) => {
                prompt.check([emb_dim, num_ids])?;
                None
            }
        };
        if let Some(prompt) = self.layer_prompt() {
            prompt.check_in_layer(length)?;
        }
        let others = match (&*self.encoder_mask_factory, self.layer_prompt()) {
            (EncoderMask::Causal(_), _) => "@extended.masks.prompt_encoder_attention_mask takes",
            (_, Some(_)) => "prompts of layers take",
            _ => return Ok(()),
        };
        match combine {
            None => Ok(()),
            Some(combine) => Err(format!(
                "train.prompts.Prompt.combine is {}, and {others} the first positions for those of the prompt, expected \
                 @train.prompts.prefix_prompt",
                combine.name()
            )),
        }
    }

    /// The prompt of each layer of the encoder.
    fn layer_prompt(&self) -> Option<&TrainPrompt> {
        self.encoder_factory.encoder.layer_factory.prompt()
    }
}
