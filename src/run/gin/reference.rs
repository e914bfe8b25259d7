//! `gimlet gin reference`: writes the page that lists every configurable.

use std::fs;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::gin::{Registry, reference};
use crate::run::failure::Failure;

use super::write;

/// Flags of `gimlet gin reference`.
#[derive(Args, Debug)]
pub struct ReferenceArgs {
    /// The page.
    #[arg(value_name = "FILE", default_value = "docs/configurables.md")]
    file: String,
    /// Write nothing; end with status 1 if the page is not what would be written.
    #[arg(long)]
    check: bool,
}

/// Writes the page, or compares it.
pub fn run(args: &ReferenceArgs, registry: &Registry) -> Result<(), Failure> {
    let page = reference(registry);
    let file = &args.file;
    if !args.check {
        return fs::write(file, page)
            .with_context(|| format!("cannot write {file}"))
            .map_err(Failure::World);
    }
    let found = fs::read_to_string(file).map_err(|error| {
        Failure::usage(anyhow!("cannot read {file}: {error}; `gimlet gin reference` writes it"))
    })?;
    if found == page {
        return Ok(());
    }
    write(&format!("{file} is out of date: `gimlet gin reference` writes it again\n"))?;
    Err(Failure::Said)
}
