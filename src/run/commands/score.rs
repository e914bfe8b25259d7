//! `gimlet score`: the log-likelihood of targets, as T5X's `InteractiveModel.score`.

use anyhow::anyhow;
use clap::Args;

use crate::run::failure::Failure;

use super::answering::{LinesArgs, answers, predicts};

/// Flags of `gimlet score`.
#[derive(Args, Debug)]
pub struct ScoreArgs {
    /// The text that the model reads, and the targets to score. Lines that are no JSON have a tab between them.
    #[arg(value_names = ["INPUTS", "TARGETS"], num_args = 2)]
    pub texts: Vec<String>,
    /// The lines and the model.
    #[command(flatten)]
    pub lines: LinesArgs,
}

answers!(ScoreArgs, lines.model, predicts, |args| match args.texts.len() {
    0 | 2 => Ok(()),
    count =>
        Err(Failure::Usage(anyhow!("{count} texts are given, expected 2: inputs and targets"))),
});

#[cfg(feature = "torch")]
mod body {
    use std::io;
    use std::iter;

    use super::{Failure, ScoreArgs};
    use crate::interactive::{Engine, EngineParts, Format, InteractiveModel, Text, score_lines};
    use crate::run::commands::body::Body;
    use crate::run::commands::texts::{Texts, failure};
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
                _ => self.lines.texts(&[], true)?,
            };
            let parts = EngineParts::restore(spec, &context.mesh)?;
            let engine = Engine::new(spec, &parts, 1)?;
            let progress = self.lines.progress(&engine, Format::Lines, context);
            score_lines(&progress, texts, &mut io::stdout())
                .map_err(|error| failure(error, interrupt))
        }
    }
}
