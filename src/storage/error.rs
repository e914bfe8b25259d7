//! Errors of files, each with the path as the user named it and a remedy.

use std::borrow::Cow;
use std::io;

use super::credentials::Credentials;
use super::path::{Path, split_scheme};
use super::remote::{Contact, Failure, GivenUp};

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
        /// The attempted operation: `open`, `list`.
        operation: Cow<'static, str>,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// The user does not have permission.
    #[error(
        "cannot {operation} `{path}`: permission denied; check the owner and mode of the path and \
         of its folder{mapped}"
    )]
    PermissionDenied {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// No space is left on the device, or a quota or file size limit is reached.
    #[error(
        "cannot {operation} `{path}`: the disk is full; free some space, or name another place (a run that \
         keeps fewer checkpoints, `SaveCheckpointConfig.keep`, needs less){mapped}"
    )]
    DiskFull {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// The file system is read-only.
    #[error(
        "cannot {operation} `{path}`: its file system is read-only; name another place, or have it mounted for \
         writing{mapped}"
    )]
    ReadOnly {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
    /// A remote path under no mapped prefix, in a place that needs a folder of this machine.
    #[error(
        "cannot reach `{path}`: {reason}; name a local copy with `--path_map {prefix}=DIR` or in \
         GIMLET_PATH_MAP"
    )]
    Unmapped {
        /// The path as given.
        path: String,
        /// The bucket, repository or host to map.
        prefix: String,
        /// Reason why only a local folder can be used.
        reason: &'static str,
    },
    /// No server answers at that address.
    #[error(
        "cannot {operation} `{path}`: {reason}; check the network, or name a local copy with \
         `--path_map {prefix}=DIR`"
    )]
    Unreachable {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// Description of the failure, and the number of attempts.
        reason: String,
        /// The bucket, repository or host to map.
        prefix: String,
    },
    /// The server requires credentials, or other credentials.
    #[error("cannot {operation} `{path}`: access denied{said}; {remedy}")]
    Denied {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// `: ` and the server's words, else empty.
        said: String,
        /// The credentials that were used, and those to set.
        remedy: String,
    },
    /// The file has changed since it was opened.
    #[error(
        "cannot continue reading `{path}` at byte {offset}: it was changed since it was opened; start \
         again when it no longer changes"
    )]
    Changed {
        /// The path as given.
        path: String,
        /// Offset of the requested bytes.
        offset: u64,
    },
    /// The file was removed while it was being read.
    #[error(
        "cannot continue reading `{path}` at byte {offset}: it was removed after it was opened; put it \
         back"
    )]
    Vanished {
        /// The path as given.
        path: String,
        /// Offset of the requested bytes.
        offset: u64,
    },
    /// The store gave an unexpected answer in all attempts.
    #[error("cannot {operation} `{path}`: {reason}")]
    Failed {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// Description of the failure, and the number of attempts.
        reason: String,
    },
    /// The received bytes do not have the store's checksum.
    #[error("cannot {operation} `{path}`: {reason}")]
    Damaged {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// Both checksums, and a remedy.
        reason: String,
    },
    /// The storage does not support the operation.
    #[error("cannot {operation} `{path}`: {remedy}")]
    Unsupported {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// An alternative for the user.
        remedy: String,
    },
    /// A text that is not a path.
    #[error("`{path}` is not a path: {reason}")]
    Invalid {
        /// The text as given.
        path: String,
        /// Description of the problem and of the expected text.
        reason: String,
    },
    /// Anything else the system reports.
    #[error("cannot {operation} `{path}`: {source}{mapped}")]
    Io {
        /// The path as given.
        path: String,
        /// The attempted operation.
        operation: Cow<'static, str>,
        /// The system's reason.
        source: io::Error,
        /// ` (mapped to ...)` for a mapped remote path, else empty.
        mapped: String,
    },
}

impl StorageError {
    /// Whether a retry may succeed later: a disk was full, or a server did not answer.
    pub fn may_pass(&self) -> bool {
        use io::ErrorKind::{
            AlreadyExists, InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory,
            UnexpectedEof,
        };
        let lasting = [
            AlreadyExists,
            InvalidData,
            InvalidFilename,
            InvalidInput,
            IsADirectory,
            NotADirectory,
            UnexpectedEof,
        ];
        match self {
            Self::DiskFull { .. } | Self::Unreachable { .. } | Self::Failed { .. } => true,
            Self::PermissionDenied { .. } | Self::Denied { .. } | Self::Damaged { .. } => true,
            Self::Io { source, .. } => !lasting.contains(&source.kind()),
            _ => false,
        }
    }

