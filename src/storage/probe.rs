//! Checks the operations that a run needs in a folder: each operation is tried with a small
//! temporary file.

use std::path::PathBuf;

use super::error::StorageError;
use super::location::Location;
use super::path::{Path, split_scheme};
use super::process::Process;
use super::remote::Remote;

/// An operation that a run needs, and the result of trying it.
#[derive(Debug)]
pub struct Probe {
    /// `list`, `write`, `read`, `write on condition`, `write in parts`, `copy`, `delete`.
    pub operation: &'static str,
    /// The provider's name of the permission; empty if there is none.
    pub permission: &'static str,
    /// Result of the attempt.
    pub outcome: Outcome,
}

/// The result of an attempt.
#[derive(Debug)]
pub enum Outcome {
    /// It succeeded.
    Allowed,
    /// It failed.
    Refused(StorageError),
    /// It could not be tried, or is not needed here, for this reason.
    Untried(&'static str),
}

const OPERATIONS: [&str; 7] =
    ["list", "write", "read", "write on condition", "write in parts", "copy", "delete"];

/// The permissions of the operations, by the scheme of paths.
const PERMISSIONS: [(&str, [&str; 7]); 3] = [
    (
        "gs",
        [
            "storage.objects.list",
            "storage.objects.create",
            "storage.objects.get",
            "storage.objects.create with storage.objects.delete",
            "storage.objects.create with storage.multipartUploads.create and \
             storage.multipartUploads.abort",
            "storage.objects.create with storage.objects.get",
            "storage.objects.delete",
        ],
    ),
    (
        "s3",
        [
            "s3:ListBucket",
            "s3:PutObject",
            "s3:GetObject",
            "s3:PutObject",
            "s3:PutObject with s3:AbortMultipartUpload",
            "s3:PutObject with s3:GetObject",
            "s3:DeleteObject",
        ],
    ),
    (
        "az",
        [
            "containers/blobs/read (of a shared access signature: l)",
            "containers/blobs/write (of a shared access signature: w, c)",
            "containers/blobs/read (of a shared access signature: r)",
            "containers/blobs/write (of a shared access signature: w)",
            "containers/blobs/write (of a shared access signature: w)",
            "containers/blobs/write (of a shared access signature: w, r)",
            "containers/blobs/delete (of a shared access signature: d)",
        ],
    ),
];

impl Path {
    /// Tries each operation that a run may need in the folder, which need not exist.
    pub fn probe(&self) -> Vec<Probe> {
        let pid = Process::this().pid;
        let file = self.join(&format!(".gimlet-doctor-{pid}-{:08x}", rand::random::<u32>()));
        let missing = self.missing_folders();
        let list = outcome(self.list_if_any());
        let write = outcome(self.create_dir_all().and_then(|()| file.write_atomic(b"gimlet")));
        let written = matches!(write, Outcome::Allowed);
        let on_file = |attempt: &dyn Fn() -> Outcome| match written {
            true => attempt(),
            false => Outcome::Untried("nothing could be written to try it with"),
        };
        let read = on_file(&|| outcome(file.read().map(drop)));
        let conditional = match (written, &read) {
            (true, Outcome::Refused(_)) => Outcome::Untried("nothing could be read to try it with"),
            _ => on_file(&|| file.write_on_condition()),
        };
        let parts = on_file(&|| file.elsewhere(|remote| outcome(remote.try_parts())));
        let copy = on_file(&|| file.elsewhere(|remote| outcome(copy(remote, &file))));
        let delete = on_file(&|| outcome(file.remove_file()));
        for folder in missing {
            // The folder was created for the attempt; a folder that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
        let outcomes = [list, write, read, conditional, parts, copy, delete];
        let scheme = split_scheme(self.as_str()).map_or("", |(scheme, _)| scheme);
        let known = PERMISSIONS.iter().find(|(of, _)| *of == scheme && !self.is_on_disk());
        let permissions = known.map_or([""; 7], |(_, permissions)| *permissions);
        let probe = |((operation, permission), outcome)| Probe { operation, permission, outcome };
        OPERATIONS.into_iter().zip(permissions).zip(outcomes).map(probe).collect()
    }

    /// The missing folders on disk up to this path, the deepest first.
    fn missing_folders(&self) -> Vec<PathBuf> {
        let Ok(Location::Disk(local)) = self.place() else { return Vec::new() };
        let missing = local.ancestors().take_while(|folder| !folder.exists());
        missing.map(PathBuf::from).collect()
    }

    fn list_if_any(&self) -> Result<(), StorageError> {
        match self.list() {
            Err(error) if error.is_not_found() => Ok(()),
            listed => listed.map(drop),
        }
    }

    /// Whether the store prevents two writers from both succeeding.
    fn write_on_condition(&self) -> Outcome {
        self.elsewhere(|remote| match refuses(remote) {
            Ok(true) => Outcome::Allowed,
            Ok(false) => {
                Outcome::Untried("the server ignores conditions: start no two runs at once")
            }
            Err(StorageError::Unsupported { .. }) => {
                Outcome::Untried("the server knows no conditions: start no two runs at once")
            }
            Err(error) => Outcome::Refused(error),
        })
    }

    /// Tries an operation that only stores need.
    fn elsewhere(&self, attempt: impl Fn(&Remote) -> Outcome) -> Outcome {
        match self.place() {
            Ok(Location::Elsewhere(remote)) => attempt(&remote),
            _ => {
                Outcome::Untried("folders on disk are locked, and their files grow and are renamed")
            }
        }
    }
}

/// Whether the store refuses to create a file that exists, and to replace a file that has changed.
fn refuses(remote: &Remote) -> Result<bool, StorageError> {
    if remote.put_if(b"again".to_vec(), None)?.is_some() {
        return Ok(false);
    }
    let Some((_, seen)) = remote.read_state()? else { return Ok(false) };
    remote.put(b"changed")?;
    Ok(remote.put_if(b"too late".to_vec(), Some(&seen))?.is_none())
}

/// Copies the file, and removes the copy.
fn copy(remote: &Remote, file: &Path) -> Result<(), StorageError> {
    let beside = Path::parse(&format!("{file}-copy"))?;
    if let Location::Elsewhere(to) = beside.place()? {
        remote.copy(&to)?;
        // A copy that cannot be removed is reported by the probe that deletes.
        let _ = to.remove_file();
    }
    Ok(())
}

fn outcome(result: Result<(), StorageError>) -> Outcome {
    result.map_or_else(Outcome::Refused, |()| Outcome::Allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_folders_that_were_made() {
        let dir = tempfile::tempdir().unwrap();
        let probes = Path::try_from(dir.path()).unwrap().join("a/b/c").probe();
        assert!(matches!(probes[1].outcome, Outcome::Allowed), "{:?}", probes[1]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
