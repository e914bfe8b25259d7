//! The run of an inference: one checkpoint after another, and with each the tasks in turn.

use std::sync::Arc;

use crate::data::Task;
use crate::partition::Processes;
use crate::session::agreement::{check_same, of_first};
use crate::session::context::{Context, say_partitions};
use crate::session::damaged_checkpoints::restore;
use crate::session::describe::{describe, describe_model};
use crate::session::error::SessionError;
use crate::session::eval_context::EvalContext;
use crate::session::forward::Forward;
use crate::session::rank_log;
use crate::session::restored_params::RestoredParams;
use crate::session::state_layout::step_variable;
use crate::session::unfinished::Unfinished;
use crate::session::weights::{Weights, refuse_shortage};
use crate::storage::{Path, Takeover};
use crate::telemetry;

use super::check::check;
use super::files::TaskFiles;
use super::plan::{PlannedCheckpoint, planned};
use super::preflight::preflight;
use super::results::{check_results, made_with};
use super::spec::Infer;
use super::task::TaskInference;

/// The result of an inference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inferences {
    /// Number of examples whose results this process and those beside it have written.
    pub num_examples: u64,
    /// Error messages of the checkpoints that were left out.
    pub damaged: Vec<String>,
    /// Whether a request to end came before the last of them.
    pub is_interrupted: bool,
}

/// Infers with checkpoints. `takeover` decides about a folder in a bucket into which another process seems to write.
///
/// # Errors
/// See [`SessionError`]; chunks already written stay, and the same call continues after them. In mode 'all' damaged
/// checkpoints are no errors: they are left out.
pub fn infer(
    spec: &Infer,
    context: &Context<'_>,
    takeover: Takeover,
) -> Result<Inferences, SessionError> {
    check(spec)?;
    let processes = &context.processes;
    check_same(processes, context.config_text)?;
    let tasks = preflight(spec, context.tasks)?;
    let checkpoints = planned_by_first(spec, processes)?;
    of_first(processes, || check_results(spec, &context.values, &checkpoints, &tasks))?;
    refuse_shortage(&spec.model, &context.mesh)?;
    say_partitions(&context.mesh);
    let mut inference = Inference {
        spec,
        context,
        takeover,
        tasks,
        weights: Weights::new(
            &spec.model,
            RestoredParams::new(&spec.model, &spec.restore_checkpoint_cfg),
            spec.fallback_init_rng,
            context.mesh.clone(),
        ),
        forward: Forward::new(&spec.model, None, &context.mesh)?,
        outcome: Inferences::default(),
    };
    // Nothing is written before this line: an inference that cannot start leaves no files.
    processes.wait_for_all()?;
    let output_dir = Path::parse(&spec.output_dir)?;
    if processes.is_first() {
        output_dir.create_dir_all()?;
        // The other shards have the same configuration.
        if spec.shard_id == 0 {
            let info = describe_model(&spec.model, &[step_variable()], &spec.partitioner);
            describe(&output_dir, context, &info)?;
        }
    }
    processes.wait_for_all()?;
    rank_log::open(processes, &output_dir, context.verbosity)?;
    for checkpoint in &checkpoints {
        match inference.checkpoint(checkpoint) {
            Ok(()) => {}
            Err(Unfinished::Asked) => inference.outcome.is_interrupted = true,
            Err(Unfinished::Failed(error)) => return Err(error),
        }
        if inference.outcome.is_interrupted {
            break;
        }
    }
    Ok(inference.outcome)
}

/// Returns the checkpoints that the first process finds: another one may see others beside a training run.
fn planned_by_first(
    spec: &Infer,
    processes: &Processes,
) -> Result<Vec<PlannedCheckpoint>, SessionError> {
    let found = of_first(processes, || {
        let plan = planned(spec)?.into_iter();
        let texts = plan.map(|one| [one.path.to_string(), one.folder.to_string()]);
        Ok::<Vec<[String; 2]>, SessionError>(texts.collect())
    })?;
    let parsed = found.iter().map(|[path, folder]| {
        Ok(PlannedCheckpoint { path: Path::parse(path)?, folder: Path::parse(folder)? })
    });
    parsed.collect()
}

/// An inference in progress.
struct Inference<'a> {
    spec: &'a Infer,
    context: &'a Context<'a>,
    takeover: Takeover,
    tasks: Vec<Arc<Task>>,
    weights: Weights,
    forward: Forward,
    outcome: Inferences,
}

impl Inference<'_> {
    /// Infers with one checkpoint, if a task is left.
    fn checkpoint(&mut self, checkpoint: &PlannedCheckpoint) -> Result<(), Unfinished> {
        let PlannedCheckpoint { path, folder } = checkpoint;
        let left = self.tasks_left(folder)?;
        if left.is_empty() {
            return Ok(());
        }
        let mode = self.spec.restore_checkpoint_cfg.mode;
        let restored = match restore(&self.weights, path, mode, &self.context.processes)? {
            Ok(restored) => restored,
            Err(left_out) => {
                self.outcome.damaged.extend(left_out.said(path));
                return Ok(());
            }
        };
        telemetry::notice(&format!("inferring with step {} from {path}", restored.step));
        let cx = EvalContext {
            forward: &self.forward,
            params: &restored.params,
            step: restored.step,
            processes: &self.context.processes,
            stop: self.context.stop,
        };
        for task in left {
            let files = TaskFiles::new(self.spec, folder, task.task_name());
            let caches = self.spec.dataset_cfg.use_cached.then(|| self.context.tasks.caches());
            let made_with = made_with(&self.context.values, path);
            let inference = TaskInference::new(self.spec, task, files, caches, made_with)?;
            inference.run(path, &cx, self.takeover, &mut self.outcome.num_examples)?;
        }
        Ok(())
    }

    /// Returns the tasks whose results are not complete yet.
    fn tasks_left(&self, folder: &Path) -> Result<Vec<Arc<Task>>, SessionError> {
        let is_left = of_first(&self.context.processes, || {
            let is_left = |task: &Arc<Task>| {
                let files = TaskFiles::new(self.spec, folder, task.task_name());
                let is_done = files.completed.exists()?;
                if is_done {
                    // A process that ended just before may have left its chunks.
                    files.remove_chunks(self.spec)?;
                    telemetry::notice(&format!("{} is complete; it stays", files.output));
                }
                Ok::<bool, SessionError>(!is_done)
            };
            self.tasks.iter().map(is_left).collect::<Result<Vec<bool>, SessionError>>()
        })?;
        let left = self.tasks.iter().zip(is_left).filter(|(_, is_left)| *is_left);
        Ok(left.map(|(task, _)| Arc::clone(task)).collect())
    }
}
