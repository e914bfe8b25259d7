//! What a task promises about its examples, checked and trimmed to length.

use std::collections::BTreeMap;

use crate::data::error::DataError;
use crate::data::example::{Example, Value};
use crate::data::preprocess::{BuiltFeature, Features};
use crate::data::task::FeatureDtype;

use super::map::MapItems;

/// Checks output features and trims them.
pub(crate) struct Validate {
    pub task: String,
    pub features: Features,
    /// Where trimming is on.
    pub lengths: Option<BTreeMap<String, usize>>,
}

impl MapItems<Example> for Validate {
    fn apply(&self, mut example: Example, _: u64) -> Result<Option<Example>, DataError> {
        for (name, feature) in &self.features {
            check(feature, &example)
                .map_err(|reason| DataError::Features { task: self.task.clone(), reason })?;
            let Some(&length) = self.lengths.as_ref().and_then(|lengths| lengths.get(name)) else {
                continue;
            };
            for (key, value) in example.iter_mut() {
                if let (true, Value::Ints(ids)) = (**key == **name, value) {
                    ids.truncate(length);
                }
            }
        }
        Ok(Some(example))
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
    let is_integer = matches!(value, Value::Int(_) | Value::Ints(_));
    let is_float = matches!(value, Value::Float(_) | Value::Floats(_));
    let fits = match feature.dtype {
        FeatureDtype::Int32 | FeatureDtype::Int64 => is_integer,
        FeatureDtype::Float32 => is_float,
    };
    if !fits {
        let (found, expected) = (value.type_name(), feature.dtype.as_str());
        return Err(format!("feature '{key}' is {found}, expected {expected}"));
    }
    if value.rank() != feature.rank {
        let (found, expected) = (value.rank(), feature.rank);
        return Err(format!("feature '{key}' has rank {found}, expected {expected}"));
    }
    Ok(())
}
