//! `gimlet eval`: T5X's `eval.py`.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::eval::{Chosen, Evaluate, check, left_to_evaluate, preflight};
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::UnfitSpec;
use crate::session::made_with::Values;
use crate::session::preflight::Moment;

use super::root_command::RootCommand;
use super::summary::{describe_batches, describe_devices, describe_model, describe_weights};

/// Flags of `gimlet eval`, which are those of T5X's `eval.py`.
#[derive(Args, Debug)]
pub struct EvalArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Write into an EVAL_OUTPUT_DIR of a bucket even if another process seems to; only if that
    /// process is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print the checkpoints and data to evaluate, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for EvalArgs {
    type Spec = Evaluate;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        Ok(Cow::Borrowed(&self.gin))
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

impl Root for Evaluate {
    fn check(&self) -> Result<(), UnfitSpec> {
        check(self)
    }

    /// Each process holds the whole model.
    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        Ok(Mesh::of_replicas(&self.partitioner, process, device))
    }

    /// Looks at checkpoints and not at data.
    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { tasks, mesh, values } = *planned;
        let mut out = String::new();
        let _ = writeln!(out, "output_dir   {}", self.output_dir);
        describe_model(&self.model, &mut out);
        // If nothing is left to evaluate, the run does not ask for data either.
        if describe_checkpoints(self, values, &mut out)? > 0 {
            preflight(self, tasks, Moment::DryRun)?;
        }
        describe_batches(&self.model, &self.dataset_cfg, &mut out);
        describe_weights(&self.model, &mut out);
        describe_devices(mesh, &mut out);
        Ok(out)
    }
}

/// Lists the checkpoints that are left to evaluate, and counts them.
fn describe_checkpoints(
    spec: &Evaluate,
    values: &Values,
    out: &mut String,
) -> Result<usize, Failure> {
    let Chosen { paths, num_done, .. } = left_to_evaluate(spec, values)?;
    let _ = writeln!(out, "checkpoints  {} to evaluate, {num_done} done", paths.len());
    for path in &paths {
        let _ = writeln!(out, "             {path}");
    }
    Ok(paths.len())
}

#[cfg(feature = "torch")]
mod body {
    use crate::checkpoint::RestoreMode;
    use crate::eval::{Evaluations, evaluate};
    use crate::run::commands::body::{Body, unless_left_out};
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;
    use crate::storage::Takeover;
    use crate::telemetry;

    use super::{EvalArgs, Evaluate, Failure};

    impl Body for EvalArgs {
        fn run(
            &self,
            spec: &Evaluate,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            let evaluations = evaluate(spec, context, Takeover::from(self.take_over))?;
            say_what_was_evaluated(&evaluations, spec);
            if let (true, Some(signal)) = (evaluations.is_interrupted, interrupt.signal()) {
                return Err(Failure::Interrupted(signal));
            }
            unless_left_out(&evaluations.damaged)
        }
    }

    fn say_what_was_evaluated(evaluations: &Evaluations, spec: &Evaluate) {
        if evaluations.is_interrupted {
            let all = spec.restore_checkpoint_cfg.mode == RestoreMode::All;
            let left = if all {
                "the checkpoints that are left"
            } else {
                "that checkpoint from its start"
            };
            telemetry::notice(&format!("interrupted; the same command continues with {left}"));
        }
        let (checkpoints, output_dir) = (&spec.restore_checkpoint_cfg.path.0, &spec.output_dir);
        telemetry::notice(&match evaluations.count {
            0 => format!("no checkpoint of {} was evaluated", checkpoints.join(", ")),
            1 => format!("1 checkpoint evaluated; results are in {output_dir}"),
            count => format!("{count} checkpoints evaluated; results are in {output_dir}"),
        });
    }
}
