//! `gimlet/checksums.json`: size and CRC-32C of every file of a checkpoint.

use std::collections::BTreeMap;
use std::io::Read;

use serde::{Deserialize, Serialize};

use super::sum::{Checksum, Crc32c, sum};
use crate::error::CheckpointError;
use crate::marks::{CHECKSUMS_FILE, UNFINISHED_FILE, is_dataset_file};
use crate::{parallel, zarr};
use gimlet_storage::{Path, StorageError};
use gimlet_telemetry::Wait;

/// The expected sizes and checksums of a checkpoint's files, by path relative to the folder of
/// arrays.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checksums {
    pub(super) files: BTreeMap<String, Checksum>,
    /// The same for files outside that folder, relative to the checkpoint.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) beside: BTreeMap<String, Checksum>,
    /// Checksum of the lists above, so that damage of the lists is not mistaken for damage of a
    /// file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<Crc32c>,
}

/// Maximum size of a list in bytes: the list of two million files.
const MAX_BYTES: u64 = 256 << 20;

impl Checksums {
    /// Loads the checksums of a checkpoint; `None` when its writer left none, as T5X does.
    pub fn load(checkpoint: &Path) -> Result<Option<Self>, CheckpointError> {
        let text = match checkpoint.join(CHECKSUMS_FILE).read_up_to(MAX_BYTES) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let damaged = |reason: String| {
            CheckpointError::damaged(checkpoint, format!("`{CHECKSUMS_FILE}`: {reason}"))
        };
        let parsed: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let leads_out =
            |name: &&String| name.starts_with('/') || name.split('/').any(|part| part == "..");
        if let Some(name) = parsed.files.keys().chain(parsed.beside.keys()).find(leads_out) {
            return Err(damaged(format!("`{name}` lies outside of the checkpoint")));
        }
        match parsed.own {
            Some(own) if own != parsed.sum() => {
                Err(damaged("it has changed since it was written".to_string()))
            }
            _ => Ok(Some(parsed)),
        }
    }

    /// The checksum of the lists' contents, whatever their layout.
    fn sum(&self) -> Crc32c {
        let listed = serde_json::to_vec(&(&self.files, &self.beside));
        Crc32c::of(&listed.expect("plain data becomes JSON"))
    }

    /// Total number of bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// The text of the file.
    pub(super) fn into_text(mut self) -> Vec<u8> {
        self.own = Some(self.sum());
        // The text has no newline at the end, so that every truncation is noticed.
        serde_json::to_vec_pretty(&self).expect("plain data becomes JSON")
    }

    /// Reads and compares every file, several at a time. Pruned data positions may be missing.
    pub fn verify_all(&self, checkpoint: &Path) -> Result<(), CheckpointError> {
        let num_threads = parallel::num_threads(checkpoint);
        let wait = Wait::new(&format!("verifying {checkpoint}"), Some(self.bytes()));
        parallel::for_each(num_threads, self.files.iter(), |(name, file)| {
            let verified = self.verify(checkpoint, name);
            wait.add(file.bytes);
            match verified {
                Err(_) if is_dataset_file(name) && !checkpoint.join(name).exists()? => Ok(()),
                other => other,
            }
        })
    }

    /// The size and CRC-32C of a file, for callers that read the file anyway.
    pub fn expected(&self, name: &str) -> Option<(u64, u32)> {
        self.files.get(name).map(|checksum| (checksum.bytes, checksum.crc32c.0))
    }

