//! Predictions beside published runs, and the properties of plans.
//!
//! Source of the runs: NVIDIA's T5X, `contrib/gpu/t5/t5_1_1`, pretraining on the Pile: sequences a second, with batches of
//! 2016 to 2304 rows of 512 inputs and 128 targets, AdamW, gradients in float32, on hosts of eight GPUs with a port each of
//! 200 Gb/s (A100) and 400 Gb/s (H100). That XLA summed gradients after the backward pass: nothing overlaps.

use super::super::cli::{Command, try_parse};
use super::*;
use crate::partition::Process;
use crate::train::step_estimate;

const BINDINGS: [&str; 9] = [
    "--gin_file=benches/t5_1_1.gin",
    "--gin_bindings=from t5x import optimizers",
    "--gin_bindings=import optax",
    "--gin.OPTIMIZER=@optimizers.chain()",
    "--gin.optimizers.chain.transformations=[@optax.adamw()]",
    "--gin.optax.adamw.learning_rate=1e-4",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 512, 'targets': 128}",
    "--gin.network.T5Config.dtype='bfloat16'",
    "--network=200Gb",
];
const FP8: [&str; 3] = [
    "--gin.train.te_config_cls=@te_helper.TransformerEngineConfig",
    "--gin.te_helper.TransformerEngineConfig.enable_fp8=True",
    "--network=400Gb",
];

/// Reads the run and the machine of a T5 1.1 of that size with further flags.
fn read(size: &str, flags: &[&str]) -> (Train, Cluster) {
    let model = format!("--gin_file=t5x/examples/t5/t5_1_1/{size}.gin");
    let words: Vec<&str> =
        [&model[..]].into_iter().chain(BINDINGS).chain(flags.iter().copied()).collect();
    read_words(&words)
}

/// Reads the run and the machine of a model with experts, with further flags.
fn read_moe(model: &str, flags: &[&str]) -> (Train, Cluster) {
    let model = format!("--gin_file=flaxformer/t5x/configs/moe/models/{model}.gin");
    let files = [&model[..], "--gin_file=benches/moe.gin"].into_iter();
    let words: Vec<&str> = files.chain(flags.iter().copied()).collect();
    read_words(&words)
}

fn read_with_experts(flags: &[&str]) -> (Train, Cluster) {
    read_moe("tokens_choose_small", flags)
}

pub(super) fn read_words(words: &[&str]) -> (Train, Cluster) {
    let words = ["gimlet", "plan"].iter().chain(words);
    let parsed = try_parse(words.map(|word| word.to_string()).collect()).expect("well formed");
    let Command::Plan(args) = parsed.command else { panic!("parsed as plan") };
    let mut machine = flags::machine(&args).expect("a machine");
    let train = configure::<Train>(&args.gin, &Library, false).expect("a run").spec;
    machine.pace = pace(&args, &train, &machine).unwrap_or_else(|_| panic!("a rate or a time"));
    (train, machine)
}

/// Plans such a run.
fn planned(size: &str, flags: &[&str]) -> (Train, Cluster, search::MeshPlan) {
    let (train, machine) = read(size, flags);
    let plan = search(&train, &machine).expect("it can be planned");
    (train, machine, plan)
}

/// Predicts sequences a second and GPU on the mesh of a published run without ZeRO, and compares.
fn check(
    size: &str,
    [gpus, rows]: [&str; 2],
    partitions: usize,
    flags: &[&str],
    published: f64,
    error: f64,
) {
    let own =
        [format!("--gpus={gpus}"), format!("--gin.BATCH_SIZE={rows}"), "--overlap=0".to_string()];
    let flags: Vec<&str> = own.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    let (train, machine) = read(size, &flags);
    let mut plan = search::MeshPlan::default();
    plan.add(&train, &machine, (partitions, 1, layout::Zero::None)).expect("it can be planned");
    let row = plan.rows.first().expect("it fits, as it did");
    let rows: f64 = rows.parse().expect("a number");
    let predicted = rows / row.time.total() / machine.count as f64;
    let found = predicted / published - 1.0;
    println!(
        "{size} on {gpus}: {predicted:.1} predicted, {published} published, {:+.0}%",
        100.0 * found
    );
    assert!(
        (found - error).abs() < 0.05,
        "{size} on {gpus}: {found:+.2}, {error:+.2} in docs/plan.md"
    );
}

