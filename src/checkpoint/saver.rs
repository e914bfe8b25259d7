//! Saves checkpoints in the background: the state is copied, and a thread writes the copy.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use super::array::{Array, ArrayView, DType};
use super::best::Best;
use super::error::CheckpointError;
use super::export::TrainerForm;
use super::native::{Procedure, Shard, Writer};
use super::numpy_files::write_numpy_files;
use super::retention::Retention;
use super::zarr::Compression;
use gimlet_storage::{Path, Unsent};
use gimlet_telemetry::Wait;

/// An array, or the part of an array that this process holds.
#[derive(Debug)]
struct Copied {
    name: String,
    array: Array,
    /// `None` for an array that every process holds as a whole.
    part: Option<ShardPosition>,
}

/// Position of a part in its array; see [`Shard`].
#[derive(Debug)]
struct ShardPosition {
    shape: Vec<usize>,
    part: Vec<usize>,
    start: Vec<usize>,
    holders: Vec<usize>,
}

impl Copied {
    fn shard(&self, writer: &Writer) -> (&str, Shard<'_>) {
        let array = self.array.view();
        let shard = match &self.part {
            None => Shard::whole(array, writer.ranks()),
            Some(ShardPosition { shape, part, start, holders }) => Shard {
                shape: shape.clone(),
                part: part.clone(),
                start: start.clone(),
                holders: holders.clone(),
                array,
            },
        };
        (&self.name, shard)
    }
}

/// The contents of a checkpoint, copied to memory. The memory is reused for later saves: arrays
/// that come again in the same order overwrite their old values.
#[derive(Debug, Default)]
pub struct Snapshot {
    arrays: Vec<Copied>,
    num_arrays: usize,
    nones: Vec<String>,
    extras: Vec<(String, Vec<u8>)>,
    before: Vec<Unsent>,
    numpy: Vec<(String, Array)>,
    trainer: Option<(Path, Box<TrainerForm>)>,
}

impl Snapshot {
    /// Copies an array; if there are several processes, every process holds the whole array.
    pub fn array(&mut self, name: &str, array: ArrayView<'_>) {
        self.copy(name, array, None);
    }

    /// Copies the part of an array that this process holds, with its elements if it writes them: see
    /// [`writes`](crate::writes).
    pub fn shard(&mut self, name: &str, shard: Shard<'_>) {
        let Shard { shape, part, start, holders, array } = shard;
        self.copy(name, array, Some(ShardPosition { shape, part, start, holders }));
    }

    fn copy(&mut self, name: &str, array: ArrayView<'_>, part: Option<ShardPosition>) {
        let is_same = |old: &Copied| {
            let Copied { name: old_name, array: Array { dtype, shape, data }, .. } = old;
            old_name == name
                && (*dtype, &shape[..], data.len()) == (array.dtype, array.shape, array.data.len())
        };
        match self.arrays.get_mut(self.num_arrays) {
            Some(old) if is_same(old) => {
                old.array.data.copy_from_slice(array.data);
                old.part = part;
            }
            _ => {
                self.arrays.truncate(self.num_arrays);
                self.arrays.push(Copied { name: name.to_string(), array: array.to_array(), part });
            }
        }
        self.num_arrays += 1;
    }

    /// Adds None under a name: T5X requires the name of a parameter even where no optimizer has a state for it.
    pub fn none(&mut self, name: &str) {
        self.nones.push(name.to_string());
    }

    /// Adds a file beside the arrays.
    pub fn extra(&mut self, relative: &str, bytes: Vec<u8>) {
        self.extras.push((relative.to_string(), bytes));
    }

    /// Sends files to their store before the checkpoint becomes visible there, such as the metrics
    /// of its steps: a run that is killed later could never write these metrics again.
    pub fn after(&mut self, unsent: impl IntoIterator<Item = Unsent>) {
        self.before.extend(unsent);
    }

    /// Adds a parameter that becomes a file of numpy's, written by this process.
    pub fn numpy_file(&mut self, param: &str, array: ArrayView<'_>) {
        self.numpy.push((param.to_string(), array.to_array()));
    }

    /// Asks for this Trainer's file instead of T5X's folder. Then the first of several processes must have copied every array
    /// as a whole.
    pub fn as_trainer(&mut self, file: Path, form: TrainerForm) {
        self.trainer = Some((file, Box::new(form)));
    }

    /// The arrays by name.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.arrays.iter().map(|copied| (&copied.name[..], &copied.array))
    }

    /// Files that must be in the store before the checkpoint is visible there.
    pub(super) fn before(&self) -> &[Unsent] {
        &self.before
    }

    /// The files beside the arrays.
    pub(super) fn extras(&self) -> &[(String, Vec<u8>)] {
        &self.extras
    }

    fn clear(&mut self) {
        self.trainer = None;
        self.num_arrays = 0;
        self.nones.clear();
        self.extras.clear();
        self.before.clear();
        self.numpy.clear();
    }
}

/// Settings for saving checkpoints.
#[derive(Clone, Debug)]
pub struct Saving {
    /// The folder of checkpoints.
    pub model_dir: Path,
    /// The type to which floats below `target/` are rounded; `None` keeps their types.
    pub target_dtype: Option<DType>,
    /// Compression of the arrays' chunks.
    pub compression: Compression,
    /// Number of checkpoints to keep.
    pub retention: Retention,
    /// How checkpoints become visible. Several processes save the same steps, and the first removes
    /// old checkpoints.
    pub procedure: Procedure,
}

