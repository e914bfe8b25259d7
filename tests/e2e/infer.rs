//! `gimlet infer` of a small model: its files, its shards, its ends, and the mistakes that it refuses.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::buckets::copy;
use crate::command::{Ended, Train};
use crate::folder::Folder;
use crate::generate::gimlet;
use crate::processes::launched_as;
use crate::resume::{has_ended, send, wait};
use crate::s3::S3;
use crate::server::Server;

const RESULTS: &str = "echo-predict.jsonl-00000-of-00001";

/// A folder with `pretrained/checkpoint_0` to `_4`; `echo` has forty examples, which are seven chunks.
fn pretrained() -> Folder {
    Folder::once("pretrained_of_every_step", |folder| {
        let every_step = folder.pretrain(4).bind("utils.SaveCheckpointConfig.period", 1);
        every_step.bind("train.eval_period", 0).bind_text("MODEL_DIR", "pretrained").succeeds();
    })
}

fn infer(folder: &Folder) -> Train {
    folder.train("infer_tiny.gin").tool(&["infer"])
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The texts of the inputs in a file of results.
fn inputs(text: &str) -> Vec<String> {
    let input = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        line["inputs"]["inputs_pretokenized"].as_str().expect("it has a text").to_string()
    };
    text.lines().map(input).collect()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("it is readable").file_name().into_string().expect("it is text")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn assert_said(ended: &Ended, words: &[&str]) {
    for word in words {
        assert!(ended.stderr.contains(word), "`{word}` is not in:\n{}", ended.stderr);
    }
}

#[test]
fn results_are_the_examples_in_their_order_and_stay_complete() {
    let folder = pretrained();
    assert_said(&infer(&folder).succeeds(), &["inferred/echo-predict", "40 examples"]);
    let completed = format!("{RESULTS}.COMPLETED");
    let expected = ["config.gin", RESULTS, &completed, "model-info.txt"];
    assert_eq!(names(&folder.path("inferred")), expected);
    let text = read(&folder, &format!("inferred/{RESULTS}"));
    let source = read(&folder, "echo-train.jsonl");
    let words = source.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        line["inputs"].as_str().expect("a text").to_string()
    });
    assert_eq!(inputs(&text), words.collect::<Vec<_>>());
    let first = text.lines().next().expect("there are lines");
    assert!(first.starts_with("{\"inputs\": {\"inputs_pretokenized\": \"w0\", "), "{first}");
    assert!(first.contains("}, \"prediction\": \""), "{first}");

    let again = infer(&folder).bind("infer.checkpoint_period", 3).succeeds();
    assert_said(&again, &["is complete; it stays"]);
    assert!(!again.stderr.contains("inferring"), "{}", again.stderr);
}

#[test]
fn results_of_another_checkpoint_or_of_other_values_are_refused_with_both() {
    let folder = pretrained();
    infer(&folder).succeeds();
    let before = names(&folder.path("inferred"));
    let config = read(&folder, "inferred/config.gin");
    let refused = |run: Train, words: &[&str]| {
        for run in [run.clone().arg("--dry_run"), run] {
            let ended = run.run();
            assert_eq!(ended.status, Some(2), "{}", ended.stderr);
            let what = "-00001` holds finished results of other values than this command has:";
            assert_said(
                &ended,
                &[what, "set INFER_OUTPUT_DIR to another folder, or delete `inferred/"],
            );
            assert_said(&ended, words);
        }
        assert_eq!(names(&folder.path("inferred")), before);
        assert_eq!(read(&folder, "inferred/config.gin"), config);
    };
    let other = infer(&folder).bind_text("CHECKPOINT_PATH", "pretrained/checkpoint_3");
    refused(other, &["checkpoint: pretrained/checkpoint_4 -> pretrained/checkpoint_3"]);
    let lengths = infer(&folder).bind("TASK_FEATURE_LENGTHS", "{'inputs': 8, 'targets': 16}");
    let split = lengths.bind_text("utils.DatasetConfig.split", "validation");
    refused(split, &["infer.dataset_cfg.split: 'train' -> 'validation'", "task_feature_lengths"]);

    // The name of the file tells modes apart, and `config.gin` says what has changed.
    let scored = infer(&folder).bind_text("infer.mode", "score").succeeds();
    let changed = "config.gin has changed since the last start: see inferred/config.gin.1";
    assert_said(&scored, &[changed, "\n  infer.mode: 'predict' -> 'score'\n"]);
    assert_said(&infer(&folder).succeeds(), &["is complete; it stays"]);
}

