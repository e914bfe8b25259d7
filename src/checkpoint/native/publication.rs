//! Decides where a checkpoint is written and how it becomes visible: on disk by its name, in a
//! store by its last file or by its name. A checkpoint that several processes save becomes visible
//! by its name everywhere.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::procedure::Procedure;
use super::share::Share;
use super::written_format::SmallFile;
use crate::error::CheckpointError;
use crate::format::Format;
use crate::marks::{CHECKPOINT_FILE, CHECKSUMS_FILE, ORBAX_ITEM, TEMPORARY_MARK};
use crate::open::{open, recognize};
use crate::spec::Commit;
use crate::{parallel, unfinished};
use gimlet_storage::{FileWriter, Holder, Lock, Locked, Path, StorageError, Takeover};

/// The way in which the checkpoint becomes visible.
#[derive(Debug)]
pub(super) enum Publication {
    /// By its name, on disk. The lock shows cleaners that the writer is alive.
    Renamed { _lock: Option<Lock> },
    /// By its name, in a store that copies the files to that name.
    Moved(Tenure),
    /// By its last file, in a store.
    LastFile(Tenure),
    /// Not at all: the store already has the checkpoint.
    There,
    /// By another process.
    Another,
}

/// The holder of the lease on MODEL_DIR, if any, when the checkpoint was begun; the same process
/// must still hold the lease at the end.
#[derive(Debug)]
pub(super) struct Tenure {
    model_dir: Path,
    lease: Option<Box<Holder>>,
    /// Whether the user says that the process that marked the checkpoint is dead.
    takeover: Takeover,
}

impl Tenure {
    fn begin(model_dir: &Path, takeover: Takeover) -> Result<Self, CheckpointError> {
        let lease = unfinished::own_lease(model_dir)?.map(Box::new);
        Ok(Self { model_dir: model_dir.clone(), lease, takeover })
    }

    /// Checks that no other process is writing a checkpoint that is to be replaced.
    fn refuse_busy(&self, checkpoint: &Path) -> Result<(), CheckpointError> {
        match self.takeover {
            Takeover::Yes => Ok(()),
            Takeover::No => unfinished::refuse_busy(checkpoint, self.lease.as_deref()),
        }
    }

    fn check(&self) -> Result<(), CheckpointError> {
        unfinished::check_lease(&self.model_dir, self.lease.as_deref())
    }
}

impl Publication {
    /// Makes room for a checkpoint, and returns the folder to write into. Other processes that
    /// share the work can then begin.
    pub fn begin(
        model_dir: &Path,
        finished: &Path,
        Procedure { commit, share }: &Procedure,
    ) -> Result<(Path, Self), CheckpointError> {
        let is_store = unfinished::is_store(model_dir);
        if is_store && *commit == Commit::LastFile && share.is_none() {
            let tenure = Tenure::begin(model_dir, Takeover::No)?;
            return Ok((finished.clone(), begin_in_store(tenure, finished)?));
        }
        let begin = || Tenure::begin(model_dir, Takeover::No);
        let tenure = is_store.then(begin).transpose()?;
        let temporary = match share {
            None => create_temporary(finished)?,
            Some(share) => {
                let temporary = shared_temporary(finished, share);
                temporary.create_dir_new()?;
                temporary
            }
        };
        let lock = match temporary.try_lock()? {
            Locked::Held(lock) => Some(lock),
            Locked::Busy | Locked::Unsupported => None,
        };
        if is_store || share.is_some() {
            unfinished::mark(&temporary, share.as_ref().map(|share| &share.save_id[..]))?;
        }
        Ok((temporary, tenure.map_or(Self::Renamed { _lock: lock }, Self::Moved)))
    }

    /// Like [`Place::begin`], for a conversion, which starts over if an earlier one was killed.
    ///
    /// # Errors
    /// Another process writes the checkpoint, or may be writing it.
    pub fn convert(
        model_dir: &Path,
        finished: &Path,
        takeover: Takeover,
    ) -> Result<(Path, Self), CheckpointError> {
        if unfinished::is_store(model_dir) {
            let place = begin_in_store(Tenure::begin(model_dir, takeover)?, finished)?;
            if let Self::LastFile(tenure) = &place {
                // Another process may have marked the checkpoint at the same moment.
                tenure.refuse_busy(finished)?;
            }
            return Ok((finished.clone(), place));
        }
        // All conversions use the same name, and only one of them can create the folder.
        let temporary = temporary(finished, "conversion");
        match temporary.create_dir_new() {
            Err(error) if already_exists(&error) => {
                return Err(CheckpointError::converting(&temporary));
            }
            created => created?,
        }
        match temporary.try_lock()? {
            Locked::Held(lock) => Ok((temporary, Self::Renamed { _lock: Some(lock) })),
            Locked::Unsupported => Ok((temporary, Self::Renamed { _lock: None })),
            // A process that removes leftovers saw the folder before it was locked.
            Locked::Busy => Err(CheckpointError::converting(&temporary)),
        }
    }

