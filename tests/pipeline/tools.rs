//! `gimlet task`, `gimlet vocab` and `gimlet bench data`, as a user calls them.

use std::path::Path;

use assert_cmd::Command;

const TASKS: &str = r#"
bytes/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
lines/seqio.TextLineDataSource.split_to_filepattern = {"train": "FOLDER/lines.tsv"}
fields/t5.data.preprocessors.parse_tsv.field_names = ["inputs", "targets"]
pairs/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  preprocessors = [
    @fields/t5.data.preprocessors.parse_tsv(),
    @seqio.preprocessors.tokenize(),
    @seqio.preprocessors.append_eos_after_trim(),
  ]
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
again/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  preprocessors = [@fields/t5.data.preprocessors.parse_tsv(), @seqio.preprocessors.tokenize()]
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
both/seqio.Mixture.tasks = [("pairs", {0: 3.0, 500: 1.0}), ("again", 1)]
"#;

/// Creates a folder with `my_tasks.gin`, which also contains `more`, and its data.
fn folder(more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tasks = format!("{TASKS}{more}").replace("FOLDER", &folder.path().display().to_string());
    std::fs::write(folder.path().join("my_tasks.gin"), tasks).unwrap();
    std::fs::write(folder.path().join("lines.tsv"), "ab\tc\nd\te\nfgh\ti\n").unwrap();
    folder
}

/// Status, standard output and standard error of `gimlet`, which runs in the folder.
fn gimlet(folder: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.current_dir(folder).args(words).write_stdin(input).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn task(folder: &tempfile::TempDir, words: &[&str]) -> (i32, String, String) {
    let [tool, rest @ ..] = words else { panic!("names a tool") };
    gimlet(folder.path(), &[&["task", tool, "--task_module=my_tasks"], rest].concat(), "")
}

#[test]
fn tasks_are_listed_with_their_lines_and_mixtures_with_their_shares() {
    let folder = folder("");
    let (status, out, _) = task(&folder, &["list"]);
    let expected = "task     again  my_tasks.gin:14  inputs, targets\n\
                    mixture  both   my_tasks.gin:17  again 25%, pairs 75%; from step 500 again 50%, pairs 50%\n\
                    task     pairs  my_tasks.gin:6  inputs, targets\n";
    assert_eq!((status, out.replace("./", "")), (0, expected.to_string()));
    assert_eq!(task(&folder, &["list", "^p"]).1.lines().count(), 1);
    let (status, _, error) = task(&folder, &["list", "zebra"]);
    assert_eq!(status, 2);
    assert!(error.contains("no task's or mixture's name contains `zebra`, of 3"), "{error}");
}

#[test]
fn the_library_is_listed_where_no_file_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (status, out, error) = gimlet(folder.path(), &["task", "list", "^quickstart"], "");
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("task     quickstart_dates"), "{out}");
}

#[test]
fn examples_are_shown_after_each_step_and_packed() {
    let folder = folder("");
    let flags = ["show", "pairs", "--num_examples=1", "--task_feature_lengths=inputs=6,targets=4"];
    let (status, out, error) = task(&folder, &flags);
    assert_eq!(status, 0, "{error}");
    let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let expected = [
        "pairs: source, split 'train'",
        r#"text                  "ab\tc""#,
        "pairs: after 1. parse_tsv",
        r#"inputs                "ab""#,
        r#"targets               "c""#,
        "pairs: after 2. tokenize",
        r#"inputs_pretokenized   "ab""#,
        "inputs                2 ids: 100 101",
        "pieces                a b",
        r#"text                  "ab""#,
        r#"targets_pretokenized  "c""#,
        "targets               1 id: 102",
        "pieces                c",
        r#"text                  "c""#,
        "pairs: after 3. append_eos_after_trim",
    ];
    assert_eq!(lines[..expected.len()], expected, "{out}");
    let packed = [
        "pairs: the first packed row",
        "encoder_input_tokens  2 examples, 5 of 6 tokens",
        "[1] a b </s> [2] d </s>",
        "decoder_target_tokens 2 examples, 4 of 4 tokens",
        "[1] c </s> [2] e </s>",
    ];
    assert_eq!(lines[lines.len() - packed.len()..], packed, "{out}");
    assert!(lines.contains(&"pairs: output features, trimmed to inputs 6, targets 4"), "{out}");
}

