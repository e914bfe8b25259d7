//! Reads checkpoints of other programs. A reader of a file format ([`RawTensors`]) returns tensors
//! under their own names; a map (`names`) gives them T5X's names, shapes and order of axes;
//! [`Foreign`] combines both.

mod config;
mod config_keys;
mod flax;
mod generation_keys;
mod hugging_face;
mod named;
mod safetensors;
mod scan;
mod shards;
mod sums;
mod tensorflow;
mod torch;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::array::{Array, ArrayInfo, num_elements};
use super::blocks::BLOCK_BYTES;
use super::error::CheckpointError;
use super::format::Format;
use super::names::hugging_face::WeightsLayout;
use super::names::{Axes, Origin, T5xArray};
use super::raw::{RawInfo, RawInfos};
use super::stored::Stored;
use super::t5x_tree::STEP;
use super::transpose::transpose;
use gimlet_storage::Path;

pub use self::config::HuggingFaceConfig;
pub(super) use self::config_keys::check_config_keys;
pub(super) use self::safetensors::safetensors_type;
pub use generation_keys::{GENERATION_FILE, GENERATION_KEYS, generation_fields};
pub(super) use hugging_face::{
    marks as hugging_face_marks, open_file, open_hugging_face, open_weights,
};
pub(super) use sums::mask;
pub use tensorflow::index_of;
#[cfg(test)]
pub(super) use tensorflow::read_table;
pub(super) use tensorflow::{
    BundleEntry, Dim, FOOTER, Header, MAGIC, STATE_FILE, Shape, Version, masked_crc32c,
    open_tensorflow, type_number,
};
pub(super) use torch::{open_accelerate, open_torch};

use sums::Piece;

/// Maximum number of dimensions of a tensor, as in numpy.
const MAX_RANK: usize = 64;

/// One or several files of tensors under their own names.
pub(super) trait RawTensors: fmt::Debug + Send + Sync {
    /// Every tensor of the model.
    fn tensors(&self) -> &RawInfos;

    /// The type and shape of a tensor, which the list of a model's tensors need not have.
    fn info(&self, name: &str) -> &RawInfo {
        &self.tensors()[name]
    }

    /// The bytes of some rows of such a tensor, in C order; all rows of a scalar are `0..1`.
    fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<u8>, CheckpointError>;

    /// The byte ranges of all tensors, and their checksums.
    fn pieces(&self) -> Vec<Piece<'_>>;

    /// The naming scheme of the tensors in these files.
    fn layout(&self) -> WeightsLayout {
        WeightsLayout::PyTorch
    }

    /// Whether two names stand for the same bytes, such as tied embeddings.
    fn is_same(&self, _name: &str, _other: &str) -> bool {
        false
    }
}

/// A checkpoint of another program, under T5X's names.
#[derive(Debug)]
pub(super) struct Foreign {
    path: Path,
    format: Format,
    raw: Box<dyn RawTensors>,
    entries: BTreeMap<String, T5xArray>,
    /// Gimlet's own files.
    files: BTreeMap<String, String>,
}

impl Foreign {
    pub(super) fn new(
        path: &Path,
        format: Format,
        raw: Box<dyn RawTensors>,
        entries: BTreeMap<String, T5xArray>,
    ) -> Self {
        Self { path: path.clone(), format, raw, entries, files: BTreeMap::new() }
    }

