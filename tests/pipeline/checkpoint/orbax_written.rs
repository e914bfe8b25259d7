//! Checkpoints written for Orbax contain the same as the original, and look like Orbax's own.

use std::collections::BTreeMap;

use gimlet::checkpoint::{
    Array, Compression, DType, NativeOptions, RUN_FILE, Stored, Writer, checkpoint_dir,
    export_orbax, export_t5x, is_unfinished, latest, list_steps, remove_stale,
};
use gimlet::models::open;
use gimlet::storage::Path;
use serde_json::Value;

use super::stores::orphan;
use super::{everywhere, files, fixture, newest_whole, overwrite, save, scratch};
use crate::storage::buckets::{google_account, google_server};
use crate::storage::environment;
use crate::storage::faulty::{Bucket, Fault};

/// Returns every array, and the other contents of a T5X checkpoint.
fn contents(stored: &dyn Stored) -> (BTreeMap<String, Array>, Vec<String>, Vec<String>) {
    let read = |name: &str| (name.to_string(), stored.read(name).unwrap());
    let arrays = stored.leaves().iter().map(|leaf| read(leaf.name)).collect();
    let empty = stored.empty_nodes().into_iter().map(str::to_string).collect();
    let others = stored.others().into_iter().map(|(name, value)| format!("{name}: {value}"));
    (arrays, empty, others.collect())
}

#[test]
fn what_is_written_for_orbax_is_what_was_there_and_comes_back_equal() {
    everywhere(|dir| {
        let writer = Writer::create(&dir.join("from"), 4, None).unwrap();
        let writer = writer.with_compression(Compression::None);
        let original = open(&fixture("foreign/checkpoint_4")).unwrap();
        for leaf in original.leaves() {
            writer.array(leaf.name, original.read(leaf.name).unwrap().view()).unwrap();
        }
        writer.empty("flax_mutables");
        writer.other("state/None", &rmpv::Value::Nil);
        writer.other("state/a_text", &"it's \"a\" text".into());
        writer.extra(RUN_FILE, b"{\"seed\": 3}").unwrap();
        writer.extra("gimlet/train_ds-000-of-001.json", b"{}").unwrap();
        let from = open(&writer.commit().unwrap()).unwrap();

        let to = export_orbax(&*from, (dir.join("to"), 4), &NativeOptions::default()).unwrap();
        let there = open(&to).unwrap();
        assert_eq!(there.format(), gimlet::checkpoint::Format::Orbax);
        assert!(contents(&*there) == contents(&*from));
        assert_eq!(there.extra(RUN_FILE).unwrap().unwrap(), b"{\"seed\": 3}");
        assert_eq!(there.extras().unwrap(), from.extras().unwrap());
        assert_eq!(latest(&dir.join("to")).unwrap(), Some(to));
        assert!(files(&dir.join("to")).iter().all(|file| !file.as_str().contains("unfinished")));

        let back =
            open(&export_t5x(&*there, (dir.join("back"), 4), &NativeOptions::default()).unwrap())
                .unwrap();
        assert!(contents(&*back) == contents(&*from));
        assert_eq!(back.path().sizes().unwrap(), from.path().sizes().unwrap());
    });
}

#[test]
fn a_number_is_an_array_and_what_has_no_place_is_refused() {
    let (_dir, dir) = scratch();
    let from = |name: &str, value: rmpv::Value| {
        let writer = Writer::create(&dir.join(name), 4, None).unwrap();
        writer.array("state/step", Array::scalar_i32(4).view()).unwrap();
        writer.other("state/other", &value);
        open(&writer.commit().unwrap()).unwrap()
    };
    let exported = |name: &str, value: rmpv::Value| {
        let to = (dir.join(name).join("to"), 4);
        open(&export_orbax(&*from(name, value), to, &NativeOptions::default()).unwrap()).unwrap()
    };
    assert_eq!(exported("number", 5.into()).read("state/other").unwrap().to_int(), Some(5));
    let is = exported("bool", true.into()).read("state/other").unwrap();
    assert_eq!((is.dtype, &is.data[..]), (DType::Bool, &[1][..]));
    let complex = from("complex", rmpv::Value::Ext(2, vec![0x92, 1, 2]));
    let error = export_orbax(&*complex, (dir.join("no"), 4), &NativeOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("`state/other`") && error.contains("expected an array"), "{error}");
    assert!(list_steps(&dir.join("no")).unwrap().is_empty());
}