#[test]
fn tasks_are_read_from_their_caches_where_that_is_asked_for() {
    let folder = folder(
        r#"must/seqio.CacheDatasetPlaceholder.required = True
cached/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  preprocessors = [
    @fields/t5.data.preprocessors.parse_tsv(),
    @seqio.preprocessors.tokenize(),
    @must/seqio.CacheDatasetPlaceholder(),
    @seqio.preprocessors.append_eos_after_trim(),
  ]
  output_features = {"inputs": @bytes/seqio.Feature(), "targets": @bytes/seqio.Feature()}
"#,
    );
    let stats = ["stats", "cached", "--use_cached", "--seqio_additional_cache_dirs=caches"];
    let (status, _, error) = task(&folder, &stats);
    assert_eq!(status, 2, "{error}");
    let command =
        "`gimlet cache --module_import=my_tasks --tasks=cached --output_cache_dir=caches`";
    assert!(error.contains(command), "{error}");
    let cache =
        ["cache", "--module_import=my_tasks", "--tasks=cached", "--output_cache_dir=caches"];
    let (status, _, error) = gimlet(folder.path(), &cache, "");
    assert_eq!(status, 0, "{error}");
    std::fs::remove_file(folder.path().join("lines.tsv")).unwrap();
    let (status, out, error) = task(&folder, &stats);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("cached, split 'train': 3 examples"), "{out}");
    let show = [&["show"], &stats[1..]].concat();
    let (status, out, error) = task(&folder, &show);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("cached: cache, split 'train'\n"), "{out}");
    assert!(out.contains("cached: after 4. append_eos_after_trim\n"), "{out}");
    assert!(out.contains("cached: the first packed row\n"), "{out}");
}

#[test]
fn colours_tell_the_examples_of_a_row_apart() {
    let folder = folder("");
    let (_, out, _) = task(&folder, &["show", "pairs", "--color=always"]);
    assert!(out.contains("\u{1b}[33ma\u{1b}[0m \u{1b}[33mb\u{1b}[0m"), "{out}");
    assert!(out.contains("\u{1b}[33m</s>\u{1b}[0m \u{1b}[34md\u{1b}[0m"), "{out}");
}

#[test]
fn every_mistake_is_reported_with_its_line() {
    let sound = folder("");
    let (status, out, error) = task(&sound, &["check"]);
    assert_eq!((status, &out[..]), (0, "2 tasks and 1 mixture: no mistakes\n"), "{error}");

    let folder = folder(
        r#"lost/seqio.TextLineDataSource.split_to_filepattern = {"train": "FOLDER/none*"}
no_data/seqio.Task:
  source = @lost/seqio.TextLineDataSource()
  output_features = {"targets": @bytes/seqio.Feature()}
no_features/seqio.Task.source = @lines/seqio.TextLineDataSource()
no_task/seqio.Mixture.tasks = [("pair", 1)]
"#,
    );
    let (status, _, error) = task(&folder, &["check"]);
    assert_eq!(status, 2);
    for expected in [
        "error: task `no_data` (",
        "no file of `no_data`, split 'train', is found under",
        "my_tasks.gin:22): task `no_features` cannot be used",
        "output_features",
        "no task or mixture is named `pair`: did you mean `pairs`?",
        "error: 3 of 4 tasks and 2 mixtures cannot be used",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let (_, _, error) = task(&folder, &["check", "--offline", "no_data", "pairs"]);
    assert_eq!(error, "");
    let (status, _, error) = task(&folder, &["check", "pair"]);
    assert!(status == 2 && error.contains("did you mean `pairs`?"), "{error}");
}

#[test]
fn a_task_block_in_the_runs_own_file_declares_the_task() {
    let folder = folder("");
    std::fs::rename(folder.path().join("my_tasks.gin"), folder.path().join("run.gin")).unwrap();
    let run = |tool: &str, words: &[&str]| {
        gimlet(folder.path(), &[&["task", tool, "--gin_file=run.gin"], words].concat(), "")
    };
    let (status, out, error) = run("list", &[]);
    assert_eq!((status, out.lines().count()), (0, 3), "{error}");
    assert!(out.contains("pairs  run.gin:6  inputs, targets"), "{out}");
    let (status, out, error) = run("check", &[]);
    assert_eq!((status, out.as_str()), (0, "2 tasks and 1 mixture: no mistakes\n"), "{error}");
    let (status, out, error) = run("show", &["pairs", "--num_examples=1"]);
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("pairs: source, split 'train'\n"), "{out}");
    let (status, out, error) = gimlet(folder.path(), &["gin", "check", "run.gin"], "");
    assert_eq!((status, error.as_str()), (0, ""), "{out}");
}

