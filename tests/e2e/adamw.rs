//! T5X's gin file for AdamW after a clip of the gradients' norm, as published for the Pile runs.

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::folder::Folder;

/// The bindings of T5X's `contrib/gpu/t5/t5_1_1/adamw_opt.gin`.
const ADAMW_OPT: &str = "from __gin__ import dynamic_registration

import optax
from t5x import optimizers
from t5x.contrib.gpu.t5 import network

OPTIMIZER = @optimizers.chain()
optimizers.chain:
  transformations = [@optax.clip_by_global_norm(), @optax.adamw()]

optax.clip_by_global_norm:
  max_norm = 1.0

optax.adamw:
  learning_rate = 0.0001
  weight_decay = 0.01

network.T5Config:
  scale_attn_logits = True
";

#[test]
fn the_published_file_trains_and_its_state_is_saved_and_restored_as_t5x_names_it() {
    let folder = Folder::new();
    folder.write("adamw_opt.gin", ADAMW_OPT);
    let run = |model_dir: &str, steps: u64| {
        let run = folder.pretrain(steps).gin_file("adamw_opt.gin");
        run.bind_text("MODEL_DIR", model_dir)
            .bind("train.train_eval_dataset_cfg", "None")
            .succeeds();
        folder.path(model_dir)
    };
    let whole = run("whole", 8);
    run("halves", 4);
    let halves = run("halves", 8);
    let [found, expected] = [&halves, &whole].map(|dir| arrays::open(dir, 8));
    arrays::assert_same(&found, &expected);
    let count = found.read("state/param_states/1/0/count").expect("AdamW's count is there");
    assert_eq!(count.to_int(), Some(8));
    let shapes = found.shapes();
    for moment in ["mu", "nu"] {
        let name = format!("state/param_states/1/0/{moment}/decoder/decoder_norm/scale");
        assert_eq!(shapes[&name], shapes["target/decoder/decoder_norm/scale"]);
    }
}
