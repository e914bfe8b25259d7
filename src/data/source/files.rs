//! Which files make up a split.

use std::collections::BTreeMap;

use super::spec::{DataSource, FilePattern, HuggingFaceDataSource};
use crate::data::error::DataError;
use crate::storage::Path;

/// What a file's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text.
    Text,
    /// JSON objects.
    Json,
    /// `tf.Example`s in TFRecords, as caches hold them.
    TfRecord,
}

/// A file of a split.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub path: Path,
    pub format: Format,
}

/// The files of a split in their order without shuffling: that of the patterns, then of names.
pub(crate) fn files_of(
    source: &DataSource,
    task: &str,
    split: &str,
) -> Result<Vec<SourceFile>, DataError> {
    let with = |format| move |path| SourceFile { path, format };
    match source {
        DataSource::TextLine(spec) => {
            let paths = matching(&spec.split_to_filepattern, task, split, None)?;
            Ok(paths.into_iter().map(with(Format::Text)).collect())
        }
        DataSource::JsonLines(spec) => {
            let paths = matching(&spec.split_to_filepattern, task, split, None)?;
            Ok(paths.into_iter().map(with(Format::Json)).collect())
        }
        DataSource::HuggingFace(spec) => hub_files(spec, task, split),
    }
}

/// The files that match the split's globs, below `root` if there is one.
fn matching(
    split_to_filepattern: &BTreeMap<String, FilePattern>,
    task: &str,
    split: &str,
    root: Option<&Path>,
) -> Result<Vec<Path>, DataError> {
    let Some(FilePattern(patterns)) = split_to_filepattern.get(split) else {
        return Err(unknown_split(task, split, split_to_filepattern.keys().cloned()));
    };
    let mut paths = Vec::new();
    for pattern in patterns {
        let pattern = root.map_or(pattern.clone(), |root| root.join(pattern).to_string());
        let found = Path::glob(&pattern)?;
        if found.is_empty() {
            let help = "check the path and its wildcards".to_string();
            let (task, split) = (task.to_string(), split.to_string());
            return Err(DataError::NoFiles { task, split, pattern, help });
        }
        paths.extend(found);
    }
    Ok(paths)
}

