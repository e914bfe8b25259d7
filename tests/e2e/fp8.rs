//! The flags with which NVIDIA's scripts for T5X request fp8.

use crate::events::{Scalars, read_scalars};
use crate::folder::Folder;

const STEPS: u64 = 4;

fn train(folder: &Folder, model_dir: &str, enable_fp8: u8) -> Scalars {
    let ended = folder
        .pretrain(STEPS)
        .bind_text("MODEL_DIR", folder.path(model_dir))
        .bind("DROPOUT_RATE", 0.0)
        .bind("train.train_eval_dataset_cfg", "None")
        .bind("train.te_config_cls", "@te_helper.TransformerEngineConfig")
        .bind("te_helper.TransformerEngineConfig.enable_fp8", enable_fp8)
        .bind("te_helper.TransformerEngineConfig.fp8_format", "'hybrid'")
        .bind("network.T5Config.transpose_batch_sequence", enable_fp8)
        .bind("network.T5Config.fuse_qkv_params", enable_fp8)
        .succeeds();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    read_scalars(&folder.path(model_dir).join("train"))
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
