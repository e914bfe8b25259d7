//! `gimlet checkpoint convert`, as a user calls it.

use gimlet::checkpoint::{
    Array, Condition, HuggingFaceOptions, NativeOptions, Writer, checkpoint_dir,
    export_hugging_face, export_t5x, list,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use serde_json::Value;

use super::tool::{damage, gimlet};
use super::{copied, fixture, names, overwrite, save, scratch};
use crate::storage::faulty::{Bucket, Fault};

#[test]
fn a_folder_is_converted_and_what_is_there_is_left() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    for step in [1, 2] {
        save(&from, step);
    }
    let words = ["convert", from.as_str(), to.as_str(), "--dtype=bfloat16"];
    let (status, out, error) = gimlet(&dir, &words);
    assert_eq!((status, &out[..]), (0, ""), "{error}");
    assert_eq!(names(&to), ["checkpoint_1", "checkpoint_2"]);
    for step in [1, 2] {
        let stored = open(&checkpoint_dir(&to, step)).unwrap();
        stored.verify().unwrap();
        assert_eq!(stored.read("target/a").unwrap().dtype.name(), "bfloat16");
        assert_eq!(stored.read("state/param_states/a/v").unwrap().dtype.name(), "float32");
        // The place in the data is converted too.
        let data = stored.extra("gimlet/train_ds-000-of-001.json").unwrap();
        assert_eq!(data.as_deref(), Some(&b"{}"[..]));
    }
    // A third checkpoint, and a damaged second: the whole one stays, the others are written.
    save(&from, 3);
    damage(&checkpoint_dir(&to, 1).join("gimlet/checksums.json"));
    checkpoint_dir(&to, 2).join("mark").write_atomic(b"").unwrap();
    let (status, _, error) = gimlet(&dir, &words);
    assert_eq!(status, 0, "{error}");
    assert!(error.contains("to/checkpoint_2: left as it is, it is there already"), "{error}");
    assert!(checkpoint_dir(&to, 2).join("mark").exists().unwrap());
    for step in [1, 3] {
        open(&checkpoint_dir(&to, step)).unwrap().verify().unwrap();
    }
}

#[test]
fn damaged_checkpoints_are_not_converted() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    save(&from, 1);
    let damaged = save(&from, 2);
    damage(&damaged.join("target.a/0.0"));
    let (status, _, error) = gimlet(&dir, &["convert", damaged.as_str(), to.as_str()]);
    assert_eq!(status, 1);
    assert!(error.contains("`target.a/0.0` has changed"), "{error}");
    std::fs::write(damaged.join("target.b/0.0").local().unwrap(), b"").unwrap();
    let (status, _, error) = gimlet(&dir, &["convert", from.as_str(), to.as_str()]);
    assert_eq!(status, 1);
    assert!(error.contains("from/checkpoint_2: left out, it is damaged"), "{error}");
    assert_eq!(names(&to), ["checkpoint_1"]);
}

#[test]
fn damage_of_one_does_not_keep_the_others_from_being_converted() {
    let (_dir, dir) = scratch();
    let from = dir.join("from");
    for step in 1..4 {
        save_t5(&from, step);
    }
    // A changed bit that names and sizes do not show.
    let damaged = checkpoint_dir(&from, 2);
    damage(&damaged.join("target.decoder.logits_dense.kernel/0.0"));
    for format in ["t5x", "hugging_face"] {
        let to = dir.join(format);
        let words = ["convert", from.as_str(), to.as_str(), "--to", format];
        let (status, _, error) = gimlet(&dir, &words);
        let left_out = "from/checkpoint_2: left out, it is damaged: `target.decoder.logits_dense";
        assert!(status == 1 && error.contains(left_out), "{format}: {error}");
        assert!(error.contains("1 of 3 checkpoints were left out"), "{format}: {error}");
        assert_eq!(names(&to), ["checkpoint_1", "checkpoint_3"], "{format}");
    }
}

