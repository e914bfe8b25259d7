//! Writes one checkpoint, which is invisible until it is complete.

mod arrays;
mod shards;

pub use shards::{lies_in_tree, writes};

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use self::arrays::layout;
use super::checksums::Checksums;
use super::msgpack::{Leaf, Leaves, check_tree};
use super::procedure::Procedure;
use super::publication::Publication;
use super::share::Share;
use super::sum::{Checksum, Summing};
use super::written_format::{Conversion, SmallFile, T5X, WrittenFormat};
use crate::array::DType;
use crate::error::CheckpointError;
use crate::marks::{CHECKSUMS_FILE, checkpoint_dir, is_dataset_file};
use crate::zarr::Compression;
use gimlet_storage::{Path, StorageError};

/// A checkpoint that is being written. It is written into `checkpoint_N.tmp-TIME.gimlet`, or by several
/// processes into `checkpoint_N.tmp-ID.gimlet`, which readers ignore. In a store, a single process by default
/// writes into `checkpoint_N`, which Gimlet ignores until its last file exists. The checkpoint is complete
/// and visible after [`Writer::commit`], and removed if dropped before. Arrays may be written from several
/// threads; at most a few chunks of each are in memory.
#[derive(Debug)]
pub struct Writer {
    temporary: Path,
    finished: Path,
    written_format: &'static WrittenFormat,
    target_dtype: Option<DType>,
    compression: Compression,
    /// Number of array bytes written.
    written: Arc<AtomicU64>,
    state: Mutex<State>,
    place: Publication,
    share: Option<Share>,
    /// Whether all other processes have finished.
    gathered: bool,
    committed: bool,
}

#[derive(Debug, Default)]
struct State {
    leaves: Leaves,
    /// The array that uses each folder.
    folders: BTreeMap<String, String>,
    /// Checksums of the written files.
    checksums: Checksums,
}

impl Writer {
    /// Starts the checkpoint of a step. Floats below `target/` are rounded to `target_dtype`.
    pub fn create(
        model_dir: &Path,
        step: u64,
        target_dtype: Option<DType>,
    ) -> Result<Self, CheckpointError> {
        Self::begin(model_dir, step, target_dtype, &Procedure::default())
    }

    /// Starts the checkpoint of a step, or this process's part of the checkpoint. If several
    /// processes save, the first makes the checkpoint visible after all have committed their parts;
    /// the others wait here until the first has begun.
    pub fn begin(
        model_dir: &Path,
        step: u64,
        target_dtype: Option<DType>,
        procedure: &Procedure,
    ) -> Result<Self, CheckpointError> {
        let share = procedure.share.clone();
        share.iter().for_each(Share::check);
        model_dir.create_dir_all()?;
        let finished = checkpoint_dir(model_dir, step);
        let (temporary, place) = match &share {
            Some(share) if share.rank > 0 => Publication::join(&finished, share)?,
            _ => Publication::begin(model_dir, &finished, procedure)?,
        };
        let mut writer = Self::of((temporary, finished), place, (&T5X, target_dtype));
        writer.share = share;
        Ok(writer)
    }

    /// Like [`Writer::create`], for a conversion, which starts over if an earlier one was killed.
    ///
    /// # Errors
    /// A complete checkpoint is there, or another process writes it.
    pub(crate) fn convert(
        model_dir: &Path,
        step: u64,
        &Conversion { written_format, dtype, takeover }: &Conversion,
    ) -> Result<Self, CheckpointError> {
        model_dir.create_dir_all()?;
        let finished = checkpoint_dir(model_dir, step);
        let (temporary, place) = Publication::convert(model_dir, &finished, takeover)?;
        let writer = Self::of((temporary, finished), place, (written_format, dtype));
        writer.place.refuse_whole(&writer.finished)?;
        Ok(writer)
    }

    fn of(
        (temporary, finished): (Path, Path),
        place: Publication,
        (written_format, target_dtype): (&'static WrittenFormat, Option<DType>),
    ) -> Self {
        Self {
            temporary,
            finished,
            written_format,
            target_dtype,
            compression: Compression::default(),
            written: Arc::default(),
            state: Mutex::default(),
            place,
            share: None,
            gathered: false,
            committed: false,
        }
    }

    /// The number of this process.
    pub(super) fn rank(&self) -> usize {
        self.share.as_ref().map_or(0, |share| share.rank)
    }

    /// All processes that save the checkpoint.
    pub fn ranks(&self) -> Vec<usize> {
        (0..self.share.as_ref().map_or(1, |share| share.count)).collect()
    }

    /// Whether this process writes the files that have no parts, and makes the checkpoint visible.
    fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The folder for the arrays.
    fn item(&self) -> Path {
        self.written_format.item(&self.temporary)
    }

    /// The final path of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.finished
    }

    /// Sets the compression of the arrays' chunks.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Adds the written array bytes to this counter, before compression.
    #[must_use]
    pub fn counting(mut self, written: Arc<AtomicU64>) -> Self {
        self.written = written;
        self
    }

