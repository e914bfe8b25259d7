//! Fine-tuning through `t5x/configs/runs/finetune.gin`: its restoring, evaluation, kept checkpoints
//! and stopping. The run goes from step 4 to step 10, evaluates every 3 steps and saves every 6.

use std::fs;

use gimlet::checkpoint::Stored;
use serde_json::Value;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::{Folder, steps};

fn finetune(folder: &Folder) -> Train {
    folder.train("finetune_tiny.gin")
}

/// Steps with a line in the task's metrics.
fn evaluated_steps(folder: &Folder) -> Vec<i64> {
    lines(folder, "model/inference_eval/echo-metrics.jsonl")
        .iter()
        .map(|line| line["step"].as_i64().expect("a step"))
        .collect()
}

fn lines(folder: &Folder, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.path(file)).expect("the run wrote it");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn predictions_and_metrics_are_written_down() {
    let folder = Folder::pretrained();
    let ended = finetune(&folder).succeeds();
    assert!(ended.stderr.contains("restored step 4 from pretrained/checkpoint_4"));
    assert_eq!(steps(&folder.path("model")), [4, 10]);
    assert_eq!(evaluated_steps(&folder), [7, 10]);

    let metrics = &lines(&folder, "model/inference_eval/echo-metrics.jsonl")[1];
    let events = read_scalars(&folder.path("model/inference_eval/echo"));
    assert!(metrics.get("sequence_accuracy").is_some() && metrics.get("edit_distance").is_none());
    for (name, written) in metrics.as_object().expect("metrics by name") {
        if name == "step" {
            continue;
        }
        let shown = events[&format!("eval/{name}")][&10];
        let written = written.as_f64().expect("a number");
        assert!((shown - written).abs() <= 1e-6 * written.abs(), "{name}: {shown}, {written}");
    }
    let examples = lines(&folder, "model/inference_eval/echo-000010.jsonl");
    assert_eq!(examples.len(), 7);
    for example in &examples {
        assert_eq!(example["input"]["inputs_pretokenized"], example["target"]);
        assert!(example["prediction"].is_string());
    }
    let losses = read_scalars(&folder.path("model/training_eval/echo"));
    assert!(losses["loss"].keys().copied().eq([7, 10]));
    assert!(losses.contains_key("accuracy"));
}

#[test]
fn the_newest_of_a_folder_is_restored_and_the_optimizer_reset() {
    let folder = Folder::pretrained();
    let ended = finetune(&folder)
        .bind_text("INITIAL_CHECKPOINT_PATH", "pretrained")
        .bind_text("utils.RestoreCheckpointConfig.mode", "latest")
        .bind("utils.RestoreCheckpointConfig.assignment_map", "[(r'state/param_states/.*', None)]")
        .bind("utils.RestoreCheckpointConfig.fallback_to_scratch", "True")
        .bind("TRAIN_STEPS", 5)
        .succeeds();
    assert!(ended.stderr.contains("restored step 4 from pretrained/checkpoint_4"));
    assert!(ended.stderr.contains("arrays are initialized"), "{}", ended.stderr);
    let [found, expected] = ["model", "pretrained"].map(|dir| arrays::open(&folder.path(dir), 4));
    assert_eq!(found.shapes(), expected.shapes());
    for array in found.leaves() {
        let values = found.read(array.name).expect("the array is whole");
        if array.name.starts_with("state/param_states/") {
            let values = values.to_f32().expect("optimizer states are floats");
            assert!(values.iter().all(|value| *value == 0.0), "{}", array.name);
        } else {
            assert!(values == expected.read(array.name).expect("is whole"), "{}", array.name);
        }
    }
}

