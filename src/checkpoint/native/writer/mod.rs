//! Writing one checkpoint: invisible until whole.

mod arrays;
mod shards;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use self::arrays::layout;
use super::checksums::{Checksums, FILE as CHECKSUMS_FILE, Noted};
use super::dialect::{Conversion, Dialect, SmallFile, T5X};
use super::msgpack::{Leaf, Leaves, check_tree};
use super::place::Place;
use super::procedure::Procedure;
use super::share::Share;
use super::sum::{Checksum, Summing};
use crate::checkpoint::array::DType;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::journal::{Journal, tell_kept, tell_left};
use crate::checkpoint::retention::is_dataset_file;
use crate::checkpoint::steps::checkpoint_dir;
use crate::checkpoint::zarr::Compression;
use crate::storage::{Path, StorageError};

/// A checkpoint being written into `checkpoint_N.tmp-TIME.gimlet`, or by several processes into
/// `checkpoint_N.tmp-ID.gimlet`, where no reader looks; in a store, if one process writes it and is not told
/// else, into `checkpoint_N`, where none of Gimlet's looks before its last file is there. It is whole and
/// visible after [`Writer::commit`], and gone if dropped before, but for what a conversion leaves to the next.
/// Arrays may be written from several threads; at most a few chunks of each are held.
#[derive(Debug)]
pub struct Writer {
    temporary: Path,
    finished: Path,
    dialect: &'static Dialect,
    target_dtype: Option<DType>,
    compression: Compression,
    /// Bytes of arrays that are written.
    written: Arc<AtomicU64>,
    state: Mutex<State>,
    place: Place,
    share: Option<Share>,
    /// Whether all other processes are done.
    gathered: bool,
    committed: bool,
    /// Whether what was written stays though it is not whole.
    stays: bool,
}

#[derive(Debug, Default)]
struct State {
    leaves: Leaves,
    /// Which array has which folder.
    folders: BTreeMap<String, String>,
    /// Of the files that are written, or were by a conversion before.
    checksums: Checksums,
    /// That of a conversion.
    journal: Option<Journal>,
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

