//! Models with experts, `contrib/moe`: trained from gin with the losses of routers, in one process and in several that divide the
//! experts, evaluated by decoding, and begun with a model without experts.

use std::fs;

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;
use crate::meshes::assert_sent;
use crate::processes::{self, TOLERANCE, assert_same_run, differences, launched};

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

/// A mesh: the sizes of both axes, and 1 for a divided state of the optimizer, 3 for divided parameters.
type Mesh = (usize, usize, usize);

const RULES: &str = "moe.partitioning.standard_logical_axis_rules";
const MICROBATCHES: &str = "--gin.MoeTrainer.num_microbatches=2";
/// Norms of parameters and of all gradients, and the measures of weights.
const LAMB: &[&str] = &[
    "--gin.OPTIMIZER=@optimizers.chain()",
    "--gin_param=from t5x import optimizers",
    "--gin_param=from t5x import trainer",
    "--gin_param=import optax",
    "--gin_param=optimizers.chain.transformations = [@optax.clip_by_global_norm(), @optax.lamb()]",
    "--gin.optax.clip_by_global_norm.max_norm=0.5",
    "--gin.optax.lamb.learning_rate=0.001",
    "--gin.MoeTrainer.weight_metrics_computer=@trainer.WeightMetricsComputer()",
];

/// Checks that runs on meshes are that of one process with those flags, with dropout of experts and noise of routers, and send the
/// bytes that `--dry_run` foretells. `again` are flags of the runs on meshes alone.
fn check(args: &[&str], again: &[&str], meshes: &[Mesh]) {
    let folder = Folder::new();
    let run = |model_dir: &str| {
        args.iter().fold(train(&folder, model_dir, processes::STEPS), |train, arg| train.arg(*arg))
    };
    run("one").succeeds();
    for &(data, model, zero) in meshes {
        let model_dir = format!("{data}x{model}-{zero}");
        eprintln!("{args:?} {again:?}: {model_dir}");
        let spreads_state = if zero == 1 { "True" } else { "False" };
        let divided = run(&model_dir)
            .bind("NUM_MODEL_PARTITIONS", model)
            .bind("MoePjitPartitioner.logical_axis_rules", format!("@{RULES}()"))
            .bind(&format!("{RULES}.parameter_partitioning_dims"), if zero == 3 { 2 } else { 1 })
            .bind("MoePjitPartitioner.spread_optimizer_state", spreads_state);
        let divided = again.iter().fold(divided, |train, arg| train.arg(*arg));
        let launched = launched(divided, data * model);
        launched.succeeds();
        let [metrics, arrays] =
            differences(&folder.path(&model_dir), &folder.path("one"), processes::STEPS);
        // The change of a weight, the difference of two weights, has their roundings.
        let of_metrics = if args == LAMB { 1e-4 } else { TOLERANCE };
        assert!(metrics.is_at_most(of_metrics), "{metrics:?}");
        assert!(arrays.is_at_most(TOLERANCE), "{arrays:?}");
        let described = launched.arg("--dry_run").succeeds().stdout;
        assert_sent(&folder.path(&model_dir), &described);
    }
}

#[test]
fn processes_divide_the_experts_and_make_the_run_of_one() {
    // `every_mesh_makes_the_run_of_one_process` has the others.
    check(&[MICROBATCHES], &[], &[(2, 2, 1)]);
}

#[test]
#[ignore = "takes half a minute: `make soak`"]
fn layers_with_experts_that_are_made_again_make_the_same_run() {
    let remat = |policy: &str| {
        ["Encoder", "Decoder"]
            .map(|stack| format!("--gin.moe_architecture.Sparse{stack}.layer_remat='{policy}'"))
    };
    for (policy, mesh) in [("minimal", (2, 2, 3)), ("full", (2, 1, 0))] {
        let flags = remat(policy);
        check(&[], &flags.each_ref().map(String::as_str), &[mesh]);
    }
}

#[test]
#[ignore = "takes minutes: `make soak`"]
fn every_mesh_makes_the_run_of_one_process() {
    let zeros = |data: usize| if data == 1 { &[0][..] } else { &[0, 1, 3] };
    let meshes = [(2, 1), (4, 1), (1, 2), (2, 2), (4, 2)].into_iter();
    let meshes =
        meshes.flat_map(|(data, model)| zeros(data).iter().map(move |zero| (data, model, *zero)));
    let meshes: Vec<Mesh> = meshes.collect();
    check(&[], &[], &meshes);
    check(&[MICROBATCHES], &[], &meshes);
    check(LAMB, &[], &meshes);
    let two_experts = "--gin.NUM_SELECTED_EXPERTS=2";
    check(&[two_experts, "--gin.TRAIN_EXPERT_CAPACITY_FACTOR=2.0"], &[], &meshes);
}

#[test]
fn a_run_with_experts_goes_on_with_another_number_of_processes() {
    let folder = Folder::new();
    train(&folder, "one", 10).succeeds();
    launched(train(&folder, "other", 6), 4).succeeds();
    launched(train(&folder, "other", 10), 2).succeeds();
    assert_same_run(&folder.path("other"), &folder.path("one"));
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