/// A save in progress.
#[derive(Debug)]
struct Running {
    step: u64,
    /// Total bytes of the arrays, and the bytes written so far.
    total: u64,
    written: Arc<AtomicU64>,
    thread: JoinHandle<Result<Snapshot, CheckpointError>>,
}

impl Running {
    /// Waits until the save has finished. After two seconds the user sees the reason and the
    /// progress.
    fn join(self) -> std::thread::Result<Result<Snapshot, CheckpointError>> {
        let what = format!("waiting until the checkpoint of step {} is saved", self.step);
        let wait = || Wait::of(&what, self.total, self.written.clone());
        let _wait = (!self.thread.is_finished()).then(wait);
        self.thread.join()
    }
}

/// Saves checkpoints on a thread, one at a time, and holds at most one copy of the state. Dropping
/// the saver waits for the save in progress.
#[derive(Debug)]
pub struct Saver {
    saving: Saving,
    running: Option<Running>,
    spare: Snapshot,
}

impl Saver {
    /// Creates a saver without a save in progress.
    pub fn new(saving: Saving) -> Self {
        Self { saving, running: None, spare: Snapshot::default() }
    }

    /// Saves the snapshot that `copy` fills as the checkpoint of a step, then removes old
    /// checkpoints; `best` ranks the steps by a metric, if given. Waits for the previous save and
    /// for `copy`, not for the disk.
    ///
    /// # Errors
    /// Errors of the previous save.
    pub fn save(
        &mut self,
        step: u64,
        best: Option<Best>,
        copy: impl FnOnce(&mut Snapshot),
    ) -> Result<(), CheckpointError> {
        self.wait()?;
        let mut snapshot = std::mem::take(&mut self.spare);
        snapshot.clear();
        copy(&mut snapshot);
        snapshot.arrays.truncate(snapshot.num_arrays);
        let saving = self.saving.clone();
        let total = snapshot.arrays.iter().map(|copied| copied.array.data.len() as u64).sum();
        let written = Arc::new(AtomicU64::new(0));
        let counted = written.clone();
        let write = move || {
            let params = snapshot.numpy.iter().map(|(name, array)| (&name[..], array.view()));
            write_numpy_files((&saving.model_dir, step), params, saving.target_dtype)?;
            match &snapshot.trainer {
                Some((file, form)) => {
                    saving.write_trainer((file, step), &snapshot, form, &counted)?;
                }
                None => saving.write(step, &snapshot, counted)?,
            }
            if saving.is_first() {
                saving.prune(step, best.as_ref());
            }
            Ok(snapshot)
        };
        let thread = std::thread::Builder::new().name(format!("save-{step}"));
        let thread = thread.spawn(write).expect("the system has room for a thread");
        self.running = Some(Running { step, total, written, thread });
        Ok(())
    }

    /// Reports an error of a save that has finished; never waits.
    ///
    /// # Errors
    /// The error of the save.
    pub fn check(&mut self) -> Result<(), CheckpointError> {
        match &self.running {
            Some(running) if running.thread.is_finished() => self.wait(),
            _ => Ok(()),
        }
    }

    /// Waits for the save in progress, if any, and tells the user after two seconds.
    ///
    /// # Errors
    /// The error of the save; no partial checkpoint is visible then.
    pub fn wait(&mut self) -> Result<(), CheckpointError> {
        if let Some(running) = self.running.take() {
            let written = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.spare = written?;
        }
        Ok(())
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        // The panic has already been printed, and a second panic while unwinding would abort.
        if let Some(Ok(Err(error))) = self.running.take().map(Running::join) {
            gimlet_telemetry::warn(&error.to_string());
        }
    }
}

/// Writes arrays; if there are several processes, every process holds whole arrays; see
/// [`Writer::shards`].
///
/// # Errors
/// The first error; arrays that have not been started by then are not written.
pub fn write_arrays(
    writer: &Writer,
    arrays: &[(&str, ArrayView<'_>)],
) -> Result<(), CheckpointError> {
    let whole: Vec<_> =
        arrays.iter().map(|&(name, array)| (name, Shard::whole(array, writer.ranks()))).collect();
    writer.shards(&whole)
}

impl Saving {
    /// Removes old checkpoints after a save. An error is only reported: an old checkpoint costs
    /// space, but ending the run costs more.
    fn prune(&self, step: u64, best: Option<&Best>) {
        if let Err(error) = self.retention.apply(&self.model_dir, step, best) {
            gimlet_telemetry::warn(&format!(
                "{error}; the run continues, and old checkpoints are removed after the next save"
            ));
        }
    }

    fn write(
        &self,
        step: u64,
        snapshot: &Snapshot,
        written: Arc<AtomicU64>,
    ) -> Result<(), CheckpointError> {
        let writer = Writer::begin(&self.model_dir, step, self.target_dtype, &self.procedure)?
            .with_compression(self.compression)
            .counting(written);
        let shards: Vec<(&str, Shard<'_>)> =
            snapshot.arrays.iter().map(|copied| copied.shard(&writer)).collect();
        writer.shards(&shards)?;
        snapshot.nones.iter().for_each(|name| writer.other(name, &rmpv::Value::Nil));
        snapshot.extras.iter().try_for_each(|(name, bytes)| writer.extra(name, bytes))?;
        for unsent in &snapshot.before {
            // Upload errors of these files are already reported; the checkpoint is more important.
            unsent.send();
        }
        writer.commit().map(drop)
    }

    /// Whether this process is the only one or the first.
    pub(super) fn is_first(&self) -> bool {
        self.procedure.share.as_ref().is_none_or(|share| share.rank == 0)
    }
}
