//! A batch in parts makes the same update as the whole, except for rounding (float32, relative
//! 1e-5).

use crate::arrays;
use crate::events::read_scalars;
use crate::folder::Folder;

const STEPS: u64 = 3;

#[test]
fn four_microbatches_are_the_whole_batch() {
    let folder = Folder::new();
    for factor in ["None", "'NUM_REAL_TARGET_TOKENS'", "'AVERAGE_PER_SEQUENCE'"] {
        let [whole, parts] = [1, 4].map(|num_microbatches| {
            let model_dir =
                folder.path(&format!("{}-{num_microbatches}", factor.trim_matches('\'')));
            folder
                .pretrain(STEPS)
                .bind_text("MODEL_DIR", &model_dir)
                .bind("DROPOUT_RATE", 0.0)
                .bind("LOSS_NORMALIZING_FACTOR", factor)
                .bind("trainer.Trainer.num_microbatches", num_microbatches)
                .bind("train.train_eval_dataset_cfg", "None")
                .succeeds();
            model_dir
        });
        let [found, expected] = [&parts, &whole].map(|dir| read_scalars(&dir.join("train")));
        for (tag, points) in expected.iter().filter(|(tag, _)| !tag.starts_with("timing/")) {
            for (step, expected) in points {
                let found = found[tag][step];
                let close = (found - expected).abs() <= 1e-5 * expected.abs();
                assert!(close, "{factor}, step {step}: {tag} is {found} instead of {expected}");
            }
        }
        arrays::assert_close(&arrays::open(&parts, STEPS), &arrays::open(&whole, STEPS), 1e-5);
    }
}