#[test]
fn a_task_that_is_declared_twice_is_refused_with_both_places() {
    let folder = folder("");
    let run = "import my_tasks\npairs/seqio.Task.source = @seqio.TextLineDataSource()\n";
    std::fs::write(folder.path().join("run.gin"), run).unwrap();
    let words = ["task", "check", "--offline", "--gin_file=run.gin"];
    let (status, _, error) = gimlet(folder.path(), &words, "");
    assert_eq!(status, 2);
    assert!(
        error.contains("`pairs` is declared twice, at my_tasks.gin:6 and at run.gin:2"),
        "{error}"
    );
}

#[test]
fn the_tasks_of_the_given_files_are_checked_and_not_those_of_the_library() {
    let folder = folder("");
    let check = |words: &[&str]| {
        gimlet(folder.path(), &[&["task", "check", "--offline"], words].concat(), "")
    };
    let (status, _, error) = check(&[]);
    assert_eq!(status, 2);
    assert!(error.contains("nothing to check: name tasks, or give their files"), "{error}");
    let (status, out, error) = check(&["quickstart_dates"]);
    assert_eq!((status, out.as_str()), (0, "1 task and no mixtures: no mistakes\n"), "{error}");
    std::fs::write(folder.path().join("run.gin"), "import my_tasks\nimport quickstart\n").unwrap();
    let (status, out, error) = check(&["--gin_file=run.gin"]);
    assert_eq!((status, out.as_str()), (0, "2 tasks and 1 mixture: no mistakes\n"), "{error}");
    let (_, out, _) = check(&["--module_import=quickstart"]);
    assert!(!out.starts_with("no tasks"), "{out}");
}

#[test]
fn a_task_of_the_folder_is_found_and_a_file_in_place_of_a_name_is_told() {
    let folder = folder("");
    let check = |words: &[&str], expected: &str| {
        let (status, _, error) = gimlet(folder.path(), &[&["task"], words].concat(), "");
        assert_eq!(status, 2, "{words:?}: {error}");
        assert!(error.contains(expected), "{words:?}: {error}");
    };
    let declared = "`pairs`: it is declared at my_tasks.gin:5: add --module_import=my_tasks\n";
    // Each of these reads the whole library: one tool for each fact, since all share the function.
    let file = "give the file with --gin_file=my_tasks.gin or --module_import=my_tasks";
    check(&["check", "my_tasks.gin"], file);
    check(&["stats", "pairs", "--module_import=./my_tasks.gin"], "the module is `my_tasks`");
    check(&["metrics", "pairs", "--predictions=none"], declared);
    check(&["show", "zebra_tasks"], "no task or mixture is named `zebra_tasks`: known are ");
    let import = ["--gin_bindings=import my_tasks.gin"];
    check(
        &[&["list"], &import[..]].concat(),
        "`my_tasks.gin` names a file, and a module is expected",
    );
    let lengths = ["pairs", "--module_import=my_tasks", "--task_feature_lengths=input=8,targets=4"];
    for tool in ["show", "stats"] {
        check(
            &[&[tool], &lengths[..]].concat(),
            "names 'input', which is no output feature of the task: did you mean `inputs`?",
        );
    }
}

