//! Writing one checkpoint: invisible until whole.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::checksums::{Checksums, FILE as CHECKSUMS_FILE, Summing};
use super::msgpack::{Leaf, Leaves, ZarrLeaf, encode};
use super::reader::{CHECKPOINT_FILE, Reader};
use crate::checkpoint::array::{Array, ArrayView, DType};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::steps::checkpoint_dir;
use crate::checkpoint::stored::Stored;
use crate::checkpoint::zarr::{self, Compression, Layout};
use crate::storage::{FolderLock, Locked, Path, StorageError};

/// What ends the names of our temporary folders, to tell them from those of T5X.
pub(in crate::checkpoint) const TEMPORARY_MARK: &str = ".gimlet";

/// A checkpoint being written into `checkpoint_N.tmp-TIME.gimlet`, where no reader looks. It is
/// whole and visible after [`Writer::commit`], and gone if dropped before. Arrays may be written
/// from several threads; at most a few chunks of each are held.
#[derive(Debug)]
pub struct Writer {
    temporary: Path,
    finished: Path,
    target_dtype: Option<DType>,
    compression: Compression,
    state: Mutex<State>,
    /// Shows cleaners that the writer is alive.
    _lock: Option<FolderLock>,
    committed: bool,
}

#[derive(Debug, Default)]
struct State {
    leaves: Leaves,
    checksums: Checksums,
}

impl Writer {
    /// Starts the checkpoint of a step. Floats below `target/` are rounded to `target_dtype`.
    pub fn create(
        model_dir: &Path,
        step: u64,
        target_dtype: Option<DType>,
    ) -> Result<Self, CheckpointError> {
        model_dir.create_dir_all()?;
        let finished = checkpoint_dir(model_dir, step);
        let temporary = create_temporary(&finished)?;
        let lock = match temporary.try_lock()? {
            Locked::Held(lock) => Some(lock),
            Locked::Busy | Locked::Unsupported => None,
        };
        let state = Mutex::default();
        let compression = Compression::default();
        let committed = false;
        Ok(Self { temporary, finished, target_dtype, compression, state, _lock: lock, committed })
    }

    /// Has the chunks of arrays compressed in another way than T5X's.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Writes an array where T5X would: as zarr, except what it leaves unpartitioned (factored
    /// states, dummies of shape [1] and scalars), which lies in the file `checkpoint`.
    pub fn array(&self, name: &str, array: ArrayView<'_>) -> Result<(), CheckpointError> {
        match is_inline(name, array.shape) {
            true => {
                self.inline(name, array.to_array());
                Ok(())
            }
            false => self.zarr(name, array),
        }
    }

    /// Writes an array into a folder of its own, chunk by chunk.
    pub fn zarr(&self, name: &str, array: ArrayView<'_>) -> Result<(), CheckpointError> {
        let expected = array.shape.iter().product::<usize>() * array.dtype.size();
        assert_eq!(array.data.len(), expected, "`{name}` has the bytes of its shape");
        let leaf = ZarrLeaf {
            dir: name.replace('/', "."),
            dtype: self.stored_dtype(name, array.dtype),
            shape: array.shape.to_vec(),
            // As T5X does, from the type before it is rounded.
            chunks: zarr::choose_chunks(array.shape, array.dtype.size()),
            compression: self.compression,
        };
        let folder = ArrayFolder { writer: self, name: &leaf.dir };
        self.temporary.join(&leaf.dir).create_dir_all()?;
        let layout =
            Layout { dtype: leaf.dtype, chunks: &leaf.chunks, compression: self.compression };
        zarr::write(&folder, array, &layout)?;
        self.state().leaves.insert(name.to_string(), Leaf::Zarr(leaf));
        Ok(())
    }

    /// Keeps an array for the file `checkpoint`.
    pub fn inline(&self, name: &str, array: Array) {
        let dtype = self.stored_dtype(name, array.dtype);
        self.state().leaves.insert(name.to_string(), Leaf::Inline(array.cast(dtype)));
    }

