//! `gimlet checkpoint`, as a user calls it.

use std::process::Stdio;

use assert_cmd::Command;
use gimlet::checkpoint::{
    Array, Condition, HuggingFaceOptions, Writer, checkpoint_dir, export_hugging_face, export_t5x,
    list, open,
};
use gimlet::storage::Path;
use serde_json::Value;

use crate::storage::faulty::{Bucket, Fault};

use super::{copy, fixture, names, save, save_sized, scratch};

/// Status, standard output and standard error, with the folder's name taken out.
fn gimlet(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    let output = command.arg("checkpoint").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes)
            .unwrap()
            .replace(&format!("{folder}/"), "")
            .replace(folder.as_str(), ".")
    };
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&gimlet(folder, words).1).unwrap()
}

/// Writes a checkpoint of these float32 arrays of one row.
fn write(model_dir: &Path, step: u64, arrays: &[(&str, &[f32])]) -> Path {
    let writer = Writer::create(model_dir, step, None).unwrap();
    for (name, values) in arrays {
        writer.array(name, Array::from_f32(&[1, values.len()], values).view()).unwrap();
    }
    writer.array("state/step", Array::scalar_i32(step as i32).view()).unwrap();
    writer.commit().unwrap()
}

/// Changes the last byte of a file.
fn damage(file: &Path) {
    let mut bytes = file.read().unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(file.local().unwrap(), bytes).unwrap();
}

#[test]
fn a_folder_is_listed_with_what_is_wrong_in_it() {
    let (_dir, dir) = scratch();
    for step in [2, 10] {
        save(&dir, step);
    }
    checkpoint_dir(&dir, 2).join("PINNED").write_atomic(b"").unwrap();
    let cut = save(&dir, 3).join("target.a/0.0");
    std::fs::write(cut.local().unwrap(), b"x").unwrap();
    dir.join("checkpoint_11.tmp-1700000000").create_dir_all().unwrap();
    checkpoint_dir(&dir, 12).create_dir_all().unwrap();
    dir.join("train").create_dir_all().unwrap();

    let (status, out, error) = gimlet(&dir, &["ls", dir.as_str()]);
    assert_eq!((status, &error[..]), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    let half = "half-written: being saved, or left by a killed run";
    let expected = [
        ("2  t5x", "whole, pinned"),
        ("3  t5x", "damaged: `target.a/0.0` has 1 bytes, expected 30"),
        ("10  t5x", "whole"),
        ("11  -", half),
        ("12  -", half),
    ];
    assert_eq!((lines[0], lines.len()), (".", 1 + expected.len()), "{out}");
    for (line, (start, end)) in lines[1..].iter().zip(expected) {
        assert!(line.trim_start().starts_with(start) && line.ends_with(end), "{line}");
    }

    let entries = json(&dir, &["ls", "--json", dir.as_str()]);
    let states: Vec<&str> =
        entries.as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["whole", "damaged", "whole", "half_written", "half_written"]);
    let sizes = checkpoint_dir(&dir, 10).sizes().unwrap();
    assert_eq!(entries[2]["bytes"], sizes.values().sum::<u64>());
    assert_eq!(entries[0]["pinned"], true);
}

#[test]
fn what_holds_no_checkpoints_says_so() {
    let (_dir, dir) = scratch();
    let (status, out, error) = gimlet(&dir, &["ls", dir.as_str()]);
    assert_eq!((status, &out[..]), (0, ""));
    assert_eq!(error, "`.` holds no checkpoints: no name `checkpoint_N`\n");
    let missing = dir.join("none");
    for words in [&["ls"][..], &["show"], &["verify"], &["convert", "x"], &["diff", "x"]] {
        let words = [&words[..1], &[missing.as_str()], &words[1..]].concat();
        let (status, _, error) = gimlet(&dir, &words);
        assert!(status == 2 && error.contains("`none`"), "{words:?}: {error}");
    }
}