#[test]
fn mistakes_in_mixtures_are_reported_with_their_line_by_every_tool() {
    let folder = folder(
        r#"no_task/seqio.Mixture.tasks = [("pair", 1)]
outer/seqio.Mixture.tasks = [("again", 1), ("no_task", 2)]
few/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  output_features = {"targets": @bytes/seqio.Feature()}
unlike/seqio.Mixture.tasks = [("pairs", 1), ("few", 1)]
"#,
    );
    let check = |name: &str, expected: [&str; 2]| {
        for tool in ["stats", "show"] {
            let (status, _, error) = task(&folder, &[tool, name]);
            assert_eq!(status, 2, "{error}");
            assert!(expected.iter().all(|expected| error.contains(expected)), "{tool}: {error}");
        }
    };
    let unknown = "my_tasks.gin:18): no task or mixture is named `pair`: did you mean `pairs`?";
    check("no_task", ["mixture `no_task` (", unknown]);
    check("outer", ["mixture `no_task` (", unknown]);
    let unlike = "my_tasks.gin:23): mixture `unlike` contains tasks with different output features";
    check("unlike", ["mixture `unlike` (", unlike]);
    let (_, _, error) = task(&folder, &["stats", "pair"]);
    assert!(!error.contains("mixture `"), "no mixture is at fault: {error}");
}

#[test]
fn a_task_is_measured() {
    let folder = folder("");
    let flags = ["stats", "pairs", "--task_feature_lengths=inputs=6,targets=4"];
    let (status, out, error) = task(&folder, &flags);
    assert_eq!(status, 0, "{error}");
    for expected in [
        "pairs, split 'train': 3 examples, 15 tokens; ",
        "  inputs: mean 3.0, min 2, median 3, 90% 4, 99% 4, max 4\n",
        "  3 rows unpacked, 2 packed; padding\n",
        "    inputs (6): 50.0% unpacked, 25.0% packed\n",
        "    targets (4): 50.0% unpacked, 25.0% packed\n",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

#[test]
fn a_vocabulary_is_trained_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = "the cat sat on the mat\nthe dog sat on the log\n".repeat(50);
    std::fs::write(folder.path().join("text.txt"), text).unwrap();
    let flags = [
        "vocab",
        "train",
        "--input=text.txt",
        "--model_prefix=small",
        "--vocab_size=40",
        "--model_type=bpe",
        "--trainer_option=add_dummy_prefix=false",
    ];
    let (status, out, error) = gimlet(folder.path(), &flags, "");
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("small.model: 40 pieces"), "{out}");

    let show = ["vocab", "show", "small.model"];
    let (_, out, _) = gimlet(folder.path(), &[&show[..], &["the dog"]].concat(), "");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("pieces  t") && lines[2] == "text    the dog", "{out}");
    let ids = lines[1].strip_prefix("ids     ").unwrap();
    let (_, decoded, _) = gimlet(folder.path(), &[&show[..], &["--ids", ids]].concat(), "");
    assert_eq!(decoded, out);
    let (_, of_lines, _) = gimlet(folder.path(), &show, "the dog\nthe dog\n");
    assert_eq!(of_lines, out.repeat(2));
    let (_, about, _) = gimlet(folder.path(), &show, "");
    assert!(about.contains("end of sequence    1 </s>\n"), "{about}");
    let (status, _, error) =
        gimlet(folder.path(), &[&flags[..4], &["--vocab_size=4000"]].concat(), "");
    assert!(status == 2 && error.contains("vocab_size is 4000, expected at most "), "{error}");
}

#[test]
fn ids_that_are_none_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_, out, _) =
        gimlet(folder.path(), &["vocab", "show", "bytes", "--ids", "[119, 107, 1]"], "");
    assert_eq!(out, "pieces  t h </s>\nids     119 107 1\ntext    th\n");
    let (status, _, error) = gimlet(folder.path(), &["vocab", "show", "bytes", "--ids", "1 x"], "");
    assert_eq!((status, &error[..]), (2, "error: `x` is not an id, in `1 x`\n"));
}

#[test]
fn every_vocabulary_can_be_written_in_gin() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline/data/reference/");
    let more = r#"
spaces/seqio.SentencePieceVocabulary:
  sentencepiece_model_file = "MODELsentencepiece.model"
  normalizer_spec_overrides = @spaces/sentencepiece_model_pb2.NormalizerSpec()
