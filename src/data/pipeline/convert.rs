//! Rows of a feature converter as examples.

use super::pull::{Pull, Stage, StageState};
use crate::convert::{BatchValues, FeatureConverter, Rows};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Value;

/// Converts each row of a converter to an example with the model's features.
pub(crate) struct Convert {
    rows: Rows,
    converter: FeatureConverter,
}

impl Convert {
    /// Converts the examples that `input` yields.
    pub(crate) fn new(input: Stage, converter: FeatureConverter) -> Self {
        Self { rows: Rows::new(input, converter.clone()), converter }
    }
}

impl Pull for Convert {
    type Item = Example;

    fn pull(&mut self) -> Result<Option<Example>, DataError> {
        let Some(row) = self.rows.pull()? else { return Ok(None) };
        let mut batch = self.converter.empty_batch(1);
        self.converter.push_row(&mut batch, &row);
        let features = batch.features.into_iter().map(|feature| {
            let value = match feature.values {
                BatchValues::Ints(values) => Value::Ints(values),
                BatchValues::Floats(values) => {
                    Value::Floats(values.into_iter().map(f64::from).collect())
                }
            };
            (feature.name, value)
        });
        Ok(Some(features.collect()))
    }

    fn save(&self) -> StageState {
        self.rows.save()
    }

    fn restore(&mut self, state: &StageState) -> Result<(), DataError> {
        self.rows.restore(state)
    }
}