#[test]
fn everything_that_a_t5x_checkpoint_holds_is_kept() {
    let (_dir, original) = copied(&fixture("foreign/checkpoint_4"));
    let others = [
        ("None", rmpv::Value::Nil),
        ("text", "a text".into()),
        ("complex", rmpv::Value::Ext(2, vec![0x92, 1, 2])),
    ];
    add_to_state(&original.join("checkpoint"), &others);
    let dir = original.parent().unwrap().join("converted");
    let to = checkpoint_dir(&dir, 4);
    let (status, _, error) = gimlet(&dir, &["convert", original.as_str(), to.as_str()]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(gimlet(&dir, &["diff", original.as_str(), to.as_str()]).0, 0);
    // A subtree without arrays, which reading arrays would not show.
    let [before, after] = [&original, &to].map(|path| {
        let stored = open(path).unwrap();
        stored.empty_nodes().into_iter().map(str::to_string).collect::<Vec<_>>()
    });
    assert_eq!((before.len(), &before), (1, &after));
    let stored = open(&to).unwrap();
    let mut found = stored.others();
    found.sort_by_key(|(name, _)| others.iter().position(|(other, _)| name.ends_with(other)));
    let expected = others.each_ref().map(|(name, value)| (format!("state/{name}"), value));
    assert!(found.into_iter().eq(expected.iter().map(|(name, value)| (&name[..], *value))));
}

/// Adds values other than arrays to the state in a file of T5X's.
fn add_to_state(file: &Path, others: &[(&str, rmpv::Value)]) {
    let mut root = rmpv::decode::read_value(&mut &file.read().unwrap()[..]).unwrap();
    let mut node = &mut root;
    for key in ["optimizer", "state"] {
        let rmpv::Value::Map(entries) = node else { panic!("{key}") };
        node = &mut entries.iter_mut().find(|(name, _)| name.as_str() == Some(key)).unwrap().1;
    }
    let rmpv::Value::Map(entries) = node else { panic!("the state is a map") };
    entries.extend(others.iter().map(|(name, value)| ((*name).into(), value.clone())));
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &root).unwrap();
    overwrite(file, &bytes);
}

/// Parameters of a T5 of one layer, sorted by name as `flax_model.py` numbers them.
pub(super) const PARAMETERS: [(&str, &[usize]); 28] = [
    ("decoder/decoder_norm/scale", &[4]),
    ("decoder/layers_0/encoder_decoder_attention/key/kernel", &[4, 4]),
    ("decoder/layers_0/encoder_decoder_attention/out/kernel", &[4, 4]),
    ("decoder/layers_0/encoder_decoder_attention/query/kernel", &[4, 4]),
    ("decoder/layers_0/encoder_decoder_attention/value/kernel", &[4, 4]),
    ("decoder/layers_0/mlp/wi_0/kernel", &[4, 8]),
    ("decoder/layers_0/mlp/wi_1/kernel", &[4, 8]),
    ("decoder/layers_0/mlp/wo/kernel", &[8, 4]),
    ("decoder/layers_0/pre_cross_attention_layer_norm/scale", &[4]),
    ("decoder/layers_0/pre_mlp_layer_norm/scale", &[4]),
    ("decoder/layers_0/pre_self_attention_layer_norm/scale", &[4]),
    ("decoder/layers_0/self_attention/key/kernel", &[4, 4]),
    ("decoder/layers_0/self_attention/out/kernel", &[4, 4]),
    ("decoder/layers_0/self_attention/query/kernel", &[4, 4]),
    ("decoder/layers_0/self_attention/value/kernel", &[4, 4]),
    ("decoder/logits_dense/kernel", &[4, 6]),
    ("decoder/relpos_bias/rel_embedding", &[2, 32]),
    ("encoder/encoder_norm/scale", &[4]),
    ("encoder/layers_0/attention/key/kernel", &[4, 4]),
    ("encoder/layers_0/attention/out/kernel", &[4, 4]),
    ("encoder/layers_0/attention/query/kernel", &[4, 4]),
    ("encoder/layers_0/attention/value/kernel", &[4, 4]),
    ("encoder/layers_0/mlp/wi_0/kernel", &[4, 8]),
    ("encoder/layers_0/mlp/wi_1/kernel", &[4, 8]),
    ("encoder/layers_0/mlp/wo/kernel", &[8, 4]),
    ("encoder/layers_0/pre_attention_layer_norm/scale", &[4]),
    ("encoder/layers_0/pre_mlp_layer_norm/scale", &[4]),
    ("encoder/relpos_bias/rel_embedding", &[2, 32]),
];

