//! `gimlet infer`: T5X's `infer.py`.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::infer::{Infer, check, check_results, planned as planned_checkpoints, preflight};
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::UnfitSpec;

use super::root_command::RootCommand;
use super::summary::{describe_batches, describe_devices, describe_model, describe_weights};

/// Flags of `gimlet infer`, which are those of T5X's `infer.py`.
#[derive(Args, Debug)]
pub struct InferArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// The shard of the examples that this run reads; wins over infer.shard_id.
    #[arg(long = "shard_id", value_name = "I")]
    pub shard_id: Option<usize>,
    /// Write into an INFER_OUTPUT_DIR of a bucket even if another process seems to; only if that
    /// process is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print the checkpoints and data, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for InferArgs {
    type Spec = Infer;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        let Some(shard_id) = self.shard_id else { return Ok(Cow::Borrowed(&self.gin)) };
        let mut gin = self.gin.clone();
        gin.files.bind("--shard_id", &format!("infer.shard_id = {shard_id}"));
        Ok(Cow::Owned(gin))
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

impl Root for Infer {
    fn check(&self) -> Result<(), UnfitSpec> {
        check(self)
    }

    /// Each process holds the whole model.
    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        Ok(Mesh::of_replicas(&self.partitioner, process, device))
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { tasks, mesh, values } = *planned;
        let (of_mixture, checkpoints) = (preflight(self, tasks)?, planned_checkpoints(self)?);
        check_results(self, values, &checkpoints, &of_mixture)?;
        let mut out = String::new();
        let _ = writeln!(out, "output_dir   {}", self.output_dir);
        let (shard_id, num_shards) = (self.shard_id, self.num_shards);
        let _ =
            writeln!(out, "mode         {}, shard {shard_id} of {num_shards}", self.mode.name());
        describe_model(&self.model, &mut out);
        for checkpoint in checkpoints {
            let _ = writeln!(out, "checkpoint   {}", checkpoint.path);
        }
        for task in of_mixture {
            let _ = writeln!(out, "task         {}", task.task_name());
        }
        describe_batches(&self.model, &self.dataset_cfg, &mut out);
        describe_weights(&self.model, &mut out);
        describe_devices(mesh, &mut out);
        Ok(out)
    }
}

#[cfg(feature = "torch")]
mod body {
    use crate::infer::infer;
    use crate::run::commands::body::{Body, unless_left_out};
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;
    use crate::storage::Takeover;
    use crate::telemetry;

    use super::{Failure, Infer, InferArgs};

    impl Body for InferArgs {
        fn run(
            &self,
            spec: &Infer,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            let inferences = infer(spec, context, Takeover::from(self.take_over))?;
            if inferences.is_interrupted {
                telemetry::notice("interrupted; the same command continues after the last chunk");
                // Another process may have got the signal.
                return Err(Failure::Interrupted(interrupt.signal().unwrap_or(libc::SIGTERM)));
            }
            unless_left_out(&inferences.damaged)
        }
    }
}