    /// The error of an operation on a path, for callers that stream and meet an `io::Error` later.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let operation = Cow::Borrowed(operation);
        let source = match source.downcast::<Self>() {
            // The inner error of remote reading is more precise.
            Ok(error) => return error,
            Err(source) => source,
        };
        let mapped = match path.local() {
            Ok(local) if path.is_remote() => format!(" (mapped to `{}`)", local.display()),
            _ => String::new(),
        };
        let path = path.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path, operation, mapped },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path, operation, mapped },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, operation, mapped },
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
                    _ if source.raw_os_error() == Some(libc::EMFILE) => io::Error::new(
                        kind,
                        "as many files are open as may be; raise the limit with `ulimit -n`",
                    ),
                    _ => source,
                };
                Self::Io { path, operation, source, mapped }
            }
        }
    }

    /// Converts a failure of an operation on a remote path.
    pub(super) fn of_failure(
        operation: impl Into<Cow<'static, str>>,
        path: &Path,
        failure: Failure,
    ) -> Self {
        let (operation, given) = (operation.into(), path.to_string());
        let failed = |operation, path, reason| Self::Failed { path, operation, reason };
        match failure {
            Failure::NotFound => Self::NotFound { path: given, operation, mapped: String::new() },
            Failure::Denied(said) => {
                let said = if said.is_empty() { said } else { format!(": {said}") };
                Self::Denied { path: given, operation, said, remedy: credentials_for(path) }
            }
            Failure::PastEnd => failed(operation, given, "it ends before that".to_string()),
            Failure::Changed(offset) => Self::Changed { path: given, offset },
            Failure::Vanished(offset) => Self::Vanished { path: given, offset },
            Failure::Temporary { reason, contact: Contact::Never, .. }
            | Failure::GivenUp(GivenUp { reason, unreachable: true }) => {
                let prefix = path.mappable_prefix();
                Self::Unreachable { path: given, operation, reason, prefix }
            }
            Failure::Temporary { reason, .. }
            | Failure::GivenUp(GivenUp { reason, .. })
            | Failure::Permanent(reason) => failed(operation, given, reason),
            Failure::Damaged(reason) => Self::Damaged { path: given, operation, reason },
            Failure::Conflict => {
                failed(operation, given, "another process writes it at the same time".to_string())
            }
            Failure::Unsupported(remedy) => Self::Unsupported { path: given, operation, remedy },
        }
    }

    /// Whether nothing is at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the user's command is wrong, rather than the environment: exit status 2 instead of
    /// 1.
    pub fn is_users(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory};
        match self {
            Self::NotFound { .. }
            | Self::Unmapped { .. }
            | Self::Unsupported { .. }
            | Self::Invalid { .. } => true,
            Self::Io { source, .. } => matches!(source.kind(), IsADirectory | NotADirectory),
            _ => false,
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotFound { .. } | Self::Vanished { .. } => io::ErrorKind::NotFound,
            Self::PermissionDenied { .. } | Self::Denied { .. } => io::ErrorKind::PermissionDenied,
            Self::DiskFull { .. } => io::ErrorKind::StorageFull,
            Self::ReadOnly { .. } => io::ErrorKind::ReadOnlyFilesystem,
            Self::Unsupported { .. } => io::ErrorKind::Unsupported,
            Self::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }
}

/// For readers that support only `io::Error`; [`StorageError::new`] recovers the original error.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// Advice for the user when a server denies access.
fn credentials_for(path: &Path) -> String {
    let scheme = split_scheme(path.as_str()).map_or("", |(scheme, _)| scheme);
    let Some(credentials) = Credentials::of(scheme) else {
        return "Gimlet logs in to no web server: use a signed URL, or a local copy with --path_map"
            .to_string();
    };
    match credentials.found() {
        Some(place) => {
            format!("the credentials in {place} do not suffice: {}", credentials.remedy)
        }
        None => format!("no credentials were found: {}", credentials.remedy),
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
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "cannot open `/data/x`: its file system is read-only; name another place",
            ),
        ] {
            let message = StorageError::new("open", &path, kind.into()).to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let message = StorageError::new("open", &path, error).to_string();
        assert!(message.ends_with("raise the limit with `ulimit -n`"), "{message}");
    }
}
