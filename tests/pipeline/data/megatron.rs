//! Samples for BERT as a task's data: the batches of a run, on several hosts, and resumed.

use gimlet::data::{ConverterClass, DatasetOptions, PassThroughFeatureConverter, get_dataset};
use gimlet::gin::{Evaluator, Registry, Request};

use super::*;

const FEATURES: [&str; 5] = [
    "encoder_input_tokens",
    "encoder_target_tokens",
    "encoder_loss_weights",
    "encoder_token_types",
    "next_sentence_label",
];
const LENGTH: usize = 48;

/// The files of sentences in a folder of their own.
fn folder_of_sentences() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train_text_sentence.bin", "train_text_sentence.idx"] {
        std::fs::copy(reference("megatron").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// The task `bert`, whose source has these parameters beside those of its files.
fn task_of(folder: &tempfile::TempDir, source: &str) -> Task {
    let prefix = folder.path().join("train_text_sentence");
    let vocabulary = reference("megatron").join("vocab.txt");
    let features: String =
        FEATURES.iter().map(|name| format!("'{name}': @seqio.ContinuousFeature(), ")).collect();
    let text = format!(
        "bert/seqio.Task.output_features = {{{features}}}\n\
         megatron.BertDataset.split_to_prefix = {{'train': '{0}', 'validation': '{0}'}}\n\
         megatron.BertDataset.vocabulary = @seqio.BertWordPieceVocabulary()\n\
         megatron.BertDataset.input_seq_len = {LENGTH}\n\
         seqio.BertWordPieceVocabulary.vocab_lookup_table = '{1}'\n{source}",
        prefix.display(),
        vocabulary.display()
    );
    let registry = Registry::default().with::<Task>();
    let request = Request { files: vec!["run.gin".to_string()], ..Request::default() };
    let loaded = load(&request, &Texts(BTreeMap::from([("run.gin", text)])), &registry).unwrap();
    Evaluator::new(&loaded.config, &registry).evaluate_in::<Task>("bert").unwrap()
}

const ONE: &str = "bert/seqio.Task.source = @megatron.BertDataset()\n";
const TWO_PASSES: &str = "megatron.BertDataset.n_epochs = 2\n";

fn dataset(
    task: &Task,
    config: &DatasetConfig,
    options: DatasetOptions,
) -> Result<BatchIterator, gimlet::data::DataError> {
    let converter = ConverterClass::PassThroughFeatureConverter(PassThroughFeatureConverter {});
    get_dataset(config, &tasks([task.clone()]), DatasetOptions { converter, ..options })
}

fn config_of(split: &str, shuffle: bool) -> DatasetConfig {
    let length = |name: &&str| (name.to_string(), if *name == FEATURES[4] { 1 } else { LENGTH });
    DatasetConfig {
        task_feature_lengths: Some(FEATURES.iter().map(length).collect()),
        split: split.to_string(),
        shuffle,
        ..config("bert", (1, 1))
    }
}

#[test]
fn a_batch_has_the_samples_of_upstream_in_their_order() {
    let folder = folder_of_sentences();
    let task = task_of(&folder, &format!("{ONE}{TWO_PASSES}"));
    let mut batches =
        dataset(&task, &config_of("train", false), DatasetOptions::default()).unwrap();
    let expected = &reference_json("megatron.json")["settings"][0]["first_samples"];
    for (number, batch) in take(&mut batches, 16).iter().enumerate() {
        for (row, tokens) in batch.rows_of("encoder_input_tokens").enumerate() {
            let sample = &expected[4 * number + row];
            let mut text = ints(&sample["text"]);
            text.resize(LENGTH, 0);
            assert_eq!(tokens, text);
            assert_eq!(batch.ints("next_sentence_label")[row], sample["is_random"]);
        }
        let weights: i32 = batch.ints("encoder_loss_weights").iter().sum();
        let targets = batch.ints("encoder_target_tokens").iter().filter(|target| **target != 0);
        assert_eq!(weights as usize, targets.count());
    }
}

#[test]
fn hosts_and_resumed_runs_have_the_batches_of_one_run() {
    let folder = folder_of_sentences();
    let task = task_of(&folder, &format!("{ONE}{TWO_PASSES}"));
    let config = config_of("train", true);
    // More than one pass over the 282 samples.
    let mut whole = dataset(&task, &config, DatasetOptions::default()).unwrap();
    let expected = take(&mut whole, 80);
    let hosts: Vec<Vec<Batch>> = (0..2)
        .map(|shard_index| {
            let options =
                DatasetOptions { shard_index, num_shards: 2, ..DatasetOptions::default() };
            take(&mut dataset(&task, &config, options).unwrap(), 80)
        })
        .collect();
    for (step, batch) in expected.iter().enumerate() {
        let together = hosts.iter().flat_map(|host| host[step].ints(FEATURES[0]));
        assert!(together.eq(batch.ints(FEATURES[0])), "{step}");
    }
    let mut begun = dataset(&task, &config, DatasetOptions::default()).unwrap();
    take(&mut begun, 73);
    let options = DatasetOptions { resume: Some(begun.state()), ..DatasetOptions::default() };
    assert_eq!(take(&mut dataset(&task, &config, options).unwrap(), 7), expected[73..]);
}

#[test]
fn other_splits_than_train_have_the_samples_of_one_pass() {
    let folder = folder_of_sentences();
    let task = task_of(&folder, &format!("{ONE}{TWO_PASSES}"));
    let count = |split| {
        let options = DatasetOptions {
            num_epochs: Some(1),
            drop_remainder: false,
            ..DatasetOptions::default()
        };
        let mut batches = dataset(&task, &config_of(split, false), options).unwrap();
        take(&mut batches, 1000).iter().map(|batch| batch.rows).sum::<usize>()
    };
    assert_eq!(count("train"), 282);
    assert_eq!(count("validation"), 141);
}

/// Two data sets that differ in their seeds, of 282 samples each.
const BLEND: &str = "one/megatron.BertDataset.seed = 42\ntwo/megatron.BertDataset.seed = 43\n";

#[test]
fn a_blend_takes_samples_from_its_data_sets() {
    let folder = folder_of_sentences();
    let tokens = |source: &str| {
        let task = task_of(&folder, &format!("{source}{TWO_PASSES}"));
        let options = DatasetOptions {
            num_epochs: Some(1),
            drop_remainder: false,
            ..DatasetOptions::default()
        };
        let mut batches = dataset(&task, &config_of("train", false), options).unwrap();
        let rows = take(&mut batches, 1000);
        rows.iter()
            .flat_map(|batch| batch.rows_of(FEATURES[0]).map(<[i32]>::to_vec))
            .collect::<Vec<_>>()
    };
    let of_seed = |seed| tokens(&format!("{ONE}megatron.BertDataset.seed = {seed}\n"));
    let (one, two) = (of_seed(42), of_seed(43));
    let blend = |name: &str, weights: &str| {
        tokens(&format!(
            "bert/seqio.Task.source = @megatron.{name}()\n{BLEND}\
             megatron.{name}.datasets = [@one/megatron.BertDataset(), @two/megatron.BertDataset()]\n\
             megatron.{name}.weights = {weights}\n"
        ))
    };
    let blended = blend("BlendableDataset", "[3, 1]");
    assert_eq!(blended.len(), one.len() + two.len());
    assert_eq!(blended[..5], [&one[0], &two[0], &one[1], &one[2], &one[3]].map(Clone::clone));
    // The first data set is asked for half as many samples again as it has.
    assert_eq!(blended.iter().filter(|row| **row == one[0]).count(), 2);
    let mixed = blend("MixtureDataset", "[0.5, 1]");
    assert_eq!(mixed.len(), one.len() / 2 + two.len());
    assert_eq!(mixed[..3], [&two[0], &one[0], &two[1]].map(Clone::clone));
}

#[test]
fn settings_that_give_no_samples_are_named() {
    let folder = folder_of_sentences();
    let check = |source: &str, expected: &str| {
        let task = task_of(&folder, source);
        let found = dataset(&task, &config_of("train", false), DatasetOptions::default());
        let error = found.and_then(|mut batches| batches.next_batch()).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(ONE, "`megatron.BertDataset` needs `n_epochs` or `n_samples`");
    let with = |binding: &str| format!("{ONE}{TWO_PASSES}megatron.BertDataset.{binding}\n");
    check(&with("n_epochs = 0"), "has n_epochs 0, expected at least 1");
    check(&with("n_samples = 0"), "has n_samples 0, expected at least 1");
    check(&with("mlm_prob = 1.5"), "has mlm_prob 1.5 and short_seq_prob 0.1, expected shares");
    check(&with("seed = 2147483647"), "has seed 2147483647, expected one below 2147483647");
    check(&with("input_seq_len = 4"), "has input_seq_len 4, expected at least 5");
    check(&with("split_to_prefix = {'train': 'absent'}"), "absent");
    check(
        "bert/seqio.Task.source = @megatron.BlendableDataset()\n\
         megatron.BlendableDataset.datasets = [@megatron.BertDataset()]\n\
         megatron.BlendableDataset.weights = [1, 2]\n",
        "`megatron.BlendableDataset` has 1 datasets and 2 weights",
    );
}

/// The error of the first batch, after a change of one of the files of sentences or of the list of pieces.
fn error_of(name: &str, change: impl Fn(&mut Vec<u8>)) -> String {
    let folder = folder_of_sentences();
    let pieces = folder.path().join("vocab.txt");
    std::fs::copy(reference("megatron").join("vocab.txt"), &pieces).unwrap();
    let path = folder.path().join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let vocabulary =
        format!("seqio.BertWordPieceVocabulary.vocab_lookup_table = '{}'\n", pieces.display());
    let task = task_of(&folder, &format!("{ONE}{TWO_PASSES}{vocabulary}"));
    let found = dataset(&task, &config_of("train", false), DatasetOptions::default());
    found.and_then(|mut batches| batches.next_batch()).err().unwrap().to_string()
}

#[test]
fn files_that_are_not_complete_or_of_another_version_are_named() {
    let error = error_of("train_text_sentence.bin", |bytes| bytes.truncate(bytes.len() - 2));
    assert!(
        error.contains("train_text_sentence.bin`") && error.contains("is it complete?"),
        "{error}"
    );
    assert!(error.contains(": sentence "), "{error}");
    let error = error_of("train_text_sentence.idx", |bytes| bytes[9] = 2);
    assert!(error.contains("train_text_sentence.idx`"), "{error}");
    assert!(error.contains("it is of version 2, expected 1"), "{error}");
}

#[test]
fn ids_that_the_vocabulary_lacks_are_named() {
    let error = error_of("vocab.txt", |bytes| {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(20).flatten();
        *bytes = lines.copied().collect();
    });
    assert!(
        error.contains("expected ids from 0 to 19: the data were made with another"),
        "{error}"
    );
    assert!(error.contains("train_text_sentence.bin`") && error.contains("sentence "), "{error}");
}