    /// Returns every damage at which [`Checksums::verify_all`] would stop; calls `tell` with the
    /// number of bytes done.
    pub fn damages(
        &self,
        checkpoint: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Vec<CheckpointError>, CheckpointError> {
        let mut damages = Vec::new();
        for (name, expected) in &self.files {
            match self.verify(checkpoint, name) {
                Err(error) if error.is_damage() => {
                    if !is_dataset_file(name) || checkpoint.join(name).exists()? {
                        damages.push(error);
                    }
                }
                other => other?,
            }
            tell(expected.bytes);
        }
        Ok(damages)
    }

    /// Returns the files that are missing or have another size. Pruned data positions may be
    /// missing.
    pub fn misfits(&self, sizes: &BTreeMap<String, u64>) -> Vec<String> {
        let misfit = |(name, expected): (&String, &Checksum)| match sizes.get(name) {
            Some(bytes) if *bytes == expected.bytes => None,
            Some(bytes) => Some(format!("`{name}` has {bytes} bytes, expected {}", expected.bytes)),
            None if is_dataset_file(name) => None,
            None => Some(format!("`{name}` is missing")),
        };
        self.files.iter().filter_map(misfit).collect()
    }

    /// Reads and compares one file; a file that is not listed passes.
    pub fn verify(&self, checkpoint: &Path, name: &str) -> Result<(), CheckpointError> {
        self.files.get(name).map_or(Ok(()), |expected| compare(checkpoint, name, expected))
    }

    /// Like [`Checksums::verify_all`], for the files outside the folder of arrays.
    pub fn verify_beside(&self, checkpoint: &Path) -> Result<(), CheckpointError> {
        self.beside.iter().try_for_each(|(name, expected)| compare(checkpoint, name, expected))
    }
}

fn compare(checkpoint: &Path, name: &str, expected: &Checksum) -> Result<(), CheckpointError> {
    let file = checkpoint.join(name);
    let found = match file.open() {
        // Reads only far enough to notice additional bytes.
        Ok(source) => sum(source.take(expected.bytes.saturating_add(1)))
            .map_err(|error| StorageError::new("read", &file, error))?,
        Err(error) if error.is_not_found() => {
            return Err(CheckpointError::damaged(checkpoint, format!("`{name}` is missing")));
        }
        Err(error) => return Err(error.into()),
    };
    let reason = if found.bytes > expected.bytes {
        format!("`{name}` has more than the expected {} bytes", expected.bytes)
    } else if found.bytes < expected.bytes {
        format!("`{name}` has {} bytes, expected {}", found.bytes, expected.bytes)
    } else if found != *expected {
        format!("`{name}` has changed since it was written (checksum {})", found.crc32c)
    } else {
        return Ok(());
    };
    Err(CheckpointError::damaged(checkpoint, reason))
}

/// The folder of an array, whose files are compared with their checksums, if there are any.
pub(crate) struct Checked<'a> {
    pub folder: zarr::Folder<'a>,
    /// The folder's name in the checkpoint.
    pub name: &'a str,
    pub checksums: Option<&'a Checksums>,
}

impl zarr::Files for Checked<'_> {
    fn place(&self, name: &str) -> Option<zarr::FileRange> {
        let relative = format!("{}/{name}", self.name);
        let expected = self.checksums.and_then(|sums| sums.expected(&relative));
        match (expected, self.folder.place(name)?) {
            (Some((bytes, crc32c)), zarr::FileRange::File(file)) => {
                Some(zarr::FileRange::Checked { file, bytes, crc32c })
            }
            (_, place) => Some(place),
        }
    }

    fn shown(&self, name: &str) -> String {
        self.folder.shown(name)
    }
}

/// Reads a file beside the arrays of a checkpoint; `None` if it neither exists nor is expected.
///
/// # Errors
/// The file changed since it was written.
pub(crate) fn read_extra(
    (checkpoint, checksums): (&Path, Option<&Checksums>),
    relative: &str,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    match checkpoint.join(relative).read() {
        Err(error) if error.is_not_found() => {
            // Data positions are pruned; every other written file must exist.
            let is_listed = checksums.is_some_and(|sums| sums.expected(relative).is_some());
            if is_listed && !is_dataset_file(relative) {
                let reason = format!("`{relative}` is missing");
                return Err(CheckpointError::damaged(checkpoint, reason));
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
        Ok(bytes) => {
            checksums.map_or(Ok(()), |sums| sums.verify(checkpoint, relative))?;
            Ok(Some(bytes))
        }
    }
}

/// Returns the names of a checkpoint's files beside its arrays that belong to the run: its record
/// and its positions in the data; but not the files about the writing of the checkpoint itself.
pub(crate) fn extras(checkpoint: &Path) -> Result<Vec<String>, CheckpointError> {
    let is_extra = |name: &String| {
        let is_own = [CHECKSUMS_FILE, UNFINISHED_FILE].contains(&&name[..]);
        let is_ours = name.starts_with("gimlet/") && !is_own;
        is_ours || is_dataset_file(name)
    };
    Ok(checkpoint.sizes()?.into_keys().filter(is_extra).collect())
}