    /// Checks that a conversion does not find a complete checkpoint, which would stay.
    pub fn refuse_whole(&self, finished: &Path) -> Result<(), CheckpointError> {
        let is_there = match self {
            Self::There => true,
            Self::Renamed { .. } => finished.exists()? && is_whole(finished)?,
            _ => false,
        };
        if !is_there {
            return Ok(());
        }
        let reason = "it is there already; name another folder or remove it".to_string();
        Err(CheckpointError::Export { path: finished.to_string(), reason })
    }

    /// Waits until the first process has begun, and returns the folder to write into.
    pub fn join(finished: &Path, share: &Share) -> Result<(Path, Self), CheckpointError> {
        let folder = shared_temporary(finished, share);
        share.wait_for_start(&folder)?;
        Ok((folder, Self::Another))
    }

    /// Whether other programs and processes see the folder while it is written.
    pub fn is_in_store(&self) -> bool {
        matches!(self, Self::Moved(_) | Self::LastFile(_))
    }

    /// Writes the last files, of which the final one makes the folder a checkpoint, and makes the
    /// checkpoint visible.
    pub fn commit(
        &self,
        (temporary, finished): (&Path, &Path),
        ending: &[SmallFile],
    ) -> Result<(), CheckpointError> {
        if let Self::There = self {
            return Ok(());
        }
        let (last, others) = ending.split_last().expect("a tree has a file");
        others.iter().try_for_each(|file| self.write(temporary, file))?;
        self.write(temporary, last)?;
        if let Self::LastFile(_) = self {
            // The checkpoint is complete: the next run removes a leftover mark.
            if let Err(error) = unfinished::unmark(finished) {
                gimlet_telemetry::warn(&format!("{error}; the checkpoint is whole"));
            }
            return Ok(());
        }
        if let Self::Renamed { .. } = self {
            unfinished::unmark(temporary)?;
            temporary.sync_tree()?;
        }
        self.take_name(temporary, finished)
    }

    /// Begins one of the checkpoint's files, of approximately `size` bytes if known.
    pub fn create(&self, file: &Path, size: Option<usize>) -> Result<FileWriter, CheckpointError> {
        Ok(match size {
            Some(size) => file.create_sized(size)?,
            None => file.create()?,
        })
    }

    /// Closes a file, which becomes durable with its folder. Under the final name, a process writes
    /// nothing after another process has taken over, and does not replace the other's files, even
    /// if it was suspended after its last check of the lease.
    pub fn close(&self, file: FileWriter) -> Result<(), CheckpointError> {
        match self {
            Self::LastFile(tenure) => file.finish_while(&|| tenure.check()),
            _ => Ok(file.close()?),
        }
    }

    fn write(&self, folder: &Path, (name, bytes): &SmallFile) -> Result<(), CheckpointError> {
        let file = folder.join(name);
        file.parent().expect("it lies in a folder").create_dir_all()?;
        let mut out = self.create(&file, Some(bytes.len()))?;
        out.write_all(bytes).map_err(|error| StorageError::new("write", &file, error))?;
        self.close(out)
    }

    /// Gives the folder its final name, unless a complete checkpoint has that name; a damaged
    /// checkpoint is replaced.
    fn take_name(&self, temporary: &Path, finished: &Path) -> Result<(), CheckpointError> {
        let is_there = finished.exists()?;
        if is_there && is_whole(finished)? {
            return Ok(temporary.remove_dir_all()?);
        }
        match self {
            Self::Moved(tenure) => {
                tenure.check()?;
                move_files(temporary, finished, tenure)
            }
            _ if is_there => replace(temporary, finished),
            _ => Ok(temporary.rename(finished)?),
        }
    }

