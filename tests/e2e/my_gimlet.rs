//! The examples of an optimizer and a model in a crate of one's own: `examples/`.

use std::fs;
use std::path::{Path, PathBuf};

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_my_gimlet");

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file)
}

/// Trains `pretrain_tiny.gin` with the optimizer.
fn run(folder: &Folder, steps: u64) -> Train {
    folder
        .pretrain(steps)
        .program(PROGRAM)
        .gin_file(example("my_optimizer/sign_sgd.gin"))
        .bind("train.train_eval_dataset_cfg", "None")
}

/// Trains the model on lines of the folder.
fn run_model(folder: &Folder, model_dir: &str, steps: u64) -> Train {
    let lines = "{'train': 'lines-*.txt', 'validation': 'held-out.txt'}";
    Train::new(&folder.path(""))
        .program(PROGRAM)
        .gin_file(example("my_model/pretrain.gin"))
        .bind("masked_lines/seqio.TextLineDataSource.split_to_filepattern", lines)
        .bind("utils.SaveCheckpointConfig.period", 3)
        .bind("train.stats_period", 1)
        .bind("train.eval_period", 3)
        .bind("train.eval_steps", 1)
        .bind("TRAIN_STEPS", steps)
        .bind_text("MODEL_DIR", model_dir)
}

#[test]
fn the_optimizer_trains_and_its_state_is_saved_and_restored() {
    let folder = Folder::new();
    let train = |model_dir: &str, steps: u64| {
        run(&folder, steps).bind_text("MODEL_DIR", model_dir).succeeds();
        folder.path(model_dir)
    };
    let whole = train("whole", 8);
    train("halves", 4);
    let halves = train("halves", 8);
    let [found, expected] = [&halves, &whole].map(|dir| arrays::open(dir, 8));
    arrays::assert_same(&found, &expected);
    let shapes = found.shapes();
    assert_eq!(
        shapes["state/param_states/decoder/decoder_norm/scale/m"],
        shapes["target/decoder/decoder_norm/scale"]
    );
    let losses = &read_scalars(&whole.join("train"))["loss"];
    assert_eq!(losses.len(), 8);
    assert!(losses[&8] < losses[&1], "{losses:?}");
}

#[test]
fn gimlets_own_programs_do_not_know_the_optimizer() {
    let folder = Folder::new();
    let ended = run(&folder, 1).program(env!("CARGO_BIN_EXE_gimlet")).arg("--dry_run").run();
    assert_eq!(ended.status, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("no module or task file is named `my_optimizers`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn mistakes_in_the_optimizer_are_found_by_a_dry_run() {
    let folder = Folder::new();
    run(&folder, 8).arg("--dry_run").succeeds();
    for (name, value, expected) in [
        ("my_optimizers.SignSgd.momentun", "0.9", "did you mean `momentum`?"),
        ("my_optimizers.SignSgd.momentum", "'much'", "expected a float"),
        ("my_optimizers.SignSgd.momentum", "1.0", "`momentum` lies below 0, or is not below 1"),
    ] {
        let ended = run(&folder, 8).bind(name, value).arg("--dry_run").run();
        assert_eq!(ended.status, Some(2), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn tools_know_the_optimizer_as_they_know_ours() {
    let folder = Folder::new();
    let program = |words: &[&'static str]| {
        let tool = Train::new(&folder.path("")).program(PROGRAM);
        tool.tool(words).succeeds().stdout
    };
    program(&["gin", "reference", "pages"]);
    let page = folder.path("pages/configurables/optimizers.md");
    let page = fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Decay of the stored mean of gradients."), "{page}");
    let report = program(&["doctor"]);
    assert!(report.contains("libtorch      2."), "{report}");
}

#[test]
fn the_model_trains_and_is_saved_and_restored() {
    let folder = Folder::new();
    let train = |model_dir: &str, steps: u64| {
        run_model(&folder, model_dir, steps).succeeds();
        folder.path(model_dir)
    };
    let whole = train("whole", 6);
    train("halves", 3);
    let halves = train("halves", 6);
    let [found, expected] = [&halves, &whole].map(|dir| arrays::open(dir, 6));
    arrays::assert_same(&found, &expected);
    let scalars = read_scalars(&whole.join("train"));
    assert!(scalars["loss"][&6] < scalars["loss"][&1], "{:?}", scalars["loss"]);
    // One token in seven is masked, and the loss counts no other.
    let share = scalars["non_padding_fraction/loss_weights"][&6];
    assert!((0.05..0.2).contains(&share), "{share}");
    assert!(read_scalars(&whole.join("training_eval/masked_lines"))["accuracy"].len() == 2);
}

#[test]
fn the_model_is_checked_planned_and_measured() {
    let folder = Folder::new();
    let tool = |words: &[&'static str]| run_model(&folder, "model", 3).tool(words);
    let report = run_model(&folder, "model", 3).arg("--dry_run").succeeds().stdout;
    assert!(report.contains("batch        encoder inputs and targets [8, 64]"), "{report}");
    let plan = tool(&["plan", "--cpus=2", "--gflops=50"]).succeeds().stdout;
    assert!(plan.contains("8 rows of 64 tokens"), "{plan}");
    let bench = tool(&["bench", "train_step", "--steps=1"]).succeeds().stdout;
    assert!(bench.contains("8 rows of 64 tokens"), "{bench}");
    for (name, value) in
        [("my_models.Encoder.num_heads", 0), ("my_models.MaskedEncoder.mask_id", 384)]
    {
        let misfit = run_model(&folder, "model", 3).bind(name, value).run();
        assert!(misfit.stderr.contains(&format!("{name} is {value}")), "{}", misfit.stderr);
    }
}

#[test]
fn predictions_of_the_model_are_refused() {
    let folder = Folder::new();
    run_model(&folder, "model", 1).succeeds();
    let expected = "my_models.MaskedEncoder makes no predictions";
    let refused = |words: &[&'static str]| {
        let tool = Train::new(&folder.path("")).program(PROGRAM).tool(words);
        let ended = tool.run();
        assert_eq!(ended.status, Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{words:?}: {}", ended.stderr);
    };
    refused(&["generate", "--checkpoint=model"]);
    refused(&["score", "--checkpoint=model"]);
    let decoded = run_model(&folder, "model", 1)
        .bind("train.infer_eval_dataset_cfg", "@train_eval/utils.DatasetConfig()")
        .arg("--dry_run")
        .run();
    assert_eq!(decoded.status, Some(2), "{}", decoded.stderr);
    assert!(decoded.stderr.contains(expected), "{}", decoded.stderr);
}
