//! `gimlet gin lsp`: a language server for gin files on standard input and output.
//!
//! ```text
//! server --> answers --> context, proposals, hover, navigate, rename   requests of the editor
//!        --> diagnose                                                  messages without a request
//! project: files (open texts over disk and library), workspace (who includes whom), analysis
//! ```
//! Everything is answered from scratch after each edit: loading a configuration takes a few ms.

mod analysis;
mod answers;
mod capabilities;
mod context;
mod diagnose;
mod files;
mod hover;
mod navigate;
mod position;
mod project;
mod proposals;
mod rename;
mod server;
mod workspace;

use clap::Args;
use lsp_server::Connection;

use crate::run::failure::Failure;

use super::project::registries_for;

/// Flags of `gimlet gin lsp`.
#[derive(Args, Debug)]
pub struct LspArgs {
    /// Folders in which includes and task files are searched, after the workspace.
    #[arg(long = "gin_search_paths", value_name = "DIR,...", value_delimiter = ',')]
    gin_search_paths: Vec<String>,
}

/// Serves the editor at the other end of standard input and output.
///
/// # Errors
/// A schema that cannot be read; an editor that ends the connection without a shutdown.
pub fn run(args: &LspArgs, schemas: &[String]) -> Result<(), Failure> {
    let registries = registries_for(schemas)?;
    let (connection, threads) = Connection::stdio();
    let served = server::serve(&connection, registries, args.gin_search_paths.clone());
    // The writing thread ends when the connection is gone.
    drop(connection);
    served.map_err(Failure::World)?;
    threads.join().map_err(Failure::world)
}
