//! Which files make up a split of a folder laid out as on the hub, by their names.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::read::{CsvOptions, RowOptions};
use super::spec::unknown_split;
use super::split::Format;
use crate::data::error::DataError;
use crate::storage::Path;

/// What a file's name says of its records; `None` where it says nothing.
pub(super) fn format_of(
    file_name: &str,
    field: Option<&str>,
    rows: &Arc<RowOptions>,
) -> Option<Format> {
    let csv = |delimiter| {
        let options = CsvOptions { delimiter, quote: Some(b'"'), column_names: None, skip: 0 };
        Format::Csv(Arc::new(options))
    };
    match extension_of(file_name)? {
        "json" | "jsonl" | "ndjson" => Some(Format::Json { field: field.map(str::to_string) }),
        "txt" => Some(Format::Text),
        "csv" => Some(csv(b',')),
        "tsv" => Some(csv(b'\t')),
        "parquet" => Some(Format::Parquet(rows.clone())),
        "arrow" => Some(Format::Arrow(rows.clone())),
        _ => None,
    }
}

/// The extension behind that of compression: `jsonl` of `a.jsonl.zst`.
fn extension_of(file_name: &str) -> Option<&str> {
    let name = [".gz", ".zst"].iter().find_map(|ending| file_name.strip_suffix(ending));
    Some(name.unwrap_or(file_name).rsplit_once('.')?.1)
}

fn is_data(file_name: &str) -> bool {
    const KNOWN: [&str; 8] = ["json", "jsonl", "ndjson", "txt", "csv", "tsv", "parquet", "arrow"];
    extension_of(file_name).is_some_and(|extension| KNOWN.contains(&extension))
}

/// The splits that names tell of.
pub(super) fn splits_in_names(root: &Path, task: &str) -> Result<Vec<String>, DataError> {
    let mut found = Vec::new();
    for (split, _) in SPLIT_WORDS {
        match by_split_names(root, task, split) {
            Ok(_) => found.push(split.to_string()),
            Err(DataError::UnknownSplit { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut files = Vec::new();
    list_data_files(root, "", &mut files)?;
    let sharded: BTreeSet<String> =
        files.iter().filter_map(|(_, path)| split_of_shard(path.file_name())).collect();
    let odd = |name: &String| !SPLIT_WORDS.iter().any(|(_, words)| words.contains(&&name[..]));
    found.extend(sharded.into_iter().filter(odd));
    Ok(found)
}

/// The split in `SPLIT-00000-of-00002.parquet`.
fn split_of_shard(file_name: &str) -> Option<String> {
    let stem = file_name.split('.').next()?;
    let (stem, count) = stem.rsplit_once("-of-")?;
    let (split, shard) = stem.rsplit_once('-')?;
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    (is_number(count) && is_number(shard) && split.chars().all(is_name)).then(|| split.to_string())
}

/// The words by which the hub recognizes a split.
const SPLIT_WORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The files whose folders, else whose names, say the split; all files are 'train' where none does.
pub(super) fn by_split_names(root: &Path, task: &str, split: &str) -> Result<Vec<Path>, DataError> {
    let mut files = Vec::new();
    list_data_files(root, "", &mut files)?;
    if files.is_empty() {
        return Err(DataError::NoFiles {
            task: task.to_string(),
            split: split.to_string(),
            pattern: root.to_string(),
            help:
                "Parquet, Arrow, JSON (.json, .jsonl), CSV (.csv, .tsv) and text (.txt) files are \
                   looked for, also .gz and .zst"
                    .to_string(),
        });
    }
    let folder = |relative: &str| relative.rsplit_once('/').map_or("", |(dir, _)| dir).to_string();
    let file = |relative: &str| relative.rsplit('/').next().unwrap_or_default().to_string();
    let parts: [&dyn Fn(&str) -> String; 2] = [&folder, &file];
    let named: Vec<&(String, Path)> = (files.iter())
        .filter(|(_, path)| split_of_shard(path.file_name()).as_deref() == Some(split))
        .collect();
    if !named.is_empty() {
        return Ok(named.into_iter().map(|(_, path)| path.clone()).collect());
    }
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
        let known: BTreeSet<String> = splits.into_iter().flatten().collect();
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
        } else if is_data(&name) && !is_description(&name) {
            files.push((relative, path));
        }
    }
    Ok(())
}

/// Files that describe a data set on the hub and hold no examples.
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
    fn shards_may_be_of_any_split() {
        let files = ["a/train_sft-00000-of-00001.parquet", "a/test-00000-of-00001.csv.zst"];
        check(&files, "train_sft", &files[..1]);
        check(&files, "test", &files[1..]);
        check(&files, "validation", &[]);
    }

    #[test]
    fn files_without_a_split_are_for_training() {
        let files = ["data/part-1.jsonl", "data/part-2.jsonl", "dataset_infos.json"];
        check(&files, "train", &files[..2]);
        check(&files, "validation", &[]);
    }
}
