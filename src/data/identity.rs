//! The identity of the data that a run reads: its examples and their order. A saved position belongs to one identity. Messages
//! show it as a line of words, which positions of older checkpoints hold in its place.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The data that a position belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataIdentity {
    /// The task or mixture.
    pub name: String,
    /// Its split.
    pub split: String,
    /// Whether examples come from a cache.
    pub is_cached: bool,
    /// The features of a row with their lengths, and the packing.
    pub rows: String,
    /// The rows of a batch.
    pub batch_size: usize,
    /// The streams that make them.
    pub num_streams: usize,
    /// The number of files, and a checksum of their names.
    pub files: String,
    /// The order of the files and examples, with the seed.
    pub order: String,
}

/// Reads the identity in a checkpoint: fields, or the words of older ones.
pub(super) fn of_checkpoint<'a, D: Deserializer<'a>>(stored: D) -> Result<DataIdentity, D::Error> {
    match serde_json::Value::deserialize(stored)? {
        serde_json::Value::String(words) => DataIdentity::of_words(&words).ok_or_else(|| {
            D::Error::custom(format!("`{words}` does not describe the data of a position"))
        }),
        fields => DataIdentity::deserialize(fields).map_err(D::Error::custom),
    }
}

impl DataIdentity {
    /// Whether both are the same data but for the batch size, with which a position does not change.
    pub fn is_same_but_for_batch_size(&self, other: &Self) -> bool {
        Self { batch_size: other.batch_size, ..self.clone() } == *other
    }

    /// Whether both are the same split of the same task or mixture.
    pub fn is_same_split(&self, other: &Self) -> bool {
        (&self.name, &self.split) == (&other.name, &other.split)
    }

    /// Reads the words of older checkpoints.
    fn of_words(words: &str) -> Option<Self> {
        let (before, after) = words.rsplit_once(" batch ")?;
        let (batch_size, after) = after.split_once(" streams ")?;
        let (num_streams, after) = after.split_once(' ')?;
        let (files, order) = after.split_once(") ")?;
        let (name, before) = before.split_once(' ')?;
        let (split, rows) = before.split_once(' ')?;
        let cached = rows.strip_prefix("cached ");
        Some(Self {
            name: name.to_string(),
            split: split.to_string(),
            is_cached: cached.is_some(),
            rows: cached.unwrap_or(rows).to_string(),
            batch_size: batch_size.parse().ok()?,
            num_streams: num_streams.parse().ok()?,
            files: format!("{files})"),
            order: order.to_string(),
        })
    }
}

impl fmt::Display for DataIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, split, rows, batch_size, num_streams, files, order, .. } = self;
        let cached = if self.is_cached { " cached" } else { "" };
        write!(
            f,
            "{name} {split}{cached} {rows} batch {batch_size} streams {num_streams} {files} {order}"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::batches::DatasetState;

    #[test]
    fn words_of_older_checkpoints_are_read() {
        for cached in ["", " cached"] {
            let words = format!(
                "c4 train[:9%]{cached} inputs 64 targets 32 packed batch 8 streams 4 files 2 (0a1b2c3d) shuffled with 7"
            );
            let position = json!({"stream": words, "seed": 7, "batches": 3, "positions": {}});
            let read = serde_json::from_value::<DatasetState>(position).unwrap().data;
            assert_eq!((read.batch_size, read.num_streams, &*read.split), (8, 4, "train[:9%]"));
            assert_eq!(read.to_string(), words);
            assert_eq!(of_checkpoint(serde_json::to_value(&read).unwrap()).unwrap(), read);
        }
        let other = of_checkpoint(serde_json::Value::from("c4 train")).unwrap_err();
        assert_eq!(other.to_string(), "`c4 train` does not describe the data of a position");
    }
}
