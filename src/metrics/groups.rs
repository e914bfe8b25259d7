//! Metrics of groups of examples that share a key of their targets. Source: t5
//! `evaluation/metrics.py`.

use serde_json::Value;

use gimlet_gin::{Configurable, Nested, Ref};

use super::metric::{Metric, MetricError, ModelOutput, Pairs, Values};
use super::metric_fn::MetricFn;

/// A metric of the first example of each group.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.deduplicate_metric")]
pub struct DeduplicateMetric {
    /// The metric.
    pub metric_fn: Nested<Ref<MetricFn>>,
    /// Key of the targets that identifies a group.
    #[gin(default = "group".to_string())]
    pub group_key: String,
    /// Key of targets and predictions with the values for the metric.
    #[gin(default = "value".to_string())]
    pub value_key: String,
}

impl Metric for DeduplicateMetric {
    fn keys(&self) -> Vec<String> {
        self.metric_fn.keys()
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let groups = groups(pairs, &self.group_key, &self.value_key)?;
        let firsts = groups.into_iter().map(|group| (group.targets[0], group.predictions[0]));
        let (targets, predictions): (Vec<&Value>, Vec<&Value>) = firsts.unzip();
        apply(&self.metric_fn, &targets, &predictions)
    }

    fn model_output(&self) -> ModelOutput {
        self.metric_fn.model_output()
    }
}

/// A metric of each group, averaged over the groups.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.evaluation.metrics.mean_group_metric")]
pub struct MeanGroupMetric {
    /// The metric.
    pub metric_fn: Nested<Ref<MetricFn>>,
    /// Key of the targets that identifies a group.
    #[gin(default = "group".to_string())]
    pub group_key: String,
    /// Key of targets and predictions with the values for the metric.
    #[gin(default = "value".to_string())]
    pub value_key: String,
    /// Whether each group's own value is returned too, as `{group}-{metric}`.
    #[gin(default = false)]
    pub return_subgroup_scores: bool,
}

impl Metric for MeanGroupMetric {
    fn keys(&self) -> Vec<String> {
        self.metric_fn.keys()
    }

    fn compute(&self, pairs: &Pairs<'_>) -> Result<Values, MetricError> {
        let groups = groups(pairs, &self.group_key, &self.value_key)?;
        let (mut sums, mut subgroups) = (Values::new(), Values::new());
        for group in &groups {
            for (metric, value) in apply(&self.metric_fn, &group.targets, &group.predictions)? {
                if self.return_subgroup_scores {
                    subgroups.push((format!("{}-{metric}", shown(group.key)), value));
                }
                match sums.iter_mut().find(|(known, _)| *known == metric) {
                    Some((_, sum)) => *sum += value,
                    None => sums.push((metric, value)),
                }
            }
        }
        sums.iter_mut().for_each(|(_, sum)| *sum /= groups.len() as f64);
        sums.extend(subgroups);
        Ok(sums)
    }

    fn model_output(&self) -> ModelOutput {
        self.metric_fn.model_output()
    }
}

/// The examples of one group, in their order.
struct Group<'a> {
    key: &'a Value,
    targets: Vec<&'a Value>,
    predictions: Vec<&'a Value>,
}

/// The groups in the order of their first examples.
fn groups<'a>(
    pairs: &Pairs<'a>,
    group_key: &str,
    value_key: &str,
) -> Result<Vec<Group<'a>>, MetricError> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut index = std::collections::HashMap::new();
    for (target, prediction) in pairs.targets.iter().zip(pairs.predictions) {
        let key = pairs.field(target, group_key)?;
        let at = *index.entry(key.to_string()).or_insert_with(|| {
            groups.push(Group { key, targets: Vec::new(), predictions: Vec::new() });
            groups.len() - 1
        });
        groups[at].targets.push(pairs.field(target, value_key)?);
        groups[at].predictions.push(pairs.field(prediction, value_key)?);
    }
    Ok(groups)
}

fn apply(
    metric: &MetricFn,
    targets: &[&Value],
    predictions: &[&Value],
) -> Result<Values, MetricError> {
    let owned = |values: &[&Value]| values.iter().copied().cloned().collect::<Vec<_>>();
    Ok(metric.compute(&owned(targets), &owned(predictions))?.into_iter().collect())
}

/// A group's key as Python prints it.
fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            format!("({})", items.join(", "))
        }
        other => other.to_string(),
    }
}
