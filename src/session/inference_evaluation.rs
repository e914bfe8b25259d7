//! Inference evaluation: predicts held-out examples, and computes the task's metrics. The examples are
//! a stream; memory holds one batch of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::data::{self, subtasks};
use crate::evaluation::{EvalTask, Evaluator, Example, Outputs, Side, TaskEvaluator};
use crate::metrics::ModelOutput;
use crate::models::Model;
use crate::nn::Params;
use crate::storage::{Path, Unsent};
use crate::telemetry;
use crate::vocab::Vocabulary;

use super::error::SessionError;
use super::forward::Forward;
use super::held_out::{HeldOut, MetricsByTask};
use super::held_out_task::HeldOutTask;
use super::spans::filled;
use super::text_predictor::TextPredictor;
use super::unfinished::{Unfinished, go_on};

/// The folder of the results, in that of the run.
pub const INFERENCE_EVAL: &str = "inference_eval";

/// Predictions shown after each evaluation.
const SHOWN: usize = 3;

/// The held-out examples of every task that has metrics.
pub struct InferenceEvaluation {
    tasks: Vec<HeldOutTask>,
    left_out: Vec<String>,
    evaluator: TaskEvaluator,
    model: Model,
    vocabulary: Arc<dyn Vocabulary>,
    rows: usize,
    seed: u64,
}

impl InferenceEvaluation {
    /// Checks the examples. New logs under `log_dir` replace those of an earlier process for steps
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
            match HeldOutTask::open(task, config, cache, evaluator, model)? {
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
        let Self { tasks, evaluator, model, vocabulary, rows, seed, .. } = self;
        for task in &*tasks {
            // Sampled decoding draws the same numbers at every evaluation.
            tch::manual_seed(*seed as i64);
            let name = task.task.task_name();
            let postprocess =
                |text: &str, example: &Example, side: Side| task.postprocess(text, example, side);
            let metric_fns = &task.task.metric_fns;
            let eval_task = EvalTask { name, metric_fns, postprocess: &postprocess };
            let mut evaluation = evaluator.begin(eval_task, step as i64);
            let predictor = evaluation
                .needs(ModelOutput::Prediction)
                .then(|| TextPredictor::new(model, &**vocabulary, forward, (params, step), *rows))
                .transpose()?;
            let is_scored = evaluation.needs(ModelOutput::Score);
            let mut shown = Vec::new();
            for examples in task.batches(*rows)? {
                go_on(stop)?;
                let examples = examples?;
                let batch = task.features(&examples)?;
                let texts = predictor.as_ref().map(|predictor| predictor.predict(&batch));
                let scores = is_scored.then(|| forward.score(params, step, &batch));
                let outputs = Outputs { texts: texts.transpose()?, scores: scores.transpose()? };
                show_first(task, &examples, &outputs, &mut shown);
                let logged: Vec<Example> = examples.iter().map(|it| task.logged(it)).collect();
                evaluation.add(&logged, outputs)?;
            }
            shown.iter().for_each(|line: &String| telemetry::notice(line));
            out.insert(name.to_string(), evaluation.finish()?);
        }
        Ok(out)
    }
}

/// Adds the lines that show the first predictions.
fn show_first(
    task: &HeldOutTask,
    examples: &[data::Example],
    outputs: &Outputs,
    shown: &mut Vec<String>,
) {
    let predicted = examples.iter().zip(outputs.texts.iter().flatten());
    let lines = predicted.filter_map(|(example, text)| {
        let (input, target) = (task.input(example)?, task.logged(example).target);
        Some(match filled(&input, text, &target) {
            Some(filled) => format!("  {filled:?}"),
            None => {
                let mark = if *text == target { "=" } else { "!" };
                format!("  {input:?} -> {text:?} {mark} {target:?}")
            }
        })
    });
    shown.extend(lines.take(SHOWN - shown.len()));
}
