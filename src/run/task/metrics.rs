//! `gimlet task metrics`: computes a task's metrics for predictions in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use crate::data::{self, ExampleOptions, Task, TaskProvider, task_examples};
use crate::evaluation::Example;
use crate::metrics::ModelOutput;
use crate::run::failure::Failure;
use crate::run::output::{quoted, write};
use crate::storage::Path;

use super::args::{TaskFileArgs, check_lengths, failure, parse_length};

/// Number of characters of a value that an error shows.
const SHOWN: usize = 60;

/// Flags of `gimlet task metrics`.
#[derive(Args, Debug)]
pub struct MetricsArgs {
    /// The task.
    #[arg(value_name = "NAME")]
    name: String,
    /// The predictions, in the order of the examples: a text on each line, or JSON objects in a file whose
    /// name ends in .jsonl, as evaluations write them to inference_eval.
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
    let examples = args.examples(task, caches)?;
    let outputs = outputs.of(&examples, args)?;
    let values = scored(task, &examples, &outputs, args)?;
    if args.json {
        return write(&format!("{}\n", json!(values)));
    }
    let lines = values.iter().map(|(key, value)| format!("{key}: {value:.4}\n"));
    write(&lines.collect::<String>())
}

impl MetricsArgs {
    /// The examples to score, as an evaluation sees them.
    fn examples(
        &self,
        task: &Arc<Task>,
        cache: Option<data::Caches>,
    ) -> Result<Vec<Example>, Failure> {
        let lengths = (!self.lengths.is_empty()).then(|| self.lengths.iter().cloned().collect());
        let options = ExampleOptions {
            split: self.split.clone(),
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
        let limit = self.num_examples.unwrap_or(usize::MAX);
        let described = |example: data::Example| Example::of(&example, &self.target, &*vocabulary);
        examples.take(limit).map(|example| example.map(described).map_err(failure)).collect()
    }
}

/// The output of a model for one example.
struct Output {
    /// A text before postprocessing, or a value after it.
    prediction: Option<Prediction>,
    score: Option<Value>,
    /// The logged target.
    target: Option<Value>,
}

enum Prediction {
    Text(String),
    Value(Value),
}

/// The lines of a file.
struct Outputs {
    file: String,
    lines: Vec<Output>,
}

impl Outputs {
    fn read(file: &str) -> Result<Self, Failure> {
        let path = Path::parse(file).map_err(Failure::usage)?;
        let text = path.read_to_string().map_err(Failure::usage)?;
        let is_json = file.ends_with(".jsonl") || file.ends_with(".json");
        let of_text = |line: &str| Output {
            prediction: Some(Prediction::Text(line.to_string())),
            score: None,
            target: None,
        };
        let lines = text.lines().enumerate().map(|(index, line)| match is_json {
            false => Ok(of_text(line)),
            true => Output::of_json(line).map_err(|why| {
                let number = index + 1;
                Failure::usage(anyhow!("{file}:{number}: {why}"))
            }),
        });
        Ok(Self { file: file.to_string(), lines: lines.collect::<Result<_, _>>()? })
    }

    /// Returns the outputs for the examples; there must be one for each.
    fn of(mut self, examples: &[Example], args: &MetricsArgs) -> Result<Self, Failure> {
        if args.num_examples.is_some() {
            self.lines.truncate(examples.len());
        }
        let (found, expected) = (self.lines.len(), examples.len());
        if found == expected {
            return Ok(self);
        }
        let (file, name, split) = (&self.file, &args.name, &args.split);
        Err(Failure::usage(anyhow!(
            "`{file}` has {found} predictions, and `{name}`, split '{split}', has {expected} examples: \
             name the --split that was predicted, or score the first ones with --num_examples"
        )))
    }
}

impl Output {
    fn of_json(line: &str) -> Result<Self, String> {
        let expected = "expected a JSON object with 'output', 'prediction' or 'score'";
        let json: Value = serde_json::from_str(line)
            .map_err(|error| format!("malformed JSON at column {}, {expected}", error.column()))?;
        let get = |key: &str| json.get(key).cloned();
        // Gimlet's evaluations write the model's text as 'output' and the input of the metrics as
        // 'prediction'; T5X's inference has the text there.
        let prediction = match (get("output"), get("prediction")) {
            (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => {
                Some(Prediction::Text(text))
            }
            (_, Some(value)) => Some(Prediction::Value(value)),
            _ => None,
        };
        let score = get("score");
        if prediction.is_none() && score.is_none() {
            return Err(format!("found {}, {expected}", quoted(line, SHOWN)));
        }
        Ok(Self { prediction, score, target: get("target") })
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

impl Outputs {
    fn scores(&self, metric: &str) -> Result<Vec<Value>, Failure> {
        let score = |(index, output): (usize, &Output)| {
            let missing = || self.unfit(index, &format!("metric `{metric}` needs a 'score'"));
            output.score.clone().ok_or_else(missing)
        };
        self.lines.iter().enumerate().map(score).collect()
    }

    fn predictions(
        &self,
        task: &Task,
        examples: &[Example],
        metric: &str,
    ) -> Result<Vec<Value>, Failure> {
        let mut predictions = Vec::with_capacity(examples.len());
        for (index, (example, output)) in examples.iter().zip(&self.lines).enumerate() {
            predictions.push(match &output.prediction {
                Some(Prediction::Value(value)) => value.clone(),
                Some(Prediction::Text(text)) => postprocessed(task, text, example, false)
                    .map_err(|why| self.unfit(index, &why))?,
                None => {
                    return Err(
                        self.unfit(index, &format!("metric `{metric}` needs a 'prediction'"))
                    );
                }
            });
        }
        Ok(predictions)
    }

    fn unfit(&self, index: usize, why: &str) -> Failure {
        Failure::usage(anyhow!("{}:{}: {why}", self.file, index + 1))
    }
}

fn postprocessed(
    task: &Task,
    text: &str,
    example: &Example,
    is_target: bool,
) -> Result<Value, String> {
    match &task.postprocess_fn {
        Some(postprocess) => postprocess.apply(text, &example.features, is_target),
        None => Ok(json!(text)),
    }
}
