//! Measures text lines to ids, and to span-corrupted batches (inputs 512, targets 114, 128 rows);
//! the same with threads, from a cache, and after a restart; prints a JSON line for each.
//! `benches/peers/compare_pipeline.py` runs it beside SeqIO.
//!
//! ```text
//! cargo bench --no-default-features --bench pipeline -- --corpus=TEXT --model=SENTENCEPIECE_MODEL
//!     --cache=DIR   where the cache of the corpus is, or is to be made
//!     --only=MEASURE
//!     --only=memory --gigabytes=10   resident memory over a long run of generated text
//!     --only=compressed --corpus=TEXT.gz --batches=1000000   a restart behind as many lines of one file
//!     --only=shared --corpus=TEXT.gz   streams that share the records of one file, by two threads
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use flate2::Crc;
use gimlet::data::{
    AppendEosAfterTrim, Batch, CacheDatasetPlaceholder, CacheFolder, CacheOptions, Caches,
    DataError, DataSource, DatasetConfig, DatasetOptions, Feature, FeatureDtype, FilePattern,
    FileReading, GeneratedDataSource, GeneratedKind, LengthDistribution, Preprocessor, Rekey,
    SpanCorruption, Task, TaskOrMixture, TaskProvider, TextLineDataSource, Tokenize, get_dataset,
    write_cache,
};
use gimlet::storage::Path;
use gimlet::telemetry::cpu_seconds;
use gimlet::vocab::{ByteVocabulary, SentencePieceVocabulary, VocabularySpec};

const BATCH_SIZE: usize = 128;
/// Number of batches left out: they fill the shuffle buffer.
const WARM_UP: usize = 8;
/// Lines of the corpus that are tokenized.
const LINES: usize = 20_000;

fn main() {
    if option("only").as_deref() == Some("memory") {
        let gigabytes = option("gigabytes").map_or(10, |text| text.parse().expect("a number"));
        return memory(gigabytes);
    }
    if let Some(only @ ("compressed" | "shared")) = option("only").as_deref() {
        let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(100));
        let corpus = option("corpus").expect("--corpus=TEXT.gz");
        let num_batches = option("batches").map_or(1000, |text| text.parse().expect("a number"));
        if only == "compressed" {
            // One row a batch makes one stream of the data.
            let config = DatasetConfig { batch_size: 1, shuffle: false, ..config(false) };
            return restart(
                only,
                &config,
                num_batches,
                task_of(lines_of(&corpus), vocabulary, &[]),
            );
        }
        let run = Run { measure: "shared_file", pack: false, threads: 2, num_batches, cache: None };
        return run.measure(task_of(lines_of(&corpus), vocabulary, &[]));
    }
    let (Some(corpus), Some(model)) = (option("corpus"), option("model")) else {
        // `cargo test --benches` runs this without arguments.
        return;
    };
    let batches = option("batches").map_or(60, |text| text.parse().expect("a number of batches"));
    let wanted = |measure: &str| option("only").is_none_or(|only| only == measure);
    if wanted("tokenize") {
        tokenize(&corpus, &model);
    }
    let spans = [span_corruption()];
    for (measure, pack, threads) in [
        ("span_corruption", false, 0),
        ("span_corruption_packed", true, 0),
        ("span_corruption_1_thread", false, 1),
        ("span_corruption_2_threads", false, 2),
    ] {
        if wanted(measure) {
            let run = Run { measure, pack, threads, num_batches: batches, cache: None };
            run.measure(task(&corpus, &model, &spans));
        }
    }
    if wanted("restart") {
        restart("restart", &config(true), 100, task(&corpus, &model, &spans));
    }
    if let Some(cache) = option("cache").filter(|_| wanted("cached")) {
        cached(task(&corpus, &model, &[]), &cache, batches);
    }
}

/// `--name=value`.
fn option(name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    std::env::args().find_map(|arg| arg.strip_prefix(&prefix).map(str::to_string))
}

fn vocabulary(model: &str) -> VocabularySpec {
    VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: model.to_string(),
        extra_ids: 100,
        reverse_extra_ids: true,
        normalizer_spec_overrides: None,
    })
}