/// The kinds of arrays that are written can be restored without devices; everything else is Orbax's
/// own.
#[test]
fn its_tree_is_the_one_that_orbax_writes() {
    let own = fixture("orbax/files/checkpoint_3");
    let (_dir, dir) = scratch();
    let to = export_orbax(&*open(&own).unwrap(), (dir, 3), &NativeOptions::default()).unwrap();
    let tree = |checkpoint: &Path, file: &str| -> Value {
        serde_json::from_slice(&checkpoint.join("state").join(file).read().unwrap()).unwrap()
    };
    let mut expected = tree(&own, "_METADATA");
    for leaf in expected["tree_metadata"].as_object_mut().unwrap().values_mut() {
        let value = leaf["value_metadata"].as_object_mut().unwrap();
        value.remove("write_shape");
        if value["value_type"] == "jax.Array" {
            value["value_type"] = "np.ndarray".into();
        }
    }
    assert_eq!(tree(&to, "_METADATA"), expected);
    assert_eq!(tree(&to, "_strings.json"), tree(&own, "_strings.json"));
    for array in own.join("state").list().unwrap() {
        if array.is_dir().unwrap() && array.file_name() != "array_metadatas" {
            let ours = tree(&to, &format!("{}/.zarray", array.file_name()));
            let theirs = tree(&own, &format!("{}/.zarray", array.file_name()));
            for key in ["zarr_format", "dtype", "shape", "order", "dimension_separator"] {
                assert_eq!(ours.get(key), theirs.get(key), "{array} {key}");
            }
        }
    }
}

#[test]
fn any_changed_cut_or_missing_file_of_it_is_noticed_and_named() {
    everywhere(|dir| {
        let from = open(&save(&dir.join("from"), 2)).unwrap();
        let model_dir = dir.join("to");
        let to = export_orbax(&*from, (model_dir.clone(), 2), &NativeOptions::default()).unwrap();
        let check = |damage: &str, file: &Path| {
            let found = newest_whole(&model_dir);
            let told = match &found {
                Ok((None, skipped)) => skipped[0].to_string(),
                Err(error) => error.to_string(),
                Ok(_) => panic!("{file} {damage} is not noticed"),
            };
            let name = file.relative_to(&to);
            let name = name.strip_prefix("state/").unwrap_or(name);
            // The error for a damaged list may name the files in it.
            let is_named = told.contains(name) || name.ends_with("checksums.json");
            assert!(is_named && told.contains(to.as_str()), "{damage}: `{told}` for {name}");
        };
        for file in files(&to) {
            let bytes = file.read().unwrap();
            let mut changed = bytes.clone();
            changed[bytes.len() / 2] ^= 1;
            overwrite(&file, &changed);
            check("changed", &file);
            overwrite(&file, &bytes[..bytes.len() - 1]);
            check("cut", &file);
            file.remove_file().unwrap();
            match file.file_name() {
                "checksums.json" => {}                     // As Orbax leaves it.
                name if name.starts_with("train_ds") => {} // Pruned.
                "_METADATA" => assert!(list_steps(&model_dir).unwrap().is_empty()),
                _ => check("missing", &file),
            }
            overwrite(&file, &bytes);
            assert_eq!(newest_whole(&model_dir).unwrap().0.unwrap().step().unwrap(), 2);
        }
    });
}

