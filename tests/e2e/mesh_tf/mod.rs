//! Runs of real Mesh TensorFlow, repeated: `make_runs.py` made the expected results, and names the versions.
//!
//! float32 on the CPU. Losses may differ by 1e-4 of their value after six steps, those of the first step by 1e-6, and
//! arrays by 1e-4 of their norm. The checkpoints are Mesh TensorFlow's own, and Gimlet's are also compared after a
//! conversion to that format.

mod decode;

use std::path::Path;
use std::process::Command;

use gimlet::checkpoint::{MeshNorms, MeshOptions, Stored, export_mesh_tensorflow};
use gimlet::models::open;
use gimlet::storage;
use serde_json::Value;

use crate::arrays::relative_error;
use crate::command::{Train, sources};
use crate::events::read_scalars;
use crate::processes::launched;

const STEPS: u64 = 6;

#[test]
fn an_unpacked_run_repeats_that_of_mesh_tensorflow() {
    check("unpacked", |train| train);
}

#[test]
fn a_packed_run_repeats_that_of_mesh_tensorflow() {
    check("packed", |train| train);
}

#[test]
fn adapters_alone_are_trained() {
    check("adapters", |train| train);
}

/// The optimizer's state is spread over the processes, and frozen parameters have none.
#[test]
fn adapters_alone_are_trained_by_several_processes() {
    let spread = "partitioning.PjitPartitioner.spread_optimizer_state";
    check("adapters", |train| launched(train.bind(spread, "True"), 2));
}

#[test]
fn an_encoder_reads_the_decoder_s_weights() {
    check("tied", |train| train);
}

#[test]
fn layers_that_are_made_again_share_weights_too() {
    check("tied", |train| train.bind("network.T5Config.remat_policy", "'full'"));
}

#[test]
#[ignore = "takes long: `make soak`"]
fn shared_weights_are_divided_among_processes() {
    check("tied", |train| {
        launched(train.bind("partitioning.PjitPartitioner.num_partitions", 2), 4)
    });
}

#[test]
fn inputs_of_a_language_model_see_each_other() {
    check("lm", |train| train);
}

/// Parameters, slots and step of a `model.ckpt-N` in MODEL_DIR.
#[test]
fn a_run_of_mesh_tensorflow_is_continued_in_its_folder() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let (mesh, ours) = (scratch.path().join("mesh"), scratch.path().join("ours"));
    unpack("unpacked", &mesh);
    std::fs::create_dir(&ours).unwrap();
    for file in ["model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"] {
        std::fs::copy(mesh.join(file), ours.join(file)).unwrap();
    }
    // The data start over, so they are those of the steps that are left.
    let examples = std::fs::read_to_string(sources("mesh_tf/unpacked/examples.jsonl")).unwrap();
    let left: String = examples.lines().skip(12).map(|line| format!("{line}\n")).collect();
    let file = scratch.path().join("examples.jsonl");
    std::fs::write(&file, left).unwrap();
    let tasks = std::fs::read_to_string(sources("mesh_tf/examples.gin")).unwrap();
    let tasks = tasks.replace("unpacked/examples.jsonl", &file.display().to_string());
    std::fs::write(scratch.path().join("examples.gin"), tasks).unwrap();
    // The task file beside the run wins over that of the search path.
    Train::new(scratch.path())
        .arg(format!("--gin_search_paths={}", sources("mesh_tf").display()))
        .gin_file("unpacked.gin")
        .bind("INITIAL_CHECKPOINT_PATH", "[]")
        .bind_text("MODEL_DIR", &ours)
        .succeeds();
    check_log("unpacked", 3, &ours);
    check_arrays(&*opened(&ours.join("checkpoint_6")), &*opened(&mesh.join("model.ckpt-6")));
}

fn check(name: &str, change: impl Fn(Train) -> Train) {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let (mesh, ours) = (scratch.path().join("mesh"), scratch.path().join("ours"));
    unpack(name, &mesh);
    let train = Train::new(&sources("mesh_tf"))
        .gin_file(format!("{name}.gin"))
        .bind_text("INITIAL_CHECKPOINT_PATH", mesh.join("model.ckpt-0"))
        .bind_text("MODEL_DIR", &ours);
    change(train).succeeds();
    check_log(name, 0, &ours);
    let (found, expected) =
        (opened(&ours.join("checkpoint_6")), opened(&mesh.join("model.ckpt-6")));
    check_arrays(&*found, &*expected);
    let to = storage::Path::try_from(&*scratch.path().join("exported")).unwrap();
    let norms = if name == "lm" { MeshNorms::Sublayers } else { MeshNorms::Legacy };
    let exported = export_mesh_tensorflow(&*found, (to, STEPS), MeshOptions { dtype: None, norms });
    check_arrays(&*open(&exported.unwrap()).unwrap(), &*expected);
}

/// Compares the losses and learning rates from that step on.
fn check_log(name: &str, from: i64, model_dir: &Path) {
    let log = log(name);
    let found = read_scalars(&model_dir.join("train"));
    for tag in ["loss", "learning_rate"] {
        for step in from..STEPS as i64 {
            let expected = log[tag][step as usize].as_f64().unwrap();
            let found = found[tag][&(step + 1)];
            let tolerance = if step == 0 { 1e-6 } else { 1e-4 };
            assert!(
                (found - expected).abs() <= tolerance * expected.abs(),
                "step {step}: {tag} is {found}, Mesh TensorFlow has {expected}"
            );
        }
    }
}

fn log(name: &str) -> Value {
    let log = std::fs::read(sources("mesh_tf").join(name).join("log.json")).unwrap();
    serde_json::from_slice(&log).unwrap()
}

/// Asserts that both hold the same arrays.
fn check_arrays(found: &dyn Stored, expected: &dyn Stored) {
    assert_eq!(found.shapes(), expected.shapes());
    for array in expected.leaves() {
        let [found, expected] = [found, expected].map(|it| it.read(array.name).unwrap());
        match (found.to_f32(), expected.to_f32()) {
            (Some(found), Some(expected)) => {
                let error = relative_error(&found, &expected);
                assert!(error <= 1e-4, "{} is off by {error:e} of its norm", array.name);
            }
            _ => assert_eq!(found.to_int(), expected.to_int(), "{}", array.name),
        }
    }
}

fn opened(path: &Path) -> Box<dyn Stored> {
    open(&storage::Path::try_from(path).unwrap()).unwrap()
}

/// Unpacks Mesh TensorFlow's checkpoints of a run.
fn unpack(name: &str, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder can be made");
    let archive = sources("mesh_tf").join(name).join("checkpoints.tar.gz");
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(to).status();
    assert!(status.expect("tar starts").success());
}