spaces/sentencepiece_model_pb2.NormalizerSpec.remove_extra_whitespaces = False
pieces/seqio.BertWordPieceVocabulary.vocab_lookup_table = "MODELword_piece/vocab.txt"
pieces/seqio.BertWordPieceVocabulary.normalization_form = "NFKC"
words/seqio.UnigramVocabulary.unigrams = ["ab", "d"]
letters/seqio.PartialCodepointVocabulary.codepoints = [97, 98]
a/seqio.Feature.vocabulary = @spaces/seqio.SentencePieceVocabulary()
b/seqio.Feature.vocabulary = @pieces/seqio.BertWordPieceVocabulary()
c/seqio.Feature.vocabulary = @words/seqio.UnigramVocabulary()
c/seqio.Feature.add_eos = False
d/seqio.Feature.vocabulary = @letters/seqio.PartialCodepointVocabulary()
e/seqio.Feature.vocabulary = @seqio.FullCodepointVocabulary()
same/seqio.preprocessors.rekey.key_map = {"a": "text", "b": "text", "c": "text", "d": "text", "e": "text"}
all_kinds/seqio.Task:
  source = @twice/seqio.TextLineDataSource()
  preprocessors = [@same/seqio.preprocessors.rekey(), @seqio.preprocessors.tokenize()]
  output_features = {"a": @a/seqio.Feature(), "b": @b/seqio.Feature(), "c": @c/seqio.Feature(), "d": @d/seqio.Feature(), "e": @e/seqio.Feature()}
twice/seqio.TextLineDataSource.split_to_filepattern = {"train": "FOLDER/spaces.txt"}
"#;
    let folder = folder(&more.replace("MODEL", model));
    std::fs::write(folder.path().join("spaces.txt"), "ba  ce\n").unwrap();
    let (status, out, error) = task(&folder, &["show", "all_kinds", "--num_examples=1"]);
    assert_eq!(status, 0, "{error}");
    let pieces: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("  pieces")).collect();
    let pieces: Vec<&str> = pieces[..5].iter().map(|line| line.trim()).collect();
    assert_eq!(pieces, ["▁ba ▁ ▁ce", "ba ce", "UNK", "b a <unk> <unk> <unk> <unk>", "b a     c e"]);
}

#[test]
fn batches_of_a_run_are_timed_and_their_padding_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let pair = |i: usize| {
        let words = "ab ".repeat(1 + i % 4);
        format!("{{\"inputs\": \"{words}\", \"targets\": \"{words}\"}}\n")
    };
    let pairs: String = (0..500).map(pair).collect();
    std::fs::write(folder.path().join("echo-train.jsonl"), pairs).unwrap();
    let gin_files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/gin");
    let search = format!("--gin_search_paths={}", gin_files.display());
    let run = [
        "bench",
        "data",
        &search,
        "--gin_file=pretrain_tiny.gin",
        "--gin.TRAIN_STEPS=1",
        "--gin.MIXTURE_OR_TASK_NAME='echo'",
    ];
    let bench = |words: &[&str]| gimlet(folder.path(), &[&run, words].concat(), "");
    let measured = |words: &[&str]| -> serde_json::Value {
        let (status, out, error) = bench(&[&["--json", "--steps=7", "--warmup=2"], words].concat());
        assert_eq!((status, error.as_str()), (0, ""), "{out}");
        serde_json::from_str(&out).unwrap()
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let packed = measured(&[]);
    assert_eq!((&packed["bench"], &packed["steps"]), (&"data".into(), &7.into()));
    assert_eq!(packed["mixture_or_task_name"], "echo");
    let batches = number(&packed["batches_per_second"]);
    assert!((number(&packed["rows_per_second"]) / batches - 8.0).abs() < 1e-9, "{packed}");
    assert!(number(&packed["examples_per_second"]) > number(&packed["rows_per_second"]));
    let plain = measured(&["--gin.train/utils.DatasetConfig.pack=False"]);
    assert_eq!(plain["examples_per_second"], plain["rows_per_second"]);
    // 64 and 32 positions a row hold several examples of a few words.
    for (feature, length) in [("inputs", 64.0), ("targets", 32.0)] {
        let [packed, plain] = [&packed, &plain].map(|found| number(&found["padding"][feature]));
        assert!(packed < plain && plain < 1.0 && packed > 0.0, "{feature}: {packed} and {plain}");
        assert!(length * (1.0 - plain) < 30.0, "{feature}: {plain}");
    }
    let (status, out, _) = bench(&["--steps=2"]);
    assert_eq!(status, 0);
    for words in ["echo, first batch after", "batches/s of 8 rows, 2 timed", "of 64 positions"] {
        assert!(out.contains(words), "`{words}` is not in:\n{out}");
    }
    assert!(!folder.path().join("model").exists());
}