/// Tokenizes the corpus. A checksum over all ids lets the driver compare the result with the
/// peer's.
fn tokenize(corpus: &str, model: &str) {
    let vocabulary = vocabulary(model).build().expect("a model");
    let text = std::fs::read_to_string(corpus).expect("a text file");
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let mut ids = Vec::new();
    let clock = Clock::start();
    for line in lines {
        vocabulary.encode_into(line, &mut ids);
    }
    let [seconds, cpu] = clock.read();
    let mut checksum = Crc::new();
    ids.iter().for_each(|id| checksum.update(&id.to_le_bytes()));
    report(serde_json::json!({
        "measure": "tokenize",
        "megabytes": bytes as f64 / 1e6,
        "tokens": ids.len(),
        "checksum": checksum.sum(),
        "seconds": seconds,
        "cpu_seconds": cpu,
    }));
}

/// Batches of a task, read in one way.
struct Run {
    measure: &'static str,
    pack: bool,
    /// Number of threads; with 0 the thread of batches does their work.
    threads: usize,
    num_batches: usize,
    cache: Option<Caches>,
}

/// A task, and the place of its cache.
struct Provider(BTreeMap<String, TaskOrMixture>, Caches);

impl TaskProvider for Provider {
    fn caches(&self) -> Caches {
        self.1.clone()
    }

    fn get(&self, name: &str) -> Result<TaskOrMixture, DataError> {
        TaskProvider::get(&self.0, name)
    }
}

fn provider(task: Arc<Task>, cache: Option<Caches>) -> Provider {
    let tasks = BTreeMap::from([("bench".to_string(), TaskOrMixture::Task(task))]);
    Provider(tasks, cache.unwrap_or_default())
}

impl Run {
    fn measure(self, task: Arc<Task>) {
        let use_cached = self.cache.is_some();
        let tasks = provider(task, self.cache);
        let num_prefetch_threads = Some(self.threads);
        let config = DatasetConfig { num_prefetch_threads, use_cached, ..config(self.pack) };
        let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).expect("data");
        let mut next = || batches.next_batch().expect("no error").expect("data repeat");
        for _ in 0..WARM_UP {
            next();
        }
        let mut tokens = 0;
        let clock = Clock::start();
        for _ in 0..self.num_batches {
            tokens += real_tokens(&next());
        }
        let [seconds, cpu] = clock.read();
        report(serde_json::json!({
            "measure": self.measure,
            "examples": self.num_batches * BATCH_SIZE,
            "tokens": tokens,
            "seconds": seconds,
            "cpu_seconds": cpu,
        }));
    }
}

/// Measures the time from a position deep in the data to its first batch.
fn restart(measure: &str, config: &DatasetConfig, num_batches: usize, task: Arc<Task>) {
    let tasks = provider(task, None);
    let mut batches = get_dataset(config, &tasks, DatasetOptions::default()).expect("data");
    for _ in 0..num_batches {
        batches.next_batch().expect("no error").expect("data repeat");
    }
    let resume = Some(batches.state());
    let expected = batches.next_batch().expect("no error");
    drop(batches);
    let clock = Clock::start();
    let options = DatasetOptions { resume, ..DatasetOptions::default() };
    let mut batches = get_dataset(config, &tasks, options).expect("data");
    let found = batches.next_batch().expect("no error");
    let [seconds, cpu] = clock.read();
    assert_eq!(found, expected, "the restarted data go on");
    report(serde_json::json!({"measure": measure, "seconds": seconds, "cpu_seconds": cpu}));
}

/// Generated text as bytes, span-corrupted and packed by two threads: resident memory after every
/// gigabyte of tokens.
fn memory(gigabytes: usize) {
    let source = DataSource::GeneratedDataSource(GeneratedDataSource {
        num_examples: BTreeMap::from([("train".to_string(), 100_000_000)]),
        kind: GeneratedKind::Words,
        features: vec!["text".to_string()],
        min_length: 1,
        max_length: 512,
        length_distribution: LengthDistribution::LogUniform,
        vocab_size: 32_000,
        seed: 0,
    });
    let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(100));
    let task = task_of(source, vocabulary, &[span_corruption()]);
    let config = DatasetConfig { num_prefetch_threads: Some(2), ..config(true) };
    let tasks = provider(task, None);
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).expect("data");
    let (mut tokens, mut reported) = (0, 0);
    while reported < gigabytes {
        tokens += real_tokens(&batches.next_batch().expect("no error").expect("data repeat"));
        if tokens / 1_000_000_000 > reported {
            reported = tokens / 1_000_000_000;
            report(serde_json::json!({
                "measure": "memory", "gigabytes": reported, "resident_megabytes": resident_megabytes(),
            }));
        }
    }
}

