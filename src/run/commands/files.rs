//! Predictions and scores of text files: what `gimlet t5_mesh_transformer` becomes in its modes `infer` and
//! `score_from_strings`. It is no command by itself.

use std::borrow::Cow;
use std::fmt::Write;

use clap::Args;

use crate::interactive::AnswerFiles;
use crate::partition::{LocalDevice, Mesh, Process};
use crate::run::failure::Failure;
use crate::run::gin_flags::GinArgs;
use crate::run::root::{PlannedRun, Root};
use crate::session::check::UnfitSpec;
use crate::session::error::SessionError;
use crate::session::named_checkpoints::named_checkpoints;
use crate::session::restored_params::RestoredParams;

use super::answering::predicts;
use super::root_command::RootCommand;
use super::summary::{describe_devices, describe_model, describe_weights};

/// The configuration of a run over text files.
#[derive(Args, Debug)]
pub struct FilesArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Resolve everything, print the checkpoints and files, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

impl RootCommand for FilesArgs {
    type Spec = AnswerFiles;

    fn gin(&self) -> Result<Cow<'_, GinArgs>, Failure> {
        Ok(Cow::Borrowed(&self.gin))
    }

    fn suits(&self, spec: &AnswerFiles) -> Result<(), SessionError> {
        predicts(&spec.model)
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

impl Root for AnswerFiles {
    fn check(&self) -> Result<(), UnfitSpec> {
        self.check()
    }

    fn mesh(&self, process: Process, device: LocalDevice) -> Result<Mesh, UnfitSpec> {
        Root::mesh(&self.model, process, device)
    }

    fn dry_run(&self, planned: &PlannedRun<'_>) -> Result<String, Failure> {
        let PlannedRun { mesh, .. } = *planned;
        let wanted = RestoredParams::new(&self.model.model, &self.restore_checkpoint_cfg);
        let mut out = String::new();
        for path in named_checkpoints(&self.restore_checkpoint_cfg)? {
            wanted.check(&path)?;
            let _ = writeln!(out, "checkpoint   {path}");
        }
        for (role, path) in self.files() {
            let _ = writeln!(out, "{:<12} {path}", role.trim_start_matches("the file of "));
        }
        describe_model(&self.model.model, &mut out);
        describe_weights(&self.model.model, &mut out);
        describe_devices(mesh, &mut out);
        Ok(out)
    }
}

#[cfg(feature = "torch")]
mod body {
    use crate::interactive::answer_files;
    use crate::run::commands::body::Body;
    use crate::run::commands::texts::failure;
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;

    use super::{AnswerFiles, Failure, FilesArgs};

    impl Body for FilesArgs {
        fn run(
            &self,
            spec: &AnswerFiles,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            answer_files(spec, context).map_err(|error| failure(error, interrupt))
        }
    }
}