#[test]
fn the_tree_of_what_t5x_wrote_is_shown() {
    let (_dir, dir) = scratch();
    let checkpoint = fixture("t5x/checkpoint_3");
    let (status, out, error) = gimlet(&dir, &["show", checkpoint.as_str()]);
    assert_eq!((status, &error[..]), (0, ""));
    // The size is that of the files, which compression may change.
    let (head, tree) = out.split_once('\n').unwrap();
    assert!(
        head.contains("checkpoint_3: step 3, t5x, ") && head.ends_with(" in 7 files"),
        "{head}"
    );
    let expected = "\
state
  param_states/encoder
    mlp/wi/kernel
      m          float32  [1]         4 B
      v          float32  [1]         4 B
      v_col      float32  [6]        24 B
      v_row      float32  [4]        16 B
    norm/scale
      m          float32  [1]         4 B
      v          float32  [6]        24 B
      v_col      float32  [1]         4 B
      v_row      float32  [1]         4 B
  step           int32    []          4 B  = 3
target/encoder
  mlp/wi/kernel  float32  [6, 4]     96 B
  norm/scale     float32  [6]        24 B
state  optimizer state: 22 values in 9 arrays, 88 B
target  parameters: 30 values in 2 arrays, 120 B
";
    assert_eq!(tree, expected);
}

#[test]
fn norms_are_those_of_numpy_and_what_is_not_finite_is_counted() {
    let (_dir, dir) = scratch();
    let words =
        ["show", "--norms", "--json", "--filter=kernel$", fixture("t5x/checkpoint_3").as_str()]
            .map(str::to_string);
    let shown = json(&dir, &words.each_ref().map(|word| &word[..]));
    let statistics = &shown["arrays"][0]["statistics"];
    // numpy: x = np.arange(24) / 2; np.linalg.norm(x), x.min(), x.max(), x.mean()
    let expected = [("norm", 32.87856444554719), ("min", 0.0), ("max", 11.5), ("mean", 5.75)];
    for (name, value) in expected {
        let found = statistics[name].as_f64().unwrap();
        assert!((found - value).abs() < 1e-12, "{name}: {found}");
    }
    assert_eq!(shown["totals"]["target"]["values"], 24);

    let odd = write(&dir, 1, &[("target/a", &[f32::NAN, f32::INFINITY, 2.0, f32::NAN])]);
    let (_, out, _) = gimlet(&dir, &["show", "--norms", odd.as_str()]);
    let line = out.lines().find(|line| line.contains("target/a")).unwrap();
    assert!(line.contains("norm      2.000") && line.ends_with("2 NaN!  1 infinite!"), "{line}");
}

#[test]
fn a_run_and_what_lies_beside_are_shown() {
    let (_dir, dir) = scratch();
    let writer = Writer::create(&dir, 4, None).unwrap();
    writer.array("state/step", Array::scalar_i32(4).view()).unwrap();
    writer.extra("gimlet/run.json", br#"{"first_step": 1, "seed": 42}"#).unwrap();
    let path = writer.commit().unwrap();
    let (_, out, _) = gimlet(&dir, &["show", path.as_str()]);
    assert!(out.contains("\n  run: seed 42, first step 1\n"), "{out}");
    assert!(out.contains("beside: gimlet/checksums.json, gimlet/run.json\n"), "{out}");
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    let (_dir, dir) = scratch();
    let path = save(&dir, 3);
    let other = dir.join("out");
    let file = dir.join("notes.txt");
    file.write_atomic(b"text").unwrap();
    let (path, other, file) = (path.as_str(), other.as_str(), file.as_str());
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["show", dir.as_str()],
            &["folder of checkpoints", "checkpoint_3", "gimlet checkpoint ls"],
        ),
        (&["show", file], &["`notes.txt` is not a checkpoint", "expected a folder"]),
        (&["show", path, "--filter=zebra"], &["no array's name contains `zebra`, of 5 in"]),
        (&["show", path, "--filter=("], &["--filter: "]),
        (&["diff", path, path, "--tolerance=x"], &["expected a number of 0 or more", "`x`"]),
        (&["convert", path, other, "--dtype=int8"], &["'int8'", "float32, bfloat16, float16"]),
        (&["convert", path, other, "--to=onnx"], &["'onnx'", "t5x"]),
        (&["convert", path, dir.as_str()], &["`checkpoint_3` exists; remove it"]),
        (&["convert", dir.as_str(), other], &["lies in FROM", "expected a place outside"]),
    ];
    for (words, expected) in cases {
        let (status, out, error) = gimlet(&dir, words);
        assert_eq!((status, &out[..]), (2, ""), "{words:?}");
        for part in expected {
            assert!(error.contains(part), "{words:?}: {part}: {error}");
        }
    }
    let elsewhere = scratch();
    let named = checkpoint_dir(&elsewhere.1, 7);
    let (status, _, error) = gimlet(&dir, &["convert", path, named.as_str()]);
    assert!(status == 2 && error.contains("TO is named checkpoint_7"), "{error}");
    assert!(names(&elsewhere.1).is_empty());
}

