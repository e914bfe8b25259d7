//! `gimlet score`: the log-likelihood of targets, as T5X's `InteractiveModel.score`.

use anyhow::anyhow;
use clap::Args;

use crate::run::failure::Failure;

use super::asked::{ModelArgs, answers};

/// Flags of `gimlet score`.
#[derive(Args, Debug)]
pub struct ScoreArgs {
    /// The text that the model reads, and the targets to score. Without them and without --file, the lines of
    /// standard input.
    #[arg(value_names = ["INPUTS", "TARGETS"], num_args = 2, conflicts_with = "file")]
    pub texts: Vec<String>,
    /// A file whose lines are JSON objects with `inputs` and `targets`, or both separated by a tab; in any storage.
    #[arg(long = "file", value_name = "FILE")]
    pub file: Option<String>,
    /// Print a JSON object for each text.
    #[arg(long = "json")]
    pub json: bool,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

answers!(ScoreArgs, |args| match args.texts.len() {
    0 | 2 => Ok(()),
    count =>
        Err(Failure::Usage(anyhow!("{count} texts are given, expected 2: inputs and targets"))),
});

#[cfg(feature = "torch")]
mod body {
    use std::io;
    use std::iter;

    use super::{Failure, ScoreArgs};
    use crate::interactive::{
        Engine, EngineParts, Format, InteractiveModel, Progress, Text, score_lines,
    };
    use crate::run::commands::body::Body;
    use crate::run::commands::texts::{Texts, failure, texts};
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;

    impl Body for ScoreArgs {
        fn run(
            &self,
            spec: &InteractiveModel,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            let texts: Texts = match &self.texts[..] {
                [inputs, targets] => {
                    let text = Text { inputs: inputs.clone(), targets: Some(targets.clone()) };
                    Box::new(iter::once(Ok(text)))
                }
                _ => texts(&[], self.file.as_deref(), true)?,
            };
            let parts = EngineParts::restore(spec, &context.mesh)?;
            let batch_size = spec.batch_size;
            let engine = Engine::new(spec, &parts, 1)?;
            let format = if self.json { Format::Json } else { Format::Lines };
            let progress = Progress { engine: &engine, batch_size, format, stop: context.stop };
            score_lines(&progress, texts, &mut io::stdout())
                .map_err(|error| failure(error, interrupt))
        }
    }
}
