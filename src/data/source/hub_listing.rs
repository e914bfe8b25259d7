//! Lists the data files below a folder with the layout of the hub, and selects those that are read
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::DataError;
use gimlet_storage::Path;
use gimlet_telemetry::{notice, quoted_names};

/// A file: its path relative to the folder that was listed, and its whole path.
pub(super) type Listed = (String, Path);

/// Extensions of files that hold examples, with the format of each; if several are equally common,
/// the first is used. Source: `datasets` 5.2.0, `load.py` and `packaged_modules/__init__.py`.
const EXTENSIONS: [(&str, &str); 8] = [
    ("parquet", "Parquet"),
    ("arrow", "Arrow"),
    ("jsonl", "JSON"),
    ("json", "JSON"),
    ("csv", "CSV"),
    ("txt", "text"),
    ("tsv", "CSV"),
    ("ndjson", "JSON"),
];

/// Maximum number of omitted files that a notice names.
const MOST_NAMED: usize = 5;

/// The data files below a folder, sorted by name. A remote folder is listed once in a process:
/// every search for a split needs all of the names, and a listing takes a request for each folder.
pub(super) fn data_files(root: &Path) -> Result<Arc<[Listed]>, DataError> {
    static ELSEWHERE: Mutex<BTreeMap<Path, Arc<[Listed]>>> = Mutex::new(BTreeMap::new());
    let list = || {
        let mut files = Vec::new();
        list_below(root, "", &mut files)?;
        Ok(Arc::from(files))
    };
    if root.is_on_disk() {
        return list();
    }
    let mut known = ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(files) = known.get(root) {
        return Ok(files.clone());
    }
    let files = list()?;
    known.insert(root.clone(), files.clone());
    Ok(files)
}

fn list_below(folder: &Path, prefix: &str, files: &mut Vec<Listed>) -> Result<(), DataError> {
    for entry in folder.entries()? {
        let name = entry.path.file_name().to_string();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let relative = format!("{prefix}{name}");
        if entry.is_dir {
            list_below(&entry.path, &format!("{relative}/"), files)?;
        } else if kind_of(&name).is_some() && !is_description(&name) {
            files.push((relative, entry.path));
        }
    }
    Ok(())
}

/// The files of a split in its most common format, as `datasets` chooses it; a notice names the
/// others once in a process.
pub(super) fn of_one_format(root: &Path, split: &str, files: Vec<Path>) -> Vec<Path> {
    let mut counts: BTreeMap<(usize, bool), usize> = BTreeMap::new();
    for name in files.iter().map(Path::file_name) {
        if let Some(kind) = kind_of(name) {
            *counts.entry((kind, is_metadata(name))).or_default() += 1;
        }
    }
    let rank = |((kind, is_metadata), count): &((usize, bool), usize)| {
        (!is_metadata, *count, std::cmp::Reverse(*kind))
    };
    let Some(((kind, _), _)) = counts.into_iter().max_by_key(rank) else { return files };
    let format = EXTENSIONS[kind].1;
    let fits =
        |path: &Path| kind_of(path.file_name()).is_some_and(|kind| EXTENSIONS[kind].1 == format);
    let (kept, others): (Vec<Path>, Vec<Path>) = files.into_iter().partition(fits);
    tell_of_others(root, split, format, &others);
    kept
}

fn tell_of_others(root: &Path, split: &str, format: &str, others: &[Path]) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if others.is_empty() {
        return;
    }
    let others: Vec<_> = others.iter().map(|path| path.relative_to(root)).collect();
    let message = format!(
        "`{root}`, split '{split}': most files are {format}; left out: {}; `data_files` names \
         the files to read instead",
        quoted_names(&others, MOST_NAMED)
    );
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone()) {
        notice(&message);
    }
}

/// The extension before that of compression: `jsonl` of `a.jsonl.zst`.
pub(super) fn extension_of(file_name: &str) -> Option<&str> {
    let name = [".gz", ".zst"].iter().find_map(|ending| file_name.strip_suffix(ending));
    Some(name.unwrap_or(file_name).rsplit_once('.')?.1)
}

/// The index of a file's extension in `EXTENSIONS`.
fn kind_of(file_name: &str) -> Option<usize> {
    let extension = extension_of(file_name)?;
    EXTENSIONS.iter().position(|(known, _)| *known == extension)
}

/// Whether a file describes a data set on the hub and holds no examples.
fn is_description(name: &str) -> bool {
    matches!(
        name,
        "dataset_info.json"
            | "dataset_infos.json"
            | "dataset_dict.json"
            | "state.json"
            | "config.json"
    )
}

/// Whether a file describes other files, if there are any.
fn is_metadata(name: &str) -> bool {
    matches!(name, "metadata.csv" | "metadata.jsonl" | "metadata.parquet")
}
