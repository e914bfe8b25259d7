//! Evaluation by decoding: held-out examples, the model's predictions, the task's metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use tch::{Kind, Tensor};

use crate::data::{
    self, Caches, ConverterClass, DataError, DatasetConfig, ExampleOptions, FeatureConverter,
    Packing, Task, max_feature_lengths, subtasks, task_examples,
};
use crate::evaluation::{EvalTask, Evaluator, Example, Side, TaskEvaluator};
use crate::models::{Batch, Model};
use crate::nn::Params;
use crate::storage::{Path, Unsent};
use crate::telemetry;
use crate::vocab::Vocabulary;

use super::error::SessionError;
use super::forward::Forward;
use super::held_out::{HeldOut, MetricsByTask};
use super::spans::filled;
use super::unfinished::{Unfinished, go_on};

/// The folder of the results, in that of the run.
pub const INFERENCE_EVAL: &str = "inference_eval";

/// Predictions shown after each evaluation.
const SHOWN: usize = 3;

/// The held-out examples of every task that has metrics.
pub struct InferenceEvaluation {
    tasks: Vec<InferTask>,
    left_out: Vec<String>,
    evaluator: TaskEvaluator,
    model: Model,
    vocabulary: Arc<dyn Vocabulary>,
    rows: usize,
    seed: u64,
}

struct InferTask {
    task: Arc<Task>,
    examples: Vec<Example>,
    /// The inputs of the first examples, as texts.
    inputs: Vec<String>,
    /// The same examples as the model's features.
    features: Vec<data::Example>,
    converter: FeatureConverter,
}

impl InferenceEvaluation {
    /// Reads the examples. New logs under `log_dir` replace those of an earlier process for steps
    /// later than `first_step`, if it is given.
    ///
    /// # Errors
    /// Reading fails, or a split is empty.
    pub fn new(
        held_out: HeldOut<'_>,
        evaluator: &Evaluator,
        log_dir: &Path,
        first_step: Option<u64>,
    ) -> Result<Self, SessionError> {
        let HeldOut { model, config, tasks: provider } = held_out;
        let (mut tasks, mut left_out) = (Vec::new(), Vec::new());
        for task in subtasks(&config.mixture_or_task_name, provider)? {
            let cache = config.use_cached.then(|| provider.caches());
            match InferTask::read(task, config, cache, evaluator, model.num_ids())? {
                Ok(task) => tasks.push(task),
                Err(reason) => left_out.push(reason),
            }
        }
        Ok(Self {
            tasks,
            left_out,
            evaluator: evaluator.build(log_dir, first_step.map(|step| step as i64)),
            vocabulary: model.output_vocabulary().build()?,
            model: model.clone(),
            rows: config.batch_size,
            seed: config.seed.unwrap_or(0),
        })
    }

    /// Whether no task has examples to evaluate.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the reasons why tasks are left out, one each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Ensures that everything logged is stored durably.
    ///
    /// # Errors
    /// A part of the logs is lost.
    pub fn settle(&mut self) -> Result<(), SessionError> {
        Ok(self.evaluator.settle()?)
    }

    /// Logged values that a store may not have yet.
    pub fn unsent(&self) -> Vec<Unsent> {
        self.evaluator.unsent()
    }

    /// Predicts, computes and logs the metrics of every task.
    ///
    /// # Errors
    /// libtorch fails, a metric cannot be computed, results cannot be written, or `stop` is set between
    /// two batches.
    pub fn evaluate(
        &mut self,
        forward: &Forward,
        params: &Params,
        step: u64,
        stop: &AtomicBool,
    ) -> Result<MetricsByTask, Unfinished> {
        let mut out = MetricsByTask::new();
        let (model, vocabulary) = (&self.model, &*self.vocabulary);
        for task in &self.tasks {
            let rows = self.rows;
            let predictor =
                Predictor { task, model, vocabulary, forward, params, step, rows, stop };
            let postprocess = |text: &str, example: &Example, side: Side| {
                let is_target = side == Side::Target;
                match &task.task.postprocess_fn {
                    Some(postprocess) => postprocess.apply(text, &example.features, is_target),
                    None => Ok(json!(text)),
                }
            };
            let eval_task = EvalTask {
                name: task.task.task_name(),
                examples: &task.examples,
                metric_fns: &task.task.metric_fns,
                postprocess: &postprocess,
            };
            // Sampled decoding draws the same numbers at every evaluation.
            tch::manual_seed(self.seed as i64);
            let metrics = self.evaluator.evaluate::<Unfinished>(
                &eval_task,
                step as i64,
                || predictor.predict(),
                || predictor.score(),
            )?;
            out.insert(task.task.task_name().to_string(), metrics);
        }
        Ok(out)
    }
}

