//! Models with experts, `contrib/moe`: trained from gin with the losses of routers, in one process and in two that divide the
//! experts, evaluated by decoding, and begun with a model without experts.

use std::fs;

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::processes::{assert_same_run, launched};

const STEPS: u64 = 3;
const METRICS: [&str; 5] = [
    "experts/auxiliary_loss",
    "experts/router_z_loss",
    "experts/fraction_tokens_left_behind",
    "experts/expert_usage",
    "experts/router_confidence",
];

fn train(folder: &Folder, model_dir: &str, steps: u64) -> Train {
    folder.train("moe_tiny.gin").bind("TRAIN_STEPS", steps).bind_text("MODEL_DIR", model_dir)
}

#[test]
fn experts_train_are_restored_and_decode() {
    let folder = Folder::new();
    train(&folder, "model", STEPS).succeeds();
    let scalars = read_scalars(&folder.path("model/train"));
    let loss = &scalars["loss"];
    assert!(loss[&3] < loss[&1], "{loss:?}");
    let shares = METRICS.map(|tag| scalars[tag][&3]);
    assert!(shares[..2].iter().all(|loss| *loss > 0.0), "{shares:?}");
    assert!(shares[2..].iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    let of_routers = shares[0] + shares[1] + scalars["z_loss"][&3];
    let difference = loss[&3] - of_routers - scalars["cross_ent_loss"][&3];
    assert!(difference.abs() < 1e-6 * loss[&3], "{difference}");
    let held_out = read_scalars(&folder.path("model/training_eval/lines"));
    assert!(METRICS.iter().all(|tag| held_out.contains_key(*tag)));

    train(&folder, "halves", 2).succeeds();
    train(&folder, "halves", STEPS).succeeds();
    let [whole, halves] = ["model", "halves"].map(|dir| arrays::open(&folder.path(dir), STEPS));
    arrays::assert_same(&halves, &whole);
    let shapes = whole.shapes();
    let shape = |name: &str| shapes[&format!("target/encoder/layers_1/mlp/{name}/kernel")].clone();
    assert_eq!(shape("expert/wi_1"), [4, 16, 32]);
    assert_eq!(shape("expert/wo"), [4, 32, 16]);
    assert_eq!(shape("router/router_weights/w"), [16, 4]);
    // Adafactor's means of rows and columns of each expert, at any size.
    let state = |slot: &str| {
        shapes[&format!("state/param_states/encoder/layers_1/mlp/expert/wo/kernel/{slot}")].clone()
    };
    assert_eq!((state("v_col"), state("v_row")), (vec![4, 32], vec![4, 16]));

    folder.train("moe_eval.gin").tool(&["eval"]).succeeds();
    let written = folder.path("evaluated/inference_eval/echo-metrics.jsonl");
    assert_eq!(fs::read_to_string(written).expect("results were written").lines().count(), 1);
}

#[test]
fn a_decoder_alone_has_experts_too() {
    let folder = Folder::new();
    folder.train("moe_decoder.gin").bind("TRAIN_STEPS", 2).succeeds();
    let scalars = read_scalars(&folder.path("model/train"));
    assert!(METRICS.iter().all(|tag| scalars[*tag][&2].is_finite()));
    let shapes = arrays::open(&folder.path("model"), 2).shapes();
    let of_decoder = |name: &str| shapes.contains_key(&format!("target/decoder/{name}"));
    assert!(of_decoder("token_embedder/embedding") && of_decoder("layers_1/extra_mlp/wo/kernel"));
    assert!(of_decoder("layers_1/mlp/expert/wi_0/kernel"));
    assert!(!shapes.keys().any(|name| name.contains("encoder")));
}

#[test]
fn two_processes_divide_the_experts_and_make_the_run_of_one() {
    let folder = Folder::new();
    // Parts of the batch, and of these parts for gradients.
    let run =
        |model_dir: &str| train(&folder, model_dir, 10).bind("MoeTrainer.num_microbatches", 2);
    run("one").succeeds();
    launched(run("two"), 2).succeeds();
    assert_same_run(&folder.path("two"), &folder.path("one"));
    let model = launched(run("model").bind("NUM_MODEL_PARTITIONS", 2), 2);
    model.succeeds();
    assert_same_run(&folder.path("model"), &folder.path("one"));
}

#[test]
fn experts_begin_as_the_dense_block_of_their_layer() {
    let folder = Folder::new();
    let dense = folder.pretrain(1).bind_text("MODEL_DIR", "dense");
    let layers = ["num_encoder_layers", "num_decoder_layers"];
    let dense =
        layers.iter().fold(dense, |dense, name| dense.bind(&format!("network.T5Config.{name}"), 2));
    dense.succeeds();
    let said = folder.train("moe_upcycle.gin").succeeds().stderr;
    assert!(said.contains("restored step 1"), "{said}");
    let [dense, sparse] =
        [("dense", 1), ("sparse", 2)].map(|(dir, step)| arrays::open(&folder.path(dir), step));
    let read = |stored: &dyn Stored, name: &str| {
        let array = stored.read(&format!("target/decoder/layers_{name}/kernel"));
        array.expect("it is whole").to_f32().expect("floats")
    };
    // Its learning rate is 1e-8, the smallest there is.
    let is_same = |found: &[f32], wanted: &[f32]| arrays::relative_error(found, wanted) < 1e-6;
    assert!(is_same(&read(&sparse, "0/mlp/wo"), &read(&dense, "0/mlp/wo")));
    let experts = read(&sparse, "1/mlp/expert/wo");
    let block = read(&dense, "1/mlp/wo");
    assert_eq!(experts.len(), 4 * block.len());
    assert!(experts.chunks(block.len()).all(|expert| is_same(expert, &block)));
}