/// The splits of a source, by the names that its task gives them; of a hub folder without
/// `data_files` those of the usual three that are there.
pub(crate) fn splits_of(source: &DataSource, task: &str) -> Result<Vec<String>, DataError> {
    let named = match source {
        DataSource::TextLine(spec) => Some(&spec.split_to_filepattern),
        DataSource::JsonLines(spec) => Some(&spec.split_to_filepattern),
        DataSource::HuggingFace(spec) => spec.data_files.as_ref(),
    };
    if let Some(named) = named {
        return Ok(named.keys().cloned().collect());
    }
    let mut found = Vec::new();
    for (split, _) in SPLIT_WORDS {
        match files_of(source, task, split) {
            Ok(_) => found.push(split.to_string()),
            Err(DataError::UnknownSplit { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The error for a split that is not among the known ones.
pub(crate) fn unknown_split(
    task: &str,
    split: &str,
    known: impl Iterator<Item = String>,
) -> DataError {
    let known: Vec<String> = known.map(|name| format!("'{name}'")).collect();
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    DataError::UnknownSplit { task: task.to_string(), split: split.to_string(), known }
}

/// The files of a folder laid out as on the hub.
fn hub_files(
    spec: &HuggingFaceDataSource,
    task: &str,
    split: &str,
) -> Result<Vec<SourceFile>, DataError> {
    let mut root = hub_folder(&spec.path)?;
    if let Some(data_dir) = &spec.data_dir {
        root = root.join(data_dir);
    }
    let paths = match &spec.data_files {
        Some(data_files) => matching(data_files, task, split, Some(&root))?,
        None => by_split_names(&root, task, split)?,
    };
    let known = |path: Path| match format_of(path.file_name()) {
        Some(format) => Ok(SourceFile { path, format }),
        None => Err(DataError::UnknownFormat { file: path.to_string() }),
    };
    paths.into_iter().map(known).collect()
}

/// `NAME` is `hf://datasets/NAME`; anything that is a path already is that folder.
fn hub_folder(path: &str) -> Result<Path, DataError> {
    let is_path = path.contains("://") || path.starts_with(['/', '.']);
    let path = if is_path { path.to_string() } else { format!("hf://datasets/{path}") };
    Ok(Path::parse(&path)?)
}

fn format_of(file_name: &str) -> Option<Format> {
    let name = file_name.strip_suffix(".gz").unwrap_or(file_name);
    match name.rsplit_once('.')?.1 {
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        "txt" => Some(Format::Text),
        _ => None,
    }
}

/// The words by which the hub recognizes a split.
const SPLIT_WORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The files whose folders, else whose names, say the split; all files are 'train' where none does.
fn by_split_names(root: &Path, task: &str, split: &str) -> Result<Vec<Path>, DataError> {
    let mut files = Vec::new();
    list_data_files(root, "", &mut files)?;
    if files.is_empty() {
        return Err(DataError::NoFiles {
            task: task.to_string(),
            split: split.to_string(),
            pattern: root.to_string(),
            help: "JSON lines (.json, .jsonl) or text (.txt) are looked for, plain or .gz"
                .to_string(),
        });
    }
    let folder = |relative: &str| relative.rsplit_once('/').map_or("", |(dir, _)| dir).to_string();
    let file = |relative: &str| relative.rsplit('/').next().unwrap_or_default().to_string();
    let parts: [&dyn Fn(&str) -> String; 2] = [&folder, &file];
    for part in parts {
        let splits: Vec<Option<String>> =
            files.iter().map(|(relative, _)| split_in(&part(relative), split)).collect();
        if splits.iter().all(Option::is_none) {
            continue;
        }
        let chosen: Vec<Path> = (files.iter().zip(&splits))
            .filter(|(_, found)| found.as_deref() == Some(split))
            .map(|((_, path), _)| path.clone())
            .collect();
        let known: std::collections::BTreeSet<String> = splits.into_iter().flatten().collect();
        return match chosen.is_empty() {
            true => Err(unknown_split(task, split, known.into_iter())),
            false => Ok(chosen),
        };
    }
    match split {
        "train" => Ok(files.into_iter().map(|(_, path)| path).collect()),
        _ => Err(unknown_split(task, split, ["train".to_string()].into_iter())),
    }
}

/// The split that a name's words tell, where `asked` counts as a word for itself.
fn split_in(name: &str, asked: &str) -> Option<String> {
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric());
    if words().any(|word| word == asked) {
        return Some(asked.to_string());
    }
    words().find_map(|word| {
        let (split, _) = SPLIT_WORDS.iter().find(|(_, known)| known.contains(&word))?;
        Some(split.to_string())
    })
}

/// Collects the data files below a folder as (path relative to the root, path), sorted by name.
fn list_data_files(
    folder: &Path,
    prefix: &str,
    files: &mut Vec<(String, Path)>,
) -> Result<(), DataError> {
    for path in folder.list()? {
        let name = path.file_name().to_string();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let relative = format!("{prefix}{name}");
        if path.is_dir()? {
            list_data_files(&path, &format!("{relative}/"), files)?;
        } else if format_of(&name).is_some() && !is_description(&name) {
            files.push((relative, path));
        }
    }
    Ok(())
}

/// Files that describe a data set on the hub and hold no examples.
fn is_description(name: &str) -> bool {
    matches!(name, "dataset_info.json" | "dataset_infos.json" | "state.json" | "config.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], split: &str, expected: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = Path::parse(root.path().to_str().unwrap()).unwrap();
        let prefix = format!("{root}/");
        let found: Vec<String> = by_split_names(&root, "task", split)
            .map(|paths| paths.iter().map(|p| p.to_string().replace(&prefix, "")).collect())
            .unwrap_or_default();
        assert_eq!(found, expected, "{split} of {files:?}");
    }

    #[test]
    fn splits_are_found_by_file_names() {
        let files = ["train-00000.jsonl.gz", "train-00001.jsonl.gz", "dev.json", "README.md"];
        check(&files, "train", &files[..2]);
        check(&files, "validation", &["dev.json"]);
        check(&files, "test", &[]);
    }

    #[test]
    fn folders_go_before_file_names() {
        let files = ["train/test_1.txt", "valid/a.txt"];
        check(&files, "train", &files[..1]);
        check(&files, "validation", &files[1..]);
    }

    #[test]
    fn files_without_a_split_are_for_training() {
        let files = ["data/part-1.jsonl", "data/part-2.jsonl", "dataset_infos.json"];
        check(&files, "train", &files[..2]);
        check(&files, "validation", &[]);
    }
}
