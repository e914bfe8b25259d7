//! A checkpoint of T5X's scalable_t5, whose layers lie in one array of each kind, for models whose layers lie apart.

use gimlet::checkpoint::{Shapes, Stored, arranged};
use gimlet::models::PredictingNetwork as _;
use gimlet::models::open;
use gimlet::models::t5::{T5, T5Config};
use gimlet::models::transformer::{LayerArrays, TransformerSpec};
use gimlet::storage;

use super::decode::{assert_scores, config, first_batch, read_params};
use super::{STEPS, read_log, unpack_checkpoint};
use crate::command::{Train, sources};

const NAME: &str = "scanned";

fn of_scalable() -> T5Config {
    T5Config { relpos_bias_per_layer: true, ..config() }
}

/// The shapes of the parameters of the model with layers in these arrays.
fn needs(layer_arrays: LayerArrays) -> Shapes {
    needs_of(&of_scalable(), layer_arrays)
}

fn needs_of(config: &T5Config, layer_arrays: LayerArrays) -> Shapes {
    let spec = TransformerSpec { layer_arrays, ..config.transformer() };
    let params = spec.param_tree().into_iter();
    params.map(|param| (format!("target/{}", param.name), param.shape)).collect()
}

#[test]
fn layers_are_taken_apart_and_put_together() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack_checkpoint(NAME, STEPS, scratch.path());
    let folder = scratch.path().join(format!("checkpoint_{STEPS}"));
    let path = storage::Path::try_from(&*folder).expect("the path is text");
    let stored = || open(&path).expect("T5X's checkpoint");
    let batch = first_batch(NAME);
    for layer_arrays in [LayerArrays::Joined, LayerArrays::ByHead] {
        let apart = arranged(stored(), &needs(layer_arrays));
        let model = T5::new(TransformerSpec { layer_arrays, ..of_scalable().transformer() });
        let scores = model.score_batch(&read_params(&*apart), &batch);
        assert_scores(&scores, &read_log(NAME)["decode"]["score_batch"]);
        assert!(!apart.leaves().iter().any(|leaf| leaf.name.starts_with("state/param_states")));
        // And together again.
        let (again, original) = (arranged(apart, &needs(LayerArrays::Stacked)), stored());
        for name in needs(LayerArrays::Stacked).keys() {
            let array = |stored: &dyn Stored| stored.read(name).expect("the array is whole");
            assert_eq!(array(&*again), array(&*original), "{name}");
        }
    }
}

#[test]
fn a_folder_of_transformers_is_put_together() {
    let folder = sources("hugging_face").join("umt5");
    let path = storage::Path::try_from(&*folder).expect("the path is text");
    let umt5 = T5Config { vocab_size: 384, emb_dim: 16, mlp_dim: 32, ..of_scalable() };
    let needs = needs_of(&umt5, LayerArrays::Stacked);
    let found = arranged(open(&path).expect("a model"), &needs);
    assert_eq!(found.shapes(), needs);
    let whole = found.read("target/decoder/decoder/mlp/wo/kernel").expect("it is whole");
    let layer = open(&path).expect("a model").read("target/decoder/layers_1/mlp/wo/kernel");
    assert_eq!(whole.part(&[0..32, 1..2, 0..16]).data, layer.expect("it is whole").data);
}

#[test]
fn a_run_with_layers_apart_begins_with_such_a_checkpoint() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    unpack_checkpoint(NAME, STEPS, scratch.path());
    let train = |model_dir: &str, scan_layers: &str| {
        Train::new(&sources("t5x"))
            .gin_file(format!("{NAME}.gin"))
            .bind_text(
                "INITIAL_CHECKPOINT_PATH",
                scratch.path().join(format!("checkpoint_{STEPS}")),
            )
            .bind_text("MODEL_DIR", scratch.path().join(model_dir))
            .bind("network.T5Config.scan_layers", scan_layers)
            .bind("TRAIN_STEPS", STEPS + 1)
            .succeeds()
    };
    let said = train("apart", "False").stderr;
    assert!(said.contains("holds the optimizer state of layers in other arrays"), "{said}");
    let said = train("together", "True").stderr;
    assert!(!said.contains("are initialized"), "{said}");
}