#[test]
fn equal_checkpoints_have_no_difference() {
    let (_dir, dir) = scratch();
    let original = fixture("t5x/checkpoint_3");
    let same = copy(&*open(&original).unwrap(), &dir, None);
    let words = ["diff", original.as_str(), same.path().as_str()];
    assert_eq!(gimlet(&dir, &words), (0, "11 equal\n".to_string(), String::new()));
}

#[test]
fn differences_are_sorted_and_measured() {
    let (_dir, dir) = scratch();
    let one = write(
        &dir.join("a"),
        1,
        &[
            ("target/gone", &[1.0]),
            ("target/long", &[1.0, 2.0]),
            ("target/near", &[1.0, 4.0]),
            ("target/far", &[1.0, 2.0, 3.0]),
        ],
    );
    let other = write(
        &dir.join("b"),
        1,
        &[
            ("target/long", &[1.0]),
            ("target/near", &[1.0, 4.5]),
            ("target/far", &[1.0, 5.0, 7.0]),
            ("target/new", &[1.0]),
        ],
    );
    let (one, other) = (one.as_str(), other.as_str());
    let (status, out, _) = gimlet(&dir, &["diff", one, other]);
    let expected = "\
1 only in a/checkpoint_1
  target/gone float32 [1, 1]
1 only in b/checkpoint_1
  target/new float32 [1, 1]
1 of another shape
  target/long [1, 2] and [1, 1]
2 of other values
  target/far   largest 4.000e0, relative 6.000e-1, norm 5.000e0, 2 of 3 values
  target/near  largest 5.000e-1, relative 1.111e-1, norm 5.000e-1, 1 of 2 values
1 equal
";
    assert_eq!((status, &out[..]), (1, expected));
    let near = ["diff", one, other, "--filter=near"];
    assert_eq!(gimlet(&dir, &near).0, 1);
    for flag in ["--tolerance=0.5", "--relative_tolerance=0.12"] {
        let (status, out, _) = gimlet(&dir, &[&near[..], &[flag]].concat());
        assert_eq!((status, &out[..]), (0, "1 equal\n"), "{flag}");
    }
    let found = json(&dir, &["diff", "--json", one, other]);
    assert_eq!(found["values"][0]["name"], "target/far");
    assert_eq!(found["values"][0]["max_absolute"], 4.0);
    let (_, out, _) = gimlet(&dir, &["diff", one, other, "--limit=1"]);
    assert!(out.contains("  and 1 more: --limit 0 prints all\n"), "{out}");
}

#[test]
fn another_type_is_a_difference_unless_values_may_differ() {
    let (_dir, dir) = scratch();
    let original = fixture("t5x/checkpoint_3");
    let rounded = copy(&*open(&original).unwrap(), &dir, Some(gimlet::checkpoint::DType::Bf16));
    let words = ["diff", original.as_str(), rounded.path().as_str()];
    let (status, out, _) = gimlet(&dir, &words);
    assert_eq!(status, 1);
    assert!(out.contains("target/encoder/norm/scale float32 and bfloat16"), "{out}");
    assert_eq!(gimlet(&dir, &[&words[..], &["--tolerance=1e-3"]].concat()).0, 0);
}

