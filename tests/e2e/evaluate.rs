//! `gimlet eval` of the checkpoints that a fine-tuning saves at steps 4, 7 and 10; the run itself
//! evaluates 7 and 10.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::buckets::copy;
use crate::command::{Ended, Train};
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::resume::{has_ended, send, wait};
use crate::s3::S3;
use crate::server::Server;

/// A folder with `model/checkpoint_4`, `_7` and `_10`.
fn finetuned() -> Folder {
    Folder::once("finetuned", |folder| {
        folder.pretrain(4).bind_text("MODEL_DIR", "pretrained").succeeds();
        finetune(folder, 10);
    })
}

fn finetune(folder: &Folder, steps: u64) {
    let run = folder.train("finetune_tiny.gin").bind("TRAIN_STEPS", steps);
    run.bind("utils.SaveCheckpointConfig.checkpoint_steps", "[7]").succeeds();
}

/// `gimlet eval` of paths.
fn eval(folder: &Folder, mode: &str, paths: &[&str]) -> Train {
    let eval = folder.eval().bind_text("utils.RestoreCheckpointConfig.mode", mode);
    match paths {
        [one] => eval.bind_text("CHECKPOINT_PATH", one),
        several => eval.bind("CHECKPOINT_PATH", format!("{several:?}")),
    }
}

/// The metrics that were written into a folder of results, by step, in the order of the file.
fn metrics(results: &Path) -> Vec<(i64, Value)> {
    let text = fs::read_to_string(results.join("inference_eval/echo-metrics.jsonl"));
    let lines = text.expect("results were written");
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        (line["step"].as_i64().expect("a step"), line)
    };
    lines.lines().map(line).collect()
}

fn steps(results: &Path) -> Vec<i64> {
    metrics(results).into_iter().map(|(step, _)| step).collect()
}

fn done(folder: &Folder) -> String {
    fs::read_to_string(folder.path("evaluated/eval.echo.ckpt")).expect("it lists what is done")
}

fn assert_said(ended: &Ended, words: &[&str]) {
    for word in words {
        assert!(ended.stderr.contains(word), "`{word}` is not in:\n{}", ended.stderr);
    }
}

/// Asserts that the command fails before anything is written, with these words in its error.
fn refused(folder: &Folder, eval: &Train, words: &[&str]) {
    let ended = eval.run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_said(&ended, words);
    assert!(!folder.path("evaluated").exists(), "{}", ended.stderr);
}

#[test]
fn checkpoints_have_the_metrics_that_their_run_measured() {
    let folder = finetuned();
    let [model, evaluated] = ["model", "evaluated"].map(|dir| folder.path(dir));
    let ended = eval(&folder, "specific", &["model/checkpoint_7"]).succeeds();
    let words = ["evaluating step 7 from model/checkpoint_7", "echo/max_edit at step 7"];
    assert_said(&ended, &words);
    assert_said(&ended, &["1 checkpoint evaluated"]);
    assert_eq!(metrics(&evaluated), metrics(&model)[..1]);
    let ended = eval(&folder, "specific", &["model/checkpoint_10", "model/checkpoint_7"]);
    assert_said(&ended.succeeds(), &["2 checkpoints evaluated; results are in evaluated"]);

    // Each step once, the last one evaluated last.
    let expected: Vec<_> = metrics(&model).into_iter().rev().collect();
    assert_eq!(metrics(&evaluated), expected);
    assert_eq!(done(&folder), "model/checkpoint_7\nmodel/checkpoint_10");
    let [of_run, of_eval] =
        [&model, &evaluated].map(|dir| read_scalars(&dir.join("inference_eval/echo")));
    assert_eq!(of_eval, of_run);
    for file in ["echo-000007.jsonl", "echo-000010.jsonl"] {
        let [of_run, of_eval] = [&model, &evaluated]
            .map(|dir| fs::read(dir.join("inference_eval").join(file)).expect("it was written"));
        assert!(of_eval == of_run, "{file} differs");
    }
    let config = fs::read_to_string(evaluated.join("config.gin")).expect("it is written");
    assert!(config.contains("eval_script.evaluate:"), "{config}");
    let info = fs::read_to_string(evaluated.join("model-info.txt")).expect("it is written");
    assert!(info.contains("Total number of parameters") && !info.contains("param_states"));
}

