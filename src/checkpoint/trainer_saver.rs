//! Saves a copied state as a Trainer's file.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::CheckpointError;
use super::export::{TrainerForm, unwrapped, write_trainer};
use super::marks::trainer_file;
use super::open::open;
use super::saver::{Saving, Snapshot};
use super::snapshot::WholeSnapshot;
use super::unfinished::{check_lease, is_store, own_lease};
use gimlet_storage::{FileWriter, Path};

impl Saving {
    /// Writes a Trainer's file, which becomes visible when it is complete. As for other formats, a complete checkpoint of the
    /// same step stays, but for the best one, and another file is replaced.
    pub(super) fn write_trainer(
        &self,
        (file, step): (&Path, u64),
        snapshot: &Snapshot,
        form: &TrainerForm,
        written: &AtomicU64,
    ) -> Result<(), CheckpointError> {
        let is_of_step = *file == trainer_file(&self.model_dir, step);
        if !self.is_first() || is_of_step && is_whole(file, step)? {
            return Ok(());
        }
        let lease = match is_store(&self.model_dir) {
            true => Some(own_lease(&self.model_dir)?),
            false => None,
        };
        let held = WholeSnapshot { path: file, step, snapshot, dtype: self.target_dtype };
        let out = Counting { out: file.create_atomic()?, written };
        let written = write_trainer(&held, (form, step), out);
        let out = written.map_err(|error| unwrapped(file, error))?.out;
        for unsent in snapshot.before() {
            // Upload errors of these files are already reported; the checkpoint is more important.
            unsent.send();
        }
        out.finish_while(&|| match &lease {
            Some(lease) => check_lease(&self.model_dir, lease.as_ref()),
            None => Ok(()),
        })
    }
}

/// Whether a complete file of a step exists.
///
/// # Errors
/// It cannot be read.
fn is_whole(file: &Path, step: u64) -> Result<bool, CheckpointError> {
    if !file.exists()? {
        return Ok(false);
    }
    // The names in it do not matter.
    let found = open(file, &[]).and_then(|there| {
        there.verify()?;
        there.step()
    });
    match found {
        Ok(found) => Ok(found == step),
        Err(error @ CheckpointError::Storage(_)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// A file that counts the bytes written.
struct Counting<'a> {
    out: FileWriter,
    written: &'a AtomicU64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.out.write(bytes)?;
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
