//! Soft prompts as google-research/prompt-tuning adds them to flaxformer's T5: learned rows among the encoder's tokens or in its
//! layers, for all examples or for those of a task, of which a run trains no others (Lester et al. 2021, arXiv:2104.08691).
//!
//! ```text
//! prompt_layers.PromptEncoder.prompt_factory = @train_prompts.Prompt
//! train_prompts.Prompt.prompt = @prompts.Prompt()
//! prompts.Prompt.prompt_init = @prompts.from_sample_of_embeddings()
//! ```

mod combine;
mod initial;
mod layers;
mod masks;
mod multitask;
mod per_layer;
mod prompts;

pub use combine::CombinationFn;
pub use initial::PromptInit;
pub use layers::{PromptEncoder, PromptEncoderDecoder, PromptFactory};
pub use masks::{AddFakePrompt, CreatePromptEncoderMask, EncoderMask, PromptEncoderAttentionMask};
pub use multitask::{MultiTaskPrompt, TrainMultiTaskPrompt};
pub use per_layer::{EncoderLayerFactory, PromptEncoderLayer};
pub use prompts::{Prompt, TrainPrompt};
