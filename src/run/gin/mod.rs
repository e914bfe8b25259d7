//! `gimlet gin`: tools for gin files, one tool a file.
//!
//! A tool writes its result to standard output and errors to standard error. It ends with
//! status 1 if it found what it looks for, such as a mistake in a file.

mod check;
mod diff;
mod explain;
mod fmt;
mod input;
mod lsp;
mod parse;
mod print;
mod project;
mod query;
mod reference;

pub use project::{Project, ReadingArgs};
pub use reference::REFERENCE_PAGES;

use clap::{Args, Subcommand};

use crate::gin::{Registry, registry_to_json};
use crate::run::configure::documented_registry;

use super::failure::Failure;
use super::output::write;

/// Flags of `gimlet gin`.
#[derive(Args, Debug)]
pub struct GinToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: GinCommand,
    /// Configurables of another project, as JSON, instead of Gimlet's; may be repeated.
    #[arg(long = "schema", value_name = "FILE.json", global = true)]
    pub schema: Vec<String>,
}

/// A tool for gin files.
#[derive(Debug, Subcommand)]
pub enum GinCommand {
    /// Report every mistake, and what is probably unintended; ends with status 1 on an error.
    Check(check::CheckArgs),
    /// Print the final configuration in gin's layout.
    Print(print::PrintArgs),
    /// Explain a name: its meaning, its value and the place of the binding.
    Explain(explain::ExplainArgs),
    /// Print the value that a key is bound to.
    Query(query::QueryArgs),
    /// Print every configurable as JSON, in the form that --schema takes.
    Schema,
    /// Write the pages that list every configurable.
    Reference(reference::ReferenceArgs),
    /// Print the differences in meaning between two configurations.
    Diff(diff::DiffArgs),
    /// Format gin files in the library's layout; comments and meaning stay.
    Fmt(fmt::FmtArgs),
    /// Serve an editor: mistakes, completion, documentation, definitions and renaming while typing.
    Lsp(lsp::LspArgs),
    /// Print the statements of gin files, one JSON object per statement and line.
    Parse(parse::ParseArgs),
}

impl GinToolArgs {
    /// Returns the configurables of every dialect.
    fn documented(&self) -> Result<Registry, Failure> {
        match &self.schema[..] {
            [] => Ok(documented_registry()),
            schemas => project::registry_for(schemas),
        }
    }

    /// Runs the tool.
    ///
    /// # Errors
    /// Those of the tool; [`Failure::Said`] if its output is the whole message.
    pub fn run(&self, color: bool) -> Result<(), Failure> {
        match &self.tool {
            GinCommand::Check(args) => check::run(args, &self.schema, color),
            GinCommand::Print(args) => print::run(args, &self.schema, color),
            GinCommand::Explain(args) => explain::run(args, &self.schema),
            GinCommand::Query(args) => query::run(args, &self.schema),
            GinCommand::Diff(args) => diff::run(args, &self.schema),
            GinCommand::Schema => {
                let registry = project::registry_for(&self.schema)?;
                write(&format!("{:#}\n", registry_to_json(&registry)))
            }
            GinCommand::Fmt(args) => fmt::run(args, color),
            GinCommand::Lsp(args) => lsp::run(args, &self.schema),
            GinCommand::Reference(args) => reference::run(args, &self.documented()?),
            GinCommand::Parse(args) => parse::run(args, color),
        }
    }
}
