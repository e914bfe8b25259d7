//! `gimlet task metrics`: computes a task's metrics for predictions in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use crate::data::{self, ExampleOptions, Task, TaskProvider, task_examples, task_splits};
use crate::evaluation::Example;
use crate::metrics::ModelOutput;
use crate::run::failure::Failure;
use crate::run::output::{quoted, write};

use super::args::{TaskFileArgs, check_lengths, failure, parse_length};
use super::predictions::{Outputs, SHOWN, postprocessed};

/// Flags of `gimlet task metrics`.
#[derive(Args, Debug)]
pub struct MetricsArgs {
    /// The task.
    #[arg(value_name = "NAME")]
    name: String,
    /// The predictions, in the order of the examples: a text on each line, or JSON objects as evaluations write
    /// them to inference_eval, and `gimlet infer` to its results.
    #[arg(long, value_name = "FILE")]
    predictions: String,
    /// The split.
    #[arg(long, default_value = "validation")]
    split: String,
    /// Score the first N examples only.
    #[arg(long = "num_examples", value_name = "N")]
    num_examples: Option<usize>,
    /// Feature lengths, as TASK_FEATURE_LENGTHS of a run; by default nothing is trimmed.
    #[arg(
        long = "task_feature_lengths",
        value_name = "FEATURE=LENGTH,...",
        value_delimiter = ',',
        value_parser = parse_length
    )]
    lengths: Vec<(String, usize)>,
    /// The feature that holds the targets.
    #[arg(long = "target_field_name", value_name = "FEATURE", default_value = "targets")]
    target: String,
    /// Read a task with a cache step from its cache in --seqio_additional_cache_dirs.
    #[arg(long = "use_cached")]
    use_cached: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: TaskFileArgs,
}

/// Prints a line for each value of each metric.
pub(super) fn run(args: &MetricsArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let found = args.files.tasks_of(&args.name, &tasks)?;
    check_lengths(&args.lengths, &found)?;
    let [task] = &found[..] else {
        let (name, count) = (&args.name, found.len());
        return Err(Failure::usage(anyhow!(
            "`{name}` is a mixture of {count} tasks, and predictions are of one: name the task"
        )));
    };
    if task.metric_fns.is_empty() {
        return Err(Failure::usage(anyhow!("task `{}` has no metric_fns", args.name)));
    }
    let outputs = Outputs::read(&args.predictions)?;
    let caches = args.use_cached.then(|| tasks.caches());
    let examples = args.examples(task, &args.split, args.num_examples, caches.clone())?;
    let outputs = outputs.of(&examples, (&args.name, &args.split), args.num_examples.is_some());
    let outputs = outputs.map_err(|(outputs, why)| args.misfit(task, &outputs, &caches, &why))?;
    let values = scored(task, &examples, &outputs, args)?;
    if args.json {
        return write(&format!("{}\n", json!(values)));
    }
    let lines = values.iter().map(|(key, value)| format!("{key}: {value:.4}\n"));
    write(&lines.collect::<String>())
}

impl MetricsArgs {
    /// The first examples of a split, as an evaluation sees them.
    fn examples(
        &self,
        task: &Arc<Task>,
        split: &str,
        num_examples: Option<usize>,
        cache: Option<data::Caches>,
    ) -> Result<Vec<Example>, Failure> {
        let lengths = (!self.lengths.is_empty()).then(|| self.lengths.iter().cloned().collect());
        let options = ExampleOptions {
            split: split.to_string(),
            lengths,
            cache,
            ..ExampleOptions::default()
        };
        let Some(feature) = task.output_features.get(&self.target) else {
            let (name, target) = (task.task_name(), &self.target);
            return Err(Failure::usage(anyhow!("task `{name}` has no output feature '{target}'")));
        };
        let vocabulary = feature.vocabulary.build().map_err(Failure::usage)?;
        let examples = task_examples(task, &options).map_err(failure)?;
        let limit = num_examples.unwrap_or(usize::MAX);
        let described = |example: data::Example| Example::of(&example, &self.target, &*vocabulary);
        examples.take(limit).map(|example| example.map(described).map_err(failure)).collect()
    }

    /// The failure of predictions that are not those of the split; the split whose inputs they have is named.
    fn misfit(
        &self,
        task: &Arc<Task>,
        outputs: &Outputs,
        caches: &Option<data::Caches>,
        why: &str,
    ) -> Failure {
        let begins = |split: &&String| {
            let first = self.examples(task, split, Some(1), caches.clone());
            first.is_ok_and(|first| outputs.begin_with(&first))
        };
        let splits = task_splits(task).unwrap_or_default();
        let other = splits.iter().filter(|split| **split != self.split).find(begins);
        let remedy = match other {
            Some(split) => {
                format!("these are predictions of split '{split}': give --split={split}")
            }
            None => {
                "name the --split that was predicted, or score the first ones with --num_examples"
                    .to_string()
            }
        };
        Failure::usage(anyhow!("{why}: {remedy}"))
    }
}

/// Computes the values of all metrics by key.
fn scored(
    task: &Task,
    examples: &[Example],
    outputs: &Outputs,
    args: &MetricsArgs,
) -> Result<BTreeMap<String, f64>, Failure> {
    let targets = targets(task, examples, outputs, args)?;
    let mut values = BTreeMap::new();
    for metric in &task.metric_fns {
        let of_metric: Vec<Value> = match metric.model_output() {
            ModelOutput::Score => outputs.scores(metric.name())?,
            ModelOutput::Prediction => outputs.predictions(task, examples, metric.name())?,
        };
        values.extend(metric.compute(&targets, &of_metric).map_err(Failure::usage)?);
    }
    Ok(values)
}

/// Returns the targets for the metrics, which must equal those in the file, if it has any.
fn targets(
    task: &Task,
    examples: &[Example],
    outputs: &Outputs,
    args: &MetricsArgs,
) -> Result<Vec<Value>, Failure> {
    let mut targets = Vec::with_capacity(examples.len());
    for (index, (example, output)) in examples.iter().zip(&outputs.lines).enumerate() {
        let target = postprocessed(task, &example.target, example, true)
            .map_err(|why| outputs.unfit(index, &why))?;
        if let Some(logged) = output.target.as_ref().filter(|logged| **logged != target) {
            let [logged, target] = [logged, &target].map(|value| quoted(&value.to_string(), SHOWN));
            let split = &args.split;
            return Err(outputs.unfit(
                index,
                &format!(
                    "its target is {logged}, and that of the example in split '{split}' is {target}: \
                     name the task and the --split that were predicted"
                ),
            ));
        }
        targets.push(target);
    }
    Ok(targets)
}