#[test]
fn each_checkpoint_of_a_folder_is_evaluated_once() {
    let folder = finetuned();
    let evaluated = folder.path("evaluated");
    let all = eval(&folder, "all", &["model"]);
    assert_said(&all.succeeds(), &["3 checkpoints evaluated"]);
    assert_eq!(steps(&evaluated), [4, 7, 10]);
    let shown = |step| {
        read_scalars(&evaluated.join("inference_eval/echo"))["eval/max_edit"].contains_key(&step)
    };
    assert!(shown(4) && shown(10));

    let again = all.succeeds();
    assert_said(
        &again,
        &[
            "evaluated before, as evaluated/eval.echo.ckpt lists: 3; left: 0",
            "no checkpoint of model was evaluated",
        ],
    );
    finetune(&folder, 12);
    let third = all.succeeds();
    assert_said(&third, &["evaluating step 12 from model/checkpoint_12", "1 checkpoint evaluated"]);
    assert!(!third.stderr.contains("evaluating step 10"), "{}", third.stderr);
    assert_eq!(steps(&evaluated), [4, 7, 10, 12]);
    assert!(shown(4) && shown(12));
    assert!(done(&folder).ends_with("model/checkpoint_10\nmodel/checkpoint_12"));
}

#[test]
fn results_of_other_values_or_of_another_run_are_refused_with_both() {
    let folder = finetuned();
    eval(&folder, "all", &["model"]).succeeds();
    let before = metrics(&folder.path("evaluated"));
    let refused = |eval: Train, words: &[&str]| {
        for eval in [eval.clone().arg("--dry_run"), eval] {
            let ended = eval.run();
            assert_eq!(ended.status, Some(2), "{}", ended.stderr);
            assert_said(
                &ended,
                &["`evaluated` holds results of echo", "set EVAL_OUTPUT_DIR to another"],
            );
            assert_said(&ended, words);
        }
        assert_eq!(metrics(&folder.path("evaluated")), before);
    };
    let other =
        |mode| eval(&folder, mode, &["model"]).bind_text("utils.DatasetConfig.split", "train");
    refused(other("all"), &["evaluate.dataset_cfg.split: 'validation' -> 'train'"]);
    refused(other("latest"), &["evaluate.dataset_cfg.split: 'validation' -> 'train'"]);
    let both = ["with `model/checkpoint_4`", "those of `pretrained/checkpoint_4` would replace"];
    refused(eval(&folder, "specific", &["pretrained/checkpoint_4"]), &both);
    // The same checkpoint may be evaluated again.
    eval(&folder, "latest", &["model"]).succeeds();
}

#[test]
fn an_evaluation_that_was_killed_or_asked_to_end_goes_on_with_what_is_left() {
    let folder = Folder::new();
    let every_step = "utils.SaveCheckpointConfig.period";
    // Many steps, so that the run is not over before a busy machine stops it.
    let run = folder.pretrain(39).bind_text("MODEL_DIR", "pretrained").bind(every_step, 1);
    run.bind("train.eval_period", 0).succeeds();
    let list = folder.path("evaluated/eval.echo.ckpt");
    let num_done = || fs::read_to_string(&list).unwrap_or_default().lines().count();
    let all = eval(&folder, "all", &["pretrained"]);
    // Sends a signal after the next checkpoint.
    let stopped_by = |signal| {
        let before = num_done();
        let mut child = all.start();
        wait(|| num_done() > before || has_ended(&mut child));
        send(&child, signal);
        Ended::new(child.wait_with_output().expect("gimlet ends"))
    };
    let killed = stopped_by(libc::SIGKILL);
    assert_eq!(killed.status, None, "{}", killed.stderr);
    let asked = stopped_by(libc::SIGTERM);
    assert_eq!(asked.status, Some(128 + libc::SIGTERM), "{}", asked.stderr);
    assert_said(&asked, &["interrupted; the same command continues with the checkpoints"]);
    let done = num_done();
    assert!((2..40).contains(&done), "{done}");

    assert_said(&all.succeeds(), &[&format!("lists: {done}; left: {}", 40 - done)]);
    assert!(steps(&folder.path("evaluated")).into_iter().eq(0..=39));
    assert_eq!(num_done(), 40);
}

