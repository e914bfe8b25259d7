//! `gimlet export`: T5X's `export.py`.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::export::{Save, check, checkpoint, preflight};
use crate::partition::{LocalDevice, Mesh, Partitioner, PjitPartitioner, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::UnfitSpec;

use super::root_command::RootCommand;
use super::summary::describe_model;

/// Flags of `gimlet export`, which are those of T5X's `export.py`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Resolve everything, print the checkpoint and its size, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for ExportArgs {
    type Spec = Save;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        Ok(Cow::Borrowed(&self.gin))
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

impl Root for Save {
    fn check(&self) -> Result<(), UnfitSpec> {
        check(self)
    }

    /// Each process would write the whole model.
    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        let whole = Partitioner::Pjit(PjitPartitioner::default());
        Ok(Mesh::of_replicas(self.partitioner.as_ref().unwrap_or(&whole), process, device))
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { tasks, .. } = *planned;
        preflight(self, tasks)?;
        let mut out = String::new();
        let _ = writeln!(out, "checkpoint   {}", checkpoint(self)?);
        let _ = writeln!(out, "output_dir   {}", self.output_dir.0);
        describe_model(&self.model, &mut out);
        Ok(out)
    }
}

#[cfg(feature = "torch")]
mod body {
    use crate::export::{export, preflight};
    use crate::run::commands::body::Body;
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;
    use crate::telemetry;

    use super::{ExportArgs, Failure, Save};

    impl Body for ExportArgs {
        fn run(&self, spec: &Save, context: &Context<'_>, _: &Interrupt) -> Result<(), Failure> {
            preflight(spec, context.tasks)?;
            if context.processes.is_first() {
                let folder = export(spec)?;
                telemetry::notice(&format!("exported to {folder}, which transformers load"));
            }
            Ok(())
        }
    }
}
