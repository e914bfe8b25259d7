//! `gimlet train`: T5X's `train.py`.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::data::TaskProvider;
use crate::launch::DistributedArgs;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::run::shares::shares;
use crate::session::check::UnfitSpec;
use crate::session::preflight::Moment;
use crate::train::{Periods, Train, check, preflight};

use super::root_command::RootCommand;
use super::summary::{describe_batches, describe_mesh, describe_model, describe_trained};

/// Flags of `gimlet train`.
#[derive(Args, Debug)]
pub struct TrainArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// T5X's flags for running on many processes.
    #[command(flatten)]
    pub distributed: DistributedArgs,
    /// Train into a MODEL_DIR of a bucket even if another process seems to; only if that process
    /// is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print sizes and shapes, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for TrainArgs {
    type Spec = Train;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        Ok(Cow::Borrowed(&self.gin))
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    fn distributed(&self) -> DistributedArgs {
        self.distributed.clone()
    }
}

impl Root for Train {
    fn check(&self) -> Result<(), UnfitSpec> {
        check(self)
    }

    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        Self::mesh(self, process, device)
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { tasks, mesh, .. } = *planned;
        let step = preflight(self, tasks, Moment::DryRun)?;
        let mut out = String::new();
        let _ = writeln!(out, "model_dir    {}", self.model_dir);
        describe_model(&self.model, &mut out);
        describe_trained(&self.model, &mut out);
        describe_steps(self, step, &mut out);
        describe_batches(&self.model, &self.train_dataset_cfg, &mut out);
        describe_rates(&self.train_dataset_cfg.mixture_or_task_name, tasks, &mut out)?;
        describe_mesh(self, mesh, &mut out)?;
        Ok(out)
    }
}

/// Describes the rates of a mixture if they change with the step, and can be computed on this machine: of missing data
/// the preflight has warned.
fn describe_rates(name: &str, tasks: &dyn TaskProvider, out: &mut String) -> Result<(), Failure> {
    let stages = match shares(name, tasks) {
        Err(error) if error.is_of_machine() => return Ok(()),
        stages => stages.map_err(Failure::usage)?,
    };
    for stage in stages.iter().filter(|_| stages.len() > 1) {
        let _ = writeln!(out, "rates        {stage}");
    }
    Ok(())
}

fn describe_steps(train: &Train, step: u64, out: &mut String) {
    let period = |period: Option<u64>| match period {
        None | Some(0) => "never".to_string(),
        Some(period) => format!("every {period} steps"),
    };
    let save = train.checkpoint_cfg.save.as_ref();
    let checkpoints = period(save.and_then(|save| save.period));
    let evaluations = period(train.eval_period);
    let first = if step > 0 { format!("from {step} ") } else { String::new() };
    let last = Periods::of(train, 0, step).total_steps;
    let _ = writeln!(out, "steps        {first}to {last}");
    let _ = writeln!(out, "checkpoints  {checkpoints}, evaluations {evaluations}");
}

#[cfg(feature = "torch")]
mod body {
    use crate::run::commands::body::Body;
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;
    use crate::storage::Takeover;
    use crate::telemetry;
    use crate::train::{Outcome, train};

    use super::{Failure, Train, TrainArgs};

    impl Body for TrainArgs {
        fn run(
            &self,
            spec: &Train,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            let outcome = train(spec, context, Takeover::from(self.take_over))?;
            say_how_it_ended(outcome, spec);
            match outcome {
                // Another process may have got the signal.
                Outcome::Interrupted { .. } => {
                    Err(Failure::Interrupted(interrupt.signal().unwrap_or(libc::SIGTERM)))
                }
                _ => Ok(()),
            }
        }
    }

    fn say_how_it_ended(outcome: Outcome, train: &Train) {
        telemetry::notice(&match outcome {
            Outcome::Finished { step } => format!("finished at step {step}"),
            Outcome::Stopped { step } => format!("stopped at step {step}"),
            Outcome::Interrupted { step } if train.checkpoint_cfg.save.is_none() => {
                format!("interrupted at step {step}; this run saves no checkpoints")
            }
            Outcome::Interrupted { step } if train.relative().is_some() => format!(
                "interrupted: step {step} is saved; the same command trains as many steps again from there, \
                 since TRAIN_STEPS_RELATIVE counts from the start: give TRAIN_STEPS to end where this run would have ended"
            ),
            Outcome::Interrupted { step } => {
                format!("interrupted: step {step} is saved; the same command continues from there")
            }
        });
        telemetry::notice(&format!("checkpoints and logs are in {}", train.model_dir));
    }
}