#[test]
fn the_newest_of_the_first_folder_with_any_is_evaluated() {
    let folder = finetuned();
    fs::create_dir(folder.path("empty")).expect("the folder can be written");
    eval(&folder, "latest", &["empty", "model", "pretrained"]).succeeds();
    assert_eq!(steps(&folder.path("evaluated")), [10]);
}

#[test]
fn an_export_to_hugging_face_has_the_same_metrics() {
    let folder = finetuned();
    let convert = Train::new(&folder.path("")).tool(&["checkpoint", "convert"]);
    let convert = ["model/checkpoint_10", "exported", "--to=hugging_face"]
        .into_iter()
        .fold(convert, |convert, word| convert.arg(word));
    convert.succeeds();
    eval(&folder, "specific", &["exported"]).succeeds();
    let without_step = |results: &str| {
        let (_, line) = metrics(&folder.path(results)).pop().expect("it was evaluated");
        let Value::Object(mut line) = line else { panic!("a line is an object") };
        line.remove("step");
        line
    };
    assert_eq!(without_step("evaluated"), without_step("model"));
    // Hugging Face's format has no steps.
    assert_eq!(steps(&folder.path("evaluated")), [0]);
}

#[test]
fn a_damaged_checkpoint_of_a_folder_is_told_and_left_out() {
    let folder = finetuned();
    let file = folder.path("model/checkpoint_7/checkpoint");
    let bytes = fs::read(&file).expect("it is readable");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("it can be written");
    let ended = eval(&folder, "all", &["model"]).run();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    let words = ["`model/checkpoint_7` is damaged", "left out", "2 checkpoints evaluated"];
    assert_said(&ended, &words);
    assert_eq!(steps(&folder.path("evaluated")), [4, 10]);
    assert_eq!(done(&folder), "model/checkpoint_4\nmodel/checkpoint_10");

    let ended = eval(&folder, "specific", &["model/checkpoint_7"]).run();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    fs::write(&file, bytes).expect("it can be written");
    eval(&folder, "all", &["model"]).succeeds();
    assert_eq!(steps(&folder.path("evaluated")), [4, 10, 7]);
}

#[test]
fn the_training_loss_is_that_of_the_run() {
    let folder = finetuned();
    let datasets = "utils.get_training_eval_datasets";
    eval(&folder, "all", &["model"])
        .bind("eval.evaluate.inference_evaluator_cls", "None")
        .bind("eval.evaluate.training_evaluator_cls", "@trainer.Trainer")
        .bind("eval.evaluate.train_eval_get_dataset_fn", format!("@{datasets}"))
        .bind(&format!("{datasets}.eval_steps"), 1)
        .bind("TASK_FEATURE_LENGTHS", "{'inputs': 16, 'targets': 16}")
        .bind("utils.DatasetConfig.pack", "True")
        .succeeds();
    let [of_run, of_eval] = ["model", "evaluated"]
        .map(|dir| read_scalars(&folder.path(dir).join("training_eval/echo")));
    assert!(of_run.contains_key("loss") && of_run.contains_key("accuracy"));
    for (tag, points) in of_run.iter().filter(|(tag, _)| !tag.starts_with("timing/")) {
        let found: BTreeMap<i64, f64> =
            of_eval[tag].iter().map(|(step, value)| (*step, *value)).skip(1).collect();
        assert_eq!(found, *points, "{tag}");
    }
    assert!(!folder.path("evaluated/inference_eval").exists());
}