    /// Records a subtree without arrays, such as the state of an optax transformation that has none:
    /// T5X asks for every key of its own.
    pub fn empty(&self, name: &str) {
        self.state().leaves.insert(name.to_string(), Leaf::Empty);
    }

    /// Writes a file beside the arrays, such as `gimlet/data.json`.
    pub fn extra(&self, relative: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        if let Some(folder) = self.temporary.join(relative).parent() {
            folder.create_dir_all()?;
        }
        Ok(self.file(relative, &mut |out| out.write_all(bytes))?)
    }

    /// Makes the checkpoint whole, durable and visible, and yields its folder. A whole checkpoint of
    /// the same step stays as it is, as T5X does; a damaged one is replaced.
    pub fn commit(mut self) -> Result<Path, CheckpointError> {
        let state = std::mem::take(&mut *self.state());
        self.file(CHECKPOINT_FILE, &mut |out| encode(&state.leaves, out))?;
        let mut checksums = state.checksums;
        checksums.files.append(&mut self.state().checksums.files);
        self.extra(CHECKSUMS_FILE, &checksums.to_text())?;
        self.temporary.sync_tree()?;
        if !self.finished.exists()? {
            self.temporary.rename(&self.finished)?;
            self.committed = true;
        } else if Reader::open(&self.finished).and_then(|reader| reader.verify()).is_err() {
            self.replace()?;
            self.committed = true;
        }
        Ok(self.finished.clone())
    }

    /// Puts the new checkpoint in the place of a damaged one.
    fn replace(&self) -> Result<(), CheckpointError> {
        let damaged = create_temporary(&self.finished)?;
        self.finished.rename(&damaged)?;
        self.temporary.rename(&self.finished)?;
        Ok(damaged.remove_dir_all()?)
    }

    fn stored_dtype(&self, name: &str, dtype: DType) -> DType {
        match self.target_dtype {
            Some(target) if name.starts_with("target/") && dtype.is_float() => target,
            _ => dtype,
        }
    }

    fn file(
        &self,
        relative: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StorageError> {
        let path = self.temporary.join(relative);
        let mut out = Summing::new(path.create()?);
        write(&mut out).map_err(|error| StorageError::new("write", &path, error))?;
        let (file, checksum) = out.finish();
        file.close()?;
        self.state().checksums.files.insert(relative.to_string(), checksum);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state panics")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.committed {
            // What cannot be removed now is removed by the next run; see `remove_stale`.
            let _ = self.temporary.remove_dir_all();
        }
    }
}

struct ArrayFolder<'a> {
    writer: &'a Writer,
    name: &'a str,
}

impl zarr::Sink for ArrayFolder<'_> {
    type Error = StorageError;

    fn file(
        &self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StorageError> {
        self.writer.file(&format!("{}/{name}", self.name), write)
    }
}

/// What T5X gives no partition axes: scalars, Adafactor's factored states and its dummies.
fn is_inline(name: &str, shape: &[usize]) -> bool {
    let slot = name.rsplit('/').next().expect("split yields one part");
    let is_factored = matches!(slot, "v_row" | "v_col");
    shape.is_empty() || (!name.starts_with("target/") && (is_factored || shape == [1]))
}

/// A new folder `NAME.tmp-TIME.gimlet`; a later time where two saves fall into one second.
pub(in crate::checkpoint) fn create_temporary(finished: &Path) -> Result<Path, CheckpointError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let parent = finished.parent().expect("a checkpoint lies in a folder");
    for time in now.. {
        let temporary =
            parent.join(&format!("{}.tmp-{time}{TEMPORARY_MARK}", finished.file_name()));
        match temporary.create_dir_new() {
            Ok(()) => return Ok(temporary),
            Err(StorageError::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("time has no end")
}
