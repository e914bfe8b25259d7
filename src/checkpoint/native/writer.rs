//! Writing one checkpoint: invisible until whole.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::checksums::{Checksums, FILE as CHECKSUMS_FILE, Summing};
use super::msgpack::{Leaf, Leaves, ZarrLeaf, encode};
use super::reader::CHECKPOINT_FILE;
use crate::checkpoint::array::{Array, ArrayView, DType};
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::open::{open, recognize};
use crate::checkpoint::steps::checkpoint_dir;
use crate::checkpoint::stored::{ArrayInfo, Format};
use crate::checkpoint::unfinished;
use crate::checkpoint::zarr::{self, Compression, Layout};
use crate::storage::{FolderLock, Holder, Locked, Path, StorageError};

/// What ends the names of our temporary folders, to tell them from those of T5X.
pub(in crate::checkpoint) const TEMPORARY_MARK: &str = ".gimlet";

/// A checkpoint being written into `checkpoint_N.tmp-TIME.gimlet`, where no reader looks; in a store
/// into `checkpoint_N`, where none looks before its file `checkpoint` is there. It is whole and visible
/// after [`Writer::commit`], and gone if dropped before. Arrays may be written from several threads; at
/// most a few chunks of each are held.
#[derive(Debug)]
pub struct Writer {
    temporary: Path,
    finished: Path,
    target_dtype: Option<DType>,
    compression: Compression,
    state: Mutex<State>,
    place: Place,
    committed: bool,
}

/// How the checkpoint becomes visible.
#[derive(Debug)]
enum Place {
    /// On disk: by its name. The lock shows cleaners that the writer is alive.
    Renamed { _lock: Option<FolderLock> },
    /// In a store: by its last file. Whoever held the lease on MODEL_DIR must hold it still.
    LastFile { model_dir: Path, lease: Option<Box<Holder>> },
    /// In a store that has it already: not at all.
    There,
}

#[derive(Debug, Default)]
struct State {
    leaves: Leaves,
    /// Which array has which folder.
    folders: BTreeMap<String, String>,
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
        let (temporary, place) = match unfinished::is_store(model_dir) {
            true => (finished.clone(), begin_in_store(model_dir, &finished)?),
            false => {
                let temporary = create_temporary(&finished)?;
                let lock = match temporary.try_lock()? {
                    Locked::Held(lock) => Some(lock),
                    Locked::Busy | Locked::Unsupported => None,
                };
                (temporary, Place::Renamed { _lock: lock })
            }
        };
        let state = Mutex::default();
        let compression = Compression::default();
        let committed = false;
        Ok(Self { temporary, finished, target_dtype, compression, state, place, committed })
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

    /// As [`Writer::array`], of an array that `read` yields part by part: no more than a chunk of it is
    /// held, unless it lies in the file `checkpoint`.
    pub fn parts(
        &self,
        array: ArrayInfo<'_>,
        read: &mut zarr::ReadPart<'_, CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let ArrayInfo { name, dtype, shape } = array;
        if is_inline(name, shape) {
            let whole: Vec<Range<usize>> = shape.iter().map(|size| 0..*size).collect();
            self.inline(name, read(&whole)?);
            return Ok(());
        }
        let leaf = self.zarr_leaf(name, dtype, shape)?;
        let folder = ArrayFolder { writer: self, name: &leaf.dir };
        zarr::write_parts(&folder, shape, &layout(&leaf), read)?;
        self.state().leaves.insert(name.to_string(), Leaf::Zarr(leaf));
        Ok(())
    }

    /// Writes an array into a folder of its own, chunk by chunk.
    pub fn zarr(&self, name: &str, array: ArrayView<'_>) -> Result<(), CheckpointError> {
        let expected = array.shape.iter().product::<usize>() * array.dtype.size();
        assert_eq!(array.data.len(), expected, "`{name}` has the bytes of its shape");
        let leaf = self.zarr_leaf(name, array.dtype, array.shape)?;
        let folder = ArrayFolder { writer: self, name: &leaf.dir };
        zarr::write(&folder, array, &layout(&leaf))?;
        self.state().leaves.insert(name.to_string(), Leaf::Zarr(leaf));
        Ok(())
    }

    /// Makes the folder of an array.
    fn zarr_leaf(
        &self,
        name: &str,
        dtype: DType,
        shape: &[usize],
    ) -> Result<ZarrLeaf, CheckpointError> {
        let leaf = ZarrLeaf {
            dir: name.replace('/', "."),
            dtype: self.stored_dtype(name, dtype),
            shape: shape.to_vec(),
            // As T5X does, from the type before it is rounded.
            chunks: zarr::choose_chunks(shape, dtype.size()),
            compression: self.compression,
        };
        self.claim(name, &leaf.dir)?;
        self.temporary.join(&leaf.dir).create_dir_all()?;
        Ok(leaf)
    }

