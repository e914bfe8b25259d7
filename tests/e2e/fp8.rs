//! The flags with which NVIDIA's scripts for T5X request fp8.

use std::path::Path;

use crate::command::Train;
use crate::events::{Scalars, read_scalars};
use crate::folder::Folder;

const STEPS: u64 = 4;

fn train(folder: &Folder, model_dir: &str, enable_fp8: u8) -> Scalars {
    losses(command(folder, model_dir, enable_fp8), &folder.path(model_dir))
}

fn command(folder: &Folder, model_dir: &str, enable_fp8: u8) -> Train {
    folder
        .pretrain(STEPS)
        .bind_text("MODEL_DIR", folder.path(model_dir))
        .bind("DROPOUT_RATE", 0.0)
        .bind("train.train_eval_dataset_cfg", "None")
        .bind("train.te_config_cls", "@te_helper.TransformerEngineConfig")
        .bind("te_helper.TransformerEngineConfig.enable_fp8", enable_fp8)
        .bind("te_helper.TransformerEngineConfig.fp8_format", "'hybrid'")
        .bind("network.T5Config.transpose_batch_sequence", enable_fp8)
        .bind("network.T5Config.fuse_qkv_params", enable_fp8)
}

fn losses(train: Train, model_dir: &Path) -> Scalars {
    train.succeeds();
    read_scalars(&model_dir.join("train"))
}

#[test]
fn scripts_enable_fp8_with_a_class_and_a_number() {
    let folder = Folder::new();
    let [wide, narrow] =
        [("wide", 0), ("narrow", 1)].map(|(model_dir, on)| train(&folder, model_dir, on));
    for (step, wide) in &wide["loss"] {
        let gap = (narrow["loss"][step] / wide - 1.0).abs();
        assert!(gap > 0.0 && gap < 0.02, "step {step}: losses part by a factor of {gap}");
    }
}

/// Scales are those of one process: their own ones in the first step, then those of earlier steps. After some steps,
/// sums in another order change the rounding of a number to 8 bits, and losses part.
#[test]
fn several_processes_scale_as_one() {
    let folder = Folder::new();
    let one = train(&folder, "one", 1);
    let launched = command(&folder, "two", 1).tool(&["launch", "--nproc_per_node=2", "train"]);
    let two = losses(launched, &folder.path("two"));
    for (step, one) in one["loss"].iter().filter(|(step, _)| **step <= 2) {
        let gap = (two["loss"][step] / one - 1.0).abs();
        assert!(gap < 1e-5, "step {step}: losses part by a factor of {gap}");
    }
}
