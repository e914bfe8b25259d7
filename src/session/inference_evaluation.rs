//! Inference evaluation: predicts held-out examples, and computes the task's metrics. The examples are
//! a stream; memory holds one batch of them.

use std::sync::Arc;

use serde_json::Value;

use crate::data::{self, DataError, subtasks};
use crate::evaluation::{EvalTask, Evaluator, Example, Outputs, Side, TaskEvaluator};
use crate::metrics::ModelOutput;
use crate::models::Model;
use crate::partition::Process;
use crate::storage::{Path, Unsent};
use crate::telemetry;
use crate::vocab::Vocabulary;

use super::agreement::{agree_to_go_on, outputs_of_all};
use super::error::SessionError;
use super::eval_context::EvalContext;
use super::held_out::{HeldOut, MetricsByTask};
use super::held_out_task::HeldOutTask;
use super::spans::filled;
use super::text_predictor::TextPredictor;
use super::unfinished::Unfinished;

/// The folder of the results, in that of the run.
pub const INFERENCE_EVAL: &str = "inference_eval";

/// The held-out examples of every task that has metrics.
pub struct InferenceEvaluation {
    tasks: Vec<HeldOutTask>,
    left_out: Vec<String>,
    evaluator: TaskEvaluator,
    model: Model,
    vocabulary: Arc<dyn Vocabulary>,
    rows: usize,
    num_shown: usize,
    seed: u64,
}

impl InferenceEvaluation {
    /// Checks the examples. New logs under `log_dir`, which is `None` in a process that writes none,
    /// replace those of an earlier process for steps later than `first_step`, if it is given.
    ///
    /// # Errors
    /// Reading fails, or a split is empty.
    pub fn new(
        held_out: HeldOut<'_>,
        evaluator: &Evaluator,
        log_dir: Option<&Path>,
        first_step: Option<u64>,
    ) -> Result<Self, SessionError> {
        let HeldOut { model, config, tasks: provider } = held_out;
        let predictions = model.prediction_spec()?;
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
            vocabulary: predictions.vocabulary.build()?,
            model: model.clone(),
            rows: config.batch_size,
            num_shown: evaluator.num_shown_examples,
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
    /// libtorch fails, a metric cannot be computed, results cannot be written, a process is lost, or one is
    /// asked to end between two batches.
    pub fn evaluate(&mut self, cx: &EvalContext<'_>) -> Result<MetricsByTask, Unfinished> {
        let mut out = MetricsByTask::new();
        let Self { tasks, evaluator, model, vocabulary, rows, num_shown, seed, .. } = self;
        let Process { rank, count } = cx.processes.place();
        for task in &*tasks {
            let name = task.task.task_name();
            let postprocess =
                |text: &str, example: &Example, side: Side| task.postprocess(text, example, side);
            let printed = |value: &Value, side: Side| task.printed(value, side);
            let metric_fns = &task.task.metric_fns;
            let eval_task =
                EvalTask { name, metric_fns, postprocess: &postprocess, printed: &printed };
            let mut evaluation = evaluator.begin(eval_task, cx.step as i64);
            let predictor = evaluation
                .needs(ModelOutput::Prediction)
                .then(|| TextPredictor::new(model, &**vocabulary, cx, *rows))
                .transpose()?;
            let computed = Computed {
                task,
                predictor,
                is_scored: evaluation.needs(ModelOutput::Score),
                seed: *seed,
            };
            let (mut shown, mut batches) = (Vec::new(), task.batches(*rows)?);
            for number in (0..).step_by(count) {
                let is_asked = cx.is_asked();
                let round: Result<Vec<_>, DataError> = batches.by_ref().take(count).collect();
                let round = round?;
                if round.is_empty() {
                    break;
                }
                agree_to_go_on(cx.processes, is_asked)?;
                let own = round.get(rank);
                let own = own.map(|examples| computed.outputs(cx, examples, number + rank));
                let outputs = outputs_of_all(cx.processes, own.transpose()?)?;
                for (examples, outputs) in round.iter().zip(outputs) {
                    let left = *num_shown - shown.len();
                    shown.extend(lines(task, examples, &outputs).take(left));
                    let logged: Vec<Example> = examples.iter().map(|it| task.logged(it)).collect();
                    evaluation.add(&logged, outputs)?;
                }
            }
            shown.iter().for_each(|line: &String| telemetry::notice(line));
            out.insert(name.to_string(), evaluation.finish()?);
        }
        Ok(out)
    }
}

/// The computations of one task's outputs.
struct Computed<'a> {
    task: &'a HeldOutTask,
    predictor: Option<TextPredictor<'a>>,
    is_scored: bool,
    seed: u64,
}

impl Computed<'_> {
    /// Computes the outputs of the batch of that number. Sampled decoding draws the same numbers at every
    /// evaluation, in whatever process.
    fn outputs(
        &self,
        cx: &EvalContext<'_>,
        examples: &[data::Example],
        number: usize,
    ) -> Result<Outputs, SessionError> {
        tch::manual_seed(self.seed.wrapping_add(number as u64) as i64);
        let batch = self.task.features(examples)?;
        let texts = self.predictor.as_ref().map(|predictor| predictor.predict(&batch));
        let scores = self.is_scored.then(|| cx.forward.score(cx.params, cx.step, &batch));
        Ok(Outputs { texts: texts.transpose()?, scores: scores.transpose()? })
    }
}

/// Returns the lines that show the predictions of a batch.
fn lines<'a>(
    task: &'a HeldOutTask,
    examples: &'a [data::Example],
    outputs: &'a Outputs,
) -> impl Iterator<Item = String> + 'a {
    let predicted = examples.iter().zip(outputs.texts.iter().flatten());
    predicted.filter_map(|(example, text)| {
        let (input, target) = (task.input(example)?, task.logged(example).target);
        Some(match filled(&input, text, &target) {
            Some(filled) => format!("  {filled:?}"),
            None => {
                let mark = if *text == target { "=" } else { "!" };
                format!("  {input:?} -> {text:?} {mark} {target:?}")
            }
        })
    })
}