/// Saves a T5 whose parameter number n holds n, n + 1/4, n + 2/4, ...
fn save_t5(model_dir: &Path, step: u64) -> Path {
    let writer = Writer::create(model_dir, step, None).unwrap();
    let embedding = ("token_embedder/embedding", &[6usize, 4][..]);
    for (number, (name, shape)) in PARAMETERS.into_iter().chain([embedding]).enumerate() {
        let size: usize = shape.iter().product();
        let values: Vec<f32> = (0..size).map(|i| number as f32 + i as f32 / 4.0).collect();
        writer.array(&format!("target/{name}"), Array::from_f32(shape, &values).view()).unwrap();
    }
    writer.array("state/step", Array::scalar_i32(step as i32).view()).unwrap();
    writer.commit().unwrap()
}

#[test]
fn a_folder_becomes_flax_models_as_flax_itself_writes_them() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("my_run"), dir.join("my_run_fl"));
    for step in [100, 200] {
        save_t5(&from, step);
    }
    let words = ["convert", from.as_str(), to.as_str(), "--to=flax"];
    let (status, _, error) = gimlet(&dir, &words);
    assert_eq!(status, 0, "{error}");
    let expected = fixture("flax/flax_model.msgpack").read().unwrap();
    for step in [100, 200] {
        let folder = checkpoint_dir(&to, step);
        assert!(folder.join("flax_model.msgpack").read().unwrap() == expected, "{step}");
        let config: Value =
            serde_json::from_slice(&folder.join("config.json").read().unwrap()).unwrap();
        let found =
            ["num_heads", "d_kv", "d_ff", "vocab_size"].map(|name| config[name].as_u64().unwrap());
        assert_eq!(found, [2, 2, 8, 6]);
    }
    let (_, _, error) = gimlet(&dir, &words);
    assert_eq!(error.matches("left as it is, it is there already").count(), 2, "{error}");
}

/// Returns the names of a file's arrays, as in its index.
fn raw_names(name: &str, value: &rmpv::Value) -> Vec<String> {
    let Some(children) = value.as_map() else { return vec![name.to_string()] };
    let child = |key: &rmpv::Value| {
        format!("{name}/{}", key.as_str().unwrap()).trim_start_matches('/').to_string()
    };
    children.iter().flat_map(|(key, value)| raw_names(&child(key), value)).collect()
}

