//! Soft prompts as google-research/prompt-tuning adds them to flaxformer's T5: learned rows among the encoder's tokens, of which
//! a run trains no others (Lester et al. 2021, arXiv:2104.08691).
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
mod prompts;

pub use combine::CombinationFn;
pub use initial::PromptInit;
pub use layers::{PromptEncoder, PromptEncoderDecoder};
pub use masks::{AddFakePrompt, CreatePromptEncoderMask};
pub use prompts::{Prompt, TrainPrompt};