    /// Starts the checkpoint of a step, or this process's part of it. Of several processes the first makes
    /// it visible when all have committed their parts, and no sooner; the others wait here for it to begin.
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
            Some(share) if share.rank > 0 => Place::join(&finished, share)?,
            _ => Place::begin(model_dir, &finished, procedure)?,
        };
        let mut writer = Self::of((temporary, finished), place, (&T5X, target_dtype));
        writer.share = share;
        Ok(writer)
    }

    /// As [`Writer::create`], for a conversion: goes on with what one of the same job has left that was killed.
    pub(in crate::checkpoint) fn resume(
        model_dir: &Path,
        step: u64,
        conversion: &Conversion<'_>,
    ) -> Result<Self, CheckpointError> {
        model_dir.create_dir_all()?;
        let finished = checkpoint_dir(model_dir, step);
        let (temporary, place, noted) = Place::resume(model_dir, &finished, conversion)?;
        let &Conversion { dialect, dtype, job, .. } = conversion;
        let mut writer = Self::of((temporary, finished), place, (dialect, dtype));
        if !matches!(writer.place, Place::There) {
            // What cannot be looked at now may be gone on with later.
            writer.stays = !noted.files.is_empty();
            let checksums = noted.whole_ones(&writer.item())?;
            tell_kept(&writer.finished, checksums.files.len(), "files", checksums.bytes());
            let journal = Some(checksums.journal(&writer.item(), job)?);
            writer.state = Mutex::new(State { checksums, journal, ..State::default() });
            writer.stays = false;
        }
        Ok(writer)
    }

    fn of(
        (temporary, finished): (Path, Path),
        place: Place,
        (dialect, target_dtype): (&'static Dialect, Option<DType>),
    ) -> Self {
        Self {
            temporary,
            finished,
            dialect,
            target_dtype,
            compression: Compression::default(),
            written: Arc::default(),
            state: Mutex::default(),
            place,
            share: None,
            gathered: false,
            committed: false,
            stays: false,
        }
    }

    /// Which of several processes this one is.
    pub(super) fn rank(&self) -> usize {
        self.share.as_ref().map_or(0, |share| share.rank)
    }

    /// All processes that save the checkpoint.
    pub fn ranks(&self) -> Vec<usize> {
        (0..self.share.as_ref().map_or(1, |share| share.count)).collect()
    }

    /// Whether it is the one that writes what has no parts, and makes the checkpoint visible.
    fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The folder into which arrays go.
    fn item(&self) -> Path {
        self.dialect.item(&self.temporary)
    }

    /// Where the checkpoint will lie.
    pub fn path(&self) -> &Path {
        &self.finished
    }

    /// Has the chunks of arrays compressed in another way than T5X's.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Counts the bytes of arrays that are written, before they are compressed.
    #[must_use]
    pub fn counting(mut self, written: Arc<AtomicU64>) -> Self {
        self.written = written;
        self
    }

    /// Records a subtree without arrays, such as the state of an optax transformation that has none:
    /// T5X asks for every key of its own.
    pub fn empty(&self, name: &str) {
        self.state().leaves.insert(name.to_string(), Leaf::Empty);
    }

    /// Keeps what is no array; see [`Stored::others`](crate::checkpoint::Stored::others).
    pub fn other(&self, name: &str, value: &rmpv::Value) {
        self.state().leaves.insert(name.to_string(), Leaf::Other(value.clone()));
    }

    /// Writes a file beside the arrays, such as `gimlet/run.json`. Of several processes each writes its own
    /// positions in the data, `gimlet/train_ds-...`, and the first alone all else.
    pub fn extra(&self, relative: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        if !self.is_first() && !is_dataset_file(relative) {
            return Ok(());
        }
        if let Some(folder) = self.item().join(relative).parent() {
            folder.create_dir_all()?;
        }
        self.file((relative, Some(bytes.len())), &mut |out| out.write_all(bytes))
    }

    /// Makes the checkpoint whole, durable and visible, and yields its folder. A whole checkpoint of
    /// the same step stays as it is, as T5X does; a damaged one is replaced. Of several processes the first
    /// waits for the others, who only say that they are done.
    ///
    /// # Errors
    /// It cannot be written; another process did not write its part in time; the parts that the processes
    /// wrote do not make up the arrays that the first one knows.
    pub fn commit(mut self) -> Result<Path, CheckpointError> {
        let State { leaves, checksums, mut journal, .. } = std::mem::take(&mut *self.state());
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
                let committed = self.place.commit(folders, &ending, &mut journal);
                if let Err(error) = &committed {
                    self.stays = journal.is_some() && error.may_pass();
                }
                committed?;
            }
        }
        self.committed = true;
        Ok(self.finished.clone())
    }

    /// Checks that the format has a place for what was recorded so far.
    pub(in crate::checkpoint) fn check(&self) -> Result<(), CheckpointError> {
        (self.dialect.tree)(&self.state().leaves, &self.finished).map(drop)
    }

    /// Gives a conversion up after an error. What it has written stays where the next one may succeed.
    pub(in crate::checkpoint) fn give_up(mut self, error: &CheckpointError) {
        let has_pieces = self.state().journal.as_ref().is_some_and(Journal::has_pieces);
        self.stays = has_pieces && error.may_pass();
    }

    /// The files that are written when all others are: the checksums and the tree.
    fn ending(
        &self,
        leaves: &Leaves,
        mut checksums: Checksums,
    ) -> Result<Vec<SmallFile>, CheckpointError> {
        check_tree(leaves).map_err(|error| {
            let (path, reason) = (self.finished.to_string(), error.to_string());
            CheckpointError::Export { path, reason }
        })?;
        let mut files = (self.dialect.tree)(leaves, &self.finished)?;
        for (name, bytes) in &files {
            let checksum = Checksum::of(bytes);
            match self.dialect.in_item(name) {
                Some(name) => checksums.files.insert(name.to_string(), checksum),
                None => checksums.beside.insert(name.clone(), checksum),
            };
        }
        files.insert(0, (self.dialect.in_checkpoint(CHECKSUMS_FILE), checksums.into_text()));
        Ok(files)
    }

    /// Notes that an array of so many bytes is written.
    pub(super) fn count(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits for the other processes, and adds what they wrote.
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

    /// Writes a file, of about so many bytes where that is known.
    fn file(
        &self,
        (relative, size): (&str, Option<usize>),
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CheckpointError> {
        if self.holds(relative) {
            return Ok(());
        }
        let path = self.item().join(relative);
        let mut out = Summing::new(self.place.create(&path, size)?);
        write(&mut out).map_err(|error| StorageError::new("write", &path, error))?;
        let (file, checksum) = out.finish();
        match self.is_first() {
            true => self.place.close(file)?,
            // The first may run on another machine, where it cannot make this file durable.
            false => file.finish()?,
        }
        let mut state = self.state();
        if let Some(journal) = &mut state.journal {
            journal.add(&Noted::of(relative, &checksum))?;
        }
        state.checksums.files.insert(relative.to_string(), checksum);
        Ok(())
    }

    /// Whether a file need not be written: it is there already.
    fn holds(&self, relative: &str) -> bool {
        matches!(self.place, Place::There) || self.state().checksums.files.contains_key(relative)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state panics")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A store gets no more lines behind what is removed.
        drop(self.state().journal.take());
        // What other processes may still write into stays marked in a store, for the next run to
        // remove. What one writes even after that lies where no reader looks and nobody else writes.
        let is_left = self.share.is_some() && self.place.is_in_store() && !self.gathered;
        match self.committed || is_left {
            true => {}
            false if self.stays => tell_left(&self.temporary),
            false => self.place.give_up((&self.temporary, &self.finished)),
        }
    }
}
