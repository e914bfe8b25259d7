//! Presents a checkpoint without experts to a model with experts: each expert begins as the dense block.
//!
//! Source: T5X `contrib/moe/checkpoints.py`; Komatsuzaki et al. 2023, arXiv:2212.05055.

use std::collections::BTreeMap;
use std::ops::Range;

use super::array::{Array, ArrayInfo, Shapes};
use super::assignment::assign;
use super::error::CheckpointError;
use super::format::{Format, Without};
use super::spec::RestoreCheckpointConfig;
use super::stored::Stored;
use gimlet_storage::Path;

/// A part of the names of experts' parameters.
const EXPERT: &str = "expert/";

/// A checkpoint some of whose arrays are repeated along a new first axis.
#[derive(Debug)]
struct Upcycled {
    from: Box<dyn Stored>,
    /// The shapes of those arrays, by their names in the checkpoint.
    repeated: BTreeMap<String, Vec<usize>>,
}

/// Returns the checkpoint with the arrays that `config` assigns to experts of a model repeated for each expert; unchanged
/// if its class is not `UpcycleCheckpointer`. `needs` are the arrays of the model.
pub fn upcycled(
    stored: Box<dyn Stored>,
    config: &RestoreCheckpointConfig,
    needs: &Shapes,
) -> Box<dyn Stored> {
    let Some(num_experts) = config.checkpointer_cls.0.num_experts() else { return stored };
    let found = stored.shapes();
    let names = found.keys().map(String::as_str).collect();
    // Rules that are not valid are reported by the plan.
    let assigned = assign(&config.rules().unwrap_or_default(), needs.keys(), &[], &names);
    let sources = assigned.map(|assigned| assigned.sources).unwrap_or_default();
    let of_experts = sources.into_iter().filter(|(name, _)| name.contains(EXPERT));
    let repeated = of_experts.filter_map(|(name, source)| {
        let shape = [&[num_experts][..], &found.get(&source)?[..]].concat();
        (needs.get(&name) == Some(&shape)).then_some((source, shape))
    });
    let repeated: BTreeMap<_, _> = repeated.collect();
    Box::new(Upcycled { from: stored, repeated })
}

impl Stored for Upcycled {
    fn path(&self) -> &Path {
        self.from.path()
    }

    fn format(&self) -> Format {
        self.from.format()
    }

    fn without(&self) -> Without {
        self.from.without()
    }

    fn step(&self) -> Result<u64, CheckpointError> {
        self.from.step()
    }

    fn leaves(&self) -> Vec<ArrayInfo<'_>> {
        let mut leaves = self.from.leaves();
        for leaf in &mut leaves {
            if let Some(shape) = self.repeated.get(leaf.name) {
                leaf.shape = shape;
            }
        }
        leaves
    }

    fn read(&self, name: &str) -> Result<Array, CheckpointError> {
        let one = self.from.read(name)?;
        Ok(match self.repeated.get(name) {
            Some(shape) => repeated(one, shape[0]),
            None => one,
        })
    }

    fn read_part(&self, name: &str, part: &[Range<usize>]) -> Result<Array, CheckpointError> {
        match self.repeated.contains_key(name) {
            true => Ok(repeated(self.from.read_part(name, &part[1..])?, part[0].len())),
            false => self.from.read_part(name, part),
        }
    }

    fn extra(&self, relative: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.from.extra(relative)
    }

    fn extras(&self) -> Result<Vec<String>, CheckpointError> {
        self.from.extras()
    }
}

/// Returns `count` copies of an array along a new first axis.
fn repeated(one: Array, count: usize) -> Array {
    let shape = [&[count][..], &one.shape[..]].concat();
    Array { shape, data: one.data.repeat(count), ..one }
}
