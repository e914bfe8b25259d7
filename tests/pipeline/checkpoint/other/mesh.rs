//! Checkpoints of Mesh TensorFlow are read with the same result as by T5X's importer.

use std::collections::BTreeMap;

use gimlet::checkpoint::{Array, DType, Format, RestoreCheckpointConfig, Shapes, Without, latest};
use gimlet::models::open;

use super::{copied, opened, value};
use crate::checkpoint::restoring::config;
use crate::checkpoint::{fixture, scratch};

/// Compares with the results of T5X's importer, written by `mesh.py`.
fn check(prefix: &str, path: &str, step: u64, dtype: DType) {
    let stored = opened(path);
    assert_eq!((stored.format(), stored.step().unwrap()), (Format::MeshTensorFlow, step));
    let expected = fixture(&format!("other/mesh/{prefix}.json")).read().unwrap();
    let expected: BTreeMap<String, (Vec<usize>, Option<String>)> =
        serde_json::from_slice(&expected).unwrap();
    let without_step = |name: &&String| *name != "state/step";
    let found = stored.shapes();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for name in found.keys().filter(without_step) {
        let (shape, variable) = &expected[name];
        let array = stored.read(name).unwrap();
        let expected = match variable {
            None => Array::from_f32(shape, &[0.0]),
            Some(variable) if variable.contains("_slot_") => value(variable, shape, DType::F32),
            Some(variable) => value(variable, shape, dtype),
        };
        assert_eq!(array, expected, "{name}");
    }
    stored.verify().unwrap();
}

#[test]
fn variables_and_slots_are_those_of_t5x() {
    check("model.ckpt-700", "mesh/model.ckpt-700", 700, DType::F32);
    check("model.ckpt-700", "mesh/model.ckpt-700.index", 700, DType::F32);
}

#[test]
fn slots_of_a_square_matrix_are_those_of_t5x_after_the_same_steps() {
    let stored = opened("mesh/square.ckpt-2");
    let expected = fixture("other/mesh/square.json").read().unwrap();
    let expected: BTreeMap<String, Vec<f32>> = serde_json::from_slice(&expected).unwrap();
    assert_eq!(expected.len(), 3);
    for (name, expected) in expected {
        let found = stored.read(&name).unwrap().to_f32().unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.into_iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs(),
                "{name}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn variables_in_slices_are_put_together() {
    let stored = opened("sliced/model.ckpt");
    let found: Vec<_> = stored.shapes().into_iter().collect();
    let expected = [
        ("target/columns", vec![4, 6]),
        ("target/long", vec![200]),
        ("target/middle", vec![2, 5, 3]),
        ("target/rows", vec![10, 3]),
        ("target/whole", vec![2, 2]),
    ];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_string(), shape)));
    for (name, shape) in &found {
        let variable = name.strip_prefix("target/").unwrap();
        let dtype = if variable == "columns" { DType::Bf16 } else { DType::F32 };
        let expected = value(variable, shape, dtype);
        assert_eq!(stored.read(name).unwrap(), expected, "{name}");
        let mut part: Vec<_> = shape.iter().map(|size| 0..*size).collect();
        part[0] = shape[0] / 2..shape[0];
        assert_eq!(stored.read_part(name, &part).unwrap(), expected.part(&part), "{name}");
    }
    stored.verify().unwrap();
}

#[test]
fn a_folder_stands_for_the_newest_that_its_file_names() {
    check("model.ckpt-700", "mesh", 700, DType::F32);
    check("model.ckpt-700", "mesh/checkpoint", 700, DType::F32);
    let folder = fixture("other/mesh");
    assert_eq!(latest(&folder).unwrap(), Some(folder.clone()));
    // A folder that was copied only in part.
    let (_dir, dir) = scratch();
    for step in [700, 70] {
        for ending in ["index", "data-00000-of-00002", "data-00001-of-00002"] {
            let bytes = folder.join(&format!("model.ckpt-700.{ending}")).read().unwrap();
            dir.join(&format!("model.ckpt-{step}.{ending}")).write_atomic(&bytes).unwrap();
        }
    }
    assert_eq!(latest(&dir).unwrap(), Some(dir.join("model.ckpt-700")));
}

#[test]
fn a_bias_in_every_block_stays_with_its_layer() {
    // T5X's importer adds `m` even without any slot; Gimlet's then gives the whole state its
    // initial values, which for `m` are the same zeros.
    let stored = opened("mesh/own_bias.ckpt-8");
    let expected = fixture("other/mesh/own_bias.ckpt-8.json").read().unwrap();
    let expected: BTreeMap<String, (Vec<usize>, Option<String>)> =
        serde_json::from_slice(&expected).unwrap();
    let params = expected.iter().filter(|(name, _)| !name.starts_with("state/param_states/"));
    let params: Shapes = params.map(|(name, (shape, _))| (name.clone(), shape.clone())).collect();
    assert_eq!(stored.shapes(), params);
    for (name, (shape, variable)) in expected.iter().filter(|(name, _)| name.starts_with("target"))
    {
        let expected = value(variable.as_ref().unwrap(), shape, DType::Bf16);
        assert_eq!(stored.read(name).unwrap(), expected, "{name}");
    }
    assert_eq!(stored.step().unwrap(), 8);
}

