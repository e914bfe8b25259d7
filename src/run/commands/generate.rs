//! `gimlet generate`: answers texts, as T5X's `InteractiveModel.predict`.

use anyhow::anyhow;
use clap::Args;

use crate::interactive::DecodingOptions;
use crate::run::failure::Failure;

use super::answering::{LinesArgs, answers, predicts};

/// Flags of `gimlet generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// The texts; without any and without --file, the lines of standard input, or a conversation on a terminal.
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// Decoding.
    #[command(flatten)]
    pub decoding: DecodingOptions,
    /// The lines and the model.
    #[command(flatten)]
    pub lines: LinesArgs,
}

answers!(GenerateArgs, lines.model, predicts, |args| args
    .decoding
    .check()
    .map_err(|error| Failure::Usage(anyhow!(error))));

#[cfg(feature = "torch")]
mod body {
    use std::io::{self, IsTerminal};
    use std::time::Instant;

    use anyhow::anyhow;

    use super::{Failure, GenerateArgs};
    use crate::interactive::{
        Engine, EngineParts, Format, InteractiveModel, converse, generate_lines,
    };
    use crate::run::commands::body::Body;
    use crate::run::commands::texts::failure;
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;
    use crate::telemetry;

    impl Body for GenerateArgs {
        fn run(
            &self,
            spec: &InteractiveModel,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            let converses = self.texts.is_empty()
                && self.lines.file.is_none()
                && io::stdin().is_terminal()
                && io::stdout().is_terminal();
            // A file that cannot be opened is reported before the parameters are read.
            let texts = if converses { None } else { Some(self.lines.texts(&self.texts, false)?) };
            let parts = EngineParts::restore(spec, &context.mesh)?;
            let rows = match (converses, self.texts.len()) {
                (true, _) => 1,
                (_, 0) => spec.batch_size,
                (_, count) => count.min(spec.batch_size),
            };
            let engine = Engine::new(spec, &parts, rows)?;
            let decoding =
                engine.decoding(&self.decoding).map_err(|error| Failure::Usage(anyhow!(error)))?;
            let Some(texts) = texts else {
                converse(&engine, &decoding, context.stop)?;
                return interrupt
                    .signal()
                    .map_or(Ok(()), |signal| Err(Failure::Interrupted(signal)));
            };
            let format = if self.texts.is_empty() { Format::Lines } else { Format::Plain };
            let progress = self.lines.progress(&engine, format, context);
            let start = Instant::now();
            let answered = generate_lines(&progress, &decoding, texts, &mut io::stdout());
            let tokens = answered.map_err(|error| failure(error, interrupt))?;
            let seconds = start.elapsed().as_secs_f64();
            telemetry::detail(&format!(
                "{tokens} tokens in {seconds:.2} s, {:.1} each second",
                tokens as f64 / seconds
            ));
            Ok(())
        }
    }
}
