//! A working directory with the data of `gin/small_tasks.gin`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::buckets::copy;
use crate::command::{Train, sources};
use crate::play::programs;

/// Real text: the licence of this package.
const TEXT: &str = include_str!("../../LICENSE");

/// A working directory, removed when dropped unless `GIMLET_TEST_KEEP` is set.
pub struct Folder(TempDir);

impl Folder {
    /// With lines of text in two files and some held out, and pairs that repeat the input.
    pub fn new() -> Self {
        let mut folder = tempfile::tempdir().expect("a temporary folder");
        if std::env::var_os("GIMLET_TEST_KEEP").is_some() {
            folder.disable_cleanup(true);
            eprintln!("the folder of this test stays: {}", folder.path().display());
        }
        let folder = Self(folder);
        let lines: Vec<&str> = TEXT.lines().filter(|line| !line.trim().is_empty()).collect();
        let (held_out, rest) = lines.split_at(20);
        let (first, second) = rest.split_at(rest.len() / 2);
        folder.write("held-out.txt", held_out.join("\n"));
        folder.write("lines-0.txt", first.join("\n"));
        folder.write("lines-1.txt", second.join("\n"));
        folder.write("echo-train.jsonl", pairs(0..40));
        folder.write("echo-validation.jsonl", pairs(40..47));
        folder
    }

    /// With the files that `make` adds to such a folder. The first test that asks for `name` after a change of the
    /// programs or of their gin files makes them, and all tests have copies.
    pub fn once(name: &str, make: impl FnOnce(&Self)) -> Self {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let made_by = made.with_extension("made_by");
        let lock = File::create(made.with_extension("lock")).expect("the folder can be written");
        lock.lock().expect("the file can be locked");
        if fs::read_to_string(&made_by).unwrap_or_default() != makers() {
            let _ = fs::remove_dir_all(&made);
            let folder = Self::new();
            make(&folder);
            copy(folder.0.path(), &made);
            fs::write(&made_by, makers()).expect("the folder can be written");
        }
        drop(lock);
        let folder = Self::new();
        copy(&made, folder.0.path());
        folder
    }

    /// With `pretrained/checkpoint_0` and `_4`, those of a ByT5.
    pub fn pretrained() -> Self {
        Self::once("pretrained", |folder| {
            folder.pretrain(4).bind_text("MODEL_DIR", "pretrained").succeeds();
        })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("the folder can be written");
    }

    /// `gimlet train` in it with a file of `gin/`.
    pub fn train(&self, gin_file: &str) -> Train {
        let search_path = sources("gin").display().to_string();
        Train::new(self.0.path())
            .arg(format!("--gin_search_paths={search_path}"))
            .gin_file(gin_file)
    }

    /// `gimlet eval` in it, of `eval_tiny.gin`.
    pub fn eval(&self) -> Train {
        self.train("eval_tiny.gin").tool(&["eval"])
    }

    /// `gimlet train` of `pretrain_tiny.gin` up to a step.
    pub fn pretrain(&self, steps: u64) -> Train {
        self.train("pretrain_tiny.gin").bind("TRAIN_STEPS", steps)
    }
}

/// Describes the programs and gin files that make the folders of tests: their names, sizes and times.
fn makers() -> String {
    let files = fs::read_dir(sources("gin"))
        .expect("it is there")
        .map(|file| file.expect("readable").path());
    let programs = ["gimlet", "gimlet-torch"].map(|name| programs().join(name));
    let mut files: Vec<PathBuf> = programs.into_iter().chain(files).collect();
    files.sort();
    let describe = |file: PathBuf| {
        let found = fs::metadata(&file).expect("it is there");
        format!("{} {} {:?}\n", file.display(), found.len(), found.modified())
    };
    files.into_iter().map(describe).collect()
}

/// Steps of the checkpoints in a MODEL_DIR, ascending.
pub fn steps(model_dir: &Path) -> Vec<u64> {
    let model_dir = gimlet::storage::Path::try_from(model_dir).expect("the path is text");
    gimlet::checkpoint::list_steps(&model_dir).expect("the folder is readable")
}

fn pairs(range: std::ops::Range<u32>) -> String {
    let pair = |i: u32| {
        let word = format!("w{}", i * 7919 % 1000);
        format!("{{\"inputs\": \"{word}\", \"targets\": \"{word}\"}}\n")
    };
    range.map(pair).collect()
}
