//! The location of the bytes behind a path; no operation on them.

use std::io;
use std::path::PathBuf;

use super::error::StorageError;
use super::path::Path;
use super::remote::Remote;

/// Location of the bytes of a path.
pub(super) enum Location {
    /// On this machine.
    Disk(PathBuf),
    /// In a bucket, on the hub or on the web.
    Elsewhere(Remote),
}

impl Path {
    /// Location of the bytes: also on disk if the prefix of a remote path is mapped to disk.
    pub(super) fn place(&self) -> Result<Location, StorageError> {
        match self.local() {
            Ok(local) => Ok(Location::Disk(local)),
            Err(StorageError::Unmapped { .. }) => Ok(Location::Elsewhere(Remote::connect(self)?)),
            Err(error) => Err(error),
        }
    }

    /// Location on disk; remote paths do not support the operation.
    pub(super) fn on_disk(
        &self,
        operation: &'static str,
        remedy: &str,
    ) -> Result<PathBuf, StorageError> {
        match self.place()? {
            Location::Disk(local) => Ok(local),
            Location::Elsewhere(remote) => Err(remote.unsupported(operation, remedy)),
        }
    }

    /// Names the operation and the path in an error of the disk.
    pub(super) fn done<T>(
        &self,
        operation: &'static str,
        result: io::Result<T>,
    ) -> Result<T, StorageError> {
        result.map_err(|error| StorageError::new(operation, self, error))
    }
}
