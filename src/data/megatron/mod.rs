//! Data of Megatron-LM, as t5-experiments trains BERT on them: indexes of sentences, the samples that are drawn from them,
//! and their masked tokens, number for number (`megatron/data` of yurakuratov/t5-experiments `114dab5`).
//!
//! ```text
//! .bin, .idx -> [`Index`] -> [`mapping`]: sentences and length of each sample -> [`segments`] -> [`masking`]
//! ```
//! [`BertSamples`] gives the sample of any number, which depends on its number, the seed and the files alone. [`write_indexes`] makes
//! the files from texts, whose sentences [`Punkt`] finds.

mod blend;
mod blended;
mod index;
mod index_writer;
mod indexing;
mod mapping;
mod mapping_file;
mod masking;
mod numpy_random;
mod punkt;
mod reference_tests;
mod sample_rows;
mod samples;
mod segments;
mod token_type;
mod unfinished;

pub(crate) use blended::{Proportions, Samples};
pub(crate) use index::Index;
pub use index_writer::IndexFormat;
pub use indexing::{Conversions, Indexing, write_indexes};
pub(crate) use mapping::MappingOptions;
pub use punkt::{Parameters as PunktParameters, Punkt, Spaces};
pub(crate) use samples::{BertOptions, BertSamples};
pub(crate) use token_type::TokenType;

use std::ops::Range;

use md5::{Digest, Md5};

use crate::error::{DataError, file_error};
use gimlet_storage::Path;

/// The error of a `.bin` file of this size that ends before an item, whose place its index says.
pub(crate) fn cut_short(bin: &Path, item: &str, place: &Range<u64>, size: u64) -> DataError {
    let Range { start, end } = place;
    let reason = format!("{item} should lie at bytes {start} to {end} of {size}; is it complete?");
    file_error(bin, reason)
}

/// A checksum of bytes, in hexadecimal.
fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut sum = Md5::new();
    parts.into_iter().for_each(|part| sum.update(part));
    hexadecimal(sum)
}

/// The first half of a checksum in hexadecimal.
fn hexadecimal(sum: Md5) -> String {
    sum.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
