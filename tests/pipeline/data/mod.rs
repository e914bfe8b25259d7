//! Tasks over files: their examples, the order, and resuming.

mod bad_input;
mod cache;
mod derived;
mod file_parts;
mod library;
mod megatron;
mod mesh_rows;
mod metrics;
mod mixtures;
mod order;
mod packing;
mod python;
mod ranks;
mod resume;
mod sources;
mod span_corruption;
mod step_rates;
mod streams;
mod text_tasks;
mod unsupervised;
mod vocabulary;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gimlet::data::{
    Batch, BatchIterator, DataSource, DatasetConfig, Feature, FeatureDtype, FilePattern,
    FileReading, JsonLinesDataSource, Preprocessor, Task, TaskOrMixture, TextLineDataSource,
};
use gimlet::gin::{Diagnostics, Loaded, Request, Source, load};
use gimlet::run::Library;
use gimlet::vocab::{PassThroughVocabulary, VocabularySpec};

/// Tasks and mixtures by name.
type Tasks = BTreeMap<String, TaskOrMixture>;

/// A file of this folder's reference data.
fn reference(name: &str) -> PathBuf {
    let here = "tests/pipeline/data/reference";
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(here).join(name)
}

fn reference_json(name: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(reference(name)).unwrap()).unwrap()
}

fn ints(json: &serde_json::Value) -> Vec<i32> {
    serde_json::from_value(json.clone()).unwrap()
}

/// Ids as they are, EOS 1.
fn ids_vocabulary() -> VocabularySpec {
    VocabularySpec::PassThrough(PassThroughVocabulary { size: 1000, eos_id: Some(1) })
}

fn features(vocabulary: &VocabularySpec, names: &[&str]) -> BTreeMap<String, Feature> {
    let feature = Feature {
        vocabulary: vocabulary.clone(),
        add_eos: true,
        required: true,
        dtype: FeatureDtype::Int32,
        rank: 1,
    };
    names.iter().map(|name| (name.to_string(), feature.clone())).collect()
}

fn patterns(files: &str) -> BTreeMap<String, FilePattern> {
    BTreeMap::from([("train".to_string(), FilePattern(vec![files.to_string()]))])
}

fn text_source(files: &str) -> DataSource {
    DataSource::TextLineDataSource(TextLineDataSource {
        split_to_filepattern: patterns(files),
        skip_header_lines: 0,
        reading: FileReading::default(),
    })
}

fn json_source(files: &str) -> DataSource {
    DataSource::JsonLinesDataSource(JsonLinesDataSource {
        split_to_filepattern: patterns(files),
        columns: None,
        field: None,
        reading: FileReading::default(),
    })
}

fn task(
    name: &str,
    source: DataSource,
    preprocessors: Vec<Preprocessor>,
    output_features: BTreeMap<String, Feature>,
) -> Task {
    Task {
        scope: name.to_string(),
        name: None,
        source,
        preprocessors,
        output_features,
        postprocess_fn: None,
        metric_fns: Vec::new(),
        shuffle_buffer_size: Some(40),
    }
}

fn tasks(all: impl IntoIterator<Item = Task>) -> Tasks {
    let named = |task: Task| (task.task_name().to_string(), TaskOrMixture::Task(Arc::new(task)));
    all.into_iter().map(named).collect()
}

fn config(name: &str, lengths: (usize, usize)) -> DatasetConfig {
    let lengths = [("inputs".to_string(), lengths.0), ("targets".to_string(), lengths.1)];
    DatasetConfig {
        mixture_or_task_name: name.to_string(),
        module: None,
        task_feature_lengths: Some(BTreeMap::from(lengths)),
        split: "train".to_string(),
        batch_size: 4,
        shuffle: false,
        seed: Some(7),
        use_cached: false,
        pack: false,
        use_custom_packing_ops: false,
        use_memory_cache: true,
        trim_output_features: true,
        ensure_eos: false,
        ends_batch_with_pass: false,
        file_parts: None,
        num_prefetch_threads: Some(2),
    }
}

/// At most `count` batches.
fn take(batches: &mut BatchIterator, count: usize) -> Vec<Batch> {
    let next = |_| batches.next_batch().unwrap();
    (0..count).map_while(next).collect()
}

/// Creates a folder with JSON-lines files of examples whose tokens identify file and line.
fn folder_of_ids(lines_per_file: &[usize]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, &lines) in lines_per_file.iter().enumerate() {
        let line = |i: usize| {
            let targets = vec![(2 + file * 100 + i).to_string(); 1 + i % 3].join(",");
            format!("{{\"inputs\": [{}, {}, 1], \"targets\": [{targets}, 1]}}\n", 2 + file, 2 + i)
        };
        let text: String = (0..lines).map(line).collect();
        std::fs::write(folder.path().join(format!("part-{file:02}.jsonl")), text).unwrap();
    }
    folder
}

fn task_of_ids(folder: &tempfile::TempDir) -> Task {
    let source = json_source(&format!("{}/*.jsonl", folder.path().display()));
    task("ids", source, Vec::new(), features(&ids_vocabulary(), &["inputs", "targets"]))
}

/// Gin texts by name, before those of the library.
struct Texts(BTreeMap<&'static str, String>);

impl Source for Texts {
    fn read(&self, path: &str) -> std::io::Result<Option<String>> {
        match self.0.get(path) {
            Some(text) => Ok(Some(text.clone())),
            None => Library.read(path),
        }
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// A run's gin text that imports a task file.
fn load_texts(run: &str, tasks: &str) -> Result<Loaded, Diagnostics> {
    let run = format!("import task_file\n{run}");
    let texts = [("run.gin", run), ("task_file.gin", tasks.to_string())];
    let request = Request { files: vec!["run.gin".to_string()], ..Request::default() };
    load(&request, &Texts(texts.into()), &gimlet::run::registry())
}
