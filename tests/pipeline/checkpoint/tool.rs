//! `gimlet checkpoint`, as a user calls it.

use assert_cmd::Command;
use gimlet::checkpoint::{Array, Writer, checkpoint_dir, list};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::Path;
use serde_json::Value;

use super::{copy, fixture, names, save, scratch};

/// Returns status, standard output and standard error, without the folder's name.
pub(super) fn gimlet(folder: &Path, words: &[&str]) -> (i32, String, String) {
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

pub(super) fn json(folder: &Path, words: &[&str]) -> Value {
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
pub(super) fn damage(file: &Path) {
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
    let llama = checkpoint_dir(&dir, 1);
    llama.create_dir_all().unwrap();
    llama.join("config.json").write_atomic(br#"{"model_type": "llama"}"#).unwrap();
    llama.join("model.safetensors").write_atomic(b"\x02\0\0\0\0\0\0\0{}").unwrap();
    save(&dir, 2);
    let (status, out, _) = gimlet(&dir, &["verify", dir.as_str()]);
    assert_eq!(status, 1);
    assert!(out.starts_with("checkpoint_1: not verified\n") && out.contains("`llama`"), "{out}");
    assert!(out.contains("checkpoint_2: whole"), "{out}");
    let found = json(&dir, &["verify", "--json", dir.as_str()]);
    assert!(found[0]["failed"].as_str().unwrap().contains("`llama`"), "{found}");
    assert_eq!((&found[0]["whole"], &found[1]["whole"]), (&false.into(), &true.into()));
}

#[test]
fn what_a_run_beside_is_at_work_on_is_left_out() {
    let (_dir, dir) = scratch();
    save(&dir, 1);
    // As in a bucket: the folder has its final name, and a mark until it is whole.
    checkpoint_dir(&dir, 2).join("gimlet").create_dir_all().unwrap();
    checkpoint_dir(&dir, 2).join("gimlet/unfinished.json").write_atomic(b"{}").unwrap();
    // As if it were deleted between two accesses.
    std::os::unix::fs::symlink("gone", checkpoint_dir(&dir, 3).local().unwrap()).unwrap();
    let (status, out, error) = gimlet(&dir, &["verify", dir.as_str()]);
    assert_eq!((status, &error[..]), (0, "checkpoint_2: left out, it is half-written\n"), "{out}");
    assert_eq!(list(&dir, HUGGING_FACE).unwrap().len(), 2);
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
