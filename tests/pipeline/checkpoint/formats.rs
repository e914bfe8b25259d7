//! Files of T5X's libraries are read, and written again in the same way.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path as StdPath, PathBuf};

use gimlet::checkpoint::{Array, Compression, DType, Writer};
use gimlet::models::open;
use gimlet::storage::Path;

use super::{check_cyclic, copy, copy_files, fixture, number, scratch};
use crate::storage::faulty::Bucket;

/// Element i is i / 2; see `fixtures.py`.
fn check_values(name: &str, array: &Array) {
    let count = array.data.len() / array.dtype.size();
    let found: Vec<f64> =
        array.data.chunks(array.dtype.size()).map(|e| number(array.dtype, e)).collect();
    let expected = (0..count).map(|i| match array.dtype {
        DType::Bool => (i % 2) as f64,
        dtype if dtype.is_float() => i as f64 / 2.0,
        _ => (i / 2) as f64,
    });
    assert_eq!(found, expected.collect::<Vec<_>>(), "{name}");
}

#[test]
fn what_t5x_wrote_is_read() {
    let reader = open(&fixture("t5x/checkpoint_3")).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.step().unwrap(), 3);
    assert_eq!(reader.leaves().len(), 11);
    for leaf in reader.leaves().iter().filter(|leaf| leaf.shape != [1] && leaf.name != "state/step")
    {
        let array = reader.read(leaf.name).unwrap();
        assert_eq!((array.dtype, &array.shape[..]), (leaf.dtype, leaf.shape));
        check_values(leaf.name, &array);
    }
}

#[test]
fn every_chunking_compressor_type_and_spec_is_read() {
    let reader = open(&fixture("foreign/checkpoint_4/checkpoint")).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.step().unwrap(), 4);
    let types: BTreeMap<_, _> =
        reader.leaves().iter().map(|leaf| (leaf.name, leaf.dtype)).collect();
    assert_eq!(types["target/bfloat16"], DType::Bf16);
    assert_eq!(types["target/raw"], DType::I64);
    assert!(!types.contains_key("state/1"));
    for leaf in reader.leaves().iter().filter(|leaf| leaf.name != "state/step") {
        let array = reader.read(leaf.name).unwrap();
        match leaf.name {
            "target/filled" => assert_eq!(array, Array::from_f32(&[5, 7], &[2.5; 35])),
            name => check_values(name, &array),
        }
    }
}

#[test]
fn every_compressor_order_and_type_is_read_whole_and_in_parts() {
    let reader = open(&fixture("packed/checkpoint_5")).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.leaves().len(), 26);
    for leaf in reader.leaves().iter().filter(|leaf| leaf.name != "state/step") {
        let array = reader.read(leaf.name).unwrap();
        check_cyclic(leaf.name, &array);
        let part: Vec<_> = leaf.shape.iter().map(|&size| size / 3..size - size / 4).collect();
        assert_eq!(reader.read_part(leaf.name, &part).unwrap(), array.part(&part), "{}", leaf.name);
    }
}

#[test]
fn every_compression_is_read_again() {
    let original = open(&fixture("t5x/checkpoint_3")).unwrap();
    for compression in [Compression::None, Compression::Gzip(6), Compression::Zstd(1)] {
        let (_dir, model_dir) = scratch();
        let writer = Writer::create(&model_dir, 3, None).unwrap().with_compression(compression);
        for leaf in original.leaves() {
            writer.array(leaf.name, original.read(leaf.name).unwrap().view()).unwrap();
        }
        let written = open(&writer.commit().unwrap()).unwrap();
        for leaf in original.leaves() {
            assert_eq!(written.read(leaf.name).unwrap(), original.read(leaf.name).unwrap());
        }
    }
}