/// Returns the resident memory of the process.
fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it is always there");
    let kilobytes = line.split_whitespace().nth(1).expect("a number");
    kilobytes.parse::<f64>().expect("a number") / 1024.0
}

/// Returns examples of a cache, which is made first if there is none.
fn cached(task: Arc<Task>, folder: &str, num_batches: usize) {
    let root = Path::parse(folder).expect("a folder");
    let cache = CacheFolder::of(&root, task.task_name());
    if !cache.is_complete().expect("it can be looked at") {
        write_cache(&task, &cache, &CacheOptions::default(), &mut |_, _| {}).expect("a cache");
    }
    let caches = Caches { folders: vec![folder.to_string()], ..Caches::default() };
    let (measure, num_batches) = ("cached", num_batches * 10);
    let run = Run { measure, pack: false, threads: 0, num_batches, cache: Some(caches) };
    run.measure(task);
}

fn real_tokens(batch: &Batch) -> usize {
    let real = |ids: &[i32]| ids.iter().filter(|&&id| id != 0).count();
    real(batch.ints("encoder_input_tokens")) + real(batch.ints("decoder_target_tokens"))
}

fn task(corpus: &str, model: &str, after: &[Preprocessor]) -> Arc<Task> {
    task_of(lines_of(corpus), vocabulary(model), after)
}

fn lines_of(corpus: &str) -> DataSource {
    DataSource::TextLineDataSource(TextLineDataSource {
        split_to_filepattern: BTreeMap::from([(
            "train".to_string(),
            FilePattern(vec![corpus.to_string()]),
        )]),
        skip_header_lines: 0,
        reading: FileReading::default(),
    })
}

fn task_of(source: DataSource, vocabulary: VocabularySpec, after: &[Preprocessor]) -> Arc<Task> {
    let feature =
        Feature { vocabulary, add_eos: true, required: true, dtype: FeatureDtype::Int32, rank: 1 };
    let features = ["inputs", "targets"].map(|name| (name.to_string(), feature.clone()));
    Arc::new(Task {
        scope: "bench".to_string(),
        name: None,
        source,
        preprocessors: [&before_cache(), after, &[AppendEosAfterTrim {}.into()]].concat(),
        output_features: BTreeMap::from(features),
        postprocess_fn: None,
        metric_fns: Vec::new(),
        shuffle_buffer_size: Some(1000),
    })
}

fn before_cache() -> Vec<Preprocessor> {
    let key_map = [("inputs".to_string(), None), ("targets".to_string(), Some("text".to_string()))];
    vec![
        Rekey { key_map: BTreeMap::from(key_map) }.into(),
        Tokenize { copy_pretokenized: true, with_eos: false }.into(),
        CacheDatasetPlaceholder { required: false }.into(),
    ]
}

/// t5's defaults.
fn span_corruption() -> Preprocessor {
    SpanCorruption::default().into()
}

fn config(pack: bool) -> DatasetConfig {
    let lengths = [("inputs".to_string(), 512), ("targets".to_string(), 114)];
    DatasetConfig {
        mixture_or_task_name: "bench".to_string(),
        module: None,
        task_feature_lengths: Some(BTreeMap::from(lengths)),
        split: "train".to_string(),
        batch_size: BATCH_SIZE,
        shuffle: true,
        seed: Some(0),
        use_cached: false,
        pack,
        use_custom_packing_ops: false,
        use_memory_cache: true,
        trim_output_features: true,
        ensure_eos: false,
        ends_batch_with_pass: false,
        file_parts: None,
        num_prefetch_threads: Some(0),
    }
}

/// The clock's time and that of the processor.
struct Clock(Instant, f64);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), cpu_seconds())
    }

    fn read(&self) -> [f64; 2] {
        [self.0.elapsed().as_secs_f64(), cpu_seconds() - self.1]
    }
}

fn report(line: serde_json::Value) {
    println!("{line}");
}
