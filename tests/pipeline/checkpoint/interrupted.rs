//! Conversions that are killed: the next conversion keeps their files.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gimlet::checkpoint::{Array, Writer, checkpoint_dir, open};
use gimlet::storage::Path;
use serde_json::Value;

use super::converting::PARAMETERS;
use super::tool::gimlet;
use super::{names, save_sized, scratch};
use crate::storage::faulty::Bucket;

/// Layers of either stack of the T5 that is converted.
const LAYERS: usize = 3;

/// Factor of the rows and columns of a T5 of [`PARAMETERS`].
const SCALE: usize = 32;

/// Saves a T5 that takes a while to convert.
pub(super) fn save_t5(model_dir: &Path) -> Path {
    let writer = Writer::create(model_dir, 7, None).unwrap();
    let embedding = ("token_embedder/embedding", &[6usize, 4][..]);
    for (number, (name, shape)) in PARAMETERS.into_iter().chain([embedding]).enumerate() {
        let is_bias = name.ends_with("rel_embedding");
        let shape: Vec<usize> =
            shape.iter().map(|size| if is_bias { *size } else { size * SCALE }).collect();
        // Noise, which does not compress.
        let value = |i: usize| number as f32 + (i as u32).wrapping_mul(2_654_435_761) as f32;
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        let count = if name.contains("layers_0") { LAYERS } else { 1 };
        for layer in 0..count {
            let name = name.replace("layers_0", &format!("layers_{layer}"));
            writer
                .array(&format!("target/{name}"), Array::from_f32(&shape, &values).view())
                .unwrap();
        }
    }
    writer.array("state/step", Array::scalar_i32(7).view()).unwrap();
    writer.commit().unwrap()
}

pub(super) fn start(from: &Path, to: &Path, flags: &[&str]) -> Child {
    conversion(from, to, flags).spawn().unwrap()
}

pub(super) fn conversion(from: &Path, to: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimlet"));
    command.args(["checkpoint", "convert", from.as_str(), to.as_str()]).args(flags);
    command.stderr(Stdio::piped());
    command
}

/// Returns every file below a folder that may change in the meantime.
fn files_below(dir: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

/// The lines of the journal of a conversion that writes below a folder.
fn journal(dir: &std::path::Path) -> Vec<String> {
    let is_journal = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "jsonl");
    let journal = files_below(dir).into_iter().find(is_journal);
    let text = journal.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// Starts a conversion and kills it once `is_time`; if it ends before, its output is removed and it
/// is started again.
fn interrupt(from: &Path, to: &Path, flags: &[&str], is_time: impl Fn() -> bool) {
    for _ in 0..50 {
        let mut child = start(from, to, flags);
        while child.try_wait().unwrap().is_none() && !is_time() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        if !child.wait().unwrap().success() {
            return;
        }
        match to.is_dir().unwrap() {
            true => to.remove_dir_all().unwrap(),
            false => to.remove_file().unwrap(),
        }
    }
    panic!("`{to}` took no time");
}

/// Returns the messages of a conversion, which must succeed.
pub(super) fn end(mut child: Child) -> String {
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success(), "{told}");
    told
}

/// The number in `kept N files` or `kept N tensors`.
pub(super) fn kept(told: &str) -> usize {
    let after = told.split_once("; kept ").unwrap_or_else(|| panic!("{told}")).1;
    after.split(' ').next().unwrap().parse().unwrap()
}

pub(super) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = dir.sizes().unwrap().into_keys();
    names.map(|name| (name.clone(), dir.join(&name).read().unwrap())).collect()
}

/// Kills a conversion into `OUT/NAME` at several places, and lets the next one finish it.
fn check(name: &str, flags: &[&str]) {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let whole = dir.join("whole");
    whole.create_dir_all().unwrap();
    end(start(&from, &whole.join(name), flags));
    let expected = contents(&whole);
    for wanted in [1, 5, 20, 40] {
        let out = dir.join(&format!("out_{wanted}"));
        out.create_dir_all().unwrap();
        let (place, to) = (out.local().unwrap(), out.join(name));
        let noted = || journal(&place).len().saturating_sub(1);
        interrupt(&from, &to, flags, || noted() >= wanted);
        let (num_noted, left) = (noted(), identities(&place));
        let told = end(start(&from, &to, flags));
        let num_kept = kept(&told);
        assert!((wanted..=num_noted).contains(&num_kept), "{num_kept} of {num_noted}: {told}");
        let now = identities(&place);
        let num_same = left.iter().filter(|file| now.contains(file)).count();
        let keeps_files = ["t5x", "orbax"].contains(&name);
        assert!(keeps_files == (num_same >= num_kept), "{num_same} of {num_kept} files stay");
        let found = contents(&out);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(found == expected, "{name}: other bytes");
    }
}

/// Returns values that show whether files on disk were written again.
fn identities(dir: &std::path::Path) -> Vec<(u64, i64, i64)> {
    let files = files_below(dir).into_iter();
    let found = files.filter_map(|file| std::fs::metadata(file).ok());
    found.map(|file| (file.ino(), file.mtime(), file.mtime_nsec())).collect()
}

