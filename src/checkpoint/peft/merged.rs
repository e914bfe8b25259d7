//! A checkpoint whose kernels have the additions of LoRA in them, without the factors and the state of a training.

use std::collections::BTreeMap;
use std::ops::Range;

use super::FACTORS;
use crate::array::{Array, ArrayInfo};
use crate::error::CheckpointError;
use crate::format::{Format, Without};
use crate::stored::Stored;
use crate::t5x_tree::{STEP, TARGET};
use gimlet_storage::Path;

/// A checkpoint with merged kernels.
#[derive(Debug)]
struct Merged {
    from: Box<dyn Stored>,
    /// The factors of each kernel that has some, whole and in float32.
    additions: BTreeMap<String, LowRankAddition>,
}

/// The addition to one kernel, of which each dimension belongs to one of the factors.
#[derive(Debug)]
struct LowRankAddition {
    first: Vec<f32>,  // [in, rank]
    second: Vec<f32>, // [rank, out], times the factor
    rank: usize,
    /// The number of the kernel's dimensions that are inputs.
    num_inputs: usize,
    shape: Vec<usize>,
}

/// Returns the checkpoint with the additions of LoRA in its kernels.
///
/// # Errors
/// It has none, or they lie in arrays of all layers; arrays that cannot be read.
pub fn merged(
    from: Box<dyn Stored>,
    (rank, alpha): (usize, f64),
) -> Result<Box<dyn Stored>, CheckpointError> {
    let shapes = from.shapes();
    let refused =
        |reason: String| CheckpointError::Export { path: from.path().to_string(), reason };
    let paths = shapes.keys().filter_map(|name| {
        let path = name.strip_prefix(TARGET)?.strip_suffix(FACTORS[0].0)?;
        Some(format!("{TARGET}{path}"))
    });
    let mut additions = BTreeMap::new();
    for path in paths {
        let kernel = format!("{path}kernel");
        let names = FACTORS.map(|(end, _)| format!("{path}{end}"));
        let found = [&kernel, &names[0], &names[1]].map(|name| shapes.get(name));
        let [Some(shape), Some(first), Some(second)] = found else {
            return Err(refused(format!(
                "`{path}` has factors and no kernel of its own; expected layers and kernels in separate arrays: merge after \
                 `--to peft`, with a base for transformers"
            )));
        };
        let num_inputs = first.len() - 1;
        if second[0] != rank {
            return Err(refused(other_rank(&names[1], second[0], rank)));
        }
        let fits = first[num_inputs] == rank
            && first[..num_inputs] == shape[..num_inputs.min(shape.len())]
            && second[1..] == shape[num_inputs.min(shape.len())..];
        if !fits {
            return Err(refused(format!(
                "`{kernel}` {shape:?} is not of the dimensions of its factors {first:?} and {second:?}; expected layers in \
                 separate arrays: merge after `--to peft`, with a base for transformers"
            )));
        }
        let read = |name: &String| {
            let floats = from.read(name)?.to_f32();
            floats.ok_or_else(|| {
                CheckpointError::damaged(from.path(), format!("`{name}` holds no floats"))
            })
        };
        let factor = (alpha / rank as f64) as f32;
        let second = read(&names[1])?.into_iter().map(|value| value * factor).collect();
        let first = read(&names[0])?;
        additions.insert(
            kernel,
            LowRankAddition { first, second, rank, num_inputs, shape: shape.clone() },
        );
    }
    if additions.is_empty() {
        return Err(refused(
            "it has no additions of LoRA (`lora_a`, `lora_b`) that could be merged".to_string(),
        ));
    }
    Ok(Box::new(Merged { from, additions }))
}

/// Describes factors of another rank than the model's configuration says.
pub(super) fn other_rank(name: &str, found: usize, expected: usize) -> String {
    format!(
        "`{name}` has rank {found}, and gimlet.LoRA.rank is {expected}: give the gin of the run that trained it"
    )
}

impl LowRankAddition {
    /// Adds to a part of the kernel, whose ranges these are.
    fn add_to(&self, kernel: &mut [f32], part: &[Range<usize>]) {
        let (inputs, outputs) = part.split_at(self.num_inputs);
        let (in_shape, out_shape) = self.shape.split_at(self.num_inputs);
        let (rows, columns) = (places(inputs, in_shape), places(outputs, out_shape));
        let width = out_shape.iter().product::<usize>();
        for (row, sums) in rows.iter().zip(kernel.chunks_mut(columns.len().max(1))) {
            let first = &self.first[row * self.rank..][..self.rank];
            let mut addition = vec![0.0f32; columns.len()];
            for (factor, second) in first.iter().zip(self.second.chunks(width.max(1))) {
                let given = columns.iter().map(|column| second[*column]);
                addition.iter_mut().zip(given).for_each(|(sum, value)| *sum += factor * value);
            }
            sums.iter_mut().zip(addition).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// The places in C order of the elements of an array within these ranges.
fn places(part: &[Range<usize>], shape: &[usize]) -> Vec<usize> {
    part.iter().zip(shape).fold(vec![0], |outer, (range, size)| {
        outer.iter().flat_map(|place| range.clone().map(move |at| place * size + at)).collect()
    })
}

impl Stored for Merged {
    fn path(&self) -> &Path {
        self.from.path()
    }

    fn format(&self) -> Format {
        self.from.format()
    }

    fn without(&self) -> Without {
        Without::Slots
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.from.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = self.from.leaves();
        let is_factor = |name: &str| FACTORS.iter().any(|(end, _)| name.ends_with(end));
        leaves.retain(|leaf| {
            leaf.name == STEP || leaf.name.starts_with(TARGET) && !is_factor(leaf.name)
        });
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let whole = self.additions.get(name).map(|it| it.shape.iter().map(|&size| 0..size));
        match whole {
            Some(whole) => self.read_part(name, &whole.collect::<Vec<_>>()),
            None => self.from.read(name),
        }
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        let found = self.from.read_part(name, part)?;
        let Some(addition) = self.additions.get(name) else { return Ok(found) };
        let mut kernel = found.to_f32().ok_or_else(|| {
            CheckpointError::damaged(self.path(), format!("`{name}` does not hold floats"))
        })?;
        addition.add_to(&mut kernel, part);
        Ok(Array::from_f32(&found.shape, &kernel).cast(found.dtype))
    }
}
