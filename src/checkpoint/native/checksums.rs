//! `gimlet/checksums.json`: size and CRC-32C of every file of a checkpoint.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::parallel;
use crate::checkpoint::retention::is_dataset_file;
use crate::storage::{Path, StorageError};
use crate::telemetry::Wait;

/// The file, relative to the checkpoint.
pub(in crate::checkpoint) const FILE: &str = "gimlet/checksums.json";

/// What every file of a checkpoint must be, by its path relative to the checkpoint.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Checksums {
    pub files: BTreeMap<String, Checksum>,
}

/// What one file must be.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checksum {
    bytes: u64,
    crc32c: String,
}

impl Checksums {
    /// Those of a checkpoint; `None` where the writer left none, as T5X does.
    pub fn load(checkpoint: &Path) -> Result<Option<Self>, CheckpointError> {
        let text = match checkpoint.join(FILE).read() {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        let parsed = serde_json::from_slice(&text);
        let damaged = |error| CheckpointError::damaged(checkpoint, format!("`{FILE}`: {error}"));
        parsed.map(Some).map_err(damaged)
    }

    /// The text of the file.
    pub fn to_text(&self) -> Vec<u8> {
        // No newline at the end: then every cut is noticed.
        serde_json::to_vec_pretty(self).expect("plain data becomes JSON")
    }

    /// Reads every file, on all cores, and compares. Pruned data positions may be missing.
    pub fn verify_all(&self, checkpoint: &Path) -> Result<(), CheckpointError> {
        let num_threads = parallel::num_threads(checkpoint);
        let total = self.files.values().map(|file| file.bytes).sum();
        let wait = Wait::new(&format!("verifying {checkpoint}"), Some(total));
        parallel::for_each(num_threads, self.files.iter(), |(name, file)| {
            let verified = self.verify(checkpoint, name);
            wait.add(file.bytes);
            match verified {
                Err(_) if is_dataset_file(name) && !checkpoint.join(name).exists()? => Ok(()),
                other => other,
            }
        })
    }

    /// Size and CRC-32C of a file, for whoever reads it anyway.
    pub fn expected(&self, name: &str) -> Option<(u64, u32)> {
        let checksum = self.files.get(name)?;
        let crc32c = u32::from_str_radix(&checksum.crc32c, 16).ok()?;
        Some((checksum.bytes, crc32c))
    }

    /// Every damage that [`Checksums::verify_all`] would stop at; `tell` is told of the bytes done.
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

    /// The files that are missing or of another size. Pruned data positions may be missing.
    pub fn misfits(&self, sizes: &BTreeMap<String, u64>) -> Vec<String> {
        let misfit = |(name, expected): (&String, &Checksum)| match sizes.get(name) {
            Some(bytes) if *bytes == expected.bytes => None,
            Some(bytes) => Some(format!("`{name}` has {bytes} bytes, expected {}", expected.bytes)),
            None if is_dataset_file(name) => None,
            None => Some(format!("`{name}` is missing")),
        };
        self.files.iter().filter_map(misfit).collect()
    }

    /// Reads one file and compares; one that is not listed passes.
    pub fn verify(&self, checkpoint: &Path, name: &str) -> Result<(), CheckpointError> {
        let Some(expected) = self.files.get(name) else { return Ok(()) };
        let file = checkpoint.join(name);
        let found = match file.open() {
            Ok(source) => sum(source).map_err(|error| StorageError::new("read", &file, error))?,
            Err(error) if error.is_not_found() => {
                return Err(CheckpointError::damaged(checkpoint, format!("`{name}` is missing")));
            }
            Err(error) => return Err(error.into()),
        };
        let reason = if found.bytes != expected.bytes {
            format!("`{name}` has {} bytes, expected {}", found.bytes, expected.bytes)
        } else if found != *expected {
            format!("`{name}` has changed since it was written (checksum {})", found.crc32c)
        } else {
            return Ok(());
        };
        Err(CheckpointError::damaged(checkpoint, reason))
    }
}

fn sum(mut source: impl Read) -> io::Result<Checksum> {
    let mut buffer = vec![0; 1 << 18];
    let mut out = Summing::new(io::sink());
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(out.finish().1),
            length => out.write_all(&buffer[..length])?,
        }
    }
}

/// Sums what is written through it.
pub(super) struct Summing<W> {
    inner: W,
    bytes: u64,
    crc: u32,
}

impl<W: Write> Summing<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, bytes: 0, crc: 0 }
    }

    pub fn finish(self) -> (W, Checksum) {
        let checksum = Checksum { bytes: self.bytes, crc32c: format!("{:08x}", self.crc) };
        (self.inner, checksum)
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Summed while the processor still has it at hand.
        let bytes = &bytes[..bytes.len().min(1 << 20)];
        let length = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..length]);
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
