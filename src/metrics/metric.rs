//! The contract of a task's metric: the trait, the pairs it is computed from, its errors.
//!
//! Targets and predictions come postprocessed, as JSON values: strings, class labels, lists of
//! answers. Source: the t5 library, `t5/evaluation/metrics.py`.

use serde_json::Value;

use gimlet_gin::Configurable;

/// The output of the model that a metric needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum ModelOutput {
    /// Decoded texts.
    Prediction,
    /// Log-likelihoods of the targets.
    Score,
}

/// A metric that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// There are no examples to average over.
    #[error("metric `{metric}` has no examples to be computed from")]
    NoExamples {
        /// The metric.
        metric: &'static str,
    },
    /// The lists do not match.
    #[error("metric `{metric}` has {targets} targets and {predictions} predictions")]
    Lengths {
        /// The metric.
        metric: &'static str,
        /// Number of targets.
        targets: usize,
        /// Number of predictions.
        predictions: usize,
    },
    /// A value of the wrong type from the task's postprocessing.
    #[error(
        "metric `{metric}` expected {expected}, found {found}; does the task's postprocess_fn fit it?"
    )]
    Type {
        /// The metric.
        metric: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// Values that do not fit each other.
    #[error("metric `{metric}`: {reason}")]
    Unfit {
        /// The metric.
        metric: &'static str,
        /// The found and expected values.
        reason: String,
    },
}

/// A metric's values by key.
pub(super) type Values = Vec<(String, f64)>;

/// A metric that gin can name.
pub(super) trait Metric {
    /// Returns the keys that it has for any examples.
    fn keys(&self) -> Vec<String>;

    /// Computes its values by key, for at least one example.
    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError>;

    /// Returns the output that the model must supply.
    fn model_output(&self) -> ModelOutput {
        ModelOutput::Prediction
    }
}

/// Targets and predictions of a metric; never empty, of one length.
pub(super) struct Pairs<'a> {
    pub(super) metric: &'static str,
    pub(super) targets: &'a [Value],
    pub(super) predictions: &'a [Value],
}

impl Pairs<'_> {
    /// Number of examples.
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Targets with their predictions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Value, &Value)> {
        self.targets.iter().zip(self.predictions)
    }

    /// Percentage of predictions that equal their target.
    pub(super) fn share_equal(&self) -> f64 {
        let equal = self.iter().filter(|(target, prediction)| equal(target, prediction)).count();
        100.0 * equal as f64 / self.len() as f64
    }

    pub(super) fn text<'v>(&self, value: &'v Value) -> Result<&'v str, MetricError> {
        value.as_str().ok_or_else(|| self.mismatch("a text", value))
    }

    /// Reads a whole number; truth values count as 0 and 1.
    pub(super) fn label(&self, value: &Value) -> Result<i64, MetricError> {
        let whole = |number: f64| (number.fract() == 0.0).then_some(number as i64);
        match value {
            Value::Bool(truth) => Ok(i64::from(*truth)),
            _ => value
                .as_i64()
                .or_else(|| value.as_f64().and_then(whole))
                .ok_or_else(|| self.mismatch("a class label", value)),
        }
    }

    /// Reads a number; JSON has `null` for NaN, and Gimlet writes infinities as texts.
    pub(super) fn number(&self, value: &Value) -> Result<f64, MetricError> {
        match value {
            Value::Null => Ok(f64::NAN),
            Value::Bool(truth) => Ok(f64::from(u8::from(*truth))),
            Value::String(text) if text == INFINITY => Ok(f64::INFINITY),
            Value::String(text) if text == MINUS_INFINITY => Ok(f64::NEG_INFINITY),
            _ => value.as_f64().ok_or_else(|| self.mismatch("a number", value)),
        }
    }

    /// The value of a key.
    pub(super) fn field<'v>(&self, value: &'v Value, key: &str) -> Result<&'v Value, MetricError> {
        match value.get(key) {
            Some(found) => Ok(found),
            None => Err(self.unfit(format!("expected a dict with '{key}', found {value}"))),
        }
    }

    /// The values of one side.
    pub(super) fn read<T>(
        &self,
        values: &[Value],
        read: impl Fn(&Self, &Value) -> Result<T, MetricError>,
    ) -> Result<Vec<T>, MetricError> {
        values.iter().map(|value| read(self, value)).collect()
    }

    pub(super) fn mismatch(&self, expected: &'static str, value: &Value) -> MetricError {
        MetricError::Type { metric: self.metric, expected, found: value.to_string() }
    }

    pub(super) fn unfit(&self, reason: String) -> MetricError {
        MetricError::Unfit { metric: self.metric, reason }
    }
}

const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

/// Converts a number to a target or prediction, even if JSON cannot express it.
pub fn number_value(number: f64) -> Value {
    match number {
        f64::INFINITY => Value::from(INFINITY),
        f64::NEG_INFINITY => Value::from(MINUS_INFINITY),
        number => Value::from(number),
    }
}

/// Names as keys.
pub(super) fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A single value of a metric.
pub(super) fn one(key: &str, value: f64) -> Values {
    vec![(key.to_string(), value)]
}

/// Compares as Python does: 1 and 1.0 are equal, and NaN, for which JSON has `null`, equals
/// nothing.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Bool(a), Value::Number(b)) | (Value::Number(b), Value::Bool(a)) => {
            b.as_f64() == Some(f64::from(u8::from(*a)))
        }
        (Value::Null, Value::Null) => false,
        _ => a == b,
    }
}