#[test]
fn the_files_that_a_killed_conversion_wrote_are_kept() {
    check("t5x", &[]);
    check("orbax", &["--to=orbax"]);
}

#[test]
fn the_tensors_that_a_killed_conversion_wrote_are_kept() {
    check("model.pth", &["--dtype=bfloat16"]);
    check("hf", &["--to=hugging_face"]);
    check("flax", &["--to=flax"]);
    check("mesh", &["--to=mesh_tensorflow"]);
}

#[test]
fn what_changed_since_is_not_kept() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let place = dir.local().unwrap();
    for (name, flags) in [("t5x", &[][..]), ("hf", &["--to=hugging_face"])] {
        let to = dir.join(name);
        let out = place.join(name);
        let interrupt = || interrupt(&from, &to, flags, || journal(&out).len() > 20);
        // Damage of written files.
        interrupt();
        let num_noted = journal(&out).len() - 1;
        let is_piece = |file: &PathBuf| {
            let name = file.file_name().unwrap().to_str().unwrap();
            name.ends_with(".unfinished") || name == "0.0"
        };
        let piece = files_below(&out).into_iter().filter(is_piece).min().unwrap();
        let mut bytes = std::fs::read(&piece).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&piece, bytes).unwrap();
        let told = end(start(&from, &to, flags));
        assert!(kept(&told) < num_noted, "{told}");
        let compared = checkpoint_dir(&to, 7);
        let compared = if name == "t5x" { &compared } else { &to };
        let diff = ["diff", from.as_str(), compared.as_str(), "--filter=^target/"];
        assert_eq!(gimlet(&dir, &diff).0, 0, "{name}");
        to.remove_dir_all().unwrap();
        // Another option, and then a changed source.
        interrupt();
        let told = end(start(&from, &to, &[flags, &["--dtype=float16"]].concat()));
        assert!(told.contains("starts over") && !told.contains("kept"), "{told}");
        assert!(
            journal(&out).is_empty() && !files_below(&out).iter().any(|file| is_unfinished(file))
        );
        to.remove_dir_all().unwrap();
        interrupt();
        from.join("gimlet/note").write_atomic(name.as_bytes()).unwrap();
        let told = end(start(&from, &to, flags));
        assert!(told.contains("starts over") && !told.contains("kept"), "{told}");
        to.remove_dir_all().unwrap();
    }
}

fn is_unfinished(file: &std::path::Path) -> bool {
    let file = file.to_str().unwrap();
    file.contains("unfinished") || file.contains(".tmp-")
}

#[test]
fn a_killed_conversion_into_a_bucket_is_gone_on_with() {
    check_bucket("checkpoint_7", "checkpoint", &[]);
    check_bucket("checkpoint_7/state", "_METADATA", &["--to=orbax"]);
}

/// Does the same as [`check`], into a bucket. The arrays lie in a `folder` of TO, and with them the
/// last file.
fn check_bucket(folder: &str, last: &str, flags: &[&str]) {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let bucket = Bucket::new();
    let (whole, to) = (bucket.path("whole"), bucket.path("to"));
    end(start(&from, &whole, flags));
    let expected = contents(&whole.join(folder));
    let target = bucket.root.join("to").join(folder);
    let is_time = || files_below(&target).len() > 20 && !journal(&target).is_empty();
    interrupt(&from, &to, flags, is_time);
    assert!(gimlet::checkpoint::latest(&to).unwrap().is_none(), "nothing half-written is seen");
    // As if it were time to upload the journal.
    let sums: Value = serde_json::from_slice(&expected["gimlet/checksums.json"]).unwrap();
    let mut lines = journal(&target)[..1].to_vec();
    for file in files_below(&target) {
        let name = file.strip_prefix(&target).unwrap().to_str().unwrap().to_string();
        if let Value::Object(mut line) = sums["files"][&name].clone() {
            line.insert("file".to_string(), name.into());
            lines.push(Value::Object(line).to_string());
        }
    }
    let text = lines.join("\n") + "\n";
    let place = to.join(folder);
    place.join("gimlet/conversion.jsonl").write_atomic(text.as_bytes()).unwrap();
    let before = bucket.requests().len();
    let told = end(start(&from, &to, flags));
    assert_eq!(kept(&told), lines.len() - 1, "{told}");
    let written = bucket.requests().split_off(before);
    let written = |name: &str| {
        let ending = format!("/to/{folder}/{name}");
        let is_it = |target: &str| target.split('?').next().unwrap().ends_with(&ending);
        written.iter().any(|request| request.method == "PUT" && is_it(&request.target))
    };
    let line = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    for kept in lines[1..].iter().map(line) {
        assert!(!written(kept["file"].as_str().unwrap()), "{kept} is written anew");
    }
    assert!(written(last));
    assert!(contents(&place) == expected, "other bytes");
}

#[test]
fn whenever_a_conversion_is_killed_the_next_one_finishes_it() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    for step in 1..4 {
        save_sized(&from, step, 1 << 16);
    }
    let spawn = || start(&from, &to, &[]);
    let begin = Instant::now();
    end(spawn());
    let whole: Duration = begin.elapsed();
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
        end(spawn());
        assert_eq!(names(&to), ["checkpoint_1", "checkpoint_2", "checkpoint_3"], "round {round}");
    }
}
