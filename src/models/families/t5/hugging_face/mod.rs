//! T5, mT5, umT5, ByT5 and LongT5 as Hugging Face's transformers have them: the names of their tensors, and the meaning of
//! their `config.json`.

mod config;
mod describe;
mod gin;
mod keys;
mod names;
mod stated;

use crate::checkpoint::HuggingFaceFamily;

pub use stated::stated;

/// The family as those see it who read and write checkpoints.
pub const FAMILY: HuggingFaceFamily = HuggingFaceFamily {
    name: "a T5",
    models: &["models.EncoderDecoderModel"],
    tables: names::TABLES,
    keys: keys::KEYS,
    aliases: keys::ALIASES,
    unheld: keys::UNHELD,
    // Decoding starts with padding.
    special_ids: &[("decoder_start_token_id", 0), ("eos_token_id", 1), ("pad_token_id", 0)],
    byte_rows: Some(384),
    head: config::head,
    facts: config::facts,
    gin: gin::gin,
    describe: describe::describe,
    exchanged: describe::exchanged,
};
