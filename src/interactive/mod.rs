//! L5: asking a model: T5X's `InteractiveModel`, which answers texts and scores targets.
//!
//! `spec`, `decoding`, `found` and `lines` are torch-free: they find the model, and read what is asked.
//! [`Engine`] holds the parameters and answers batches of texts; `file`, `files`, `prompt` and the layer `serve` give them to it.
//! `fill` does the same for models that restore masked tokens, with [`Filler`] in place of the engine.

mod decoding;
mod files;
mod fill;
mod found;
mod lines;
mod spec;

#[cfg(feature = "torch")]
mod continued;
#[cfg(feature = "torch")]
mod encoder;
#[cfg(feature = "torch")]
mod engine;
#[cfg(feature = "torch")]
mod file;
#[cfg(feature = "torch")]
mod prompt;
#[cfg(feature = "torch")]
mod stream;

pub use decoding::{Decoding, DecodingOptions};
pub use files::{AnswerFiles, FileWork, PredictFile, ScoreFiles};
pub use fill::{DEFAULT_TOPK, FillEncoder, check_topk};
pub use found::Found;
pub use lines::{Asked, BadLine, Text, lines_of};
pub use spec::InteractiveModel;

#[cfg(feature = "torch")]
pub use continued::{BadPrompt, Continued, END_OF_INPUTS, GivenPrompt};
#[cfg(feature = "torch")]
pub use encoder::Encoder;
#[cfg(feature = "torch")]
pub use engine::{Answer, Engine, EngineParts};
#[cfg(feature = "torch")]
pub use file::{Format, LinesError, Progress, generate_lines, score_lines};
#[cfg(feature = "torch")]
pub use files::answer_files;
#[cfg(feature = "torch")]
pub use fill::{FillProgress, Filler, Piece, fill_lines};
#[cfg(feature = "torch")]
pub use prompt::converse;
#[cfg(feature = "torch")]
pub use stream::TextStream;
