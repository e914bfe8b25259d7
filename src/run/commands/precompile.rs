//! `gimlet precompile`: T5X's `main.py --run_mode=precompile`.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::partition::{LocalDevice, Mesh, Process};
use crate::precompile::{Precompile, check, mesh, preflight, step_memory};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::UnfitSpec;

use super::root_command::RootCommand;
use super::summary::{
    describe_batches, describe_devices, describe_estimate, describe_model, describe_trained,
};

/// Flags of `gimlet precompile`.
#[derive(Args, Debug)]
pub struct PrecompileArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Without effect: nothing but the check is done in any case.
    #[allow(dead_code, reason = "scripts may give it")]
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for PrecompileArgs {
    type Spec = Precompile;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        Ok(Cow::Borrowed(&self.gin))
    }

    /// The report of a dry run is all that this command makes.
    fn is_dry_run(&self) -> bool {
        true
    }
}

impl Root for Precompile {
    fn check(&self) -> Result<(), UnfitSpec> {
        check(self)
    }

    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        mesh(self, process, device)
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { tasks, mesh, .. } = *planned;
        preflight(self, tasks)?;
        let estimate = step_memory(self, mesh).map_err(Failure::usage)?;
        let mut out = String::new();
        describe_model(&self.model, &mut out);
        describe_trained(&self.model, &mut out);
        describe_batches(&self.model, &self.train_dataset_cfg, &mut out);
        describe_estimate(&estimate, &mut out);
        describe_devices(mesh, &mut out);
        let _ = writeln!(out, "compiled     nothing: a step runs as it is");
        Ok(out)
    }
}

#[cfg(feature = "torch")]
mod body {
    use crate::run::commands::body::Body;
    use crate::run::interrupt::Interrupt;
    use crate::run::output::write;
    use crate::run::root::Root;
    use crate::session::context::Context;

    use super::{Failure, PlannedRun, Precompile, PrecompileArgs};

    impl Body for PrecompileArgs {
        fn run(
            &self,
            spec: &Precompile,
            context: &Context<'_>,
            _: &Interrupt,
        ) -> Result<(), Failure> {
            let Context { tasks, mesh, values, .. } = context;
            write(&spec.dry_run(&PlannedRun { tasks: *tasks, mesh, values })?)
        }
    }
}
