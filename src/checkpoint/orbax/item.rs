//! The folder of a checkpoint that holds the arrays, and access to each array.

use super::metadata::{OLD_TREE, STRINGS, TREE};
use super::ocdbt::{self, Entries, MANIFEST};
use crate::error::CheckpointError;
use crate::native::{Checked, Checksums};
use crate::zarr::{FileRange, Files, Folder};
use gimlet_storage::Path;

/// Names of this folder in checkpoints of T5X and others.
const ITEMS: [&str; 4] = ["state", "default", "params", "items"];

/// Prefix of the databases of single processes.
const PROCESS: &str = "ocdbt.process_";

/// An open folder of arrays.
#[derive(Debug)]
pub struct Item {
    dir: Path,
    /// The keys of the database; `None` if each array has a folder.
    entries: Option<Entries>,
    /// The checksums, if Gimlet wrote the checkpoint.
    checksums: Option<Checksums>,
}

impl Item {
    /// Opens the folder of arrays in a checkpoint, or at the path itself.
    pub fn open(checkpoint: &Path) -> Result<Self, CheckpointError> {
        let dir = find(checkpoint)?;
        let entries = match dir.join(MANIFEST).exists()? {
            true => Some(ocdbt::open(checkpoint, &dir)?),
            false => of_processes(checkpoint, &dir)?,
        };
        // Gimlet does not write databases.
        let checksums = match &entries {
            None => Checksums::load(&dir)?,
            Some(_) => None,
        };
        if let Some(checksums) = &checksums {
            [TREE, STRINGS].iter().try_for_each(|file| checksums.verify(&dir, file))?;
        }
        Ok(Self { dir, entries, checksums })
    }

    /// The path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The checksums of its files, if any.
    pub fn checksums(&self) -> Option<&Checksums> {
        self.checksums.as_ref()
    }

    /// Returns the files of the array with this name.
    pub fn array<'a>(&'a self, checkpoint: &'a Path, name: &'a str) -> Box<dyn Files + 'a> {
        match &self.entries {
            None => {
                let folder = Folder { checkpoint, dir: self.dir.join(name) };
                Box::new(Checked { folder, name, checksums: self.checksums() })
            }
            Some(entries) => Box::new(Keys { entries, prefix: format!("{name}/") }),
        }
    }
}

/// Finds the folder of arrays: the checkpoint itself, one of the usual names, or the only such folder.
fn find(checkpoint: &Path) -> Result<Path, CheckpointError> {
    let is_item = |dir: &Path| -> Result<bool, CheckpointError> {
        Ok(dir.join(TREE).exists()? || dir.join(OLD_TREE).exists()?)
    };
    let usual = std::iter::once(checkpoint.clone());
    for dir in usual.chain(ITEMS.map(|item| checkpoint.join(item))) {
        if is_item(&dir)? {
            return Ok(dir);
        }
    }
    let mut items = Vec::new();
    for dir in checkpoint.list()? {
        if dir.is_dir()? && is_item(&dir)? {
            items.push(dir);
        }
    }
    if let [item] = &items[..] {
        return Ok(item.clone());
    }
    let names: Vec<String> = items.iter().map(|item| format!("`{}`", item.file_name())).collect();
    let reason = match names.is_empty() {
        true => format!("no folder in it holds a file `{TREE}`"),
        false => format!("it holds {}; name one of these folders", names.join(", ")),
    };
    Err(CheckpointError::NotACheckpoint { path: checkpoint.to_string(), reason })
}

/// Opens the databases of single processes that were not merged.
fn of_processes(checkpoint: &Path, dir: &Path) -> Result<Option<Entries>, CheckpointError> {
    let mut merged: Option<Entries> = None;
    for process in dir.list()?.iter().filter(|path| path.file_name().starts_with(PROCESS)) {
        let entries = ocdbt::open(checkpoint, process)?;
        merged.get_or_insert_default().extend(entries);
    }
    Ok(merged)
}

/// The keys of a database that begin with an array's name.
struct Keys<'a> {
    entries: &'a Entries,
    prefix: String,
}

impl Files for Keys<'_> {
    fn place(&self, name: &str) -> Option<FileRange> {
        self.entries.get(&format!("{}{name}", self.prefix)).cloned()
    }

    fn shown(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}