    /// Whether it has that array.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    fn entry(&self, name: &str) -> Result<&T5xArray, CheckpointError> {
        self.entries.get(name).ok_or_else(|| self.no_array(name))
    }

    fn read_tensor(
        &self,
        raw: &str,
        axes: Axes,
        part: &[Range<usize>],
    ) -> Result<Array, CheckpointError> {
        match axes {
            Axes::Same => self.read_straight(raw, part),
            Axes::Swapped => self.read_transposed(raw, (&part[0], &part[1])),
        }
    }

    /// Reads a part of a matrix that is stored transposed, some rows of the file at a time.
    fn read_transposed(
        &self,
        raw: &str,
        (rows, columns): (&Range<usize>, &Range<usize>),
    ) -> Result<Array, CheckpointError> {
        let info = self.raw.info(raw);
        let size = info.dtype.size();
        let step = (BLOCK_BYTES / info.row_bytes().max(1)).max(1);
        let mut data = vec![0; rows.len() * columns.len() * size];
        for from in columns.clone().step_by(step) {
            let block = from..(from + step).min(columns.end);
            let bytes = self.raw.read_rows(raw, block.clone())?;
            let place = (from - columns.start, columns.len());
            transpose(&bytes, (block.len(), info.shape[1]), rows, &mut data, place, size);
        }
        Ok(Array { dtype: info.dtype, shape: vec![rows.len(), columns.len()], data })
    }

    /// Reads a part of an array as it is stored; of rows that are not read whole, some at a time.
    fn read_straight(&self, raw: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let info = self.raw.info(raw);
        let shape: Vec<usize> = part.iter().map(Range::len).collect();
        let [rows, columns @ ..] = part else {
            let data = self.raw.read_rows(raw, 0..1)?;
            return Ok(Array { dtype: info.dtype, shape, data });
        };
        if columns.iter().zip(&info.shape[1..]).all(|(range, size)| *range == (0..*size)) {
            let data = self.raw.read_rows(raw, rows.clone())?;
            return Ok(Array { dtype: info.dtype, shape, data });
        }
        let step = (BLOCK_BYTES / info.row_bytes().max(1)).max(1);
        let mut data = Vec::new();
        for from in rows.clone().step_by(step) {
            let block = from..(from + step).min(rows.end);
            let shape: Vec<usize> =
                std::iter::once(block.len()).chain(info.shape[1..].iter().copied()).collect();
            let within: Vec<_> =
                std::iter::once(0..block.len()).chain(columns.iter().cloned()).collect();
            let bytes = self.raw.read_rows(raw, block)?;
            data.extend(Array { dtype: info.dtype, shape, data: bytes }.part(&within).data);
        }
        Ok(Array { dtype: info.dtype, shape, data })
    }
}

impl Stored for Foreign {
    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> Format {
        self.format
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        if !self.entries.contains_key(STEP) {
            return Ok(0);
        }
        let step = self.read(STEP)?.to_int().and_then(|step| step.try_into().ok());
        step.ok_or_else(|| CheckpointError::damaged(&self.path, "its step is not a number"))
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = Vec::with_capacity(self.entries.len());
        for (name, T5xArray { dtype, shape, .. }) in &self.entries {
            leaves.push(ArrayInfo { name, dtype: *dtype, shape });
        }
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let whole: Vec<_> = self.entry(name)?.shape.iter().map(|extent| 0..*extent).collect();
        self.read_part(name, &whole)
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        Ok(self.files.get(relative).map(|text| text.clone().into_bytes()))
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(self.files.keys().cloned().collect())
    }

    fn has_checksums(&self) -> bool {
        self.raw.pieces().iter().any(|piece| piece.expected.is_some())
    }

    fn verify(&self) -> Result<(), CheckpointError> {
        sums::verify(&self.path, &*self.raw)?;
        self.step().map(drop)
    }

    fn damages(&self, tell: &mut dyn FnMut(u64)) -> Result<Vec<CheckpointError>, CheckpointError> {
        let damages = sums::damages(&*self.raw, tell)?;
        if damages.is_empty() {
            return match self.step() {
                Err(error) if error.is_damage() => Ok(vec![error]),
                step => step.map(|_| damages),
            };
        }
        Ok(damages)
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let entry = self.entry(name)?;
        assert_eq!(part.len(), entry.shape.len(), "one range for each dimension");
        match &entry.origin {
            Origin::Zeros => {
                let shape: Vec<usize> = part.iter().map(Range::len).collect();
                let data = vec![0; num_elements(&shape) * entry.dtype.size()];
                Ok(Array { dtype: entry.dtype, shape, data })
            }
            Origin::Number(number) => Ok(Array::scalar_i32(*number)),
            Origin::Step(raw) => {
                let stored = self.read_straight(raw, part)?;
                // PyTorch counts in floats.
                let float = || stored.to_f32()?.first().map(|step| *step as i64);
                let step = stored.to_int().or_else(float);
                let step = step.and_then(|step| i32::try_from(step).ok());
                let damaged = || {
                    CheckpointError::damaged(&self.path, format!("`{raw}` is not a step number"))
                };
                step.map(Array::scalar_i32).ok_or_else(damaged)
            }
            Origin::Tensor(raw, axes) => self.read_tensor(raw, *axes, part),
            Origin::Divided(raw, axes, divisor) => {
                let stored = self.read_tensor(raw, *axes, part)?;
                let floats = stored.to_f32().ok_or_else(|| {
                    CheckpointError::damaged(&self.path, format!("`{raw}` does not hold floats"))
                })?;
                let divided = floats.into_iter().map(|value| (f64::from(value) / divisor) as f32);
                Ok(Array::from_f32(&stored.shape, &divided.collect::<Vec<f32>>()))
            }
        }
    }
}