#[test]
fn the_gin_files_of_runs_are_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], expected: &str| {
        let (_, out, error) = gimlet(folder.path(), &[&["gin", "check"], words].concat(), "");
        assert!(out.contains(expected) || error.contains(expected), "{words:?}: {out}{error}");
    };
    let training = "a configuration of t5x.train.train: no errors";
    check(&["runs/quickstart/pretrain.gin", "--gin.MODEL_DIR='a'"], training);
    // Files beside each other, in a folder that is searched, and above.
    let searched = ["--gin_search_paths=runs/ro_t5x", "--gin.MODEL_DIR='a'", "ro_t5x_base.gin"];
    check(&searched, training);
    let paper = "a configuration of mesh_tensorflow.transformer.utils.run: ";
    check(&["runs/t5_paper/scaling/sc-ens-ft0.gin"], paper);
    check(&["runs/quickstart/pretrian.gin"], "did you mean runs/quickstart/pretrain.gin");
    // The folder's own files come first.
    std::fs::create_dir_all(folder.path().join("runs/t0")).unwrap();
    std::fs::write(folder.path().join("runs/t0/run_eval.gin"), "mine = %none\n").unwrap();
    check(&["runs/t0/run_eval.gin"], "a part of a configuration");
}

#[test]
fn an_export_an_evaluation_or_an_inference_reads_its_own_part_of_a_training_s_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let training = "include 't5x/examples/t5/t5_1_1/tiny.gin'\ninclude 't5x/configs/runs/finetune.gin'\n\
                    import t5.data.mixtures\nINITIAL_CHECKPOINT_PATH = '/none'\nTRAIN_STEPS = 3\n\
                    DROPOUT_RATE = 0.0\nMODEL_DIR = 'a'\nBATCH_SIZE = 8\nMIXTURE_OR_TASK_NAME = 'wmt14_enfr_v003'\n\
                    TASK_FEATURE_LENGTHS = {'inputs': 32, 'targets': 16}\n";
    std::fs::write(folder.path().join("training.gin"), training).unwrap();
    let (_, config, _) = gimlet(folder.path(), &["gin", "print", "training.gin"], "");
    std::fs::write(folder.path().join("config.gin"), config).unwrap();
    let given = [
        "--gin_file=config.gin",
        "--gin.CHECKPOINT_PATH='/none'",
        "--gin.MIXTURE_OR_TASK_NAME='wmt14_enfr_v003'",
        "--gin.TASK_FEATURE_LENGTHS={'inputs': 32, 'targets': 16}",
        "--dry_run",
    ];
    for (command, outputs) in [
        ("export", &["--gin.MODEL_OUTPUT_DIR='out'", "--gin.MODEL_NAME='m'"][..]),
        ("eval", &["--gin.EVAL_OUTPUT_DIR='out'"]),
        // Its task's vocabulary is read before the checkpoint.
        ("infer", &["--gin.INFER_OUTPUT_DIR='out'", "--path_map=gs://t5-data=/none"]),
    ] {
        let file = format!("--gin_file=t5x/configs/runs/{command}.gin");
        let words = [&[command, given[0], &file], &given[1..], outputs].concat();
        let (_, _, error) = gimlet(folder.path(), &words, "");
        // All of the configuration is read; only files are not there.
        let missing = ["error: cannot open `/none`", "error: cannot read the vocabulary"];
        assert!(missing.iter().any(|text| error.starts_with(text)), "{command}: {error}");
    }
}