#[test]
fn an_evaluation_may_come_first_and_steps_may_be_relative() {
    let folder = Folder::pretrained();
    let ended = finetune(&folder)
        .bind("TRAIN_STEPS_RELATIVE", 3)
        .bind("train.run_eval_before_training", "True")
        .bind("train.actions", "{'INFER_EVAL': [@trainer.EarlyStoppingAction()]}")
        .bind("trainer.EarlyStoppingAction.metric", "('echo', 'sequence_acuracy')")
        .bind("trainer.EarlyStoppingAction.mode", "'max'")
        .bind("trainer.EarlyStoppingAction.patience", 2)
        .bind("utils.SaveCheckpointConfig.checkpointer_cls", "@checkpoints.SaveBestCheckpointer")
        .bind_text(
            "checkpoints.SaveBestCheckpointer.metric_name_to_monitor",
            "training_eval/echo/acuracy",
        )
        .succeeds();
    assert_eq!(evaluated_steps(&folder), [4, 7]);
    assert_eq!(steps(&folder.path("model")), [4, 7]);
    // Watched metrics whose names are wrong are told once, with the names that were measured.
    for words in [
        "warning: trainer.EarlyStoppingAction asks for `echo/sequence_acuracy`, which was not measured; these were, the \
         nearest first: `echo/sequence_accuracy`",
        "warning: metric_name_to_monitor asks for `training_eval/echo/acuracy`, which was not measured; these were, the \
         nearest first: `training_eval/echo/accuracy`",
    ] {
        assert_eq!(ended.stderr.matches(words).count(), 1, "{words} is not in {}", ended.stderr);
    }
}

#[test]
fn a_metric_that_no_longer_improves_ends_the_run() {
    let folder = Folder::pretrained();
    let run = finetune(&folder)
        .bind("TRAIN_STEPS", 40)
        .bind("train.actions", "{'INFER_EVAL': [@trainer.EarlyStoppingAction()]}")
        .bind("trainer.EarlyStoppingAction.metric", "('echo', 'sequence_accuracy')")
        .bind("trainer.EarlyStoppingAction.mode", "'max'")
        .bind("trainer.EarlyStoppingAction.patience", 2);
    let ended = run.succeeds();
    for words in ["echo/sequence_accuracy no longer improves", "stopped at step 10"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    assert_eq!(steps(&folder.path("model")), [4, 10]);

    // The same command again: it is still over.
    let again = run.succeeds();
    assert!(again.stderr.contains("stopped at step 10"), "{}", again.stderr);
    assert_eq!(evaluated_steps(&folder), [7, 10]);
}

#[test]
fn checkpoints_are_saved_at_listed_steps_and_the_last_two_are_kept() {
    let folder = Folder::pretrained();
    finetune(&folder)
        .bind("utils.SaveCheckpointConfig.checkpoint_steps", "[5, 8]")
        .bind("utils.SaveCheckpointConfig.keep", 2)
        .succeeds();
    assert_eq!(steps(&folder.path("model")), [8, 10]);
}

#[test]
fn the_checkpoint_with_the_best_metric_is_kept_beside_the_newest() {
    let folder = Folder::pretrained();
    let run = finetune(&folder)
        .bind("utils.SaveCheckpointConfig.checkpoint_steps", "[5, 6, 7, 8, 9]")
        .bind("utils.SaveCheckpointConfig.keep", 1)
        .bind("utils.SaveCheckpointConfig.checkpointer_cls", "@checkpoints.SaveBestCheckpointer")
        .bind_text("checkpoints.SaveBestCheckpointer.metric_name_to_monitor", "train/loss")
        .bind_text("checkpoints.SaveBestCheckpointer.metric_mode", "min");
    // In two parts: the measurements of the first one count in the second.
    run.clone().bind("TRAIN_STEPS", 8).succeeds();
    run.succeeds();
    let losses = &read_scalars(&folder.path("model/train"))["loss"];
    let best = (5..10).min_by(|a, b| losses[a].total_cmp(&losses[b])).expect("five steps");
    // The first checkpoint has no metric.
    assert_eq!(steps(&folder.path("model")), [4, best as u64, 10]);
}

#[test]
fn a_metric_that_no_run_writes_is_refused() {
    let folder = Folder::pretrained();
    let ended = finetune(&folder)
        .bind("utils.SaveCheckpointConfig.checkpointer_cls", "@checkpoints.SaveBestCheckpointer")
        .bind_text("checkpoints.SaveBestCheckpointer.metric_name_to_monitor", "accuracy")
        .run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("such as 'train/accuracy'"), "{}", ended.stderr);
}

#[test]
fn a_data_position_that_is_not_there_is_asked_for_in_vain() {
    let folder = Folder::pretrained();
    let checkpoint = folder.path("pretrained/checkpoint_4");
    for file in fs::read_dir(checkpoint.join("gimlet")).expect("it is a folder") {
        let file = file.expect("is readable").path();
        if file.to_string_lossy().contains("train_ds") {
            fs::remove_file(file).expect("it is ours");
        }
    }
    let ended =
        finetune(&folder).bind("utils.RestoreCheckpointConfig.restore_dataset", "True").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("has no data position"), "{}", ended.stderr);
}
