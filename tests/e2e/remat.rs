//! A run whose layers are recomputed in the backward pass equals the run without recomputation, bit
//! for bit, dropout and microbatches included.

use crate::arrays;
use crate::folder::Folder;

const STEPS: u64 = 3;

#[test]
fn every_remat_policy_gives_the_same_run() {
    let folder = Folder::new();
    let run = |policy: &str| {
        let model_dir = folder.path(policy);
        folder
            .pretrain(STEPS)
            .bind_text("MODEL_DIR", &model_dir)
            .bind_text("network.T5Config.remat_policy", policy)
            .bind("trainer.Trainer.num_microbatches", 2)
            .bind("train.train_eval_dataset_cfg", "None")
            .succeeds();
        arrays::open(&model_dir, STEPS)
    };
    let expected = run("none");
    for policy in ["minimal", "full"] {
        arrays::assert_same(&run(policy), &expected);
    }
}
