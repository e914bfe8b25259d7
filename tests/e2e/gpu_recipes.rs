//! T5X's recipes for GPUs, `contrib/gpu`: AdamW after a clip of the gradients' norm, kernels of queries, keys and values in one
//! array, and fine-tuning without the optimizer's state of pretraining.

use std::path::PathBuf;

use gimlet::checkpoint::{Reader, Stored, arranged};
use gimlet::models::open;
use gimlet::storage;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;

/// Trains with `adamw_opt.gin` up to a step into a folder's MODEL_DIR.
fn train(folder: &Folder, model_dir: &str, steps: u64) -> Train {
    folder
        .pretrain(steps)
        .gin_file("t5x/contrib/gpu/t5/t5_1_1/adamw_opt.gin")
        .bind_text("MODEL_DIR", model_dir)
        .bind("train.train_eval_dataset_cfg", "None")
}

fn count(checkpoint: &Reader) -> Option<i64> {
    checkpoint.read("state/param_states/1/0/count").expect("AdamW's count is there").to_int()
}

#[test]
fn the_published_optimizer_trains_and_its_state_is_saved_and_restored_as_t5x_names_it() {
    let folder = Folder::new();
    let run = |model_dir: &str, steps: u64| {
        train(&folder, model_dir, steps).succeeds();
        folder.path(model_dir)
    };
    let whole = run("whole", 8);
    run("halves", 4);
    let halves = run("halves", 8);
    let [found, expected] = [&halves, &whole].map(|dir| arrays::open(dir, 8));
    arrays::assert_same(&found, &expected);
    assert_eq!(count(&found), Some(8));
    let shapes = found.shapes();
    for moment in ["mu", "nu"] {
        let name = format!("state/param_states/1/0/{moment}/decoder/decoder_norm/scale");
        assert_eq!(shapes[&name], shapes["target/decoder/decoder_norm/scale"]);
    }
}

#[test]
fn one_binding_trains_by_the_schedule_that_is_otherwise_only_logged() {
    let folder = Folder::new();
    let said = "updates follow optax.adamw.learning_rate";
    let constant = train(&folder, "constant", 2).succeeds();
    assert_eq!(constant.stderr.matches(said).count(), 1, "{}", constant.stderr);
    assert!(constant.stderr.contains("bind optax.adamw.learning_rate = 'trainer'"));
    let scheduled = train(&folder, "scheduled", 2).bind("optax.adamw.learning_rate", "'trainer'");
    let scheduled = scheduled.succeeds();
    assert!(!scheduled.stderr.contains(said), "{}", scheduled.stderr);
    let [constant, scheduled] =
        ["constant", "scheduled"].map(|dir| read_scalars(&folder.path(dir).join("train")));
    assert_eq!(constant["learning_rate"], scheduled["learning_rate"]);
    assert_ne!(constant["loss"][&2], scheduled["loss"][&2]);
}

/// Dropout and initial values follow from names of parameters and layers, so both runs draw the same.
#[test]
fn fused_kernels_train_to_the_values_of_separate_ones() {
    let folder = Folder::new();
    let fused = |model_dir: &str, steps: u64| {
        train(&folder, model_dir, steps).bind("network.T5Config.fuse_qkv_params", 1).succeeds();
        folder.path(model_dir)
    };
    let whole = fused("whole", 8);
    fused("halves", 4);
    let halves = fused("halves", 8);
    let [found, expected] = [&halves, &whole].map(|dir| arrays::open(dir, 8));
    arrays::assert_same(&found, &expected);

    train(&folder, "separate", 8).succeeds();
    let separate: PathBuf = folder.path("separate");
    let [fused, separate_losses] =
        [&whole, &separate].map(|dir| read_scalars(&dir.join("train"))["loss"].clone());
    for (step, loss) in &separate_losses {
        assert!((fused[step] / loss - 1.0).abs() < 1e-5, "step {step}: {} {loss}", fused[step]);
    }
    // Checkpoints of one kind are restored by models of the other.
    let separate = arrays::open(&separate, 8);
    let open = |model_dir: &str| {
        let path = folder.path(model_dir).join("checkpoint_8");
        open(&storage::Path::try_from(&*path).expect("the path is text")).expect("it is whole")
    };
    for (other, own) in [("whole", &separate), ("separate", &expected)] {
        let other = arranged(open(other), &own.shapes());
        for name in own.shapes().keys().filter(|name| name.starts_with("target/")) {
            let read = |stored: &dyn Stored| {
                stored.read(name).expect("the array is whole").to_f32().expect("floats")
            };
            let error = arrays::relative_error(&read(&*other), &read(own));
            assert!(error < 1e-4, "{name} is off by {error:e}");
        }
    }
    let qkv = &expected.shapes()["target/encoder/layers_0/attention/qkv/kernel"];
    assert_eq!(qkv, &[16, 3, 16]);
}

#[test]
fn the_step_of_reset_state_after_begins_with_a_new_optimizer() {
    let folder = Folder::new();
    let dir = folder.path("model");
    train(&folder, "model", 4).succeeds();
    let tuned = |steps| train(&folder, "model", steps).bind("train.reset_state_after", 4);
    let first = tuned(6).succeeds();
    assert!(first.stderr.contains("restored step 4"), "{}", first.stderr);
    assert!(first.stderr.contains("train.reset_state_after"), "{}", first.stderr);
    assert_eq!(count(&arrays::open(&dir, 6)), Some(2));
    // An interrupted fine-tuning continues with the state that it saved.
    let second = tuned(8).succeeds();
    assert!(!second.stderr.contains("train.reset_state_after"), "{}", second.stderr);
    assert_eq!(count(&arrays::open(&dir, 8)), Some(4));
}
