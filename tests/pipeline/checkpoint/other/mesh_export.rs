//! Checkpoints written as Mesh TensorFlow's T5 are read again with the same values.

use gimlet::checkpoint::{
    Array, CheckpointError, DType, Format, MeshOptions, NativeOptions, Stored, Writer,
    bundle_prefix, export_mesh_tensorflow, export_t5x, list,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use proptest::prelude::*;

use super::opened;
use crate::checkpoint::tool::gimlet;
use crate::checkpoint::{everywhere, names, overwrite, scratch};
use crate::storage::faulty::{Bucket, Fault};

/// Writes a checkpoint and opens the result.
fn exported(from: &dyn Stored, to: &Path) -> Box<dyn Stored> {
    let step = from.step().unwrap();
    let written =
        open(&export_mesh_tensorflow(from, (to.clone(), step), MeshOptions::default()).unwrap())
            .unwrap();
    assert_eq!((written.format(), written.step().unwrap()), (Format::MeshTensorFlow, step));
    written.verify().unwrap();
    written
}

fn check_same(found: &dyn Stored, expected: &dyn Stored) {
    assert_eq!(found.shapes(), expected.shapes());
    for leaf in expected.leaves() {
        assert_eq!(
            found.read(leaf.name).unwrap(),
            expected.read(leaf.name).unwrap(),
            "{}",
            leaf.name
        );
    }
}

/// Saves arrays as a T5X checkpoint.
fn saved(model_dir: &Path, step: i32, arrays: &[(&str, Array)]) -> Box<dyn Stored> {
    let writer = Writer::create(model_dir, step as u64, None).unwrap();
    arrays.iter().for_each(|(name, array)| writer.array(name, array.view()).unwrap());
    writer.array("state/step", Array::scalar_i32(step).view()).unwrap();
    open(&writer.commit().unwrap()).unwrap()
}

fn zeros(shape: &[usize]) -> Array {
    Array::from_f32(shape, &vec![0.0; shape.iter().product()])
}

#[test]
fn parameters_slots_and_step_go_there_and_back() {
    everywhere(|dir| {
        let originals = ["mesh/model.ckpt-700", "mesh/own_bias.ckpt-8", "mesh/square.ckpt-2"];
        for (at, name) in originals.into_iter().enumerate() {
            let original = opened(name);
            let step = original.step().unwrap();
            let t5x =
                export_t5x(&*original, (dir.join("t5x"), step), &NativeOptions::default()).unwrap();
            let t5x = open(&t5x).unwrap();
            let mesh = exported(&*t5x, &dir.join(&format!("mesh_{at}")));
            check_same(&*mesh, &*t5x);
            let back =
                export_t5x(&*mesh, (dir.join("back"), step), &NativeOptions::default()).unwrap();
            check_same(&*open(&back).unwrap(), &*t5x);
        }
        assert_eq!(
            names(&dir.join("mesh_0")),
            ["checkpoint", "model.ckpt-700.data-00000-of-00001", "model.ckpt-700.index"]
        );
    });
}

#[test]
fn a_folder_names_its_newest_and_a_folder_stands_for_it() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    let embedding = ("target/token_embedder/embedding", zeros(&[6, 4]));
    for step in [2, 10] {
        saved(&from, step, std::slice::from_ref(&embedding));
    }
    let words = ["convert", from.as_str(), to.as_str(), "--to=mesh_tensorflow", "--dtype=bfloat16"];
    let (status, _, error) = gimlet(&dir, &words);
    assert_eq!(status, 0, "{error}");
    let expected = "model_checkpoint_path: \"model.ckpt-10\"\n\
        all_model_checkpoint_paths: \"model.ckpt-2\"\nall_model_checkpoint_paths: \"model.ckpt-10\"\n";
    let state = to.join("checkpoint");
    assert_eq!(state.read_to_string().unwrap(), expected);
    let newest = open(&to).unwrap();
    assert_eq!(newest.step().unwrap(), 10);
    assert_eq!(newest.read(embedding.0).unwrap(), embedding.1.cast(DType::Bf16));
    assert_eq!(
        list(&to, HUGGING_FACE).unwrap().iter().filter_map(|one| one.step).collect::<Vec<_>>(),
        [2, 10]
    );
    // Like the result of a conversion that was killed at its very end; and a damaged one.
    state.remove_file().unwrap();
    let index = to.join("model.ckpt-2.index");
    overwrite(&index, b"x");
    let (status, _, error) = gimlet(&dir, &words);
    assert!(status == 0 && error.contains("model.ckpt-10: left as it is"), "{error}");
    assert_eq!(state.read_to_string().unwrap(), expected);
    open(&bundle_prefix(&to, 2)).unwrap().verify().unwrap();
    let one = from.join("checkpoint_2");
    let check = |to: &str, expected: &str| {
        let words = ["convert", one.as_str(), to, "--to=mesh_tensorflow"];
        let (status, _, error) = gimlet(&dir, &words);
        assert!(status == 2 && error.contains(expected), "{error}");
    };
    check(bundle_prefix(&to, 2).as_str(), "model.ckpt-2.index` exists");
    check(dir.join("model.ckpt-3").as_str(), "expected a folder, or the name model.ckpt-2");
    check(dir.join("from/checkpoint_10").as_str(), "its file `checkpoint` is not TensorFlow's");
    assert_eq!(names(&dir), ["from", "to"]);
}

