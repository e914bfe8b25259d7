//! `gimlet serve`: answers texts over HTTP.

use clap::Args;

use crate::run::failure::Failure;
use crate::serve::ServeOptions;

use super::answering::{ModelArgs, answers, predicts_or_fills};

/// Flags of `gimlet serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The server.
    #[command(flatten)]
    pub options: ServeOptions,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}

answers!(ServeArgs, model, predicts_or_fills, |_| Ok(()));

#[cfg(feature = "torch")]
mod body {
    use std::io;

    use anyhow::anyhow;

    use super::{Failure, ServeArgs};
    use crate::interactive::{Engine, EngineParts, FillEncoder, Filler, InteractiveModel};
    use crate::run::commands::body::Body;
    use crate::run::interrupt::Interrupt;
    use crate::serve::{Served, bind, serve};
    use crate::session::context::Context;
    use crate::storage::Path;
    use crate::telemetry;

    impl Body for ServeArgs {
        fn run(
            &self,
            spec: &InteractiveModel,
            context: &Context<'_>,
            interrupt: &Interrupt,
        ) -> Result<(), Failure> {
            if self.options.end_with_stdin {
                std::thread::spawn(end_with_stdin);
            }
            let token = self.options.token_file.as_deref().map(token).transpose()?;
            let listener = bind(&self.options).map_err(Failure::usage)?;
            let fills = spec.model.fills().is_some();
            let encoder = fills.then(|| FillEncoder::new(&spec.model)).transpose()?;
            let parts = EngineParts::restore(spec, &context.mesh)?;
            let address = (listener, token);
            let served = match encoder {
                Some(encoder) => {
                    let filler = Filler::new(spec, &parts, encoder);
                    serve(&Served::Fills(&filler), &self.options, address, context.stop)
                }
                None => {
                    let engine = Engine::new(spec, &parts, spec.batch_size)?;
                    serve(&Served::Answers(&engine), &self.options, address, context.stop)
                }
            };
            served.map_err(Failure::world)?;
            if interrupt.signal().is_some() {
                telemetry::notice("all texts that waited are answered");
            }
            Ok(())
        }
    }

    /// Asks this process to end once standard input has ended.
    fn end_with_stdin() {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // SAFETY: it only sends a signal, to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    }

    /// Reads the token from its file.
    fn token(file: &str) -> Result<String, Failure> {
        let bytes = Path::parse(file).and_then(|path| path.read()).map_err(Failure::usage)?;
        let token = String::from_utf8(bytes).map_err(Failure::usage)?.trim().to_string();
        match token.is_empty() {
            true => Err(Failure::Usage(anyhow!("`{file}` is empty, expected a token"))),
            false => Ok(token),
        }
    }
}
