//! The errors of files that cannot be read.

use std::io;

use super::position::RecordPosition;
use crate::error::DataError;
use gimlet_storage::Path;

/// The error of a file that cannot be read beyond a position.
pub(super) fn read_error(path: &Path, position: RecordPosition, source: io::Error) -> DataError {
    let RecordPosition { records, bytes, .. } = position;
    DataError::Read { file: path.to_string(), line: records, offset: bytes, source }
}

/// The error of a position after the end of a file.
pub(super) fn shorter(path: &Path) -> DataError {
    DataError::State { reason: format!("`{path}` is shorter than it was") }
}
