//! SeqIO's task cache: written, read, damaged, left unfinished.

mod divided;
mod reading;
mod writing;

use std::path::Path as LocalPath;

use gimlet::data::{
    CacheDatasetPlaceholder, CacheFolder, CacheOptions, Caches, DataError, Example, ExampleOptions,
    Rekey, TaskProvider, Tokenize, Value, estimate, split_plans, task_examples, write_cache,
};
use gimlet::storage::Path;
use gimlet::vocab::ByteVocabulary;

use super::*;

/// Tasks and the places of their caches.
struct Cached(Tasks, Caches);

impl TaskProvider for Cached {
    fn caches(&self) -> Caches {
        self.1.clone()
    }

    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        TaskProvider::get(&self.0, name)
    }
}

fn caches(folder: &tempfile::TempDir) -> Caches {
    let folders = vec![folder.path().to_str().unwrap().to_string()];
    Caches { folders, ..Caches::default() }
}

fn placeholder() -> Preprocessor {
    Preprocessor::CacheDatasetPlaceholder(CacheDatasetPlaceholder { required: false })
}

/// Lines of text as bytes, tokenized before the cache step.
fn byte_task(source: DataSource, after: Vec<Preprocessor>) -> Task {
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
    let key_map = ["inputs", "targets"].map(|key| (key.to_string(), Some("text".to_string())));
    let mut preprocessors = vec![
        Preprocessor::Rekey(Rekey { key_map: BTreeMap::from(key_map) }),
        Preprocessor::Tokenize(Tokenize { copy_pretokenized: true, with_eos: false }),
        placeholder(),
    ];
    preprocessors.extend(after);
    task("texts:bytes", source, preprocessors, features(&vocabulary, &["inputs", "targets"]))
}

/// A folder with files of so many lines.
fn folder_of_text(lines_per_file: &[usize]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, &lines) in lines_per_file.iter().enumerate() {
        let line = |i: usize| format!("{file}.{i} {}\n", "wörd ".repeat(i % 9));
        let text: String = (0..lines).map(line).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), text).unwrap();
    }
    folder
}

fn source_of(folder: &tempfile::TempDir) -> DataSource {
    text_source(&format!("{}/*.txt", folder.path().display()))
}

/// Writes the cache of a task; returns the numbers that the observer saw.
fn write(task: &Task, folder: &tempfile::TempDir, shards: usize) -> Result<Vec<u64>, DataError> {
    let options = CacheOptions { min_shards: shards, flush_bytes: 5000, ..CacheOptions::default() };
    let mut seen = Vec::new();
    write_cache(task, &cache_in(folder, task), &options, &mut |_, written| {
        seen.push(written.examples);
    })?;
    Ok(seen)
}

fn cache_in(folder: &tempfile::TempDir, task: &Task) -> CacheFolder {
    CacheFolder::of(&Path::try_from(folder.path()).unwrap(), task.task_name())
}

/// The features of an example, sorted by name.
type Features = BTreeMap<String, Value>;

/// Returns one epoch in order; from the cache if there is one.
fn examples(task: &Task, options: ExampleOptions) -> Result<Vec<Features>, DataError> {
    let features = |example: Example| {
        example.iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    };
    task_examples(task, &options)?.map(|example| example.map(features)).collect()
}

fn options(cache: Option<Caches>) -> ExampleOptions {
    ExampleOptions { split: "train".to_string(), cache, ..ExampleOptions::default() }
}

/// Sorts examples by their features alone.
fn sorted(mut examples: Vec<Features>) -> Vec<Features> {
    examples.sort_by_key(|example| format!("{example:?}"));
    examples
}

/// File names and contents below a folder.
fn contents(folder: &LocalPath) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}
