//! `gimlet gin reference`: writes the pages that list every configurable.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::Args;

use crate::gin::{ReferencePage, Registry, reference};
use crate::run::failure::Failure;

use super::write;

/// Flags of `gimlet gin reference`.
#[derive(Args, Debug)]
pub struct ReferenceArgs {
    /// The folder of configurables.md, the index, and of configurables/, the pages.
    #[arg(value_name = "DIR", default_value = "docs")]
    folder: String,
    /// Write nothing; end with status 1 if a page is not what would be written.
    #[arg(long)]
    check: bool,
}

/// The pages, in the order of the index.
pub const REFERENCE_PAGES: [ReferencePage; 18] = [
    page("tasks", "Tasks and batches", &["gimlet_data", "gimlet_python", "gimlet::run"]),
    page("sources", "Sources of examples", &["gimlet_data::source"]),
    page("preprocessors", "Preprocessors", &["gimlet_data::preprocess", "gimlet_data::prompts"]),
    page("metrics", "Postprocessors and metrics", &["gimlet_data::postprocess", "gimlet_metrics"]),
    page("vocabularies", "Vocabularies", &["gimlet_vocab"]),
    page("models", "Models", &["gimlet::models", "gimlet::nn"]),
    page("flaxformer", "Modules of flaxformer", &["gimlet::models::families::flaxformer"]),
    page("bert", "BERT", &["gimlet::models::families::bert", "gimlet::nn::sparse_attention"]),
    page("decoding", "Decoding", &["gimlet::models::decoding"]),
    page("optimizers", "Optimizers", &["gimlet::optim"]),
    page("schedules", "Learning rates", &["gimlet_schedule"]),
    page("partitioning", "Partitioning", &["gimlet::partition"]),
    page(
        "training",
        "Training",
        &["gimlet::train", "gimlet::session", "gimlet::precompile", "gimlet::run::sweep"],
    ),
    page("checkpoints", "Checkpoints", &["gimlet_checkpoint"]),
    page("evaluation", "Evaluation", &["gimlet::eval", "gimlet_evaluation"]),
    page("inference", "Inference", &["gimlet::infer", "gimlet::interactive", "gimlet::export"]),
    page("mesh_tensorflow", "Mesh TensorFlow", &["gimlet_dialects::mesh_tf"]),
    page("others", "Others", &[""]),
];

const fn page(
    name: &'static str,
    title: &'static str,
    modules: &'static [&'static str],
) -> ReferencePage {
    ReferencePage { name, title, modules }
}

/// Writes the pages, or compares them.
pub fn run(args: &ReferenceArgs, registry: &Registry) -> Result<(), Failure> {
    for (path, page) in reference(registry, &REFERENCE_PAGES) {
        let file = Path::new(&args.folder).join(path);
        if args.check { compare(&file, &page)? } else { save(&file, &page)? }
    }
    Ok(())
}

fn save(file: &Path, page: &str) -> Result<(), Failure> {
    let folder = file.parent().expect("a page lies in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, page))
        .with_context(|| format!("cannot write {}", file.display()))
        .map_err(Failure::World)
}

fn compare(file: &Path, page: &str) -> Result<(), Failure> {
    let file_name = file.display();
    let found = fs::read_to_string(file).map_err(|error| {
        let remedy = "`gimlet gin reference` writes it";
        Failure::usage(anyhow!("cannot read {file_name}: {error}; {remedy}"))
    })?;
    if found == page {
        return Ok(());
    }
    write(&format!("{file_name} is out of date: `gimlet gin reference` writes it again\n"))?;
    Err(Failure::Said)
}
