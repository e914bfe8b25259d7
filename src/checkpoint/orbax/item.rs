//! The folder of a checkpoint in which the arrays lie, and how to get at one of them.

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::zarr::{Files, Folder, Place};
use crate::storage::Path;

use super::metadata::{OLD_TREE, TREE};
use super::ocdbt::{self, Entries, MANIFEST};

/// What the folder is called that T5X and others put everything into.
const ITEMS: [&str; 4] = ["state", "default", "params", "items"];

/// Where the names of databases of single processes begin.
const PROCESS: &str = "ocdbt.process_";

/// An open folder of arrays.
#[derive(Debug)]
pub struct Item {
    dir: Path,
    /// The keys of the database; `None` where each array has a folder.
    entries: Option<Entries>,
}

impl Item {
    /// Opens what lies in a checkpoint or is itself the folder of arrays.
    pub fn open(checkpoint: &Path) -> Result<Self, CheckpointError> {
        let dir = find(checkpoint)?;
        let entries = match dir.join(MANIFEST).exists()? {
            true => Some(ocdbt::open(checkpoint, &dir)?),
            false => of_processes(checkpoint, &dir)?,
        };
        Ok(Self { dir, entries })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files of the array of that name.
    pub fn array<'a>(&'a self, checkpoint: &'a Path, name: &str) -> Box<dyn Files + 'a> {
        let dir = self.dir.join(name);
        match &self.entries {
            None => Box::new(Folder { checkpoint, dir }),
            Some(entries) => Box::new(Keys { entries, prefix: format!("{name}/") }),
        }
    }
}

fn find(checkpoint: &Path) -> Result<Path, CheckpointError> {
    let folders = std::iter::once(checkpoint.clone());
    for dir in folders.chain(ITEMS.map(|item| checkpoint.join(item))) {
        for file in [TREE, OLD_TREE] {
            if dir.join(file).exists()? {
                return Ok(dir);
            }
        }
    }
    let named: Vec<String> = checkpoint
        .list()?
        .iter()
        .filter(|path| path.is_dir().unwrap_or(false))
        .map(|path| format!("`{}`", path.file_name()))
        .collect();
    let holds = if named.is_empty() { "no folder".to_string() } else { named.join(", ") };
    Err(CheckpointError::NotACheckpoint {
        path: checkpoint.to_string(),
        reason: format!(
            "it holds {holds}, but no file `state/{TREE}`; name the folder with `{TREE}` itself"
        ),
    })
}

/// The databases of single processes, where nobody merged them.
fn of_processes(checkpoint: &Path, dir: &Path) -> Result<Option<Entries>, CheckpointError> {
    let mut merged: Option<Entries> = None;
    for process in dir.list()?.iter().filter(|path| path.file_name().starts_with(PROCESS)) {
        let entries = ocdbt::open(checkpoint, process)?;
        merged.get_or_insert_default().extend(entries);
    }
    Ok(merged)
}

/// The keys of a database that begin as an array's name.
struct Keys<'a> {
    entries: &'a Entries,
    prefix: String,
}

impl Files for Keys<'_> {
    fn place(&self, name: &str) -> Option<Place> {
        self.entries.get(&format!("{}{name}", self.prefix)).cloned()
    }

    fn shown(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}