#[test]
fn every_damaged_file_is_named() {
    let (_dir, dir) = scratch();
    for step in [1, 2] {
        save(&dir, step);
    }
    dir.join("checkpoint_9.tmp-1700000000").create_dir_all().unwrap();
    let (status, out, error) = gimlet(&dir, &["verify", dir.as_str()]);
    assert_eq!(status, 0, "{out}");
    assert!(out.starts_with("checkpoint_1: whole, ") && out.lines().count() == 2, "{out}");
    assert_eq!(error, "checkpoint_9.tmp-1700000000: left out, it is half-written\n");

    let newest = checkpoint_dir(&dir, 2);
    damage(&newest.join("target.a/0.0"));
    newest.join("target.b/0.0").remove_file().unwrap();
    let (status, out, _) = gimlet(&dir, &["verify", dir.as_str()]);
    let lines: Vec<&str> = out.lines().skip(1).collect();
    assert_eq!(
        (status, lines[0], lines[2]),
        (1, "checkpoint_2: 2 damaged", "  `target.b/0.0` is missing")
    );
    assert!(lines[1].starts_with("  `target.a/0.0` has changed since it was written"), "{out}");
    damage(&newest.join("checkpoint"));
    let found = json(&dir, &["verify", "--json", newest.as_str()]);
    assert_eq!(found[0]["whole"], false);
    assert!(
        found[0]["damages"][0].as_str().unwrap().contains("`checkpoint` has changed"),
        "{found}"
    );
}

#[test]
fn damage_is_no_difference() {
    let (_dir, dir) = scratch();
    let (one, other) = (save(&dir, 1), save(&dir, 2));
    assert_eq!(gimlet(&dir, &["diff", one.as_str(), other.as_str()]).0, 1);
    std::fs::write(other.join("target.a/0.0").local().unwrap(), b"x").unwrap();
    let (status, _, error) = gimlet(&dir, &["diff", one.as_str(), other.as_str()]);
    assert!(status == 2 && error.contains("damaged"), "{error}");
}