#[test]
fn every_format_is_read_from_a_bucket_as_from_disk() {
    let bucket = Bucket::new();
    let check = |name: &str, within: &str| {
        let (from, to) = (fixture(name), bucket.path(name));
        copy_files(&from, &to);
        let (disk, remote) = (open(&from.join(within)).unwrap(), open(&to.join(within)).unwrap());
        assert_eq!(remote.format(), disk.format(), "{name}");
        assert_eq!(remote.step().unwrap(), disk.step().unwrap(), "{name}");
        remote.verify().unwrap();
        assert_eq!(remote.shapes(), disk.shapes(), "{name}");
        for leaf in disk.leaves() {
            let expected = disk.read(leaf.name).unwrap();
            assert_eq!(remote.read(leaf.name).unwrap(), expected, "{name}: {}", leaf.name);
            let part: Vec<_> = leaf.shape.iter().map(|&size| size / 3..size - size / 4).collect();
            let part_of = remote.read_part(leaf.name, &part).unwrap();
            assert_eq!(part_of, expected.part(&part), "{name}: {}", leaf.name);
        }
    };
    check("t5x/checkpoint_3", "");
    for orbax in ["ocdbt", "files", "zarr3", "managed", "aggregated"] {
        check(&format!("orbax/{orbax}/checkpoint_3"), "");
    }
    check("orbax/codecs/checkpoint_5", "");
    check("other/hugging_face/mt5", "");
    check("other/hugging_face/umt5", "");
    check("other/torch", "zip.pth");
    check("other/mesh", "model.ckpt-700");
}

#[test]
fn written_again_everything_is_byte_for_byte_that_of_t5x() {
    let original = fixture("t5x/checkpoint_3");
    let (_dir, model_dir) = scratch();
    let written = copy(open(&original).unwrap().as_ref(), &model_dir, None);
    let ours = decompressed(written.path());
    for (name, bytes) in decompressed(&original) {
        assert_eq!(ours[&name], bytes, "{}", name.display());
    }
    let added: Vec<_> = ours.keys().filter(|name| !name.starts_with("gimlet")).collect();
    assert_eq!(added.len(), decompressed(&original).len());
}

/// Returns every file by its relative name, with chunks before compression, since gzip streams of
/// one text may differ.
fn decompressed(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &StdPath, dir: &StdPath, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            if bytes.starts_with(&[0x1f, 0x8b]) {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
                bytes = plain;
            }
            files.insert(path.strip_prefix(root).unwrap().to_path_buf(), bytes);
        }
    }
    let root = dir.local().unwrap();
    let mut files = BTreeMap::new();
    walk(&root, &root, &mut files);
    files
}

#[test]
fn the_save_dtype_concerns_parameters_alone() {
    let original = open(&fixture("t5x/checkpoint_3")).unwrap();
    let (_dir, model_dir) = scratch();
    let written = copy(original.as_ref(), &model_dir, Some(DType::Bf16));
    for (leaf, saved) in original.leaves().iter().zip(written.leaves()) {
        let expected = original.read(leaf.name).unwrap();
        let expected = match leaf.name.starts_with("target/") {
            true => expected.cast(DType::Bf16),
            false => expected,
        };
        assert_eq!(saved.dtype, expected.dtype, "{}", leaf.name);
        assert_eq!(written.read(leaf.name).unwrap(), expected, "{}", leaf.name);
    }
}

#[test]
fn other_formats_are_named() {
    let (_dir, dir) = scratch();
    let check = |name: &str, file: &str, bytes: &[u8], expected: &str| {
        let path = dir.join(name);
        path.create_dir_all().unwrap();
        path.join(file).write_atomic(bytes).unwrap();
        let message = open(&path).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains(path.as_str()), "{message}");
    };
    check("orbax", "_METADATA", b"{}", "`_METADATA` is not Orbax's metadata");
    check("other", "readme", b"", "it has no file `checkpoint`");
    check("runs/checkpoint_7", "checkpoint", b"\x80", "expected `optimizer` or `target`");
    let message = open(&dir.join("runs")).unwrap_err().to_string();
    assert!(message.contains("name one, such as") && message.contains("checkpoint_7"), "{message}");
    dir.join("notes.txt").write_atomic(b"my notes").unwrap();
    let error = open(&dir.join("notes.txt")).unwrap_err();
    let message = error.to_string();
    assert!(error.is_users() && !error.is_damage(), "{message}");
    assert!(message.contains("/notes.txt` is not a checkpoint: it is a file of another"));
    assert!(message.contains("expected a folder `DIR/checkpoint_N`"), "{message}");
    let message = open(&dir.join("none")).unwrap_err().to_string();
    assert!(message.contains("/none`: not found"), "{message}");
}
