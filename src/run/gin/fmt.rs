//! `gimlet gin fmt`: rewrites gin files in the standard layout.
//!
//! A file with mistakes stays as it is, and so does a file that already has the layout.

use std::fs;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use similar::TextDiff;

use crate::gin::{self, Diagnostics, SourceFile, SourceMap, Unformatted};
use crate::run::failure::Failure;
use crate::storage::Path;

use super::{input, write};

/// A difference that takes longer to compute is shown with less detail.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Flags of `gimlet gin fmt`.
#[derive(Args, Debug)]
pub struct FmtArgs {
    /// Gin files, rewritten in place; `-` is standard input, whose text goes to standard output.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Write nothing; print what would change, and end with status 1 if anything would.
    #[arg(long)]
    check: bool,
}

/// Formats every file, or prints what would change.
pub fn run(args: &FmtArgs, color: bool) -> Result<(), Failure> {
    let mut failed = false;
    for file in &args.files {
        failed |= match one(file, args.check) {
            Ok(unchanged) => !unchanged,
            Err(failure) => {
                failure.report(color);
                true
            }
        }
    }
    if failed { Err(Failure::Said) } else { Ok(()) }
}

/// Formats one file. With `check`, returns whether it has the layout already.
fn one(file: &str, check: bool) -> Result<bool, Failure> {
    let text = input::read(file)?;
    let formatted = gin::format(&text).map_err(|why| refusal(why, file, &text))?;
    if check {
        write(&changes(input::name(file), &text, &formatted))?;
        return Ok(text == formatted);
    }
    if file == "-" {
        write(&formatted)?;
    } else if text != formatted {
        replace(file, &formatted)?;
    }
    Ok(true)
}

/// Returns the changes as a unified diff.
fn changes(name: &str, text: &str, formatted: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(text, formatted);
    diff.unified_diff().header(name, &format!("{name}, formatted")).to_string()
}

/// Replaces the text of a file atomically; links to it and its permissions stay.
fn replace(file: &str, text: &str) -> Result<(), Failure> {
    let failure =
        |error: std::io::Error| Failure::World(anyhow!(error).context(format!("writing {file}")));
    let path = fs::canonicalize(file).map_err(failure)?;
    let permissions = fs::metadata(&path).map_err(failure)?.permissions();
    let local = Path::parse(&path.display().to_string()).map_err(Failure::world)?;
    local.write_atomic(text.as_bytes()).map_err(Failure::world)?;
    fs::set_permissions(&path, permissions).map_err(failure)
}

fn refusal(why: Unformatted, file: &str, text: &str) -> Failure {
    match why {
        Unformatted::Mistakes(list) => {
            let mut sources = SourceMap::default();
            let name = input::name(file).to_string();
            sources.add(SourceFile { name, text: text.to_string(), included_from: None });
            Diagnostics { sources, list }.into()
        }
        Unformatted::Unfaithful => Failure::World(anyhow!(
            "{} is left as it is: its layout cannot be changed without changing its meaning",
            input::name(file)
        )),
    }
}
