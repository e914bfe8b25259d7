//! `gimlet task batches` and `gimlet task metrics`: the batches of a run and the scores of
//! predictions, without training.

use std::path::Path;

use assert_cmd::Command;

const TASKS: &str = r#"
bytes/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
pairs/seqio.JsonLinesDataSource.split_to_filepattern = {"train": "pairs.jsonl", "validation": "pairs.jsonl"}
numbers/seqio.Task:
  source = @pairs/seqio.JsonLinesDataSource()
  preprocessors = [@seqio.preprocessors.tokenize(), @seqio.preprocessors.append_eos_after_trim()]
  postprocess_fn = @t5.data.postprocessors.string_to_float()
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
  metric_fns = [@metrics.accuracy, @metrics.pearson_corrcoef]
scored/seqio.Task:
  source = @pairs/seqio.JsonLinesDataSource()
  preprocessors = [@seqio.preprocessors.tokenize()]
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
  metric_fns = [@auc/metrics.score_auc]
twice/seqio.Task:
  source = @pairs/seqio.JsonLinesDataSource()
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
  metric_fns = [@metrics.squad, @metrics.trivia_qa]
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my_tasks.gin"), TASKS).unwrap();
    let pairs = "{\"inputs\": \"abc\", \"targets\": \"1\"}\n{\"inputs\": \"d\", \"targets\": \"2.5\"}\n\
                 {\"inputs\": \"ef\", \"targets\": \"4\"}\n";
    std::fs::write(folder.path().join("pairs.jsonl"), pairs).unwrap();
    folder
}

