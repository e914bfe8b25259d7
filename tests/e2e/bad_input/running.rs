//! Errors while a run trains.

use super::{USER, WORLD, check};
use crate::folder::{Folder, steps};

#[test]
fn a_loss_that_is_no_number_is_not_saved() {
    let folder = Folder::new();
    let run = folder
        .pretrain(40)
        .bind("utils.create_learning_rate_scheduler.factors", "'constant'")
        .bind("utils.create_learning_rate_scheduler.base_learning_rate", 1e30);
    check(&run, WORLD, &["the loss is", "at step 2", "step 0", "base_learning_rate", "float32"]);
    assert_eq!(steps(&folder.path("model")), [0]);
}

#[test]
fn an_action_ends_a_run_whose_optimizer_passes_over_such_losses() {
    let folder = Folder::new();
    let ended = folder
        .pretrain(24)
        .bind("utils.create_learning_rate_scheduler.factors", "'constant'")
        .bind("utils.create_learning_rate_scheduler.base_learning_rate", 1e30)
        .bind("adafactor.Adafactor.skip_nan_updates", "True")
        .bind("train.actions", "{'TRAIN': [@trainer.TerminateOnNanAction()]}")
        .succeeds();
    for words in ["loss is not finite: stopping", "stopped at step 2"] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn batches_that_no_machine_holds() {
    let folder = Folder::new();
    let many_rows = folder.pretrain(4).bind("BATCH_SIZE", 1_000_000_000_000_u64);
    check(
        &many_rows,
        USER,
        &[
            "train/utils.DatasetConfig",
            "GiB are available",
            "1000000000000 rows of inputs 64, targets 32",
            "lower BATCH_SIZE, TASK_FEATURE_LENGTHS",
        ],
    );
    let lengths = "{'inputs': 1000000000000000, 'targets': 32}";
    let long_rows = folder.pretrain(4).bind("TASK_FEATURE_LENGTHS", lengths);
    check(&long_rows, USER, &["inputs 1000000000000000", "TASK_FEATURE_LENGTHS"]);
    let many_batches = folder.pretrain(4).bind("train.eval_steps", 1_000_000_000_000_u64);
    check(&many_batches, USER, &["train_eval/utils.DatasetConfig", "or EVAL_STEPS"]);
    assert!(!folder.path("model").exists(), "a refused run leaves nothing behind");
    // Elsewhere there may be more memory.
    let ended = many_rows.arg("--dry_run").succeeds();
    assert!(!ended.stderr.contains("overflow"), "{}", ended.stderr);
}

#[test]
fn memory_that_there_is_not() {
    let folder = Folder::new();
    let run = folder.pretrain(4).bind("network.T5Config.emb_dim", 100_000_000_000_000_u64);
    let words = ["a step needs about", "GiB are available", "lower network.T5Config's dimensions"];
    check(&run, USER, &words);
    // Each batch fits, but the tensors of a step do not: the system would kill the process.
    let rows = gimlet::telemetry::total_on_host().expect("the system tells") / 20_000;
    let run = folder.pretrain(4).bind("BATCH_SIZE", rows);
    check(&run, USER, &["a step needs about", "GiB are available", "lower BATCH_SIZE"]);
}
