//! What can go wrong with a file, each with the path as the user named it and a remedy.

use std::io;

use super::path::Path;

/// A path that cannot be used, or an operation on a file that failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// There is no such file or directory.
    #[error(
        "cannot {operation} `{path}`: not found; check the spelling and that it exists{mapped}"
    )]
    NotFound {
        /// The path as given.
        path: String,
        /// What was tried: `open`, `list`.
        operation: &'static str,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// The user may not do this.
    #[error(
        "cannot {operation} `{path}`: permission denied; check the owner and mode of the path and \
         of its folder{mapped}"
    )]
    PermissionDenied {
        /// The path as given.
        path: String,
        /// What was tried.
        operation: &'static str,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// No space is left on the device, or a quota or file size limit is reached.
    #[error(
        "cannot {operation} `{path}`: the disk is full; free some space, or keep fewer checkpoints \
         (`SaveCheckpointConfig.keep`){mapped}"
    )]
    DiskFull {
        /// The path as given.
        path: String,
        /// What was tried.
        operation: &'static str,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// A remote path under no mapped prefix.
    #[error(
        "cannot reach `{path}`: remote storage is read through a local copy; name its folder with \
         `--path_map {prefix}=DIR` or in GIMLET_PATH_MAP"
    )]
    Unmapped {
        /// The path as given.
        path: String,
        /// The bucket, repository or host to map.
        prefix: String,
    },
    /// A text that is not a path.
    #[error("`{path}` is not a path: {reason}")]
    Invalid {
        /// The text as given.
        path: String,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// Anything else the system reports.
    #[error("cannot {operation} `{path}`: {source}{mapped}")]
    Io {
        /// The path as given.
        path: String,
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        source: io::Error,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
}

impl StorageError {
    /// The error of an operation on a path, for callers that stream and meet an `io::Error` later.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let mapped = match path.local() {
            Ok(local) if path.is_remote() => format!(" (mapped to `{}`)", local.display()),
            _ => String::new(),
        };
        let path = path.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path, operation, mapped },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::PermissionDenied { path, operation, mapped }
            }
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull { path, operation, mapped },
            kind => {
                let source = match kind {
                    io::ErrorKind::IsADirectory => {
                        io::Error::new(kind, "it is a folder, expected a file")
                    }
                    io::ErrorKind::NotADirectory => {
                        io::Error::new(kind, "a part of the path is a file, expected folders")
                    }
                    _ => source,
                };
                Self::Io { path, operation, source, mapped }
            }
        }
    }

    /// Whether nothing is at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the user's command is wrong rather than the world: exit status 2 instead of 1.
    pub fn is_users(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory};
        match self {
            Self::NotFound { .. } | Self::Unmapped { .. } | Self::Invalid { .. } => true,
            Self::Io { source, .. } => matches!(source.kind(), IsADirectory | NotADirectory),
            Self::PermissionDenied { .. } | Self::DiskFull { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_for_a_file_is_the_users_mistake() {
        let path = Path::parse("/data/x").unwrap();
        for (kind, words) in [
            (io::ErrorKind::IsADirectory, "it is a folder, expected a file"),
            (io::ErrorKind::NotADirectory, "a part of the path is a file"),
        ] {
            let error = StorageError::new("open", &path, kind.into());
            assert!(error.is_users() && error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn each_cause_names_path_operation_and_remedy() {
        let path = Path::parse("/data/x").unwrap();
        for (kind, expected) in [
            (io::ErrorKind::NotFound, "cannot open `/data/x`: not found"),
            (io::ErrorKind::PermissionDenied, "cannot open `/data/x`: permission denied; check"),
            (io::ErrorKind::StorageFull, "cannot open `/data/x`: the disk is full; free"),
            (io::ErrorKind::QuotaExceeded, "cannot open `/data/x`: the disk is full; free"),
        ] {
            let message = StorageError::new("open", &path, kind.into()).to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
