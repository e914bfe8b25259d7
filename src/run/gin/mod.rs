//! `gimlet gin`: what is done with gin files beside running them, one tool a file.
//!
//! A tool writes its result to standard output and what is wrong to standard error. It ends with
//! status 1 where it found what it was asked to look for, such as a mistake in a file.

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

use clap::{Args, Subcommand};

use crate::gin::registry_to_json;

use super::failure::Failure;
use super::output::write;

/// Flags of `gimlet gin`.
#[derive(Args, Debug)]
pub struct GinToolArgs {
    /// The tool.
    #[command(subcommand)]
    pub tool: GinCommand,
    /// Configurables of another project, as JSON, instead of ours; may be repeated.
    #[arg(long = "schema", value_name = "FILE.json", global = true)]
    pub schema: Vec<String>,
}

/// A tool for gin files.
#[derive(Debug, Subcommand)]
pub enum GinCommand {
    /// Report every mistake, and what is probably not meant; ends with status 1 on an error.
    Check(check::CheckArgs),
    /// Print the final configuration in gin's layout.
    Print(print::PrintArgs),
    /// Say what a name means, what it is bound to and where that comes from.
    Explain(explain::ExplainArgs),
    /// Print the value that a key is bound to.
    Query(query::QueryArgs),
    /// Print every configurable as JSON, in the form that --schema takes.
    Schema,
    /// Write the page that lists every configurable.
    Reference(reference::ReferenceArgs),
    /// Say what differs in meaning between two configurations.
    Diff(diff::DiffArgs),
    /// Lay gin files out as the library's are; comments and meaning stay.
    Fmt(fmt::FmtArgs),
    /// Serve an editor: mistakes, completion, documentation, definitions and renaming as one types.
    Lsp(lsp::LspArgs),
    /// Print what gin files say, one JSON object per statement and line.
    Parse(parse::ParseArgs),
}

impl GinToolArgs {
    /// Runs the tool.
    ///
    /// # Errors
    /// As the tool says; [`Failure::Said`] where its output says it all.
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
            GinCommand::Reference(args) => {
                reference::run(args, &project::registry_for(&self.schema)?)
            }
            GinCommand::Parse(args) => parse::run(args, color),
        }
    }
}
