//! L3: models. A model is described by one [`TransformerSpec`](transformer::TransformerSpec), from which its parameters, passes
//! and estimates follow; its family says the rest through the [`contract`].
//!
//! ```text
//! families  ->  contract  <-  everything that trains, measures or predicts
//!        \        |
//!         transformer, heads, decoding  ->  parts
//! ```
//! Specs are torch-free: they describe the parameters and the configurables. The rest runs them.

pub mod contract;
pub mod decoding;
pub mod families;
pub mod given_rows;
pub mod heads;
pub mod hugging_face;
pub mod parts;
pub mod transformer;

mod spec;
mod vocabularies;

pub use contract::{
    BaseModel, FillSpec, ModuleSpec, NoFilling, NoPredictions, PredictionSpec, memory,
};
pub use families::bert::{BertForMaskedLM, BertForPreTraining};
pub use families::classification::{
    BertForSequenceClassification, T5EncoderForSequenceClassification,
};
pub use families::decoder_only::{DecoderOnlyModel, MoeDecoderOnlyModel};
pub use families::t5::{
    CrossEntropyEncoderDecoderModel, EncoderDecoderModel, MoeEncoderDecoderModel,
    PerceptronLossEncoderDecoderModel, WaywardPromptEncoderDecoderModel,
};
pub use families::{bert, decoder_only, flaxformer, t5};
pub use hugging_face::{HUGGING_FACE, gin_of, open};
pub use parts::LoRA;
pub use spec::Model;
pub use vocabularies::{GetInputVocabulary, GetOutputVocabulary};

#[cfg(feature = "torch")]
pub use contract::{
    Batch, BatchShape, FillingNetwork, HasNetwork, Network, Predict, PredictingNetwork, RowFacts,
    feature,
};
