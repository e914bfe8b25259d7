//! Errors of packed bytes.

use std::io;

/// An error about the bytes themselves rather than about reading them.
pub(super) fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
