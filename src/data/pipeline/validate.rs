//! Checks of examples against a task's output features and the model's limits, and trimming to
//! length.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::DataError;
use crate::example::Example;
use crate::preprocess::{BuiltFeature, Features};
use crate::value::Value;

use super::cuts::TaskCuts;
use super::map::{MapItems, place};

/// The features of an example that the model reads.
const MODEL_FEATURES: [&str; 2] = ["inputs", "targets"];

/// The token ids that a model knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownIds {
    /// Their number: they are those from 0.
    pub count: usize,
    /// Those with which inputs begin, if the first token names the task of an example.
    pub first_of_inputs: Option<Range<i32>>,
}

/// Checks output features, trims them, and rejects values that the model cannot read.
pub(crate) struct Validate {
    pub task: String,
    pub split: String,
    pub features: Features,
    /// Maximum number of tokens by feature.
    pub lengths: BTreeMap<String, usize>,
    /// Whether longer output features are trimmed rather than rejected.
    pub trims: bool,
    /// Counts the examples that are trimmed.
    pub cuts: Option<Arc<TaskCuts>>,
    /// Token ids that the model knows; `None` admits all.
    pub known_ids: Option<KnownIds>,
}

impl MapItems<Example> for Validate {
    fn apply(&self, mut example: Example, counter: u64) -> Result<Option<Example>, DataError> {
        for (name, feature) in &self.features {
            example.fit(name, feature.dtype.leaf(), feature.rank);
            check(feature, &example).map_err(|reason| {
                let place = place(example.origin(), counter);
                DataError::Features { task: self.task.clone(), place, reason }
            })?;
            if let (true, Some(&length)) = (self.trims, self.lengths.get(name)) {
                trim(&mut example, name, length);
            }
        }
        for feature in MODEL_FEATURES {
            for ids in texts(&example, feature) {
                self.check_length(feature, ids, &example, counter)?;
                self.check_ids(feature, ids, &example, counter)?;
            }
        }
        self.check_first(&example, counter)?;
        if let Some(cuts) = &self.cuts {
            cuts.count(&example);
        }
        Ok(Some(example))
    }
}

impl Validate {
    fn check_length(
        &self,
        feature: &str,
        ids: &[i32],
        example: &Example,
        counter: u64,
    ) -> Result<(), DataError> {
        match self.lengths.get(feature) {
            Some(&limit) if ids.len() > limit => Err(DataError::TooLong {
                task: self.task.clone(),
                split: self.split.clone(),
                place: place(example.origin(), counter),
                feature: feature.to_string(),
                found: ids.len(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the model has an embedding for each id; an unknown id would fail in the middle
    /// of a step.
    fn check_ids(
        &self,
        feature: &str,
        ids: &[i32],
        example: &Example,
        counter: u64,
    ) -> Result<(), DataError> {
        let Some(KnownIds { count: num_ids, .. }) = self.known_ids else { return Ok(()) };
        // A negative id becomes a very large one as an unsigned number. Finding the largest id
        // takes a quarter of the time of finding an id that is too large.
        let largest = ids.iter().fold(0, |largest, &id| (id as u32).max(largest));
        if (largest as usize) < num_ids {
            return Ok(());
        }
        let known = |id: i32| usize::try_from(id).is_ok_and(|id| id < num_ids);
        match ids.iter().find(|id| !known(**id)) {
            None => Ok(()),
            Some(&id) => Err(DataError::UnknownId {
                task: self.task.clone(),
                split: self.split.clone(),
                place: place(example.origin(), counter),
                feature: feature.to_string(),
                id,
                num_ids,
            }),
        }
    }
}

impl Validate {
    /// Checks that inputs begin with a token that names a task, if the model reads one there.
    fn check_first(&self, example: &Example, counter: u64) -> Result<(), DataError> {
        let known = self.known_ids.as_ref().and_then(|known| known.first_of_inputs.as_ref());
        let Some(known) = known else { return Ok(()) };
        let mut firsts = texts(example, "inputs").into_iter().map(|ids| ids.first());
        let unknown = firsts.find(|first| !first.is_some_and(|id| known.contains(id)));
        match unknown {
            None => Ok(()),
            Some(first) => Err(DataError::UnknownTaskToken {
                task: self.task.clone(),
                split: self.split.clone(),
                place: place(example.origin(), counter),
                found: first.map_or("no token".to_string(), |id| format!("the token id {id}")),
                known: known.clone(),
            }),
        }
    }
}

/// The token ids of a feature: of one text, or of each of a list. A feature without ids is one without tokens.
fn texts<'a>(example: &'a Example, feature: &str) -> Vec<&'a [i32]> {
    match example.get(feature) {
        Some(Value::IntRows(rows)) => rows.iter().map(Vec::as_slice).collect(),
        _ => vec![example.ints(feature).unwrap_or_default()],
    }
}

fn trim(example: &mut Example, feature: &str, length: usize) {
    let Some(value) = example.get_mut(feature) else { return };
    if value.len().is_some_and(|found| found > length) {
        value.truncate(length);
        example.mark_cut(feature);
    }
}

fn check(feature: &BuiltFeature, example: &Example) -> Result<(), String> {
    let key = &feature.key;
    let Some(value) = example.get(key) else {
        if !feature.required {
            return Ok(());
        }
        let found = example.names();
        return Err(format!(
            "the expected output feature '{key}' is missing; the example has {found}"
        ));
    };
    if value.leaf() != feature.dtype.leaf() || value.is_long() {
        let (found, expected) = (value.type_name(), feature.dtype.as_str());
        return Err(format!("feature '{key}' is {found}, expected {expected}"));
    }
    if value.rank() != feature.rank && value.len() != Some(0) {
        let (found, expected) = (value.rank(), feature.rank);
        return Err(format!("feature '{key}' has rank {found}, expected {expected}"));
    }
    Ok(())
}