#[test]
fn the_compressed_table_of_a_real_model_is_read() {
    let (_dir, dir) = scratch();
    let index = copied("mesh/mtf_tiny_t5.index", &dir);
    for shard in 0..2 {
        dir.join(&format!("mtf_tiny_t5.data-0000{shard}-of-00002")).set_size(1 << 25).unwrap();
    }
    let shapes = open(&index).unwrap().shapes();
    // T5X's `model-info.txt` beside it: 52 parameters, factored states for the matrices alone.
    assert_eq!(shapes.keys().filter(|name| name.starts_with("target/")).count(), 52);
    assert_eq!(shapes.keys().filter(|name| name.starts_with("state/")).count(), 52 * 4 + 1);
    assert_eq!(shapes["target/decoder/logits_dense/kernel"], [32, 32128]);
    assert_eq!(shapes["target/encoder/relpos_bias/rel_embedding"], [2, 32]);
    assert_eq!(shapes["target/decoder/layers_1/mlp/wi_1/kernel"], [32, 64]);
}

#[test]
fn changed_bytes_of_a_tensor_or_of_the_table_are_noticed() {
    let (_dir, dir) = scratch();
    let folder = copied("mesh", &dir);
    let data = folder.join("model.ckpt-700.data-00001-of-00002");
    let mut bytes = data.read().unwrap();
    bytes[100] ^= 1;
    data.write_atomic(&bytes).unwrap();
    let error = open(&folder).unwrap().verify().unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("checksum"), "{error}");
    let index = folder.join("model.ckpt-700.index");
    let whole = index.read().unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        index.write_atomic(&bytes).unwrap();
        // The padding of the footer alone means nothing.
        let in_padding = (whole.len() - 48 + 8..whole.len() - 8).contains(&at);
        assert!(in_padding || open(&folder).is_err(), "byte {at}");
        index.write_atomic(&whole[..at]).unwrap();
        assert!(open(&folder).is_err(), "cut at {at}");
    }
}

#[test]
fn a_missing_or_cut_data_file_is_named() {
    let (_dir, dir) = scratch();
    let folder = copied("mesh", &dir);
    let data = folder.join("model.ckpt-700.data-00001-of-00002");
    data.set_size(3000).unwrap();
    let message = open(&folder).unwrap_err().to_string();
    assert!(message.contains("data-00001-of-00002") && message.contains("3000"), "{message}");
    data.remove_file().unwrap();
    let error = open(&folder).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("data-00001-of-00002"), "{error}");
}

#[test]
fn what_a_format_never_holds_is_initialized_and_said_once() {
    let check = |path: &str, without, initialized: usize, notice: &str| {
        let stored = opened(path);
        let mut needs = stored.shapes();
        needs.insert("state/step".to_string(), Vec::new());
        needs.insert("state/param_states/token_embedder/embedding/v_row".to_string(), vec![10]);
        let plan = config(None, false).plan(stored.as_ref(), &needs).unwrap();
        assert_eq!((plan.without, plan.from_scratch.len()), (without, initialized), "{path}");
        let said = plan.notices().join("; ");
        assert!(said.contains(notice), "{said}");
        needs.insert("target/encoder/adapter".to_string(), vec![2]);
        assert!(config(None, false).plan(stored.as_ref(), &needs).is_err(), "{path}");
    };
    check("hugging_face/t5", Without::State, 2, "no optimizer state and no step: 2 arrays");
    check("torch/zip.pth", Without::State, 2, "no optimizer state and no step: 2 arrays");
    check("mesh/own_bias.ckpt-8", Without::Slots, 1, "no optimizer state: 1 array ");
    check("mesh", Without::Nothing, 0, "");
}

#[test]
fn arrays_that_the_model_lacks_are_refused_unless_that_is_said_to_be_meant() {
    let stored = opened("mesh");
    let all = stored.shapes();
    let norm = |name: &str| name.contains("encoder/encoder_norm/scale");
    let needs: Shapes = all.clone().into_iter().filter(|(name, _)| !norm(name)).collect();
    let plan = |config: RestoreCheckpointConfig| config.plan(stored.as_ref(), &needs);
    let message = plan(config(None, false)).unwrap_err().to_string();
    for part in ["5 only in the checkpoint", "target/encoder/encoder_norm/scale", "strict = False"]
    {
        assert!(message.contains(part), "{message}");
    }
    let lenient = RestoreCheckpointConfig { strict: false, ..config(None, false) };
    assert_eq!(plan(lenient).unwrap().unused.len(), 5);
    // Variables that an assignment map drops are dropped on purpose.
    let step = [("state/step", Some("state/step"))];
    assert_eq!(plan(config(Some(&step), false)).unwrap().unused.len(), 5);
    // T5X requires this only for TensorFlow's checkpoints.
    let model = opened("hugging_face/t5");
    let mut needs = model.shapes();
    needs.remove("target/encoder/encoder_norm/scale").unwrap();
    assert_eq!(config(None, false).plan(model.as_ref(), &needs).unwrap().unused.len(), 1);
}
