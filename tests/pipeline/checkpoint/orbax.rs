//! Checkpoints of Orbax and TensorStore (`orbax/fixtures.py`) are read under T5X's names.

use gimlet::checkpoint::{
    Array, DType, Format, NativeOptions, Writer, checkpoint_dir, export_t5x, latest, list_steps,
};
use gimlet::models::open;
use gimlet::storage::Path;

use super::{
    check_cyclic, copied, copy, copy_files, everywhere, files, fixture, newest_whole, overwrite,
    scratch,
};

const ARRAYS: [(&str, DType, &[usize]); 7] = [
    ("state/param_states/encoder/layers_0/key/kernel/m", DType::F32, &[1]),
    ("state/param_states/encoder/layers_0/key/kernel/v_col", DType::F32, &[6]),
    ("state/param_states/encoder/layers_0/key/kernel/v_row", DType::F32, &[4]),
    ("state/param_states/encoder/norm/scale/v", DType::F32, &[6]),
    ("state/step", DType::I32, &[]),
    ("target/encoder/layers_0/key/kernel", DType::F32, &[6, 4]),
    ("target/encoder/norm/scale", DType::Bf16, &[6]),
];

fn check_tree(path: &Path) {
    let stored = open(path).unwrap();
    stored.verify().unwrap();
    assert_eq!((stored.format(), stored.step().unwrap()), (Format::Orbax, 3), "{path}");
    let leaves = stored.leaves();
    let found: Vec<_> = leaves
        .iter()
        .filter(|leaf| !leaf.name.ends_with("/inline"))
        .map(|leaf| (leaf.name, leaf.dtype, leaf.shape))
        .collect();
    assert_eq!(found, ARRAYS, "{path}");
    for leaf in leaves.iter().filter(|leaf| leaf.name != "state/step") {
        check_cyclic(leaf.name, &stored.read(leaf.name).unwrap());
    }
}

#[test]
fn what_orbax_wrote_is_not_replaced() {
    everywhere(|model_dir| {
        let from = fixture("orbax/ocdbt/checkpoint_3");
        let to = checkpoint_dir(model_dir, 3);
        copy_files(&from, &to);
        let before = to.sizes().unwrap();
        let save = || Writer::create(model_dir, 3, None)?.commit();
        save().unwrap();
        check_tree(&to);
        // Gimlet does not remove a damaged one either.
        overwrite(&to.join("state/manifest.ocdbt"), b"x");
        assert!(save().unwrap_err().is_damage());
        assert_eq!(to.sizes().unwrap().len(), before.len());
    });
}

#[test]
fn a_default_item_without_metadata_around_it_is_recognized() {
    let (_dir, dir) = scratch();
    let checkpoint = dir.join("checkpoint_3");
    copy_files(&fixture("orbax/managed/checkpoint_3/state"), &checkpoint.join("default"));
    check_tree(&checkpoint);
    assert_eq!(list_steps(&dir).unwrap(), [3]);
}

#[test]
fn the_tree_file_of_orbax_stands_for_its_folder() {
    let stored = open(&fixture("orbax/aggregated/checkpoint_3/state/checkpoint")).unwrap();
    assert_eq!((stored.format(), stored.step().unwrap()), (Format::Orbax, 3));
}

#[test]
fn every_way_in_which_orbax_writes_is_read() {
    for name in ["ocdbt", "files", "zarr3", "managed", "aggregated"] {
        check_tree(&fixture("orbax").join(name).join("checkpoint_3"));
        check_tree(&fixture("orbax").join(name).join("checkpoint_3/state"));
    }
    let oldest = open(&fixture("orbax/aggregated/checkpoint_3")).unwrap();
    let inline = "state/param_states/encoder/norm/scale/inline";
    check_cyclic(inline, &oldest.read(inline).unwrap());
    assert_eq!(oldest.read_part(inline, std::slice::from_ref(&(1..3))).unwrap().shape, [2]);
}

