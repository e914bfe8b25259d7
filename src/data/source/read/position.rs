//! Positions in a file of records.

use serde::{Deserialize, Serialize};

/// The place of a frame's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameStart {
    /// Bytes of the file before it.
    pub(super) byte: u64,
    /// Decompressed bytes before it.
    pub(super) offset: u64,
}

/// A position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordPosition {
    /// Records before it.
    pub records: u64,
    /// Uncompressed bytes before it, or before the batch that contains it.
    pub bytes: u64,
    /// Rows of that batch before it.
    pub within: u64,
    /// The start of the frame from which decompression reaches it.
    pub frame: FrameStart,
}
