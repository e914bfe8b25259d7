//! Exports any readable checkpoint for other programs, block by block. The output becomes visible
//! only when it is complete.

mod carried;
mod flax;
mod hugging_face;
mod model;
mod native;
mod options;
mod pickle;
mod safetensors;
mod tensor;
mod tensor_file;
mod tensorflow;
mod tokenizer;
mod torch;
mod trainer;

use std::io;

use super::error::CheckpointError;
use gimlet_storage::{Path, StorageError};

pub use carried::{Carried, unheld};
pub use hugging_face::{export_hugging_face, export_torch};
pub use native::{NativeOptions, export_orbax, export_t5x};
pub use options::{HuggingFaceOptions, MeshOptions, Weights};
pub use pickle::{PickleValue, StorageView};
pub use safetensors::safetensors_header;
pub use tensorflow::{export_mesh_tensorflow, name_newest};
pub(super) use tokenizer::pretty;
pub(super) use trainer::write_trainer;
pub use trainer::{GradScaler, Rates, TrainerForm, export_trainer};

/// Converts an error of writing a file: either a wrapped error of reading the checkpoint, or an
/// error of the file.
pub(super) fn unwrapped(file: &Path, error: io::Error) -> CheckpointError {
    let read = error.downcast::<CheckpointError>();
    read.unwrap_or_else(|error| StorageError::new("write", file, error).into())
}
