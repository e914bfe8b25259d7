//! `gimlet fill`: the likeliest pieces for masked tokens, as the pipeline `fill-mask` of transformers.

use anyhow::anyhow;
use clap::Args;

use crate::interactive::{DEFAULT_TOPK, check_topk};
use crate::run::failure::Failure;

use super::answering::{LinesArgs, answers, fills};

/// Flags of `gimlet fill`.
#[derive(Args, Debug)]
pub struct FillArgs {
    /// The texts, each with `[MASK]` in place of the pieces to restore; without any and without --file, the lines of standard
    /// input.
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// Number of pieces for each mask.
    #[arg(long = "topk", value_name = "N", default_value_t = DEFAULT_TOPK)]
    pub topk: usize,
    /// The lines and the model.
    #[command(flatten)]
    pub lines: LinesArgs,
}

answers!(FillArgs, lines.model, fills, |args| check_topk("--topk", args.topk)
    .map_err(|error| Failure::Usage(anyhow!(error))));

#[cfg(feature = "torch")]
mod body {
    use std::io;

    use super::{Failure, FillArgs};
    use crate::interactive::{
        EngineParts, FillEncoder, FillProgress, Filler, Format, InteractiveModel, fill_lines,
    };
    use crate::run::commands::body::Body;
    use crate::run::commands::texts::failure;
    use crate::run::interrupt::Interrupt;
    use crate::session::context::Context;

    impl Body for FillArgs {
        fn run(
            &self,
            spec: &InteractiveModel,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            // Files that cannot be read are reported before the parameters are.
            let texts = self.lines.texts(&self.texts, false)?;
            let encoder = FillEncoder::new(&spec.model)?;
            let parts = EngineParts::restore(spec, &context.mesh)?;
            let progress = FillProgress {
                filler: &Filler::new(spec, &parts, encoder),
                topk: self.topk,
                format: if self.lines.json { Format::Json } else { Format::Lines },
                place: &|number| self.lines.place(&self.texts, number),
                stop: context.stop,
            };
            fill_lines(&progress, texts, &mut io::stdout())
                .map_err(|error| failure(error, interrupt))
        }
    }
}