#[test]
fn a_checkpoint_that_cannot_be_read_does_not_hide_the_others() {
    let (_dir, dir) = scratch();
    let bert = checkpoint_dir(&dir, 1);
    bert.create_dir_all().unwrap();
    bert.join("config.json").write_atomic(br#"{"model_type": "bert"}"#).unwrap();
    bert.join("model.safetensors").write_atomic(b"\x02\0\0\0\0\0\0\0{}").unwrap();
    save(&dir, 2);
    let (status, out, _) = gimlet(&dir, &["verify", dir.as_str()]);
    assert_eq!(status, 1);
    assert!(out.starts_with("checkpoint_1: not verified\n") && out.contains("`bert`"), "{out}");
    assert!(out.contains("checkpoint_2: whole"), "{out}");
    let found = json(&dir, &["verify", "--json", dir.as_str()]);
    assert!(found[0]["failed"].as_str().unwrap().contains("`bert`"), "{found}");
    assert_eq!((&found[0]["whole"], &found[1]["whole"]), (&false.into(), &true.into()));
}

#[test]
fn what_a_run_beside_is_at_work_on_is_left_out() {
    let (_dir, dir) = scratch();
    save(&dir, 1);
    // As in a bucket: the folder has its name, and a mark until it is whole.
    checkpoint_dir(&dir, 2).join("gimlet").create_dir_all().unwrap();
    checkpoint_dir(&dir, 2).join("gimlet/unfinished.json").write_atomic(b"{}").unwrap();
    // As if it were deleted between two looks.
    std::os::unix::fs::symlink("gone", checkpoint_dir(&dir, 3).local().unwrap()).unwrap();
    let (status, out, error) = gimlet(&dir, &["verify", dir.as_str()]);
    assert_eq!((status, &error[..]), (0, "checkpoint_2: left out, it is half-written\n"), "{out}");
    assert_eq!(list(&dir).unwrap().len(), 2);
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

#[test]
fn damage_in_what_t5x_wrote_is_named_array_by_array() {
    let (_dir, dir) = scratch();
    let original = fixture("t5x/checkpoint_3");
    let to = checkpoint_dir(&dir, 3);
    for name in original.sizes().unwrap().keys() {
        to.join(name).parent().unwrap().create_dir_all().unwrap();
        to.join(name).write_atomic(&original.join(name).read().unwrap()).unwrap();
    }
    to.join("target.encoder.norm.scale/0").remove_file().unwrap();
    damage(&to.join("target.encoder.mlp.wi.kernel/0.0"));
    let (status, out, _) = gimlet(&dir, &["verify", to.as_str()]);
    assert_eq!(status, 1);
    assert!(out.starts_with("checkpoint_3: 2 damaged\n"), "{out}");
    assert!(out.contains("`target.encoder.norm.scale/0` is missing"), "{out}");
    assert!(out.contains("`target.encoder.mlp.wi.kernel/0.0` is corrupt"), "{out}");
}

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
        // The place in the data goes along.
        let data = stored.extra("gimlet/train_ds-000-of-001.json").unwrap();
        assert_eq!(data.as_deref(), Some(&b"{}"[..]));
    }
    // A third one, and a damaged second: what is whole stays, the rest is written.
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
fn everything_that_a_t5x_checkpoint_holds_is_kept() {
    let (_dir, dir) = scratch();
    let original = fixture("foreign/checkpoint_4");
    let to = checkpoint_dir(&dir, 4);
    let (status, _, error) = gimlet(&dir, &["convert", original.as_str(), to.as_str()]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(gimlet(&dir, &["diff", original.as_str(), to.as_str()]).0, 0);
    // A subtree without arrays is none that reading an array would tell of.
    let [before, after] = [&original, &to].map(|path| {
        let stored = open(path).unwrap();
        stored.empty_nodes().into_iter().map(str::to_string).collect::<Vec<_>>()
    });
    assert_eq!((before.len(), &before), (1, &after));
}

/// Parameters of a T5 of one layer, sorted by name as `flax_model.py` numbers them.
const PARAMETERS: [(&str, &[usize]); 28] = [
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
    assert!(
        gimlet(&dir, &["ls", to.as_str()]).1.contains("Flax model, which is written and not read")
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
    let copy = open(&export_t5x(&*from, (&run, 7), None).unwrap()).unwrap();
    assert!(copy.damages(&mut |_| ()).unwrap().is_empty());
    let listed = list(&run).unwrap();
    assert_eq!(
        (listed.len(), listed[0].step, &listed[0].condition),
        (1, Some(7), &Condition::Whole)
    );

    let export = |to: &Path| export_hugging_face(&*copy, to, &HuggingFaceOptions::default());
    bucket.set(Fault::None);
    export(&bucket.path("measured")).unwrap();
    let count = bucket.count();
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
    assert_eq!(names(&dir), ["from"]);
}

#[test]
fn whenever_a_conversion_is_killed_the_next_one_finishes_it() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    for step in 1..4 {
        save_sized(&from, step, 1 << 16);
    }
    let spawn = || {
        std::process::Command::new(env!("CARGO_BIN_EXE_gimlet"))
            .args(["checkpoint", "convert", from.as_str(), to.as_str()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let start = std::time::Instant::now();
    assert!(spawn().wait().unwrap().success());
    let whole = start.elapsed();
    for round in 0..10 {
        to.remove_dir_all().unwrap();
        let mut child = spawn();
        std::thread::sleep(whole * round / 10);
        child.kill().unwrap();
        child.wait().unwrap();
        if to.exists().unwrap() {
            for path in to.list().unwrap().iter().filter(|path| !path.as_str().contains(".tmp-")) {
                open(path).unwrap().verify().unwrap();
            }
        }
        assert!(spawn().wait().unwrap().success());
        assert_eq!(names(&to), ["checkpoint_1", "checkpoint_2", "checkpoint_3"], "round {round}");
    }
}
