//! What is wrong with packed bytes.

use std::io;

/// An error about the bytes rather than about reading them.
pub(super) fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