#[test]
fn an_item_of_any_name_is_found_and_of_several_one_must_be_named() {
    let (_dir, dir) = copied(&fixture("orbax/managed/checkpoint_3"));
    dir.join("state").rename(&dir.join("model")).unwrap();
    check_tree(&dir);
    dir.join("other").create_dir_all().unwrap();
    overwrite(&dir.join("other/_METADATA"), b"{}");
    let error = open(&dir).unwrap_err();
    assert!(error.is_users() && error.to_string().contains("it holds `model`, `other`; name one"));
    check_tree(&dir.join("model"));
}

#[test]
fn databases_that_nobody_merged_are_read() {
    let (_dir, dir) = copied(&fixture("orbax/ocdbt/checkpoint_3"));
    dir.join("state/manifest.ocdbt").remove_file().unwrap();
    check_tree(&dir);
}

#[test]
fn its_folders_of_checkpoints_are_those_of_a_run() {
    let model_dir = fixture("orbax/managed");
    assert_eq!(list_steps(&model_dir).unwrap(), [3, 5]);
    assert_eq!(latest(&model_dir).unwrap(), Some(checkpoint_dir(&model_dir, 5)));
    let (newest, skipped) = newest_whole(&model_dir).unwrap();
    assert!(skipped.is_empty());
    assert_eq!(newest.unwrap().path(), &checkpoint_dir(&model_dir, 5));
}

#[test]
fn written_as_t5x_does_it_is_the_same() {
    let original = open(&fixture("orbax/ocdbt/checkpoint_3")).unwrap();
    let (_dir, model_dir) = scratch();
    let written = copy(original.as_ref(), &model_dir, None);
    assert_eq!(written.shapes(), original.shapes());
    for (name, _, _) in ARRAYS {
        assert_eq!(written.read(name).unwrap(), original.read(name).unwrap(), "{name}");
    }
}

#[test]
fn every_codec_of_zarr_3_is_read_whole_and_in_parts() {
    let stored = open(&fixture("orbax/codecs/checkpoint_5")).unwrap();
    stored.verify().unwrap();
    assert_eq!((stored.leaves().len(), stored.step().unwrap()), (11, 5));
    for leaf in stored.leaves() {
        let array = stored.read(leaf.name).unwrap();
        match leaf.name {
            "target/half" => check_half(&array),
            name => check_cyclic(name, &array),
        }
        let part: Vec<_> = leaf.shape.iter().map(|&size| size / 3..size - size / 4).collect();
        assert_eq!(stored.read_part(leaf.name, &part).unwrap(), array.part(&part), "{}", leaf.name);
    }
}

/// Two rows were written; the other chunks are missing, in the shard and with their shard.
fn check_half(array: &Array) {
    let (written, missing) = (array.part(&[0..2, 0..6]), array.part(&[2..8, 0..6]));
    check_cyclic("target/half", &written);
    assert_eq!(missing, Array::from_f32(&[6, 6], &[7.5; 36]));
}

#[test]
fn deep_trees_and_numbered_manifests_are_read() {
    for (name, count) in [("deep", 40), ("numbered", 3)] {
        let stored = open(&fixture("orbax").join(name).join("checkpoint_5")).unwrap();
        assert_eq!(stored.leaves().len(), count, "{name}");
        for number in 0..count {
            let leaf = format!("target/layers_{number}/kernel");
            let array = stored.read(&leaf).unwrap();
            assert_eq!(array.shape, [number, 3]);
            check_cyclic(&leaf, &array);
        }
    }
}

#[test]
fn the_state_of_a_plain_flax_program_has_names_of_t5x() {
    let (_dir, dir) = copied(&fixture("orbax/files/checkpoint_3/state"));
    let metadata = dir.join("_METADATA");
    let text = metadata.read_to_string().unwrap();
    let text = text.replace("\"key\": \"target\"", "\"key\": \"params\"");
    overwrite(&metadata, text.as_bytes());
    for folder in ["encoder.layers_0.key.kernel", "encoder.norm.scale"] {
        let from = dir.join(&format!("target.{folder}"));
        from.rename(&dir.join(&format!("params.{folder}"))).unwrap();
    }
    let stored = open(&dir).unwrap();
    check_cyclic("scale", &stored.read("target/encoder/norm/scale").unwrap());
}

