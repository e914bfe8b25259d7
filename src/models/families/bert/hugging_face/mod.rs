//! BERT as Hugging Face's transformers and t5-experiments have it: the names of its tensors, and the meaning of its
//! `config.json`.

mod config;
mod describe;
mod gin;
mod keys;
mod names;
mod stated;
mod trained_layout;

use crate::checkpoint::{HeadFacts, HuggingFaceFamily};

pub use self::gin::network;
pub use stated::stated;
pub use trained_layout::{TrainedLayout, trained_layout};

/// The family as those see it who read and write checkpoints.
pub const FAMILY: HuggingFaceFamily = HuggingFaceFamily {
    name: "a BERT",
    models: &[
        "bert.BertForPreTraining",
        "bert.BertForMaskedLM",
        "bert.BertForSequenceClassification",
    ],
    tables: names::TABLES,
    keys: keys::KEYS,
    aliases: &[],
    unheld: keys::UNHELD,
    special_ids: &[],
    byte_rows: None,
    // The embedding always maps to logits, and nothing is divided before.
    head: |_| Ok(HeadFacts::default()),
    facts: config::facts,
    gin: gin::gin,
    describe: describe::describe,
    exchanged: |_, _, _| Ok(None),
};
