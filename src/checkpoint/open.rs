//! Recognizes the format of a checkpoint from its files, never by asking the user.

use std::io::Read;

use super::chosen::chosen;
use super::error::CheckpointError;
use super::foreign::{
    hugging_face_marks, index_of, open_accelerate, open_file, open_hugging_face, open_tensorflow,
    open_torch,
};
use super::format::Format;
use super::marks::{CHECKPOINT_FILE, ORBAX_MARKS, TRAINER_FILE, has_any};
use super::names::hugging_face::Families;
use super::native::Reader;
use super::orbax;
use super::peft::{PeftConfig, open_peft};
use super::stored::Stored;
use gimlet_storage::{Path, StorageError};

/// First bytes of TensorFlow's file `checkpoint`: a text that names the newest checkpoint.
const TENSORFLOW_TEXT: &[u8] = b"model_checkpoint_path";

/// The file of a model in Megatron-LM's own checkpoints, and the one that names the newest of them.
const MEGATRON_MARKS: [&str; 2] = ["model_optim_rng.pt", "latest_checkpointed_iteration.txt"];

/// Opens a checkpoint of any format that Gimlet reads. Tensors of Hugging Face's models get the names that their family has
/// for them; without families they keep their own. `DIR:best`, `DIR:last` and `DIR:STEP` are checkpoints in `DIR`.
///
/// # Errors
/// The path does not exist; the checkpoint is damaged; it is not a checkpoint; it is a model of no family.
pub fn open(path: &Path, families: Families) -> Result<Box<dyn Stored>, CheckpointError> {
    let path = &chosen(path)?;
    match recognize(path)? {
        Format::T5x => match Reader::open(path) {
            // The oldest Orbax checkpoints look like T5X's until their file is read.
            Err(CheckpointError::Orbax { .. }) => {
                let is_file = !path.is_dir()?;
                let folder = path.parent().filter(|_| is_file).unwrap_or_else(|| path.clone());
                orbax::open(&folder)
            }
            reader => Ok(Box::new(reader?)),
        },
        Format::Orbax => orbax::open(path),
        Format::HuggingFace if path.is_dir()? => Ok(Box::new(open_hugging_face(path, families)?)),
        Format::HuggingFace => Ok(Box::new(open_file(path, families)?)),
        Format::Trainer if path.is_dir()? => Ok(Box::new(open_accelerate(path, families)?)),
        Format::Torch | Format::Trainer => Ok(Box::new(open_torch(path, families)?)),
        Format::Peft => open_peft(path, families),
        Format::MeshTensorFlow => Ok(Box::new(open_tensorflow(path)?)),
    }
}

/// The format at a path; T5X's if no other format is recognized.
pub(super) fn recognize(path: &Path) -> Result<Format, CheckpointError> {
    let is_folder = path.is_dir()?;
    if path.file_name() == MEGATRON_MARKS[0] || (is_folder && has_any(path, &MEGATRON_MARKS)?) {
        return Err(CheckpointError::Unsupported {
            path: path.to_string(),
            reason: "it is Megatron-LM's own, which has names and parts of that program; expected a folder of transformers, or a \
                     file of t5-experiments"
                .to_string(),
        });
    }
    if is_folder {
        return recognize_folder(path);
    }
    if !path.exists()? {
        let is_bundle = index_of(path).exists()?;
        return Ok(if is_bundle { Format::MeshTensorFlow } else { Format::T5x });
    }
    let head = head(path)?;
    let name = path.file_name();
    if head.is_empty() {
        return Err(CheckpointError::damaged(path, "it is empty"));
    }
    let is_pickle =
        head.starts_with(b"PK\x03\x04") || (head.starts_with(b"\x80") && named_torch(name));
    Ok(match () {
        () if head.starts_with(TENSORFLOW_TEXT) || name.ends_with(".index") => {
            Format::MeshTensorFlow
        }
        () if [".safetensors", ".msgpack"].iter().any(|end| name.ends_with(end)) => {
            Format::HuggingFace
        }
        () if is_pickle => Format::Torch,
        () => Format::T5x,
    })
}

/// Whether a folder contains a file that marks a checkpoint of some format.
pub(super) fn is_marked(dir: &Path) -> Result<bool, CheckpointError> {
    let marks = [CHECKPOINT_FILE, PeftConfig::FILE].into_iter();
    let mut marks = marks.chain(ORBAX_MARKS).chain(hugging_face_marks());
    marks.try_fold(false, |found, mark| Ok(found || dir.join(mark).exists()?))
}

fn recognize_folder(dir: &Path) -> Result<Format, CheckpointError> {
    if dir.join(PeftConfig::FILE).exists()? {
        return Ok(Format::Peft);
    }
    if has_any(dir, &ORBAX_MARKS)? {
        return Ok(Format::Orbax);
    }
    let file = dir.join(CHECKPOINT_FILE);
    if file.exists()? {
        let is_tensorflow = head(&file)?.starts_with(TENSORFLOW_TEXT);
        return Ok(if is_tensorflow { Format::MeshTensorFlow } else { Format::T5x });
    }
    if dir.join(TRAINER_FILE).exists()? {
        return Ok(Format::Trainer);
    }
    Ok(if has_any(dir, &hugging_face_marks())? { Format::HuggingFace } else { Format::T5x })
}

fn named_torch(name: &str) -> bool {
    [".pt", ".pth", ".bin", ".ckpt"].iter().any(|end| name.ends_with(end))
}

/// The first bytes of a file.
fn head(file: &Path) -> Result<Vec<u8>, CheckpointError> {
    let mut head = Vec::new();
    let read = file.open()?.take(TENSORFLOW_TEXT.len() as u64).read_to_end(&mut head);
    read.map_err(|error| StorageError::new("read", file, error))?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_of_megatron_are_refused_by_name() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("mp_rank_00")).unwrap();
        let folder = Path::try_from(scratch.path()).unwrap();
        let model = folder.join("mp_rank_00").join(MEGATRON_MARKS[0]);
        model.write_atomic(b"PK\x03\x04").unwrap();
        folder.join(MEGATRON_MARKS[1]).write_atomic(b"1000").unwrap();
        for path in [folder.clone(), folder.join("mp_rank_00"), model] {
            let error = recognize(&path).unwrap_err().to_string();
            assert!(error.contains("it is Megatron-LM's own"), "{error}");
        }
    }
}