/// Status, standard output and standard error of `gimlet`, which runs in the folder.
fn gimlet(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.current_dir(folder).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs `gimlet task metrics` on a file of predictions with this name and text.
fn metrics(name: &str, text: &str, task: &str, more: &[&str]) -> (i32, String, String) {
    let folder = folder();
    std::fs::write(folder.path().join(name), text).unwrap();
    let file = format!("--predictions={name}");
    let words = ["task", "metrics", task, "--module_import=my_tasks", &file];
    gimlet(folder.path(), &[&words, more].concat())
}

#[test]
fn predictions_are_scored_as_an_evaluation_would() {
    let expected = "accuracy: 66.6667\npearson_corrcoef: 96.0769\n";
    let texts = "1\n 2.5\n3\n";
    let logged = [("1", 1.0), ("2.5", 2.5), ("3", 3.0)].map(|(text, number)| {
        format!("{{\"input\": {{}}, \"output\": \"{text}\", \"prediction\": {number}}}\n")
    });
    let inferred = "{\"prediction\": \"1\"}\n{\"prediction\": \"2.5\"}\n{\"prediction\": 3}\n";
    let of_shard = "numbers-predict.jsonl-00000-of-00001";
    for (name, text) in [
        ("p.txt", texts),
        ("p.jsonl", &logged.concat()),
        ("p.jsonl", inferred),
        (of_shard, inferred),
    ] {
        let (status, out, error) = metrics(name, text, "numbers", &[]);
        assert_eq!((status, &out[..]), (0, expected), "{error}");
    }
    let (_, out, _) = metrics("p.txt", "1\n2.5\n", "numbers", &["--num_examples=2", "--json"]);
    assert_eq!(out, "{\"accuracy\":100.0,\"pearson_corrcoef\":100.0}\n");
}

#[test]
fn predictions_that_do_not_fit_are_named() {
    for (name, text, task, expected) in [
        (
            "p.txt",
            "1\n2\n",
            "numbers",
            "has 2 predictions, and `numbers`, split 'validation', has 3",
        ),
        (
            "p.jsonl",
            "{\"score\": 1}\n{}\n{}\n",
            "numbers",
            "p.jsonl:2: found \"{}\", expected a JSON object",
        ),
        ("p.jsonl", "1\n", "numbers", "p.jsonl:1: found \"1\", expected a JSON object"),
        ("p.txt", "1\n2\n3\n", "scored", "p.txt:1: metric `score_auc` needs a 'score'"),
        (
            "p.jsonl",
            "{\"output\": \"1\", \"target\": 1.0}\n{\"output\": \"1\", \"target\": 4.0}\n{\"output\": \"1\"}\n",
            "numbers",
            "p.jsonl:2: its target is \"4.0\", and that of the example in split 'validation' is \"2.5\"",
        ),
        (
            "p.txt",
            "",
            "twice",
            "two metrics with the key `em`, of `squad` and `trivia_qa`: drop one",
        ),
    ] {
        let (status, _, error) = metrics(name, text, task, &[]);
        assert!(status == 2 && error.contains(expected), "{error}");
    }
}

#[test]
fn predictions_of_another_split_are_refused_by_its_name() {
    let folder = folder();
    let tasks = TASKS.replace("\"train\": \"pairs.jsonl\"", "\"train\": \"train.jsonl\"");
    std::fs::write(folder.path().join("my_tasks.gin"), tasks).unwrap();
    std::fs::write(folder.path().join("train.jsonl"), "{\"inputs\": \"x\", \"targets\": \"7\"}\n")
        .unwrap();
    let predicted = |inputs: &str| {
        let line = format!(
            "{{\"inputs\": {{\"inputs_pretokenized\": \"{inputs}\"}}, \"prediction\": \"7\"}}\n"
        );
        std::fs::write(folder.path().join("p.jsonl-00000-of-00001"), line).unwrap();
        let words = ["task", "metrics", "numbers", "--module_import=my_tasks", "--num_examples=1"];
        gimlet(folder.path(), &[&words[..], &["--predictions=p.jsonl-00000-of-00001"]].concat())
    };
    let differs = "-00001:1: its 'inputs_pretokenized' is \"x\", and that of the example in split 'validation' is \"abc\": ";
    let (status, _, error) = predicted("x");
    let named = "these are predictions of split 'train': give --split=train";
    assert!(status == 2 && error.contains(&format!("{differs}{named}")), "{error}");
    let (status, _, error) = predicted("y");
    assert!(status == 2 && error.contains("name the --split that was predicted"), "{error}");
    let (_, _, error) = predicted("abc");
    assert!(!error.contains("inputs_pretokenized"), "{error}");
}

#[test]
fn the_batches_of_a_run_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let pairs: String = (0..9).map(|_| "{\"inputs\": \"ab\", \"targets\": \"cde\"}\n").collect();
    std::fs::write(folder.path().join("echo-train.jsonl"), pairs).unwrap();
    let gin_files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/gin");
    let search = format!("--gin_search_paths={}", gin_files.display());
    let run = [
        "task",
        "batches",
        &search,
        "--gin_file=pretrain_tiny.gin",
        "--gin.TRAIN_STEPS=1",
        "--gin.MIXTURE_OR_TASK_NAME='echo'",
        "--gin.BATCH_SIZE=1",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 7, 'targets': 9}",
    ];
    let (status, out, error) = gimlet(folder.path(), &run);
    assert_eq!(status, 0, "{error}");
    for expected in [
        "step 1 of `echo`, split 'train': 1 row\n",
        "decoder_target_tokens [1, 9]",
        "row 1\n  encoder_input_tokens  2 examples, 6 of 7 tokens\n    111222.\n",
        "    [1] 0..3 ids: 100 101 1\n        pieces: a b </s>\n        text:   \"ab\"\n",
        "  decoder_target_tokens 2 examples, 8 of 9 tokens\n    11112222.\n",
        "    [2] 4..8 ids: 102 103 104 1\n",
    ] {
        assert!(out.contains(expected), "{expected} is not in\n{out}");
    }
    let plain = [&run[..], &["--gin.train/utils.DatasetConfig.pack=False", "--steps=2"]].concat();
    let (_, out, _) = gimlet(folder.path(), &plain);
    assert!(out.contains("encoder_input_tokens  1 example, 3 of 7 tokens\n    111....\n"), "{out}");
    assert!(out.contains("step 2 of `echo`"), "{out}");
    assert!(!folder.path().join("model").exists());
}
