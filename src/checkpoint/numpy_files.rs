//! Parameters beside a checkpoint as files of numpy's, which stay when the checkpoint is removed:
//! `MODEL_DIR/numpy_checkpoints/checkpoint_7/encoder.prompt.prompt.prompt`. Source: prompt-tuning `train/utils.py`.

use super::array::{ArrayView, DType};
use super::error::CheckpointError;
use super::marks::checkpoint_dir;
use super::name_patterns::{NamePatterns, NotAPattern};
use super::npy::npy_bytes;
use gimlet_storage::Path;

/// The folder of MODEL_DIR with a folder for each step.
pub const NUMPY_DIR: &str = "numpy_checkpoints";

/// The parameters that are written.
#[derive(Clone, Debug, Default)]
pub struct NumpyFiles {
    patterns: NamePatterns,
}

impl NumpyFiles {
    /// Compiles the patterns of their names.
    ///
    /// # Errors
    /// A pattern is not a regular expression.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let patterns = NamePatterns::new(patterns).map_err(|NotAPattern { pattern, reason }| {
            format!("utils.Checkpointer.save_paths has '{pattern}', which is not a regular expression: {reason}")
        })?;
        Ok(Self { patterns })
    }

    /// Whether a parameter is written: `encoder/prompt/prompt/prompt`.
    pub fn holds(&self, param: &str) -> bool {
        self.patterns.match_any(param)
    }
}

/// Writes parameters of a step, each when it is whole, with floats rounded to a type if one is given.
pub(super) fn write_numpy_files<'a>(
    (model_dir, step): (&Path, u64),
    params: impl Iterator<Item = (&'a str, ArrayView<'a>)>,
    dtype: Option<DType>,
) -> Result<(), CheckpointError> {
    let folder = checkpoint_dir(&model_dir.join(NUMPY_DIR), step);
    for (name, array) in params {
        folder.create_dir_all()?;
        let array = array.to_array();
        let array = match dtype {
            Some(dtype) => array.cast(dtype),
            None => array,
        };
        folder.join(&name.replace('/', ".")).write_atomic(&npy_bytes(array.view()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_whole_name() {
        let files = NumpyFiles::new(&[".*/prompt/.*".to_string()]).unwrap();
        assert!(files.holds("encoder/prompt/prompt/prompt"));
        assert!(!files.holds("encoder/layers_0/mlp/wo/kernel"));
        assert!(!NumpyFiles::new(&["prompt".to_string()]).unwrap().holds("encoder/prompt"));
        assert!(NumpyFiles::new(&["(".to_string()]).unwrap_err().contains("save_paths"));
    }
}