/// The errors are those of docs/plan.md: a change of the model that moves them more than 5 points is seen.
#[test]
fn published_runs_are_predicted_as_the_page_says() {
    check("small", ["8xA100-80", "2048"], 1, &[], 714.0, 0.58);
    check("large", ["64xA100-80", "2048"], 1, &[], 75.8, 0.13);
    check("xl", ["144xA100-80", "2016"], 1, &[], 21.0, -0.02);
    check("xl", ["256xA100-80", "2048"], 1, &[], 16.9, -0.07);
    check("xxl", ["512xA100-80", "2304"], 8, &[], 3.69, -0.11);
    check("large", ["64xH100", "2048"], 1, &FP8, 174.1, 0.14);
    check("xl", ["144xH100", "2016"], 1, &FP8, 50.4, -0.04);
    check("xl", ["256xH100", "2048"], 1, &FP8, 37.8, -0.13);
}

/// `gimlet bench` divides the operations of the model by the time of a step.
#[test]
fn a_rate_as_bench_prints_it_is_that_of_a_step() {
    let step = |flag: &str| {
        let (train, machine) = read("small", &["--cpus=2", flag]);
        alone(&train, &machine).expect("it can be planned").total()
    };
    let (train, _) = read("small", &["--cpus=2", "--gflops=151"]);
    let flops = train.model.train_step_flops(&training_shape(&train).expect("lengths are bound"));
    for (flag, seconds) in [("--gflops=151", flops / 151e9), ("--measured_step=7s", 7.0)] {
        assert!((step(flag) / seconds - 1.0).abs() < 1e-9, "{flag}: {} {seconds}", step(flag));
    }
}

/// Checks that the bindings of every fourth layout of a run make it.
fn check_bindings(read: &dyn Fn(&[&str]) -> (Train, Cluster), flags: &[&str]) {
    let (train, machine) = read(flags);
    let plan = search(&train, &machine).expect("it can be planned");
    assert!(plan.rows.len() > 4);
    for row in plan.rows.iter().step_by(4) {
        let own = row.layout.flags(&train);
        // As a shell passes them.
        let own = own.iter().map(|flag| flag.replace('"', ""));
        let given: Vec<String> = flags.iter().map(|flag| flag.to_string()).chain(own).collect();
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let (made, _) = read(&given);
        assert_eq!(row.layout.of(&train).as_ref(), Some(&made), "{given:?}");
    }
}

#[test]
fn the_bindings_of_a_layout_make_it() {
    let flags =
        ["--gpus=16xH100", "--gin.BATCH_SIZE=64", "--gin.trainer.Trainer.num_microbatches=2"];
    check_bindings(&|flags| read("small", flags), &flags);
    let flags = ["--gpus=16xH100", "--gin.BATCH_SIZE=64", "--gin.MoeTrainer.num_microbatches=2"];
    check_bindings(&read_with_experts, &flags);
}

#[test]
fn runs_with_experts_are_planned_on_meshes_that_divide_them() {
    let planned = |experts: &str| {
        let (train, machine) =
            read_with_experts(&["--gpus=8xH100", "--gin.BATCH_SIZE=512", experts]);
        let plan = search(&train, &machine).expect("it can be planned");
        let has = |data: usize| plan.rows.iter().any(|row| row.data == data);
        ([8, 4].map(has), plan.misfits)
    };
    let (found, misfits) = planned("--gin.NUM_EXPERTS=12");
    assert_eq!(found, [false, true]);
    let is_told = |reason: &String| reason.contains("NUM_EXPERTS = 12 cannot be divided among 8 ");
    assert!(misfits.iter().any(is_told), "{misfits:?}");
    // Four experts are fewer parts than eight processes: each has all of them.
    assert_eq!(planned("--gin.NUM_EXPERTS=4").0, [true, true]);
    let memory = |partitions: &str| {
        let flags = ["--gpus=16xH100", "--gin.BATCH_SIZE=16", partitions];
        let (train, machine) = read_with_experts(&flags);
        let mut plan = search::MeshPlan::default();
        plan.add(&train, &machine, (1, 2, layout::Zero::None)).expect("it can be planned");
        plan.rows.first().expect("it fits").memory as f64
    };
    let [divided, whole] =
        ["--gin.NUM_EXPERT_PARTITIONS=16", "--gin.NUM_EXPERT_PARTITIONS=1"].map(memory);
    assert!(divided < 0.7 * whole, "{divided} {whole}");
}