#[test]
fn on_googles_store_its_last_file_says_that_it_is_whole() {
    let server = google_server("written");
    let _held = environment(&[("GOOGLE_SERVICE_ACCOUNT_KEY", &google_account(&server))]);
    let (_dir, dir) = scratch();
    let from = open(&save(&dir, 2)).unwrap();
    let model_dir = Path::parse("gs://written/run").unwrap();
    let to = export_orbax(&*from, (model_dir.clone(), 2), &NativeOptions::default()).unwrap();
    assert_eq!(list_steps(&model_dir).unwrap(), [2]);
    assert!(!is_unfinished(&to).unwrap());
    let end = to.join("commit_success.txt");
    assert!(end.read_to_string().unwrap().contains(to.as_str()));
    // Like the result of a conversion that was killed before it.
    end.remove_file().unwrap();
    to.join("gimlet/unfinished.json").write_atomic(b"{}").unwrap();
    assert!(is_unfinished(&to).unwrap() && list_steps(&model_dir).unwrap().is_empty());
    export_orbax(&*from, (model_dir.clone(), 2), &NativeOptions::default()).unwrap();
    assert!(end.exists().unwrap() && !is_unfinished(&to).unwrap());
    end.remove_file().unwrap();
    to.join("gimlet/unfinished.json").write_atomic(b"{}").unwrap();
    assert_eq!(remove_stale(&model_dir).unwrap(), [checkpoint_dir(&model_dir, 2)]);
}

#[test]
fn whichever_of_the_last_requests_fails_the_next_conversion_ends_it() {
    let (_dir, dir) = scratch();
    let from = open(&save(&dir, 2)).unwrap();
    let bucket = Bucket::new();
    type Export = fn(
        &dyn Stored,
        (Path, u64),
        &NativeOptions,
    ) -> Result<Path, gimlet::checkpoint::CheckpointError>;
    for (name, export) in [("t5x", export_t5x as Export), ("orbax", export_orbax)] {
        let export = |to: &Path| export(&*from, (to.clone(), 2), &NativeOptions::default());
        bucket.set(Fault::None);
        let whole = export(&bucket.path(&format!("{name}_whole"))).unwrap();
        let expected = whole.sizes().unwrap();
        let count = bucket.count();
        let mut num_failed = 0;
        for number in count - 12..=count {
            let run = bucket.path(&format!("{name}_{number}"));
            bucket.set(Fault::From(number));
            let failed = export(&run).is_err();
            bucket.set(Fault::None);
            num_failed += usize::from(failed);
            orphan(&run);
            // If only the lease cannot be checked any more, the checkpoint exists.
            if failed && list_steps(&run).unwrap().is_empty() {
                export(&run).unwrap();
            }
            remove_stale(&run).unwrap();
            let there = checkpoint_dir(&run, 2);
            assert_eq!(there.sizes().unwrap(), expected, "{name} {number}");
            open(&there).unwrap().verify().unwrap();
        }
        assert!((4..13).contains(&num_failed), "{name}: {num_failed}");
    }
}

#[test]
fn a_damaged_one_is_written_anew() {
    everywhere(|dir| {
        let from = open(&save(&dir.join("from"), 2)).unwrap();
        let export = || export_orbax(&*from, (dir.join("to"), 2), &NativeOptions::default());
        let to = export().unwrap();
        for file in ["state/state.step/0", "state/_METADATA"] {
            overwrite(&to.join(file), b"{");
            open(&export().unwrap()).unwrap().verify().unwrap();
        }
    });
}

#[test]
fn checksums_lead_to_no_file_outside_and_to_no_end() {
    let (_dir, dir) = scratch();
    let from = open(&save(&dir.join("from"), 2)).unwrap();
    let to = export_orbax(&*from, (dir.join("to"), 2), &NativeOptions::default()).unwrap();
    let forged = |name: &str, bytes: u64| {
        let sums = serde_json::json!({"files": {
            name: {"bytes": bytes, "crc32c": "00000000"},
            "target.a/0": {"bytes": bytes, "crc32c": "00000000"},
        }});
        overwrite(&to.join("state/gimlet/checksums.json"), sums.to_string().as_bytes());
        open(&to).and_then(|stored| stored.verify()).unwrap_err().to_string()
    };
    for name in ["../../../from/checkpoint_2/checkpoint", "/dev/zero"] {
        let error = forged(name, 3);
        assert!(error.contains("lies outside of the checkpoint"), "{error}");
    }
    assert!(forged("_METADATA", 3).contains("has more than the expected 3 bytes"));
    assert!(forged("_METADATA", u64::MAX).contains("`_METADATA` has "));
}