#[test]
fn parameters_may_be_initialized_and_rules_for_the_optimizer_do_no_harm() {
    let folder = finetuned();
    let rules = "[('target/decoder/logits_dense/kernel', None), ('state/param_states/.*', None)]";
    let run = eval(&folder, "specific", &["model/checkpoint_10"])
        .bind("utils.RestoreCheckpointConfig.assignment_map", rules)
        .bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "True");
    refused(&folder, &run, &["fallback_to_scratch", "evaluate.fallback_init_rng = 0"]);
    let ended = run.bind("evaluate.fallback_init_rng", 0).succeeds();
    assert_said(&ended, &["1 array is initialized, as assignment_map says"]);
    let expected = metrics(&folder.path("model")).pop();
    assert_ne!(metrics(&folder.path("evaluated")).pop(), expected);
}

#[test]
fn a_training_s_configuration_serves_the_other_command_too() {
    let folder = finetuned();
    let eval = folder
        .train("model/config.gin")
        .tool(&["eval"])
        .gin_file("t5x/configs/runs/eval.gin")
        .bind_text("MIXTURE_OR_TASK_NAME", "echo")
        .bind_text("CHECKPOINT_PATH", "model/checkpoint_10")
        .bind_text("EVAL_OUTPUT_DIR", "evaluated")
        .bind_text("utils.DatasetConfig.split", "validation")
        .bind("utils.DatasetConfig.batch_size", 4)
        .succeeds();
    assert!(!eval.stderr.contains("warning"), "{}", eval.stderr);
    assert_eq!(metrics(&folder.path("evaluated")), metrics(&folder.path("model"))[1..]);

    let train = folder.train("evaluated/config.gin").gin_file("finetune_tiny.gin");
    let report = train.arg("--dry_run").succeeds().stdout;
    assert!(report.contains("model_dir    model"), "{report}");
}

#[test]
fn a_dry_run_says_what_would_be_evaluated() {
    let folder = finetuned();
    let all = eval(&folder, "all", &["model", "pretrained"]).arg("--dry_run");
    let report = all.succeeds().stdout;
    let checkpoints = "checkpoints  5 to evaluate, 0 done\n             pretrained/checkpoint_0\n";
    for words in ["output_dir   evaluated", checkpoints, "echo 'validation'"] {
        assert!(report.contains(words), "{report}");
    }
    let other = eval(&folder, "latest", &["model"]).bind("network.T5Config.mlp_dim", 64);
    refused(&folder, &other.arg("--dry_run"), &["checkpoint_10` holds another model"]);
    assert!(!folder.path("evaluated").exists());
}

