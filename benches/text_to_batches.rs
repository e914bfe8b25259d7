//! Text lines to span-corrupted batches, on one core: examples and tokens a second.
//!
//! ```text
//! cargo bench --no-default-features --bench text_to_batches -- corpus.txt sentencepiece.model
//! ```
//! `benches/peers/text_to_batches.py` does the same with SeqIO.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimlet::data::{
    AppendEosAfterTrim, DataSource, DatasetConfig, DatasetOptions, Feature, FeatureDtype,
    FilePattern, Preprocessor, Rekey, SpanCorruption, Task, TaskOrMixture, TextLineDataSource,
    Tokenize, get_dataset,
};
use gimlet::vocab::{SentencePieceVocabulary, VocabularySpec};

const BATCH_SIZE: usize = 128;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [corpus, model, rest @ ..] = &arguments[..] else {
        // `cargo test --benches` runs this without arguments.
        return;
    };
    let threads = rest.first().map_or(0, |threads| threads.parse().expect("a number of threads"));
    tokenize(corpus, model);
    for pack in [false, true] {
        corrupt_spans(corpus, model, pack, threads);
    }
}

fn vocabulary(model: &str) -> VocabularySpec {
    VocabularySpec::SentencePiece(SentencePieceVocabulary {
        sentencepiece_model_file: model.to_string(),
        extra_ids: 100,
        reverse_extra_ids: true,
    })
}

fn tokenize(corpus: &str, model: &str) {
    let vocabulary = vocabulary(model).build().expect("a model");
    let text = std::fs::read_to_string(corpus).expect("a text file");
    let lines: Vec<&str> = text.lines().take(20_000).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let mut ids = Vec::new();
    let start = Instant::now();
    for line in lines {
        vocabulary.encode_into(line, &mut ids);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (megabytes, tokens) = (bytes as f64 / 1e6, ids.len() as f64 / 1e6);
    println!(
        "tokenize: {:.1} MB/s, {:.2} M tokens/s, {:.2} bytes a token",
        megabytes / seconds,
        tokens / seconds,
        megabytes / tokens
    );
}

fn corrupt_spans(corpus: &str, model: &str, pack: bool, threads: usize) {
    let feature = Feature {
        vocabulary: vocabulary(model),
        add_eos: true,
        required: true,
        dtype: FeatureDtype::Int32,
        rank: 1,
    };
    let features = ["inputs", "targets"].map(|name| (name.to_string(), feature.clone()));
    let key_map = [("inputs".to_string(), None), ("targets".to_string(), Some("text".to_string()))];
    let files = BTreeMap::from([("train".to_string(), FilePattern(vec![corpus.to_string()]))]);
    let task = Task {
        scope: "bench".to_string(),
        name: None,
        source: DataSource::TextLine(TextLineDataSource {
            split_to_filepattern: files,
            skip_header_lines: 0,
            num_input_examples: None,
            cycle_length: 16,
            block_length: 16,
        }),
        preprocessors: vec![
            Preprocessor::Rekey(Rekey { key_map: BTreeMap::from(key_map) }),
            Preprocessor::Tokenize(Tokenize { copy_pretokenized: true, with_eos: false }),
            Preprocessor::SpanCorruption(SpanCorruption {
                mean_noise_span_length: 3.0,
                noise_density: 0.15,
                input_feature_key: "inputs".to_string(),
                merge_examples_to_reduce_padding: true,
                reserved_for_packing: None,
                passthrough_feature_keys: None,
            }),
            Preprocessor::AppendEosAfterTrim(AppendEosAfterTrim {}),
        ],
        output_features: BTreeMap::from(features),
        postprocess_fn: None,
        metric_fns: Vec::new(),
        shuffle_buffer_size: Some(1000),
    };
    let lengths = [("inputs".to_string(), 512), ("targets".to_string(), 114)];
    let config = DatasetConfig {
        mixture_or_task_name: "bench".to_string(),
        task_feature_lengths: Some(BTreeMap::from(lengths)),
        split: "train".to_string(),
        batch_size: BATCH_SIZE,
        shuffle: true,
        seed: Some(0),
        use_cached: false,
        pack,
        use_memory_cache: true,
        trim_output_features: true,
        num_prefetch_threads: Some(threads),
    };
    let tasks = BTreeMap::from([("bench".to_string(), TaskOrMixture::Task(Arc::new(task)))]);
    let mut batches = get_dataset(&config, &tasks, DatasetOptions::default()).expect("a data set");
    for _ in 0..8 {
        batches.next_batch().expect("no error").expect("data repeat");
    }
    let start = Instant::now();
    let count = 60;
    let mut tokens = 0;
    for _ in 0..count {
        let batch = batches.next_batch().expect("no error").expect("data repeat");
        let real = |ids: &[i32]| ids.iter().filter(|&&id| id != 0).count();
        tokens += real(&batch.encoder_input_tokens) + real(&batch.decoder_target_tokens);
    }
    let seconds = start.elapsed().as_secs_f64();
    let examples = f64::from(count) * BATCH_SIZE as f64;
    println!(
        "span corruption 512/114{}: {:.0} rows/s, {:.2} M tokens/s",
        if pack { " packed" } else { "" },
        examples / seconds,
        tokens as f64 / 1e6 / seconds
    );
}
