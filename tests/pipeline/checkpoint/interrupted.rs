//! Conversions that are killed: nothing of them is seen, and the next conversion starts over.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use gimlet::checkpoint::{Array, Writer, latest};
use gimlet::models::open;
use gimlet::storage::Path;

use super::converting::PARAMETERS;
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

/// Number of bytes of all files below a folder that may change in the meantime.
fn num_bytes(dir: &std::path::Path) -> u64 {
    let files = files_below(dir).into_iter().filter_map(|file| file.metadata().ok());
    files.map(|file| file.len()).sum()
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

pub(super) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = dir.sizes().unwrap().into_keys();
    names.map(|name| (name.clone(), dir.join(&name).read().unwrap())).collect()
}

/// Kills conversions into `OUT/NAME` early and late. The result, at `finished` below it, cannot be
/// seen until the next conversion has written the bytes of one that was never killed.
fn check(name: &str, flags: &[&str], finished: &str) {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let whole = dir.join("whole");
    whole.create_dir_all().unwrap();
    end(start(&from, &whole.join(name), flags));
    let expected = contents(&whole);
    let total = num_bytes(&whole.local().unwrap());
    for wanted in [total / 9, total / 2] {
        let out = dir.join(&format!("out_{wanted}"));
        out.create_dir_all().unwrap();
        let (place, to) = (out.local().unwrap(), out.join(name));
        interrupt(&from, &to, flags, || num_bytes(&place) > wanted);
        assert!(num_bytes(&place) > 0, "{name}: nothing was begun");
        let seen = if finished.is_empty() { to.clone() } else { to.join(finished) };
        assert!(!seen.exists().unwrap(), "{name} is seen");
        end(start(&from, &to, flags));
        assert!(contents(&out) == expected, "{name}: other files or bytes");
    }
}

#[test]
fn a_killed_conversion_is_invisible_and_the_next_one_starts_over() {
    check("t5x", &[], "checkpoint_7");
    check("orbax", &["--to=orbax"], "checkpoint_7");
    check("model.pth", &[], "");
    check("hf", &["--to=hugging_face"], "model.safetensors");
    check("mesh", &["--to=mesh_tensorflow"], "model.ckpt-7.index");
}

#[test]
fn a_killed_conversion_into_a_bucket_is_invisible_and_the_next_one_starts_over() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    for flags in [&[][..], &["--to=orbax"]] {
        let bucket = Bucket::new();
        let (whole, to) = (bucket.path("whole"), bucket.path("to"));
        end(start(&from, &whole, flags));
        let target = bucket.root.join("to");
        interrupt(&from, &to, flags, || files_below(&target).len() > 20);
        assert!(latest(&to).unwrap().is_none(), "nothing half-written is seen");
        // A file that the next conversion does not write.
        to.join("checkpoint_7/state/left").write_atomic(b"left").unwrap();
        end(start(&from, &to, flags));
        assert!(contents(&to) == contents(&whole), "other files or bytes");
    }
}

#[test]
fn whenever_a_conversion_is_killed_the_next_one_finishes_it() {
    let (_dir, dir) = scratch();
    let (from, to) = (dir.join("from"), dir.join("to"));
    for step in 1..4 {
        save_sized(&from, step, 1 << 16);
    }
    end(start(&from, &to, &[]));
    let place = to.local().unwrap();
    let total = num_bytes(&place);
    for round in 0..5 {
        to.remove_dir_all().unwrap();
        interrupt(&from, &to, &[], || num_bytes(&place) >= total * round / 5);
        if to.exists().unwrap() {
            for path in to.list().unwrap().iter().filter(|path| !path.as_str().contains(".tmp-")) {
                open(path).unwrap().verify().unwrap();
            }
        }
        end(start(&from, &to, &[]));
        assert_eq!(names(&to), ["checkpoint_1", "checkpoint_2", "checkpoint_3"], "round {round}");
    }
}
