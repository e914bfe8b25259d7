//! The description of arrays in files of numpy's and in checkpoints.

use crate::gin::Configurable;

/// An array that is read when a run begins.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum StoredArray {
    /// One of a file.
    NpLoad(NpLoad),
    /// One of a checkpoint.
    T5xLoad(T5xLoad),
}

/// The array in a file of `np.save`. Source: prompt-tuning `prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.np_load", ignored(restore_dtype = "parameters are float32"))]
pub struct NpLoad {
    /// The file, in any storage.
    pub path: String,
}

/// A parameter in a checkpoint of any format. Source: prompt-tuning `prompts.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.t5x_load", ignored(restore_dtype = "parameters are float32"))]
pub struct T5xLoad {
    /// The checkpoint: `checkpoint_1000000`, or another format's file or folder.
    pub checkpoint_path: String,
    /// The parameter: `token_embedder/embedding`, with `target/` before it or without.
    pub variable_path: String,
}

impl StoredArray {
    /// The parameter that names the array, for remedies.
    pub(super) fn parameter(&self) -> &'static str {
        match self {
            Self::NpLoad(_) => "prompts.np_load.path",
            Self::T5xLoad(_) => "prompts.t5x_load.checkpoint_path",
        }
    }
}