    /// Removes the written files. The next run removes files that cannot be removed now; see
    /// `remove_stale`.
    pub fn give_up(&self, (temporary, finished): (&Path, &Path)) {
        match self {
            Self::Renamed { .. } => drop(temporary.remove_dir_all()),
            Self::Moved(tenure) | Self::LastFile(tenure) => {
                // If another process has taken over, the folder may belong to that process by now.
                if tenure.check().is_ok() {
                    let _ = unfinished::remove(temporary);
                    if unfinished::is_own(finished).unwrap_or(false) {
                        let _ = unfinished::remove(finished);
                    }
                }
            }
            Self::There | Self::Another => {}
        }
    }
}

/// Renames the files of a folder in a store to those of another folder, whose checkpoint is damaged
/// or missing. Both folders are marked during the move; the file that makes the folder a checkpoint
/// is moved last.
fn move_files(temporary: &Path, finished: &Path, tenure: &Tenure) -> Result<(), CheckpointError> {
    if finished.exists()? {
        tenure.refuse_busy(finished)?;
        unfinished::remove(finished)?;
    }
    unfinished::mark(finished, None)?;
    let last = temporary.join(CHECKPOINT_FILE);
    let files = temporary.walk()?;
    let others = files.iter().filter(|file| **file != last && !unfinished::is_mark(file));
    // Copies cannot be conditional, so the lease is checked before each copy; a gap of one request remains.
    let rename = |file: &Path| {
        tenure.check()?;
        Ok::<_, CheckpointError>(file.rename(&finished.join(file.relative_to(temporary)))?)
    };
    parallel::for_each(parallel::num_threads(finished), others, rename)?;
    rename(&last)?;
    // Leftover marks are harmless.
    let _ = unfinished::unmark(finished);
    let _ = unfinished::unmark(temporary);
    Ok(())
}

/// Makes room for a checkpoint in a store and marks the checkpoint as unfinished. As on disk, a
/// complete checkpoint stays and a damaged one is replaced.
fn begin_in_store(tenure: Tenure, finished: &Path) -> Result<Publication, CheckpointError> {
    if finished.is_dir()? {
        // A partial checkpoint may look like a complete one.
        if !unfinished::is_unfinished(finished)? && is_whole(finished)? {
            return Ok(Publication::There);
        }
        tenure.refuse_busy(finished)?;
        unfinished::remove(finished)?;
    }
    unfinished::mark(finished, None)?;
    Ok(Publication::LastFile(tenure))
}

/// Whether a complete checkpoint of any format exists at this path. A damaged one may be replaced
/// if it is T5X's, or Orbax's and written by Gimlet.
///
/// # Errors
/// The checkpoint must not be replaced: it is another program's and damaged, or it cannot be read.
fn is_whole(finished: &Path) -> Result<bool, CheckpointError> {
    // Only Gimlet writes this file into an Orbax checkpoint.
    let orbax_sums = finished.join(ORBAX_ITEM).join(CHECKSUMS_FILE);
    let (format, found) = match open(finished, &[]) {
        Ok(there) => (there.format(), there.verify()),
        Err(error) => (recognize(finished)?, Err(error)),
    };
    match found {
        Ok(()) => Ok(true),
        Err(error) if error.is_damage() && format == Format::T5x => Ok(false),
        Err(error) if error.is_damage() && orbax_sums.exists()? => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces a damaged checkpoint by the new one.
fn replace(temporary: &Path, finished: &Path) -> Result<(), CheckpointError> {
    let damaged = create_temporary(finished)?;
    finished.rename(&damaged)?;
    temporary.rename(finished)?;
    Ok(damaged.remove_dir_all()?)
}

/// The folder in which several processes write one checkpoint. Each attempt has a different folder,
/// so that a late process cannot write into another attempt's folder.
fn shared_temporary(finished: &Path, share: &Share) -> Path {
    temporary(finished, &share.save_id)
}

/// Creates a new folder `NAME.tmp-TIME.gimlet`; with a later time if two saves fall into one
/// second.
pub(crate) fn create_temporary(finished: &Path) -> Result<Path, CheckpointError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    for time in now.. {
        let temporary = temporary(finished, &time.to_string());
        match temporary.create_dir_new() {
            Ok(()) => return Ok(temporary),
            Err(error) if already_exists(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("time has no end")
}

/// The folder `NAME.tmp-LABEL.gimlet` beside a checkpoint.
fn temporary(finished: &Path, label: &str) -> Path {
    let parent = finished.parent().expect("a checkpoint lies in a folder");
    parent.join(&format!("{}.tmp-{label}{TEMPORARY_MARK}", finished.file_name()))
}

fn already_exists(error: &StorageError) -> bool {
    let StorageError::Io { source, .. } = error else { return false };
    source.kind() == io::ErrorKind::AlreadyExists
}