#[test]
fn a_state_that_is_not_adafactors_stays_behind_and_other_parameters_are_refused() {
    let (_dir, dir) = scratch();
    let embedding = ("target/token_embedder/embedding", zeros(&[6, 4]));
    let adam = ("state/param_states/0/mu/token_embedder/embedding", zeros(&[6, 4]));
    let from = saved(&dir.join("adam"), 3, &[embedding.clone(), adam]);
    let written = exported(&*from, &dir.join("out"));
    let found: Vec<String> = written.shapes().into_keys().collect();
    assert_eq!(found, ["state/step", embedding.0]);
    let check = |name: &str| {
        let array = (name, zeros(&[2, 2]));
        let from = saved(&dir.join("other"), 4, &[embedding.clone(), array]);
        let error = export_mesh_tensorflow(&*from, (dir.join("none"), 4), MeshOptions::default())
            .unwrap_err();
        assert!(matches!(error, CheckpointError::Export { .. }) && error.is_users(), "{error}");
        let name = name.strip_prefix("target/").unwrap();
        assert!(error.to_string().contains(name), "{error}");
        dir.join("other").remove_dir_all().unwrap();
    };
    check("target/encoder/adapter");
    // Read again, it would be the bias of the whole stack.
    check("target/encoder/layers_0/relpos_bias/rel_embedding");
    assert!(!dir.join("none").exists().unwrap());
}

#[test]
fn stacked_layers_are_written_apart() {
    let (_dir, dir) = scratch();
    let values: Vec<f32> = (0..48).map(|i| i as f32).collect();
    let from = saved(
        &dir,
        3,
        &[
            ("target/token_embedder/embedding", zeros(&[6, 4])),
            (
                "target/encoder/encoder/attention/query/kernel",
                Array::from_f32(&[4, 3, 2, 2], &values),
            ),
            ("state/param_states/encoder/encoder/attention/query/kernel/v_row", zeros(&[4, 3])),
        ],
    );
    let written = exported(&*from, &dir.join("out"));
    let layer = written.read("target/encoder/layers_1/attention/query/kernel").unwrap();
    let expected = [4, 5, 6, 7, 16, 17, 18, 19, 28, 29, 30, 31, 40, 41, 42, 43].map(|i| i as f32);
    assert_eq!(layer, Array::from_f32(&[4, 4], &expected));
    assert!(written.leaves().iter().all(|leaf| !leaf.name.starts_with("state/param_states")));
}

#[test]
fn any_changed_or_cut_file_is_noticed() {
    let (_dir, dir) = scratch();
    exported(&*opened("mesh/model.ckpt-700"), &dir);
    let prefix = bundle_prefix(&dir, 700);
    let is_damaged =
        || open(&prefix).and_then(|stored| stored.verify()).is_err_and(|e| e.is_damage());
    for end in ["index", "data-00000-of-00001"] {
        let file = Path::parse(&format!("{prefix}.{end}")).unwrap();
        let whole = file.read().unwrap();
        // The padding of the footer alone means nothing.
        let padding = if end == "index" { whole.len() - 48 + 8..whole.len() - 8 } else { 0..0 };
        for at in (0..whole.len()).step_by(37).filter(|at| !padding.contains(at)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            overwrite(&file, &bytes);
            assert!(is_damaged(), "{end}: byte {at}");
        }
        overwrite(&file, &whole[..whole.len() - 1]);
        assert!(is_damaged(), "{end} is cut");
        overwrite(&file, &whole);
    }
    assert!(!is_damaged());
}

#[test]
fn a_bucket_shows_a_bundle_when_it_is_whole() {
    let from = opened("mesh/own_bias.ckpt-8");
    let bucket = Bucket::new();
    let export =
        |to: &Path| export_mesh_tensorflow(&*from, (to.clone(), 8), MeshOptions::default());
    bucket.set(Fault::None);
    export(&bucket.path("measured")).unwrap();
    let count = bucket.count();
    let mut num_failed = 0;
    for number in 1..=count {
        let to = bucket.path(&format!("model_{number}"));
        bucket.set(Fault::From(number));
        let exported = export(&to);
        bucket.set(Fault::None);
        let index = to.join("model.ckpt-8.index");
        if exported.is_err() && !index.exists().unwrap() {
            num_failed += 1;
            export(&to).unwrap();
        }
        let found = open(&bundle_prefix(&to, 8)).unwrap();
        found.verify().unwrap();
        check_same(&*found, &*from);
    }
    assert!(num_failed > 2, "{num_failed} of {count} requests failed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_and_type_is_read_again(
        dtype in prop::sample::select(vec![DType::Bf16, DType::F16, DType::F32, DType::F64, DType::I32, DType::U64, DType::Bool]),
        shape in prop::collection::vec(0..6_usize, 0..4), num_layers in 1..4_usize, step in 0..9_i32,
    ) {
        let count = shape.iter().product::<usize>() * dtype.size();
        let data = (0..count).map(|i| if dtype == DType::Bool { i as u8 % 2 } else { i as u8 }).collect();
        let array = Array { dtype, shape, data };
        let of_layers: Vec<String> = (0..num_layers)
            .map(|layer| format!("target/decoder/layers_{layer}/mlp/wi_1/kernel"))
            .collect();
        let mut arrays = vec![("target/encoder/encoder_norm/scale", array.clone())];
        arrays.extend(of_layers.iter().map(|name| (&name[..], array.clone())));
        let (_dir, dir) = scratch();
        let from = saved(&dir, step, &arrays);
        check_same(&*exported(&*from, &dir.join("out")), &*from);
    }
}
