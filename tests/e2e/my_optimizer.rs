//! The example of an optimizer in a crate of one's own: `examples/my_optimizer`.

use std::fs;
use std::path::Path;

use gimlet::checkpoint::Stored;

use crate::arrays;
use crate::command::Train;
use crate::events::read_scalars;
use crate::folder::Folder;

fn run(folder: &Folder, steps: u64) -> Train {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/my_optimizer");
    folder
        .pretrain(steps)
        .program(env!("CARGO_BIN_EXE_my_optimizer"))
        .gin_file(example.join("sign_sgd.gin"))
        .bind("train.train_eval_dataset_cfg", "None")
}

#[test]
fn it_trains_and_its_state_is_saved_and_restored() {
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
fn gimlets_own_programs_do_not_know_it() {
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
fn its_mistakes_are_found_by_a_dry_run() {
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
fn tools_know_it_as_they_know_ours() {
    let folder = Folder::new();
    let program = |words: &[&'static str]| {
        let tool = Train::new(&folder.path("")).program(env!("CARGO_BIN_EXE_my_optimizer"));
        tool.tool(words).succeeds().stdout
    };
    program(&["gin", "reference", "page.md"]);
    let page = fs::read_to_string(folder.path("page.md")).expect("it was written");
    assert!(page.contains("Decay of the stored mean of gradients."), "{page}");
    let report = program(&["doctor"]);
    assert!(report.contains("libtorch      2."), "{report}");
}
