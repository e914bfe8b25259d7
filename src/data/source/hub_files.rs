//! Finds the files of a split, by their names, in a folder with the layout of the hub.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::contract::unknown_split;
use super::file::CsvOptions;
use super::file::Format;
use super::hub_listing::{Listed, data_files, extension_of, of_one_format};
use super::row_options::RowOptions;
use crate::error::{DataError, if_split};
use gimlet_storage::Path;

/// The record format for a file name; `None` for an unknown one.
pub(super) fn format_of(
    file_name: &str,
    field: Option<&str>,
    rows: &Arc<RowOptions>,
) -> Option<Format> {
    let csv = |delimiter| {
        let options = CsvOptions {
            delimiter,
            quote: Some(b'"'),
            column_names: None,
            skip: 0,
            typed: Vec::new(),
        };
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

/// The splits in the names of files and folders.
pub(super) fn splits_in_names(root: &Path, task: &str) -> Result<Vec<String>, DataError> {
    let mut found = Vec::new();
    for (split, _) in SPLIT_WORDS {
        found.extend(if_split(by_split_names(root, task, split))?.map(|_| split.to_string()));
    }
    let sharded: BTreeSet<String> =
        data_files(root)?.iter().filter_map(|(_, path)| split_of_shard(path.file_name())).collect();
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

/// The files whose folder names, otherwise whose file names, contain the split; if no name contains
/// a split, all files are 'train'. If there are several formats, the most common one is read.
pub(super) fn by_split_names(root: &Path, task: &str, split: &str) -> Result<Vec<Path>, DataError> {
    let files = data_files(root)?;
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
    Ok(of_one_format(root, split, named_for(&files, task, split)?))
}

/// The files that belong to a split by their names, in any format.
fn named_for(files: &[Listed], task: &str, split: &str) -> Result<Vec<Path>, DataError> {
    let folder = |relative: &str| relative.rsplit_once('/').map_or("", |(dir, _)| dir).to_string();
    let file = |relative: &str| relative.rsplit('/').next().unwrap_or_default().to_string();
    let parts: [&dyn Fn(&str) -> String; 2] = [&folder, &file];
    let named: Vec<&Listed> = (files.iter())
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
        "train" => Ok(files.iter().map(|(_, path)| path.clone()).collect()),
        _ => Err(unknown_split(task, split, ["train".to_string()].into_iter())),
    }
}

/// The split that a name's words indicate; `asked` itself counts as such a word.
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

    // The choice of `datasets` 5.2.0: by the count of an extension, then by its preference.
    #[test]
    fn a_split_is_of_its_most_common_format() {
        check(&["LICENSE.txt", "data.jsonl", "stats.csv"], "train", &["data.jsonl"]);
        check(&["train.jsonl", "train_stats.csv"], "train", &["train.jsonl"]);
        check(&["a.csv", "b.csv", "c.jsonl"], "train", &["a.csv", "b.csv"]);
        check(&["a.parquet", "b.jsonl.gz"], "train", &["a.parquet"]);
        // One format has several extensions.
        check(&["a.json", "b.jsonl", "c.txt"], "train", &["a.json", "b.jsonl"]);
        // Metadata files are chosen only if there are no data files.
        check(&["data.txt", "metadata.jsonl"], "train", &["data.txt"]);
        // Each split is chosen separately.
        check(&["train.csv", "test.jsonl"], "test", &["test.jsonl"]);
    }

    #[test]
    fn files_without_a_split_are_for_training() {
        let files = ["data/part-1.jsonl", "data/part-2.jsonl", "dataset_infos.json"];
        check(&files, "train", &files[..2]);
        check(&files, "validation", &[]);
    }
}
