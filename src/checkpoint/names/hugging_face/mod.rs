//! The names of transformers' tensors. A family of models brings its own as a [`HuggingFaceFamily`], and those who open and
//! write checkpoints hand it in; `table` translates by one of its tables.
//!
//! `encoder.block.3.layer.0.SelfAttention.q.weight` of a T5 is `encoder/layers_3/attention/query/kernel`, transposed.

mod family;
mod read;
mod table;

pub use family::{
    Arrays, ConfigFacts, Description, Exchanged, Families, HuggingFaceFamily, model_types, nameless,
};
pub use read::HeadFacts;
pub(crate) use read::{WeightsLayout, entries};
pub use table::{ModuleNames, NameTable, ParameterKind};
pub(crate) use table::{Rows, fitting};

#[cfg(test)]
mod tests;
