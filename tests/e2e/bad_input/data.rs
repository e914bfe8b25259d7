//! Data and vocabularies that do not fit the run, or cannot be read.

use super::{USER, WORLD, check};
use crate::events::read_scalars;
use crate::folder::Folder;

#[test]
fn data_that_is_missing_or_empty() {
    let folder = Folder::new();
    let lines = |pattern: &str| {
        folder.write(
            "other_tasks.gin",
            format!(
                "other/seqio.Task:\n  source = @seqio.TextLineDataSource()\n  preprocessors = []\n  \
                 output_features = {{'inputs': @seqio.Feature(), 'targets': @seqio.Feature()}}\n\
                 other/seqio.TextLineDataSource.split_to_filepattern = {{'train': '{pattern}'}}\n\
                 seqio.Feature.vocabulary = @seqio.ByteVocabulary()\n\
                 seqio.ByteVocabulary.extra_ids = 20\n"
            ),
        );
        folder.write("other.gin", "import other_tasks\nMIXTURE_OR_TASK_NAME = 'other'\n");
        folder.pretrain(4).gin_file("other.gin")
    };
    check(&lines("nothing-*.txt"), USER, &["`other`", "'train'", "nothing-*.txt"]);
    folder.write("empty.txt", "");
    check(&lines("empty.txt"), USER, &["`other`", "'train'", "no examples"]);
    check(&lines("."), USER, &["`.`", "it is a folder, expected a file"]);
    check(&lines("gs://bucket/c4/*.txt"), USER, &["gs://bucket/c4", "--path_map gs://bucket=DIR"]);
    folder.write("short.txt.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2]);
    check(&lines("short.txt.gz"), WORLD, &["short.txt.gz"]);
}

#[test]
fn splits_and_files_that_are_not_there() {
    let folder = Folder::new();
    check(
        &folder.pretrain(4).bind("train/utils.DatasetConfig.split", "'trian'"),
        USER,
        &["`lines`", "'trian'", "train"],
    );
    check(
        &folder
            .pretrain(4)
            .bind("VOCABULARY", "@seqio.SentencePieceVocabulary()")
            .bind("seqio.SentencePieceVocabulary.sentencepiece_model_file", "'no.model'"),
        USER,
        &["no.model", "not found"],
    );
    folder.write("bad.model", "no protobuf");
    check(
        &folder
            .pretrain(4)
            .bind("VOCABULARY", "@seqio.SentencePieceVocabulary()")
            .bind("seqio.SentencePieceVocabulary.sentencepiece_model_file", "'bad.model'"),
        USER,
        &["bad.model", "SentencePiece"],
    );
}

#[test]
fn text_that_is_not_utf_8() {
    let folder = Folder::new();
    folder.write("lines-2.txt", b"fine\nna\xefve\n".repeat(4));
    check(&folder.pretrain(40), USER, &["lines-2.txt:2", "not UTF-8", "iconv"]);
    let folder = Folder::new();
    folder.write("echo-train.jsonl", "{\"inputs\": \"a\", \"targets\": \"a\"}\n{\"inputs\": \n");
    let echo = folder.pretrain(4).bind("MIXTURE_OR_TASK_NAME", "'echo'");
    check(&echo, USER, &["echo-train.jsonl:2", "JSON"]);
}

#[test]
fn records_that_are_to_be_skipped_are_counted_in_the_metrics() {
    let folder = Folder::new();
    folder.write("some.txt", [&b"na\xefve\n"[..], &b"a fine line of text\n".repeat(50)].concat());
    folder.write(
        "some_tasks.gin",
        "some/seqio.Task:\n  source = @seqio.TextLineDataSource()\n  \
         preprocessors = [@seqio.preprocessors.rekey(), @seqio.preprocessors.tokenize(), \
         @seqio.preprocessors.append_eos_after_trim()]\n  \
         output_features = {'inputs': @seqio.Feature(), 'targets': @seqio.Feature()}\n\
         seqio.preprocessors.rekey.key_map = {'inputs': 'text', 'targets': 'text'}\n\
         seqio.TextLineDataSource:\n  on_bad_record = 'skip'\n  \
         split_to_filepattern = {'train': 'some.txt', 'validation': 'held-out.txt'}\n\
         seqio.Feature.vocabulary = @seqio.ByteVocabulary()\n\
         seqio.ByteVocabulary.extra_ids = 20\n",
    );
    folder.write("some.gin", "import some_tasks\nMIXTURE_OR_TASK_NAME = 'some'\n");
    let ended = folder.pretrain(4).gin_file("some.gin").succeeds();
    assert!(ended.stderr.contains("some.txt:1"), "{}", ended.stderr);
    let scalars = read_scalars(&folder.path("model/train"));
    assert_eq!(scalars["bad_records"].values().last(), Some(&1.0));
}

#[test]
fn vocabularies_that_do_not_fit() {
    let folder = Folder::new();
    check(
        &folder.pretrain(4).bind("network.T5Config.vocab_size", 128),
        USER,
        &["279 ids", "network.T5Config.vocab_size is 128", "384"],
    );
    check(
        &folder.pretrain(4).bind("seqio.ByteVocabulary.extra_ids", 0),
        USER,
        &["vocabularies do not match", "task `lines`", "VOCABULARY"],
    );
    check(
        &folder
            .pretrain(4)
            .bind("VOCABULARY", "@seqio.SentencePieceVocabulary()")
            .bind_text("seqio.SentencePieceVocabulary.sentencepiece_model_file", "t5.model"),
        USER,
        &["of task `lines`", "cannot be compared", "t5.model", "bind VOCABULARY"],
    );
}

#[test]
fn sequences_that_do_not_fit() {
    let folder = Folder::new();
    let lengths = |inputs: u32, targets: u32| {
        let lengths = format!("{{'inputs': {inputs}, 'targets': {targets}}}");
        folder.pretrain(4).bind("TASK_FEATURE_LENGTHS", lengths)
    };
    check(
        &lengths(64, 8),
        USER,
        &["span corruption", "targets length (8)", "'inputs': 64", "TASK_FEATURE_LENGTHS"],
    );
    check(
        &lengths(16, 16)
            .bind("MIXTURE_OR_TASK_NAME", "'long'")
            .bind("train/utils.DatasetConfig.trim_output_features", "False")
            .bind("train.train_eval_dataset_cfg", "None"),
        USER,
        &[
            "task `long`, split 'train', lines-",
            ".txt:",
            "feature 'inputs' has",
            "its length of 16",
            "TASK_FEATURE_LENGTHS['inputs']",
            "trim_output_features = True",
        ],
    );
    check(&lengths(0, 16), USER, &["'inputs'", "positive length"]);
    let lengths = folder.pretrain(4).bind("TASK_FEATURE_LENGTHS", "{'inputs': 64}");
    check(&lengths, USER, &["'targets'", "length"]);
}

#[test]
fn token_ids_that_the_model_lacks() {
    let folder = Folder::new();
    folder.write("ids.jsonl", "{\"inputs\": [5, 5000, 1], \"targets\": [3, 1]}\n".repeat(9));
    let run = folder
        .pretrain(4)
        .bind("MIXTURE_OR_TASK_NAME", "'ids'")
        .bind("train.train_eval_dataset_cfg", "None")
        .bind("train/utils.DatasetConfig.pack", "False");
    check(
        &run,
        USER,
        &[
            "task `ids`, split 'train', ids.jsonl:1 at byte 0: feature 'inputs' has the token id 5000",
            "from 0 to 383",
            "network.T5Config.vocab_size = 384",
        ],
    );
}

#[test]
fn a_cache_that_must_be_there() {
    let folder = Folder::new();
    let ended = folder.pretrain(4).bind("USE_CACHED_TASKS", "True").succeeds();
    assert!(ended.stderr.contains("cache"), "{}", ended.stderr);
}