#[test]
fn what_flax_wrote_is_read_and_becomes_what_it_was_made_from() {
    let (_dir, dir) = scratch();
    let original = open(&save_t5(&dir.join("from"), 100)).unwrap();
    let folder = dir.join("model");
    folder.create_dir_all().unwrap();
    let file = folder.join("flax_model.msgpack");
    file.write_atomic(&fixture("flax/flax_model.msgpack").read().unwrap()).unwrap();
    folder.join("config.json").write_atomic(br#"{"tie_word_embeddings": false}"#).unwrap();
    let check = |path: &Path, names: usize| {
        let model = open(path).unwrap();
        model.verify().unwrap();
        let leaves = model.leaves();
        let parameters = leaves.iter().filter(|leaf| leaf.name.starts_with("target/"));
        assert_eq!(parameters.clone().count(), names);
        for leaf in parameters {
            let expected = original.read(leaf.name).unwrap();
            assert_eq!(model.read(leaf.name).unwrap(), expected, "{}", leaf.name);
            let part: Vec<_> = leaf.shape.iter().map(|&size| size / 3..size - size / 4).collect();
            assert_eq!(model.read_part(leaf.name, &part).unwrap(), expected.part(&part));
        }
    };
    for path in [&folder, &file] {
        check(path, 29);
    }
    let (status, _, error) =
        gimlet(&dir, &["convert", folder.as_str(), dir.join("t5x/checkpoint_0").as_str()]);
    assert_eq!(status, 0, "{error}");
    check(&dir.join("t5x/checkpoint_0"), 29);
    // As transformers 5 writes a model whose head is not its embedding.
    folder
        .join("config.json")
        .write_atomic(br#"{"tie_word_embeddings": true, "scale_decoder_outputs": false}"#)
        .unwrap();
    check(&folder, 29);
    // Like the result of Flax's `save_pretrained` of a large model, but in one shard.
    let shard = "flax_model-00001-of-00001.msgpack";
    file.rename(&folder.join(shard)).unwrap();
    let tree = fixture("flax/flax_model.msgpack").read().unwrap();
    let names = raw_names("", &rmpv::decode::read_value(&mut &tree[..]).unwrap());
    let map: Vec<String> = names.iter().map(|name| format!("{name:?}: {shard:?}")).collect();
    let index = format!("{{\"weight_map\": {{{}}}}}", map.join(", "));
    folder.join("flax_model.msgpack.index.json").write_atomic(index.as_bytes()).unwrap();
    check(&folder, 29);
}

#[test]
fn a_flax_file_that_is_cut_or_something_else_is_refused() {
    let (_dir, dir) = scratch();
    let whole = fixture("flax/flax_model.msgpack").read().unwrap();
    let file = dir.join("flax_model.msgpack");
    for length in (0..whole.len()).step_by(11) {
        file.write_atomic(&whole[..length]).unwrap();
        assert!(open(&file).unwrap_err().is_damage(), "cut at {length}");
    }
    let check = |bytes: &[u8], expected: &str| {
        file.write_atomic(bytes).unwrap();
        let message = open(&file).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(&[&whole[..], b"x"].concat(), "has more bytes after the end of its map");
    check(b"\xca\0\0\0\0", "expected a msgpack map at the root");
    check(b"\x01", "expected a msgpack map at the root");
    check(&b"\x81\xa1a".repeat(1000), "is nested too deeply");
    check(b"\xdf\xff\xff\xff\xff\xa1a\xc0", "its msgpack ends early");
    // Five million keys without a letter, each with an empty value.
    let many = [&b"\xdf\x00\x4c\x4b\x40"[..], &b"\xa0\xc0".repeat(5_000_000)].concat();
    check(&many, "holds more than 4194304 values");
    // An array that claims 2^62 elements in four bytes.
    let claim = b"\x93\x91\xcf\x40\0\0\0\0\0\0\0\xa7float32\xc4\x04\0\0\0\0";
    let head = [b"\x81\xa1a\xc7", &[claim.len() as u8][..], b"\x01"].concat();
    check(
        &[&head[..], &claim[..]].concat(),
        "`a` has 4 bytes, but is float32 [4611686018427387904]",
    );
}

#[test]
fn what_is_converted_to_another_format_comes_back_equal() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"), 7);
    let cases = [
        ("pth", "model.pth", &[][..]),
        ("torch", "pt", &["--to=torch"]),
        ("hf", "hf", &["--to=hugging_face"]),
        ("orbax", "orbax/checkpoint_7", &["--to=orbax"]),
    ];
    for (name, to, flags) in cases {
        let to = dir.join(to);
        let words = [&["convert", from.as_str(), to.as_str()], flags].concat();
        let (status, _, error) = gimlet(&dir, &words);
        assert_eq!(status, 0, "{name}: {error}");
        let diff = ["diff", from.as_str(), to.as_str(), "--filter=^target/"];
        assert_eq!(gimlet(&dir, &diff), (0, "29 equal\n".to_string(), String::new()), "{name}");
        let back = checkpoint_dir(&dir.join(&format!("{name}_back")), 7);
        let (status, _, error) = gimlet(&dir, &["convert", to.as_str(), back.as_str()]);
        assert_eq!(status, 0, "{name}: {error}");
        assert_eq!(gimlet(&dir, &["diff", from.as_str(), back.as_str()]).0, 0, "{name}");
        let (status, _, error) = gimlet(&dir, &words);
        assert!(status == 2 && error.contains("exists; remove it, or name another TO"), "{error}");
    }
    let names = names(&dir);
    assert!(names.iter().all(|name| !name.contains("unfinished")), "{names:?}");
}

#[test]
fn a_bucket_shows_what_is_converted_when_it_is_whole() {
    let (_dir, dir) = scratch();
    let from = open(&save_t5(&dir, 7)).unwrap();
    let bucket = Bucket::new();
    let run = bucket.path("run");
    let copy =
        open(&export_t5x(&*from, (run.clone(), 7), &NativeOptions::default()).unwrap()).unwrap();
    assert!(copy.damages(&mut |_| ()).unwrap().is_empty());
    let listed = list(&run, HUGGING_FACE).unwrap();
    assert_eq!(
        (listed.len(), listed[0].step, &listed[0].condition),
        (1, Some(7), &Condition::Whole)
    );

    let export =
        |to: &Path| export_hugging_face(&*copy, to, &HuggingFaceOptions::default(), HUGGING_FACE);
    bucket.set(Fault::None);
    export(&bucket.path("measured")).unwrap();
    let count = bucket.count();
    // S3 copies files of up to 5 GB: uploads have their final name at once.
    let targets: Vec<String> =
        bucket.requests().into_iter().map(|request| request.target).collect();
    assert!(targets.iter().all(|target| !target.contains("safetensors.unfinished")), "{targets:?}");
    let mut num_failed = 0;
    for number in (1..=count).step_by(7).chain(count - 5..=count) {
        let to = bucket.path(&format!("model_{number}"));
        bucket.set(Fault::From(number));
        let exported = export(&to);
        bucket.set(Fault::None);
        if exported.is_err() && !to.join("model.safetensors").exists().unwrap() {
            num_failed += 1;
            export(&to).unwrap();
        }
        let stored = open(&to).unwrap();
        let kernel = "target/decoder/logits_dense/kernel";
        assert_eq!(stored.read(kernel).unwrap(), from.read(kernel).unwrap(), "request {number}");
    }
    assert!(num_failed > 3, "{num_failed} of {count} requests failed");
}

#[test]
fn parameters_are_rounded_to_the_type_asked_for() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir, 7);
    for (dtype, to) in [("bfloat16", "b.pth"), ("float16", "h.pth")] {
        let to = dir.join(to);
        let dtype_flag = format!("--dtype={dtype}");
        assert_eq!(gimlet(&dir, &["convert", from.as_str(), to.as_str(), &dtype_flag]).0, 0);
        let stored = open(&to).unwrap();
        assert!(stored.leaves().iter().all(|array| array.dtype.name() == dtype), "{dtype}");
        let diff = ["diff", from.as_str(), to.as_str(), "--filter=^target/", "--tolerance=0.25"];
        assert_eq!(gimlet(&dir, &diff).0, 0, "{dtype}");
    }
}

