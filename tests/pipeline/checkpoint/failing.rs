//! Conversions that fail or are refused: they leave nothing.

use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::Command;

use gimlet::checkpoint::{
    Array, ArrayInfo, CheckpointError, DType, Format, HuggingFaceOptions, NativeOptions, Stored,
    Weights, export_hugging_face, export_orbax, export_t5x,
};
use gimlet::models::{HUGGING_FACE, open};
use gimlet::storage::{Path, StorageError};

use super::interrupted::{contents, conversion, end, save_t5, start};
use super::{everywhere, files, scratch};

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
fn what_a_conversion_wrote_before_the_disk_was_full_is_removed() {
    let (_dir, dir) = scratch();
    let from = save_t5(&dir.join("from"));
    let formats = [
        ("t5x", &[][..]),
        ("orbax", &["--to=orbax"]),
        ("hf", &["--to=hugging_face"]),
        ("model.pth", &["--to=torch"]),
        ("mesh", &["--to=mesh_tensorflow"]),
    ];
    for (name, flags) in formats {
        let [whole, out] = ["whole", "to"].map(|folder| dir.join(folder));
        let to = out.join(name);
        [&whole, &out].iter().for_each(|folder| folder.create_dir_all().unwrap());
        end(start(&from, &whole.join(name), flags));
        let largest = *whole.sizes().unwrap().values().max().unwrap();
        let mut full = conversion(&from, &to, flags);
        let output = limit(&mut full, largest * 4 / 5).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains("the disk is full; free some space"), "{name}: {told}");
        assert_eq!(files(&out), [], "{name}");
        end(start(&from, &to, flags));
        assert!(contents(&out) == contents(&whole), "{name}: other bytes");
        [whole, out].iter().for_each(|folder| folder.remove_dir_all().unwrap());
    }
}

/// A checkpoint that calls a function during its conversion, before one of its arrays is read.
struct During<'a>(
    &'a dyn Stored,
    &'static str,
    &'a (dyn Fn() -> Result<(), CheckpointError> + Sync),
);

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
            self.2()?;
        }
        self.0.read(name)
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        self.read(name).map(|array| array.part(part))
    }
}

#[test]
fn of_two_conversions_at_once_into_one_place_the_second_is_refused() {
    everywhere(|dir| {
        let from = open(&save_t5(&dir.join("from"))).unwrap();
        let (native, weights) = (NativeOptions::default(), HuggingFaceOptions::default());
        let refused = |to: &Path, flags: &[&str]| {
            let output = conversion(from.path(), to, flags).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.contains("nothing is written there by this process"), "{told}");
            Ok(())
        };
        let embedding = "target/token_embedder/embedding";
        let to = dir.join("to");
        let second = || refused(&to, &[]).and_then(|()| refused(&to, &["--to=orbax"]));
        let whole = export_t5x(&During(&*from, embedding, &second), (to.clone(), 7), &native);
        open(&whole.unwrap()).unwrap().verify().unwrap();
        let error = export_orbax(&*from, (to.clone(), 7), &native).unwrap_err().to_string();
        assert!(error.contains("it is there already"), "{error}");
        // Of two files that are sent to a store, the later one stays.
        if dir.is_on_disk() {
            let to = dir.join("hf");
            let second = || refused(&to, &["--to=hugging_face"]);
            export_hugging_face(&During(&*from, embedding, &second), &to, &weights, HUGGING_FACE)
                .unwrap();
        }
    });
}

#[test]
fn a_conversion_that_ends_behind_another_in_its_folder_leaves_that_whole() {
    let (_dir, dir) = scratch();
    let from = open(&save_t5(&dir.join("from"))).unwrap();
    let to = dir.join("to");
    let options =
        |weights, dtype| HuggingFaceOptions { weights, dtype, ..HuggingFaceOptions::default() };
    let other = options(Weights::Torch, Some(DType::Bf16));
    let overtake = || export_hugging_face(&*from, &to, &other, HUGGING_FACE);
    let during = During(&*from, "target/token_embedder/embedding", &overtake);
    let error =
        export_hugging_face(&during, &to, &options(Weights::Safetensors, None), HUGGING_FACE);
    assert!(error.unwrap_err().to_string().contains("it holds another `config.json`"));
    let left: Vec<_> = to.sizes().unwrap().into_keys().collect();
    assert_eq!(left, ["config.json", "generation_config.json", "pytorch_model.bin"]);
    open(&to).unwrap().verify().unwrap();
}

#[test]
fn what_a_conversion_wrote_before_its_source_failed_is_removed() {
    everywhere(|dir| {
        let from = open(&save_t5(&dir.join("from"))).unwrap();
        let failing = || Err(StorageError::new("read", dir, ErrorKind::TimedOut.into()).into());
        let failing = During(&*from, "target/token_embedder/embedding", &failing);
        let to = dir.join("to");
        export_t5x(&failing, (to.clone(), 7), &NativeOptions::default()).unwrap_err();
        export_orbax(&failing, (to.clone(), 7), &NativeOptions::default()).unwrap_err();
        export_hugging_face(&failing, &to, &HuggingFaceOptions::default(), HUGGING_FACE)
            .unwrap_err();
        assert!(!to.exists().unwrap() || files(&to).is_empty());
    });
}