#[test]
fn a_run_that_does_not_fit_is_planned_in_parts_or_made_again() {
    let flags = ["--gpus=8xA100-40", "--nvlink=4", "--gin.BATCH_SIZE=1024"];
    let (_, machine, plan) = planned("xxl", &flags);
    assert!(plan.rows.iter().all(|row| row.memory as f64 <= machine.usable_memory()));
    let is_replica =
        |row: &search::Row| row.layout.num_partitions == 1 && row.layout.zero.stage() == 0;
    assert!(plan.too_large.iter().any(is_replica), "replicas take 180 GB");
    let best = plan.rows.first().expect("some mesh fits").layout;
    assert!(best.num_microbatches > 1 || best.remat_policy != crate::nn::RematPolicy::None);
}

/// Two layers in each stack, one with experts.
const TWO_LAYERS: [&str; 8] = [
    "--cpus=1",
    "--gflops=100",
    "--gin.NUM_ENCODER_LAYERS=2",
    "--gin.NUM_DECODER_LAYERS=2",
    "--gin.NUM_ENCODER_SPARSE_LAYERS=1",
    "--gin.NUM_DECODER_SPARSE_LAYERS=1",
    "--gin.EMBED_DIM=512",
    "--gin.MLP_DIM=1024",
];

fn check_memory(model: &str, flags: &[&str], measured_mb: f64) {
    let flags: Vec<&str> = TWO_LAYERS.iter().chain(flags).copied().collect();
    let (train, machine) = read_moe(model, &flags);
    let mesh = train.mesh(Process::ALONE, machine.local_device()).expect("one process fits");
    let estimated = step_estimate(&train, &mesh).expect("it is known").tensors() as f64 / 1e6;
    let ratio = estimated / measured_mb;
    println!("{model} {flags:?}: {estimated:.0} MB, {measured_mb} measured");
    assert!((0.8..1.2).contains(&ratio), "{estimated:.0} MB of {model}, measured {measured_mb}");
}

/// Peaks of `gimlet bench train_step` on a CPU minus the 250 MB of a process with libtorch.
#[test]
fn the_estimate_is_near_what_models_with_experts_take() {
    const EIGHT: &str = "--gin.NUM_EXPERTS=8";
    const FOUR_ROWS: &str = "--gin.BATCH_SIZE=4";
    const NOISE: &str = "--gin.JITTER_NOISE=0.01";
    const FLOAT32: [&str; 2] =
        ["--gin.ACTIVATION_DTYPE='float32'", "--gin.MOE_TRUNCATED_DTYPE='float32'"];
    let [activations, experts] = FLOAT32;
    check_memory("tokens_choose_small", &[EIGHT, FOUR_ROWS, activations, experts], 742.0);
    check_memory("tokens_choose_small", &[EIGHT, FOUR_ROWS], 688.0);
    check_memory("tokens_choose_small", &[FOUR_ROWS, activations, experts], 1459.0);
    let rows = "--gin.BATCH_SIZE=16";
    check_memory("tokens_choose_small", &[EIGHT, rows, NOISE], 1261.0);
    check_memory("experts_choose_small", &[EIGHT, rows], 1155.0);
    // Groups are so small that most experts have the least number of places, four.
    let many = ["--gin.NUM_EXPERTS=64", FOUR_ROWS, "--gin.NUM_HEADS=6"];
    check_memory("st_moe_base", &many, 2160.0);
}