#[test]
fn only_a_t5_becomes_a_model_of_transformers() {
    let (_dir, dir) = scratch();
    let from = save(&dir.join("from"), 1);
    let to = dir.join("out.pth");
    let (status, _, error) = gimlet(&dir, &["convert", from.as_str(), to.as_str()]);
    assert!(status == 2 && error.contains("expected the parameters of a T5"), "{error}");
    let folder = dir.join("from");
    let (status, _, error) = gimlet(&dir, &["convert", folder.as_str(), to.as_str()]);
    assert!(status == 2 && error.contains("expected a folder TO"), "{error}");
    let folder = dir.join("t5x");
    let words = ["convert", from.as_str(), folder.as_str(), "--vocabulary=x.model"];
    let (status, _, error) = gimlet(&dir, &words);
    assert!(status == 2 && error.contains("--vocabulary goes beside weights"), "{error}");
    let to = dir.join("out.safetensors");
    let (status, _, error) = gimlet(&dir, &["convert", from.as_str(), to.as_str()]);
    assert!(status == 2 && error.contains("and --to hugging_face"), "{error}");
    assert_eq!(names(&dir), ["from"]);
}

#[test]
fn checkpoints_of_other_formats_are_not_mixed_with() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    save_t5(&from, 3);
    let convert = |flags: &[&str]| {
        let (status, _, error) =
            gimlet(&dir, &[&["convert", from.as_str(), to.as_str()], flags].concat());
        (status, error)
    };
    for (first, second) in [("hugging_face", "t5x"), ("flax", "t5x"), ("t5x", "torch")] {
        assert_eq!(convert(&["--to", first]).0, 0);
        let before = to.sizes().unwrap();
        let (status, error) = convert(&["--to", second]);
        assert!(status == 2 && error.contains("of another format"), "{first}: {error}");
        assert_eq!(to.sizes().unwrap(), before, "{first}");
        to.remove_dir_all().unwrap();
    }
    let file = dir.join("x.bin");
    let from = checkpoint_dir(&from, 3);
    let words = ["convert", from.as_str(), file.as_str(), "--to=hugging_face"];
    let (status, _, error) = gimlet(&dir, &words);
    assert!(status == 2 && error.contains("expected --to torch"), "{error}");
    assert!(!file.exists().unwrap());
}