    /// Takes a folder for an array.
    ///
    /// # Errors
    /// It is none of its own.
    fn claim(&self, name: &str, folder: &str) -> Result<(), CheckpointError> {
        let refused = |reason: String| {
            let path = self.finished.to_string();
            Err(CheckpointError::Export { path, reason: format!("its array `{name}` {reason}") })
        };
        if ["", ".", "..", CHECKPOINT_FILE, "gimlet"].contains(&folder) {
            return refused("has no name that a folder can have".to_string());
        }
        let mut state = self.state();
        match state.folders.get(folder) {
            Some(other) if other != name => {
                refused(format!("would lie in the folder `{folder}` of `{other}`"))
            }
            _ => {
                state.folders.insert(folder.to_string(), name.to_string());
                Ok(())
            }
        }
    }

    /// Keeps an array for the file `checkpoint`.
    fn inline(&self, name: &str, array: Array) {
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
        let leaves = std::mem::take(&mut self.state().leaves);
        if let Place::Renamed { .. } = self.place {
            self.file(CHECKPOINT_FILE, &mut |out| encode(&leaves, out))?;
            self.write_checksums()?;
            self.commit_by_name()?;
        } else {
            self.commit_by_last_file(&leaves)?;
        }
        Ok(self.finished.clone())
    }

    fn write_checksums(&self) -> Result<(), CheckpointError> {
        let checksums = std::mem::take(&mut self.state().checksums);
        self.extra(CHECKSUMS_FILE, &checksums.to_text())
    }

    fn commit_by_name(&mut self) -> Result<(), CheckpointError> {
        self.temporary.sync_tree()?;
        if !self.finished.exists()? {
            self.temporary.rename(&self.finished)?;
            self.committed = true;
        } else if !is_whole(&self.finished)? {
            self.replace()?;
            self.committed = true;
        }
        Ok(())
    }

    /// The tree, which makes the checkpoint one, is written when everything else is there.
    fn commit_by_last_file(&mut self, leaves: &Leaves) -> Result<(), CheckpointError> {
        let Place::LastFile { model_dir, lease } = &self.place else {
            self.committed = true;
            return Ok(());
        };
        let file = self.finished.join(CHECKPOINT_FILE);
        let mut tree = Summing::new(Vec::new());
        encode(leaves, &mut tree).map_err(|error| StorageError::new("write", &file, error))?;
        let (tree, checksum) = tree.finish();
        self.state().checksums.files.insert(CHECKPOINT_FILE.to_string(), checksum);
        self.write_checksums()?;
        unfinished::check_lease(model_dir, lease.as_deref())?;
        file.write_atomic(&tree)?;
        self.committed = true;
        // It does no harm where it stays.
        let _ = unfinished::unmark(&self.finished);
        Ok(())
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
        if let Place::There = self.place {
            return Ok(());
        }
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
        // What cannot be removed now is removed by the next run; see `remove_stale`.
        match &self.place {
            _ if self.committed => {}
            Place::Renamed { .. } => drop(self.temporary.remove_dir_all()),
            Place::LastFile { model_dir, lease } => {
                // Where another process has taken over, the folder may be its own by now.
                if unfinished::check_lease(model_dir, lease.as_deref()).is_ok() {
                    let _ = unfinished::remove(&self.finished);
                }
            }
            Place::There => {}
        }
    }
}

fn layout(leaf: &ZarrLeaf) -> Layout<'_> {
    Layout { dtype: leaf.dtype, chunks: &leaf.chunks, compression: leaf.compression }
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

/// Makes room for a checkpoint in a store and marks it as unfinished. As on disk, a whole one stays and a
/// damaged one is replaced.
fn begin_in_store(model_dir: &Path, finished: &Path) -> Result<Place, CheckpointError> {
    let lease = unfinished::own_lease(model_dir)?;
    if finished.is_dir()? {
        if is_whole(finished)? {
            return Ok(Place::There);
        }
        unfinished::remove(finished)?;
    }
    unfinished::mark(finished)?;
    Ok(Place::LastFile { model_dir: model_dir.clone(), lease: lease.map(Box::new) })
}

/// Whether what lies under the name of a checkpoint is a whole one, of whatever format. Where it is not,
/// it may be replaced.
///
/// # Errors
/// It is nobody's to replace: a damaged checkpoint of another program, or one that cannot be read.
fn is_whole(finished: &Path) -> Result<bool, CheckpointError> {
    let (format, found) = match open(finished) {
        Ok(there) => (there.format(), there.verify()),
        Err(error) => (recognize(finished)?, Err(error)),
    };
    match found {
        Ok(()) => Ok(true),
        Err(error) if error.is_damage() && format == Format::T5x => Ok(false),
        Err(error) => Err(error),
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