#[test]
fn a_second_evaluation_into_one_folder_is_refused() {
    let folder = finetuned();
    let results = folder.path("evaluated");
    fs::create_dir(&results).expect("the folder can be written");
    let results = gimlet::storage::Path::try_from(results.as_path()).expect("it is a path");
    let lock =
        results.join("running.txt").try_lock_with("another process").expect("it can be locked");
    let ended = eval(&folder, "all", &["model"]).run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_said(&ended, &["another process writes into `evaluated`", "set EVAL_OUTPUT_DIR"]);
    drop(lock);
    eval(&folder, "all", &["model"]).succeeds();
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let folder = finetuned();
    let check = |mode: &str, paths: &[&str], words: &[&str]| {
        refused(&folder, &eval(&folder, mode, paths), words);
    };
    check("newest", &["model"], &["'newest'", "'all'"]);
    check(
        "all",
        &["none"],
        &["`none` is not a folder of checkpoints", "'all' needs an existing folder"],
    );
    check(
        "all",
        &["model/checkpoint_7"],
        &["is not a folder of checkpoints: it is one checkpoint", "mode = 'specific'"],
    );
    check("latest", &["evaluated-not"], &["'latest' needs an existing folder"]);
    check(
        "specific",
        &["model/checkpoint_7", "model/checkpoint_8"],
        &["checkpoint_8", "not found"],
    );
    check("specific", &[], &["RestoreCheckpointConfig.path is []", "CHECKPOINT_PATH"]);

    let bound = |name: &str, value: &str, words: &[&str]| {
        let run = eval(&folder, "specific", &["model/checkpoint_7"]).bind(name, value);
        refused(&folder, &run, words);
    };
    bound("network.T5Config.mlp_dim", "64", &["checkpoint_7` holds another model", "[16, 64]"]);
    let ended = eval(&folder, "latest", &["model"]).bind("network.T5Config.mlp_dim", 64).run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert_said(&ended, &["checkpoint_10` holds another model"]);
    assert!(!ended.stderr.contains("param_states"), "{}", ended.stderr);
    let nothing = eval(&folder, "all", &["model"]).bind("utils.DatasetConfig.split", "'test'");
    let nothing = nothing.bind("evaluate.inference_evaluator_cls", "None");
    let nothing = nothing.bind("evaluate.training_evaluator_cls", "@trainer.Trainer");
    let nothing = nothing.bind("utils.get_training_eval_datasets.eval_steps", 2);
    let nothing = nothing.bind("TASK_FEATURE_LENGTHS", "{'inputs': 16, 'targets': 16}");
    let nothing =
        nothing.bind("evaluate.train_eval_get_dataset_fn", "@utils.get_training_eval_datasets");
    refused(&folder, &nothing, &["nothing of 'echo' can be evaluated", "no split 'test'"]);
    bound("utils.DatasetConfig.split", "'test'", &["no split 'test'", "validation", "split to"]);
    bound("MIXTURE_OR_TASK_NAME", "'lines'", &["nothing of 'lines'", "no metrics", "metric_fns"]);
    bound("MIXTURE_OR_TASK_NAME", "'ecco'", &["ecco", "echo"]);
    bound("utils.DatasetConfig.batch_size", "0", &["batch_size is 0"]);
    bound("utils.DatasetConfig.pack", "True", &["pack = False"]);
    bound("evaluate.inference_evaluator_cls", "None", &["measures nothing", "@seqio.Evaluator"]);
    let none = eval(&folder, "all", &["model"]);
    let none = none.bind("evaluate.training_evaluator_cls", "@trainer.Trainer");
    let datasets = "@utils.get_training_eval_datasets";
    let none = none.bind("evaluate.train_eval_get_dataset_fn", datasets);
    let none = none.bind("utils.get_training_eval_datasets.eval_steps", 0);
    refused(&folder, &none, &["eval_steps is 0, expected at least 1, or None"]);
    bound("EVAL_OUTPUT_DIR", "''", &["EVAL_OUTPUT_DIR"]);
}

#[test]
fn checkpoints_and_results_may_lie_in_a_bucket() {
    let folder = finetuned();
    let s3 = S3::new("bucket", Some(("key", "secret")));
    let bucket = s3.root.path().join("bucket");
    copy(&folder.path("model"), &bucket.join("model"));
    let server = Server::start(move |request| s3.answer(request));
    let all = eval(&folder, "all", &["s3://bucket/model"])
        .bind_text("EVAL_OUTPUT_DIR", "s3://bucket/results")
        .env("GIMLET_OFFLINE", "0")
        .env("NO_PROXY", "127.0.0.1")
        .env("AWS_ENDPOINT_URL", &server.url(""))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    assert_said(&all.succeeds(), &["3 checkpoints evaluated"]);
    let results = bucket.join("results");
    assert_eq!(metrics(&results)[1..], metrics(&folder.path("model")));
    let events = read_scalars(&results.join("inference_eval/echo"));
    assert!(events["eval/max_edit"].keys().copied().eq([4, 7, 10]));
    let done = fs::read_to_string(results.join("eval.echo.ckpt")).expect("it lists what is done");
    assert_eq!(done.lines().last(), Some("s3://bucket/model/checkpoint_10"));
    assert_said(&all.succeeds(), &["no checkpoint of s3://bucket/model was evaluated"]);
}