    /// Records a subtree without arrays, such as the empty state of an optax transformation: T5X
    /// requires every key.
    pub fn empty(&self, name: &str) {
        self.state().leaves.insert(name.to_string(), Leaf::Empty);
    }

    /// Stores a value that is not an array; see
    /// [`Stored::others`](crate::Stored::others).
    pub fn other(&self, name: &str, value: &rmpv::Value) {
        self.state().leaves.insert(name.to_string(), Leaf::Other(value.clone()));
    }

    /// Writes a file beside the arrays, such as `gimlet/run.json`. If several processes save, each writes
    /// its own positions in the data, `gimlet/train_ds-...`, and only the first writes other files.
    pub fn extra(&self, relative: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        if !self.is_first() && !is_dataset_file(relative) {
            return Ok(());
        }
        if let Some(folder) = self.item().join(relative).parent() {
            folder.create_dir_all()?;
        }
        self.file((relative, Some(bytes.len())), &mut |out| out.write_all(bytes))
    }

    /// Makes the checkpoint complete, durable and visible, and returns its folder. A complete checkpoint of
    /// the same step stays unchanged, as in T5X; a damaged one is replaced. If several processes save, the
    /// first waits for the others, which only report that they have finished.
    ///
    /// # Errors
    /// The checkpoint cannot be written; another process did not write its part in time; the
    /// processes' parts do not cover the arrays that the first process knows.
    pub fn commit(mut self) -> Result<Path, CheckpointError> {
        let State { leaves, checksums, .. } = std::mem::take(&mut *self.state());
        match self.share.clone() {
            Some(share) if share.rank > 0 => {
                share.leave(&self.temporary, leaves.into_keys().collect(), checksums)?;
            }
            share => {
                let checksums = match share {
                    Some(share) => self.gather(&share, &leaves, checksums)?,
                    None => checksums,
                };
                let folders = (&self.temporary, &self.finished);
                let ending = self.ending(&leaves, checksums)?;
                self.place.commit(folders, &ending)?;
            }
        }
        self.committed = true;
        Ok(self.finished.clone())
    }

    /// Checks that the format can store everything recorded so far.
    pub(crate) fn check(&self) -> Result<(), CheckpointError> {
        (self.written_format.tree)(&self.state().leaves, &self.finished).map(drop)
    }

    /// The files that are written last: the checksums and the tree.
    fn ending(
        &self,
        leaves: &Leaves,
        mut checksums: Checksums,
    ) -> Result<Vec<SmallFile>, CheckpointError> {
        check_tree(leaves).map_err(|error| {
            let (path, reason) = (self.finished.to_string(), error.to_string());
            CheckpointError::Export { path, reason }
        })?;
        let mut files = (self.written_format.tree)(leaves, &self.finished)?;
        for (name, bytes) in &files {
            let checksum = Checksum::of(bytes);
            match self.written_format.in_item(name) {
                Some(name) => checksums.files.insert(name.to_string(), checksum),
                None => checksums.beside.insert(name.clone(), checksum),
            };
        }
        files.insert(0, (self.written_format.in_checkpoint(CHECKSUMS_FILE), checksums.into_text()));
        Ok(files)
    }

    /// Counts an array of `bytes` bytes as written.
    pub(super) fn count(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for the other processes, and adds the files that they wrote.
    fn gather(
        &mut self,
        share: &Share,
        leaves: &Leaves,
        checksums: Checksums,
    ) -> Result<Checksums, CheckpointError> {
        let others = share.gather(&self.temporary)?;
        self.gathered = true;
        let checksums = share.merge(&self.temporary, (leaves, checksums), others)?;
        let files = leaves.values().filter_map(|leaf| match leaf {
            Leaf::Zarr(leaf) => Some((leaf, layout(leaf))),
            _ => None,
        });
        let mut files = files.flat_map(|(leaf, layout)| {
            layout.file_names().map(|name| format!("{}/{name}", leaf.dir)).collect::<Vec<_>>()
        });
        if let Some(missing) = files.find(|name| !checksums.files.contains_key(name)) {
            let reason = format!("no process holds and wrote `{missing}`");
            return Err(share.incomplete(&self.temporary, reason));
        }
        Ok(checksums)
    }

    /// Writes a file, of approximately `size` bytes if known.
    fn file(
        &self,
        (relative, size): (&str, Option<usize>),
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CheckpointError> {
        if matches!(self.place, Publication::There) {
            return Ok(());
        }
        let path = self.item().join(relative);
        let mut out = Summing::new(self.place.create(&path, size)?);
        write(&mut out).map_err(|error| StorageError::new("write", &path, error))?;
        let (file, checksum) = out.finish();
        match self.is_first() {
            true => self.place.close(file)?,
            // The first process may run on another machine, where it cannot make this file durable.
            false => file.finish()?,
        }
        self.state().checksums.files.insert(relative.to_string(), checksum);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state panics")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In a store, files into which other processes may still write stay marked, and the next
        // run removes them. Files written even later lie in a folder that readers ignore and no
        // other save uses.
        let is_left = self.share.is_some() && self.place.is_in_store() && !self.gathered;
        if !self.committed && !is_left {
            self.place.give_up((&self.temporary, &self.finished));
        }
    }
}
