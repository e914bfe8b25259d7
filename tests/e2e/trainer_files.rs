//! Runs whose checkpoints are files of the Trainer of t5-experiments.

use std::fs;
use std::path::Path;

use gimlet::checkpoint::{Array, LOSS_SCALING_FILE, LossScaling, committed};
use gimlet::models::open;
use gimlet::storage;

use crate::command::Train;
use crate::folder::{Folder, steps};
use crate::processes::launched;

const STEPS: u64 = 12;

/// Arrays of the last checkpoint by name.
fn arrays(model_dir: &Path) -> Vec<(String, Array)> {
    let model_dir = storage::Path::try_from(model_dir).expect("the path is text");
    let newest =
        committed(&model_dir).expect("it is readable").remove(&STEPS).expect("it is there");
    let stored = open(&newest).expect("the checkpoint is whole");
    let leaves = stored.leaves().into_iter().map(|leaf| leaf.name.to_string());
    leaves.map(|name| (name.clone(), stored.read(&name).expect("the array is whole"))).collect()
}

/// Trains to the end in several pieces, and asserts that it ends as a run with T5X's checkpoints that is never interrupted.
fn check(change: &dyn Fn(Train) -> Train) -> Folder {
    let folder = Folder::new();
    let [expected, found] = ["t5x", "trainer"].map(|name| folder.path(name));
    change(folder.pretrain(STEPS).bind_text("MODEL_DIR", &expected)).succeeds();
    for end in [5, 9, STEPS] {
        let train = folder.pretrain(end).bind_text("MODEL_DIR", &found);
        let train = train.bind_text("utils.SaveCheckpointConfig.format", "trainer");
        change(train.bind("utils.SaveCheckpointConfig.keep", 2)).succeeds();
    }
    assert_eq!(steps(&found), [9, STEPS]);
    assert!(found.join("model_11.pth").is_file() && !found.join("model_3.pth").exists());
    assert_eq!(arrays(&found), arrays(&expected));
    folder
}

#[test]
fn a_run_continues_bit_for_bit() {
    check(&|train| train);
}

#[test]
fn processes_with_parts_of_the_model_gather_them_in_one_file_and_keep_the_scale_of_the_loss() {
    let folder = check(&|train| {
        let train = train.bind("partitioning.PjitPartitioner.num_partitions", 2);
        // Scales at the border of float32's numbers leave out some updates.
        let train = train
            .bind("trainer.Trainer.loss_scaler", "@gimlet.LossScaler()")
            .bind("gimlet.LossScaler.initial", "3e37")
            .bind("gimlet.LossScaler.maximum", "3e37")
            .bind("gimlet.LossScaler.growth_interval", 2);
        launched(train.num_threads(1), 2)
    });
    let file = folder.path("t5x").join(format!("checkpoint_{STEPS}")).join(LOSS_SCALING_FILE);
    let text = fs::read_to_string(file).expect("the scale is kept");
    let scaling: LossScaling = serde_json::from_str(&text).expect("it is JSON");
    assert!((2..STEPS - 2).contains(&scaling.skipped), "{text}");
}

#[test]
fn a_model_that_transformers_lack_is_refused_before_the_first_step() {
    let folder = Folder::new();
    let train = folder.train("decoder_tiny.gin");
    let ended = train.bind_text("utils.SaveCheckpointConfig.format", "trainer").run();
    assert_ne!(ended.status, Some(0));
    let message = "utils.SaveCheckpointConfig.format is 'trainer', whose files hold a T5 of t5-experiments or transformers";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
}