#[test]
fn a_step_without_a_number_is_that_of_the_name() {
    let (_dir, dir) = copied(&fixture("orbax/files/checkpoint_3"));
    let file = dir.join("state/_METADATA");
    let mut tree: serde_json::Value = serde_json::from_slice(&file.read().unwrap()).unwrap();
    let step = &mut tree["tree_metadata"]["('state', 'step')"]["value_metadata"];
    *step = serde_json::json!({"value_type": "None", "skip_deserialize": true});
    overwrite(&file, tree.to_string().as_bytes());
    assert_eq!(open(&dir).unwrap().step().unwrap(), 3);
    let (_to, to) = scratch();
    let options = NativeOptions::default();
    let written = open(&export_t5x(&*open(&dir).unwrap(), (to, 3), &options).unwrap()).unwrap();
    assert_eq!(written.read("state/step").unwrap().to_int(), Some(3));
}

#[test]
fn two_leaves_of_one_name_are_refused() {
    let (_dir, dir) = copied(&fixture("orbax/files/checkpoint_3"));
    let file = dir.join("state/_METADATA");
    let text = file.read_to_string().unwrap();
    let twin = text.replace(
        "{\"key\": \"encoder\", \"key_type\": 2}, {\"key\": \"norm\", \"key_type\": 2}",
        "{\"key\": \"encoder/layers_0\", \"key_type\": 2}, {\"key\": \"key\", \"key_type\": 2}",
    );
    let twin = twin
        .replace("{\"key\": \"scale\", \"key_type\": 2}", "{\"key\": \"kernel\", \"key_type\": 2}");
    assert_ne!(text, twin);
    overwrite(&file, twin.as_bytes());
    let error = open(&dir).unwrap_err().to_string();
    assert!(error.contains("two leaves `target/encoder/layers_0/key/kernel`"), "{error}");
}

#[test]
fn what_is_missing_or_cut_is_noticed_and_named() {
    for name in ["ocdbt", "zarr3", "files"] {
        let (_dir, dir) = copied(&fixture("orbax").join(name).join("checkpoint_3"));
        let read_all = || open(&dir)?.verify();
        read_all().unwrap();
        for file in files(&dir) {
            let ignored = ["_sharding", "_CHECKPOINT_METADATA", "_strings.json", "process_0"];
            // After a merge, the trees of single processes are not read, but their values are.
            let is_merged = file.as_str().contains("ocdbt.process_0/manifest");
            if ignored.contains(&file.file_name()) || is_merged {
                continue;
            }
            let bytes = file.read().unwrap();
            let check = |what: &str| match read_all() {
                Ok(()) => false,
                Err(error) => {
                    let is_named = error.to_string().contains(dir.as_str());
                    assert!(is_named && (error.is_damage() || error.is_users()), "{what} {error}");
                    true
                }
            };
            let mut noticed = Vec::new();
            for damage in [&bytes[..bytes.len() - 1], &bytes[..bytes.len() / 2], b""] {
                overwrite(&file, damage);
                noticed.push(check("cut"));
            }
            file.remove_file().unwrap();
            let is_missed = check("missing");
            // Without the merged tree, those of single processes are read.
            assert!(is_missed || is_data(&file) || file.file_name() == "manifest.ocdbt", "{file}");
            overwrite(&file, &bytes);
            let is_used = !is_data(&file) || noticed.contains(&true);
            assert!(noticed == [true; 3] || !is_used, "{file}: {noticed:?}");
        }
    }
}

/// Whether the file is a data file, which may contain unreferenced bytes.
fn is_data(file: &Path) -> bool {
    file.as_str().contains("/d/")
}
