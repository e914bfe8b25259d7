//! Arrays in files of numpy's and in checkpoints, opened.

use std::ops::Range;

use super::array::{NpLoad, StoredArray, T5xLoad};
use super::error::GivenRowsError;
use crate::checkpoint::{NpyFile, Stored, TARGET};
use crate::gin::did_you_mean;
use crate::models::open;
use crate::storage::Path;

/// An array of which the shape is known and some rows can be read.
#[derive(Debug)]
pub(super) struct OpenArray {
    rows: OpenRows,
    pub shape: Vec<usize>,
    /// The array and its place, for messages.
    pub name: String,
}

#[derive(Debug)]
enum OpenRows {
    Npy(NpyFile),
    Stored(Box<dyn Stored>, String),
}

impl StoredArray {
    /// Opens the array, of which the elements are not read.
    pub(super) fn open(&self) -> Result<OpenArray, GivenRowsError> {
        match self {
            Self::NpLoad(NpLoad { path }) => {
                let file = NpyFile::open(&Path::parse(path)?)?;
                let name = format!("the array of `{path}` (prompts.np_load.path)");
                check_floats(&name, file.dtype.is_float())?;
                Ok(OpenArray { shape: file.shape.clone(), rows: OpenRows::Npy(file), name })
            }
            Self::T5xLoad(load) => load.open(),
        }
    }
}

impl T5xLoad {
    fn open(&self) -> Result<OpenArray, GivenRowsError> {
        let Self { checkpoint_path, variable_path } = self;
        let stored = open(&Path::parse(checkpoint_path)?)?;
        let own = variable_path.trim_start_matches('/');
        let source = format!("{TARGET}{}", own.strip_prefix(TARGET).unwrap_or(own));
        let found = stored
            .leaves()
            .iter()
            .find(|leaf| leaf.name == source)
            .map(|leaf| (leaf.shape.to_vec(), leaf.dtype.is_float()));
        let Some((shape, is_float)) = found else {
            let leaves = stored.leaves();
            let known = leaves.iter().filter_map(|leaf| leaf.name.strip_prefix(TARGET));
            return Err(GivenRowsError::Unfit(format!(
                "prompts.t5x_load.variable_path is '{variable_path}', and {} has no such parameter: {}",
                stored.path(),
                did_you_mean(own, known)
            )));
        };
        let name = format!("`{own}` of `{checkpoint_path}` (prompts.t5x_load)");
        check_floats(&name, is_float)?;
        Ok(OpenArray { rows: OpenRows::Stored(stored, source), shape, name })
    }
}

impl OpenArray {
    /// Reads rows of a matrix.
    pub(super) fn read(&self, rows: Range<usize>) -> Result<Vec<f32>, GivenRowsError> {
        let array = match &self.rows {
            OpenRows::Npy(file) => file.rows(rows)?,
            OpenRows::Stored(stored, source) => {
                stored.read_part(source, &[rows, 0..self.shape[1]])?
            }
        };
        Ok(array.to_f32().expect("it was seen to be floats"))
    }
}

fn check_floats(name: &str, is_float: bool) -> Result<(), GivenRowsError> {
    match is_float {
        true => Ok(()),
        false => Err(GivenRowsError::Unfit(format!("{name} holds no floats, expected floats"))),
    }
}