#[test]
fn shards_and_processes_make_the_results_of_one() {
    let folder = pretrained();
    let scored = || infer(&folder).bind_text("infer.mode", "score");
    scored().succeeds();
    let whole = read(&folder, "inferred/echo-score.jsonl-00000-of-00001");
    let mut shards = Vec::new();
    for shard in ["0", "1", "2"] {
        let run = scored().bind("infer.num_shards", 3).arg(format!("--shard_id={shard}"));
        run.succeeds();
        shards.push(read(&folder, &format!("inferred/echo-score.jsonl-0000{shard}-of-00003")));
    }
    let number_of = |text: &str| inputs(text).len();
    assert_eq!(shards.iter().map(|text| number_of(text)).sum::<usize>(), 40);
    // One file is dealt out by record.
    let third: Vec<String> = inputs(&whole).into_iter().skip(1).step_by(3).collect();
    assert_eq!(inputs(&shards[1]), third);

    let run = scored().bind_text("INFER_OUTPUT_DIR", "shared");
    launched_as(run, 2, "infer").succeeds();
    assert_eq!(read(&folder, "shared/echo-score.jsonl-00000-of-00001"), whole);
}

#[test]
fn an_inference_that_is_killed_at_any_chunk_loses_and_repeats_nothing() {
    let folder = pretrained();
    let of_iterator = |saved: &str| {
        let dir = format!("saved_{saved}");
        let run = infer(&folder).bind_text("INFER_OUTPUT_DIR", &dir);
        (run.bind("infer.checkpoint_ds_iter", saved).bind("infer.checkpoint_period", 1), dir)
    };
    infer(&folder).succeeds();
    let expected = read(&folder, &format!("inferred/{RESULTS}"));
    for saved in ["True", "False"] {
        let (run, dir) = of_iterator(saved);
        let tmp = folder.path(&dir).join("tmp-echo-00000-of-00001");
        let num_chunks = || fs::read_dir(&tmp).map_or(0, Iterator::count);
        let mut signals = [libc::SIGKILL, libc::SIGTERM].into_iter().cycle();
        let mut num_kills = 0;
        while !folder.path(&dir).join(format!("{RESULTS}.COMPLETED")).exists() {
            let before = num_chunks();
            let mut child = run.start();
            wait(|| num_chunks() > before + 4 || has_ended(&mut child));
            send(&child, signals.next().expect("they repeat"));
            child.wait().expect("it ends");
            num_kills += 1;
            assert!(num_kills < 30, "{saved}: it does not go on");
        }
        assert!(num_kills > 1, "{saved}: nothing was killed");
        assert_eq!(read(&folder, &format!("{dir}/{RESULTS}")), expected, "{saved}");
        run.succeeds();
        assert!(!tmp.exists(), "{saved}");
    }
}

#[test]
fn chunks_of_another_inference_are_refused() {
    let folder = pretrained();
    let unmerged = infer(&folder).bind("infer.merge_chunked_results", "False");
    unmerged.succeeds();
    let tmp = folder.path("inferred/tmp-echo-00000-of-00001");
    assert!(tmp.join(format!("{RESULTS}-chunk00006.COMPLETED")).exists());
    fs::remove_file(folder.path(&format!("inferred/{RESULTS}.COMPLETED"))).expect("it is there");
    let other = infer(&folder).bind("infer.checkpoint_period", 3).run();
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    assert_said(&other, &["has chunks of another inference", "6 examples a chunk", "9 examples"]);
    let other = infer(&folder).bind_text("CHECKPOINT_PATH", "pretrained/checkpoint_3").run();
    assert_said(&other, &["checkpoint `pretrained/checkpoint_4`", "delete `inferred/tmp-echo"]);
}

#[test]
fn each_of_several_checkpoints_has_a_folder_of_results() {
    let folder = pretrained();
    let s3 = S3::new("bucket", Some(("key", "secret")));
    let bucket = s3.root.path().join("bucket");
    copy(&folder.path("pretrained"), &bucket.join("model"));
    let server = Server::start(move |request| s3.answer(request));
    let list = "['s3://bucket/model/checkpoint_2', 's3://bucket/model/checkpoint_4']";
    infer(&folder)
        .bind("CHECKPOINT_PATH", list)
        .bind_text("INFER_OUTPUT_DIR", "s3://bucket/results")
        .env("GIMLET_OFFLINE", "0")
        .env("NO_PROXY", "127.0.0.1")
        .env("AWS_ENDPOINT_URL", &server.url(""))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .succeeds();
    infer(&folder).succeeds();
    let expected = read(&folder, &format!("inferred/{RESULTS}"));
    let found =
        |step| fs::read_to_string(bucket.join(format!("results/checkpoint_{step}/{RESULTS}")));
    assert_eq!(found(4).expect("it was written"), expected);
    assert_eq!(inputs(&found(2).expect("it was written")), inputs(&expected));
}