impl InferTask {
    /// Reads the task's examples; without metrics or the split, returns the reason why there are
    /// none.
    fn read(
        task: Arc<Task>,
        config: &DatasetConfig,
        cache: Option<Caches>,
        evaluator: &Evaluator,
        num_ids: usize,
    ) -> Result<Result<Self, String>, SessionError> {
        if task.metric_fns.is_empty() {
            return Ok(Err(format!("`{}` has no metrics", task.task_name())));
        }
        let options = ExampleOptions {
            split: config.split.clone(),
            lengths: config.task_feature_lengths.clone(),
            num_ids: Some(num_ids),
            cache,
            shuffle: evaluator.shuffle,
            seed: config.seed.unwrap_or(42),
            ..ExampleOptions::default()
        };
        let examples = match task_examples(&task, &options) {
            Err(missing @ DataError::UnknownSplit { .. }) => return Ok(Err(missing.to_string())),
            examples => examples?,
        };
        let lengths = match &config.task_feature_lengths {
            Some(lengths) => lengths.clone(),
            None => max_feature_lengths(&task, &options)?,
        };
        let limit = evaluator.num_examples.unwrap_or(usize::MAX);
        let features: Vec<data::Example> = examples.take(limit).collect::<Result<_, _>>()?;
        options.bad_records.tell(&format!("evaluation of {}", task.task_name()));
        let target_vocabulary =
            task.output_features[&evaluator.target_field_name].vocabulary.build()?;
        let examples = features
            .iter()
            .map(|example| Example::of(example, &evaluator.target_field_name, &*target_vocabulary))
            .collect();
        let inputs = inputs(&task, &features)?;
        let converter = converter(&task, &lengths)?;
        Ok(Ok(Self { task, examples, inputs, features, converter }))
    }
}

fn converter(
    task: &Task,
    lengths: &BTreeMap<String, usize>,
) -> Result<FeatureConverter, SessionError> {
    let length = |feature: &str| {
        lengths.get(feature).copied().filter(|length| *length > 0).ok_or_else(|| {
            let name = task.task_name();
            SessionError::Unfit(format!("{name} has no '{feature}' to decode: it needs a length"))
        })
    };
    let lengths = ["inputs", "targets"].map(|name| Ok((name.to_string(), length(name)?)));
    let lengths = lengths.into_iter().collect::<Result<_, SessionError>>()?;
    Ok(FeatureConverter::new(&ConverterClass::default(), &lengths, Packing::None, 0)?)
}

/// Returns the inputs of the first examples: their texts, or the decoded ids if a preprocessor made them.
fn inputs(task: &Task, features: &[data::Example]) -> Result<Vec<String>, SessionError> {
    let Some(feature) = task.output_features.get("inputs") else { return Ok(Vec::new()) };
    let vocabulary = feature.vocabulary.build()?;
    let text = |example: &data::Example| match example.text("inputs_pretokenized") {
        Some(text) => text.to_string(),
        None => vocabulary.decode(example.ints("inputs").unwrap_or_default()),
    };
    Ok(features.iter().take(SHOWN).map(text).collect())
}

/// Runs the model over one task's examples.
struct Predictor<'a> {
    task: &'a InferTask,
    model: &'a Model,
    vocabulary: &'a dyn Vocabulary,
    forward: &'a Forward,
    params: &'a Params,
    step: u64,
    rows: usize,
    stop: &'a AtomicBool,
}

impl Predictor<'_> {
    /// Returns the decoded text of every example.
    fn predict(&self) -> Result<Vec<String>, Unfinished> {
        let eos_id = i64::from(self.vocabulary.eos_id().unwrap_or(1));
        let prediction = self.model.prediction(eos_id);
        let hypotheses = self.rows * prediction.num_decodes;
        let Forward { network, .. } = self.forward;
        let predictor =
            self.forward.guarded(self.step, || network.predictor(self.params, hypotheses))?;
        let mut texts = Vec::new();
        for batch in self.batches() {
            go_on(self.stop)?;
            let decodes = self
                .forward
                .guarded(self.step, || predictor.predict(&batch?, &prediction).map_err(unfit))??;
            texts.extend(rows_of(&decodes.best().0).iter().map(|ids| self.vocabulary.decode(ids)));
        }
        self.show(&texts);
        Ok(texts)
    }

    /// Returns the log-likelihood of every target.
    fn score(&self) -> Result<Vec<f64>, Unfinished> {
        let mut scores: Vec<f64> = Vec::new();
        for batch in self.batches() {
            go_on(self.stop)?;
            let found = self.forward.guarded(self.step, || {
                Ok::<_, SessionError>(self.forward.network.score_batch(self.params, &batch?))
            })??;
            let found = found.to_kind(Kind::Double);
            scores.extend(Vec::<f64>::try_from(found).expect("scores are one vector"));
        }
        Ok(scores)
    }

    fn batches(&self) -> impl Iterator<Item = Result<Batch, SessionError>> {
        let InferTask { features, converter, .. } = self.task;
        features.chunks(self.rows).map(move |chunk| {
            let batch = converter.batch(chunk, chunk.len())?;
            Ok(Batch::from_host(&batch).to_device(self.forward.device))
        })
    }

    fn show(&self, texts: &[String]) {
        let InferTask { inputs, examples, .. } = self.task;
        for ((input, example), text) in inputs.iter().zip(examples).zip(texts) {
            let target = &example.target;
            telemetry::notice(&match filled(input, text, target) {
                Some(filled) => format!("  {filled:?}"),
                None => {
                    let mark = if text == target { "=" } else { "!" };
                    format!("  {input:?} -> {text:?} {mark} {target:?}")
                }
            });
        }
    }
}

fn unfit(error: impl ToString) -> SessionError {
    SessionError::Unfit(error.to_string())
}

/// Returns the rows of an int64 matrix.
fn rows_of(matrix: &Tensor) -> Vec<Vec<i32>> {
    let matrix = matrix.to_kind(Kind::Int).to_device(tch::Device::Cpu);
    let row = |index| Vec::<i32>::try_from(matrix.get(index)).expect("rows are vectors");
    (0..matrix.size()[0]).map(row).collect()
}
