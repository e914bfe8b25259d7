//! Conversions that end with a temporary error: the next conversion keeps their files.

use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;

use gimlet::checkpoint::{
    Array, ArrayInfo, CheckpointError, DType, Format, HuggingFaceOptions, NativeOptions, Stored,
    Weights, checkpoint_dir, export_hugging_face, export_orbax, export_t5x, list_steps, open,
};
use gimlet::storage::{Path, StorageError};

use super::interrupted::{contents, conversion, end, kept, save_t5, start};
use super::stores::orphan;
use super::{copy_files, save, scratch};
use crate::storage::faulty::Bucket;
use crate::storage::server::Request;

/// Limits files to this size, as on a full disk.
fn limit(command: &mut Command, bytes: u64) -> &mut Command {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: system calls alone, which are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

#[test]
fn what_a_conversion_wrote_before_the_disk_was_full_is_kept() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let formats = [
        ("t5x", &[][..], "checkpoint_7"),
        ("orbax", &["--to=orbax"], "checkpoint_7"),
        ("hf", &["--to=hugging_face"], "model.safetensors"),
        ("model.pth", &["--to=torch"], ""),
        ("mesh", &["--to=mesh_tensorflow"], "model.ckpt-7.index"),
    ];
    for (name, flags, finished) in formats {
        let [whole, to] = ["whole", "to"].map(|folder| dir.join(folder).join(name));
        whole.parent().unwrap().create_dir_all().unwrap();
        to.parent().unwrap().create_dir_all().unwrap();
        end(start(&from, &whole, flags));
        let [whole, out] = [&whole, &to].map(|path| path.parent().unwrap());
        let largest = *whole.sizes().unwrap().values().max().unwrap();
        let mut full = conversion(&from, &to, flags);
        let output = limit(&mut full, largest * 4 / 5).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains("the disk is full; free some space"), "{name}: {told}");
        assert!(told.contains("kept, so that the same command can continue"), "{name}: {told}");
        let seen = if finished.is_empty() { to.clone() } else { to.join(finished) };
        assert!(!seen.exists().unwrap(), "{name} is seen");
        // Fuller still: not even the journal can be written.
        assert!(!limit(&mut conversion(&from, &to, flags), 1).status().unwrap().success());
        let told = end(start(&from, &to, flags));
        assert!(kept(&told) > 3, "{name}: {told}");
        assert!(contents(&out) == contents(&whole), "{name}: other bytes");
        [whole, out].iter().for_each(|folder| folder.remove_dir_all().unwrap());
    }
}

/// A checkpoint on a link that breaks before one of its arrays is read.
#[derive(Debug)]
struct Breaking<'a>(&'a dyn Stored, &'static str);

impl Stored for Breaking<'_> {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn format(&self) -> Format {
        self.0.format()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.0.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        self.0.leaves()
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        match name == self.1 {
            true => Err(StorageError::new("read", self.path(), ErrorKind::TimedOut.into()).into()),
            false => self.0.read(name),
        }
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        self.read(name).map(|array| array.part(part))
    }
}

/// A checkpoint that calls a function during its conversion, before one of its arrays is read.
struct During<'a>(&'a dyn Stored, &'static str, &'a (dyn Fn() + Sync));

impl std::fmt::Debug for During<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Stored for During<'_> {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn format(&self) -> Format {
        self.0.format()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.0.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        self.0.leaves()
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        if name == self.1 {
            self.2();
        }
        self.0.read(name)
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        self.read(name).map(|array| array.part(part))
    }
}

#[test]
fn of_two_conversions_at_once_into_one_place_the_second_is_refused_unless_it_writes_the_same() {
    let (_dir, dir) = scratch();
    let from = open(&save(&dir.join("from"), 7)).unwrap();
    let (same, half) = (
        NativeOptions::default(),
        NativeOptions { dtype: Some(DType::Bf16), ..NativeOptions::default() },
    );
    let at = || (dir.join("to"), 7);
    let inner = || {
        export_t5x(&*from, at(), &half).unwrap_err().to_string()
            + &export_orbax(&*from, at(), &same).unwrap_err().to_string()
    };
    let told = Mutex::new(String::new());
    export_t5x(&During(&*from, "state/step", &|| *told.lock().unwrap() = inner()), at(), &same)
        .unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(
        told.matches("a conversion of another checkpoint, format or --dtype").count(),
        2,
        "{told}"
    );
    // Like a conversion that began in the same moment.
    dir.join("to").remove_dir_all().unwrap();
    let other = export_t5x(&*from, (dir.join("other"), 7), &half).unwrap();
    let overtake = || copy_files(&other, &checkpoint_dir(&dir.join("to"), 7));
    let error =
        export_t5x(&During(&*from, "state/step", &overtake), at(), &same).unwrap_err().to_string();
    assert!(error.contains("another process has finished it meanwhile"), "{error}");
    dir.join("to").remove_dir_all().unwrap();
    let nothing = || ();
    let other = export_t5x(&During(&*from, "", &nothing), (dir.join("another"), 7), &same).unwrap();
    let overtake = || copy_files(&other, &checkpoint_dir(&dir.join("to"), 7));
    export_t5x(&During(&*from, "state/step", &overtake), at(), &same).unwrap();
}

#[test]
fn a_conversion_that_ends_behind_another_in_its_folder_leaves_that_whole() {
    let (_dir, dir) = scratch();
    let from = open(&save_t5(&dir.join("from"))).unwrap();
    let to = dir.join("to");
    let options =
        |weights, dtype| HuggingFaceOptions { weights, dtype, ..HuggingFaceOptions::default() };
    let other = options(Weights::Torch, Some(DType::Bf16));
    let overtake = || drop(export_hugging_face(&*from, &to, &other));
    let during = During(&*from, "target/token_embedder/embedding", &overtake);
    let error = export_hugging_face(&during, &to, &options(Weights::Safetensors, None));
    assert!(error.unwrap_err().to_string().contains("it holds another `config.json`"));
    let left: Vec<_> = to.sizes().unwrap().into_keys().collect();
    assert_eq!(left, ["config.json", "generation_config.json", "pytorch_model.bin"]);
    open(&to).unwrap().verify().unwrap();
}

#[test]
fn what_a_conversion_sent_before_the_link_broke_is_kept() {
    let (_dir, dir) = scratch();
    let from = open(&save_t5(&dir)).unwrap();
    let bucket = Bucket::new();
    let run = bucket.path("run");
    let broken = "target/token_embedder/embedding";
    let error = export_t5x(&Breaking(&*from, broken), (run.clone(), 7), &NativeOptions::default())
        .unwrap_err();
    assert!(!error.is_damage() && list_steps(&run).unwrap().is_empty(), "{error}");
    // Like the work of another process.
    orphan(&run);
    let before = bucket.requests().len();
    let to = export_t5x(&*from, (run, 7), &NativeOptions::default()).unwrap();
    let sent = bucket.requests().split_off(before);
    let is_sent = |name: &String| {
        let is_it = |request: &Request| request.method == "PUT" && request.target.contains(name);
        sent.iter().any(is_it)
    };
    let (again, kept): (Vec<_>, Vec<_>) = to
        .sizes()
        .unwrap()
        .into_keys()
        .filter(|name| name.starts_with("target."))
        .partition(is_sent);
    assert!(kept.len() > 100 && !again.is_empty(), "{kept:?} {again:?}");
    let whole = export_t5x(&*from, (dir.join("whole"), 7), &NativeOptions::default()).unwrap();
    assert!(contents(&to) == contents(&whole), "other bytes");
}