#[test]
fn a_damaged_checkpoint_of_a_folder_is_told_and_left_out() {
    let folder = pretrained();
    let file = folder.path("pretrained/checkpoint_1/checkpoint");
    let bytes = fs::read(&file).expect("it is readable");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("it can be written");
    let all = infer(&folder)
        .bind_text("CHECKPOINT_PATH", "pretrained")
        .bind_text("utils.RestoreCheckpointConfig.mode", "all")
        .bind_text("infer.mode", "score");
    let ended = all.run();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert_said(&ended, &["`pretrained/checkpoint_1` is damaged", "it is left out"]);
    let found = || names(&folder.path("inferred"));
    let others = ["checkpoint_0", "checkpoint_2", "checkpoint_3", "checkpoint_4"];
    assert!(others.iter().all(|name| found().contains(&name.to_string())), "{:?}", found());
    assert!(!found().contains(&"checkpoint_1".to_string()));

    fs::write(&file, bytes).expect("it can be written");
    all.succeeds();
    assert!(found().contains(&"checkpoint_1".to_string()));
}

#[test]
fn a_decoder_alone_gives_the_answers_and_scores_of_the_command_line() {
    let folder = Folder::new();
    let train = folder.train("decoder_tiny.gin").bind_text("MODEL_DIR", "pretrained");
    train.bind("TRAIN_STEPS", 4).bind("train.eval_period", 0).succeeds();
    let results = |mode: &str, key: &str| -> Vec<Value> {
        let run = infer(&folder).gin_file("decoder_model.gin").bind("DROPOUT_RATE", "0.0");
        let run = run.bind("decoding.temperature_sample.temperature", "0.0");
        let run = run.bind("decoding.temperature_sample.max_decode_steps", 16);
        run.bind_text("infer.mode", mode).succeeds();
        let text = read(&folder, &format!("inferred/echo-{mode}.jsonl-00000-of-00001"));
        let line = |line| serde_json::from_str::<Value>(line).expect("a line of JSON")[key].clone();
        text.lines().map(line).collect()
    };
    let lines = |words: &[&str]| {
        let words = [
            words,
            &["--checkpoint=pretrained", "--file=echo-train.jsonl", "--json"],
            // The task ends inputs too.
            &["--gin.InteractiveModel.add_eos=True"],
        ];
        let said = gimlet(&folder, &words.concat()).succeeds().stdout;
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    let answers = lines(&["generate", "--temperature=0", "--max_tokens=16"]).into_iter();
    let answers = answers.map(|line| line["predictions"][0]["text"].clone());
    assert_eq!(results("predict", "prediction"), answers.collect::<Vec<_>>());
    let scores = lines(&["score"]).into_iter().map(|line| line["score"].as_f64());
    let found = results("score", "score").into_iter().map(|score| score.as_f64());
    for (found, expected) in found.zip(scores) {
        let (found, expected) = (found.expect("a number"), expected.expect("a number"));
        assert!((found - expected).abs() < 1e-4, "{found}, the command line has {expected}");
    }
}

#[test]
fn texts_of_tf_examples_need_no_task() {
    let folder = pretrained();
    let cache = folder.pretrain(4).tool(&["cache"]).arg("--tasks=cached");
    cache.arg("--output_cache_dir=caches").succeeds();
    let run = folder.train("infer_file_tiny.gin").tool(&["infer"]);
    let files = "['caches/cached/validation*tfrecord*']";
    run.clone().bind("TF_EXAMPLE_FILE_PATHS", files).succeeds();
    let results = names(&folder.path("inferred"));
    let results = results.iter().find(|name| name.ends_with("-score.jsonl-00000-of-00001"));
    let results = results.expect("they are there");
    assert!(results.starts_with("infer_"), "{results}");
    let text = read(&folder, &format!("inferred/{results}"));
    let held_out = read(&folder, "held-out.txt");
    let (mut found, mut expected) = (inputs(&text), held_out.lines().collect::<Vec<_>>());
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(text.lines().all(|line| line.contains("}, \"score\": -")), "{text}");

    let none = run.bind("TF_EXAMPLE_FILE_PATHS", "'none-*.tfrecord'").arg("--dry_run").run();
    assert_eq!(none.status, Some(2), "{}", none.stderr);
    assert_said(&none, &["none-*.tfrecord"]);
}

#[test]
fn an_exported_model_infers_the_same() {
    let folder = pretrained();
    infer(&folder).succeeds();
    let export = folder.train("export_tiny.gin").tool(&["export"]);
    assert_said(&export.succeeds(), &["exported to exported"]);
    let warmup: Value =
        serde_json::from_str(&read(&folder, "exported/warmup_examples.json")).expect("it is JSON");
    assert_eq!(warmup[0]["inputs"]["text_batch"], serde_json::json!(["a", "b", "a"]));
    let generation: Value = serde_json::from_str(&read(&folder, "exported/generation_config.json"))
        .expect("it is JSON");
    assert_eq!((&generation["num_beams"], &generation["max_length"]), (&2.into(), &17.into()));
    infer(&folder)
        .bind_text("CHECKPOINT_PATH", "exported")
        .bind_text("INFER_OUTPUT_DIR", "again")
        .succeeds();
    assert_eq!(
        read(&folder, &format!("again/{RESULTS}")),
        read(&folder, &format!("inferred/{RESULTS}"))
    );

    let other = export.bind("utils.RestoreCheckpointConfig.mode", "'all'").run();
    assert_eq!(other.status, Some(2), "{}", other.stderr);
}

#[test]
fn a_precompilation_checks_shapes_and_memory_and_writes_nothing() {
    let folder = Folder::new();
    let precompile = folder.train("precompile_tiny.gin").tool(&["--run_mode=precompile"]);
    let report = precompile.succeeds().stdout;
    for words in ["batch        encoder inputs [8, 64]", "memory  ", "parameters "] {
        assert!(report.contains(words), "{report}");
    }
    assert!(!folder.path("model").exists());
    let other = precompile.bind("TASK_FEATURE_LENGTHS", "{'inputs': 64}").run();
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    assert_said(&other, &["targets"]);
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let folder = pretrained();
    let check = |name: &str, value: &str, words: &[&str]| {
        for arg in ["--dry_run", "--quiet"] {
            let ended = infer(&folder).bind(name, value).arg(arg).run();
            assert_eq!(ended.status, Some(2), "{name}: {}", ended.stderr);
            assert_said(&ended, words);
        }
        assert!(!folder.path("inferred").exists(), "{name}");
    };
    check("utils.DatasetConfig.pack", "True", &["single examples", "pack = False"]);
    check("infer.shard_id", "1", &["infer.shard_id is 1", "counted from 0"]);
    check("infer.num_shards", "0", &["num_shards is 0"]);
    check("infer.mode", "'guess'", &["infer.mode", "'predict_with_aux'"]);
    check("infer.checkpoint_period", "0", &["checkpoint_period is 0"]);
    check("TASK_FEATURE_LENGTHS", "None", &["TASK_FEATURE_LENGTHS"]);
    check("TASK_FEATURE_LENGTHS", "{'inputs': 8}", &["no length for 'targets'", "add it to TASK"]);
    let takes_write_fn = &["`my_write`", "`write_fn` takes @write_inferences_to_file\n"];
    check("infer.write_fn", "@my_write", takes_write_fn);
    let merge_fn = &["cannot be used here", "expected @merge_chunks_to_file\n"];
    check("infer.merge_fn", "@write_inferences_to_file", merge_fn);
    check("utils.DatasetConfig.split", "'test'", &["no split 'test'", "validation"]);
    check("MIXTURE_OR_TASK_NAME", "'ecco'", &["ecco", "echo"]);
    check("infer.output_vocab_feature_name", "'text'", &["no feature 'text'", "'targets'"]);
    check("infer.file_extension", "'a/b'", &["file_extension is 'a/b'"]);
    check("CHECKPOINT_PATH", "'pretrained/checkpoint_9'", &["checkpoint_9"]);
    let twice = "['pretrained/checkpoint_4', 'pretrained/../pretrained/checkpoint_4']";
    check("CHECKPOINT_PATH", twice, &["have one name"]);
    check("network.T5Config.mlp_dim", "64", &["checkpoint_4` holds another model"]);
    let both = infer(&folder)
        .bind("infer.write_fn", "@write_inferences_to_file")
        .bind("write_inferences_to_file.include_all_inputs", "True")
        .bind("write_inferences_to_file.input_fields_to_include", "['inputs']")
        .run();
    assert_eq!(both.status, Some(2), "{}", both.stderr);
    assert_said(&both, &["are both bound"]);
    let flag = infer(&folder).arg("--mode=score").run();
    assert_eq!(flag.status, Some(2), "{}", flag.stderr);
    assert_said(&flag, &["--gin.CONFIGURABLE.mode=VALUE"]);
}
