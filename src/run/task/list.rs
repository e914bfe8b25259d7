//! `gimlet task list`: lists tasks and mixtures with their places.

use anyhow::anyhow;
use clap::Args;

use crate::data::{TaskOrMixture, TaskProvider};
use crate::run::declarations::Declared;
use crate::run::failure::Failure;
use crate::run::output::{Color, ColorChoice, Paint, write};
use crate::run::shares::shares;
use crate::run::tasks::GinTasks;

use super::args::TaskFileArgs;

/// Flags of `gimlet task list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Regular expression found in the names to print; all by default.
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    #[command(flatten)]
    files: TaskFileArgs,
    /// When to print in colour.
    #[arg(long, value_enum, default_value_t)]
    color: ColorChoice,
}

/// Prints a line for each task and mixture, and the shares of a mixture's tasks below it.
pub(super) fn run(args: &ListArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.files.load(color)?;
    let paint = Paint::new(args.color);
    let pattern = fancy_regex::Regex::new(args.pattern.as_deref().unwrap_or(""))
        .map_err(|error| Failure::usage(anyhow!("PATTERN: {error}")))?;
    let declared = tasks.declared();
    let mut found: Vec<&Declared> = Vec::new();
    for one in &declared {
        if pattern.is_match(&one.name).map_err(Failure::usage)? {
            found.push(one);
        }
    }
    if found.is_empty() {
        let text = args.pattern.as_deref().unwrap_or_default();
        let count = declared.len();
        return Err(Failure::usage(anyhow!(
            "no task's or mixture's name contains `{text}`, of {count} declared; give their files \
             with --gin_file or --module_import"
        )));
    }
    let width = found.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in found {
        write(&line(one, width, &tasks, paint))?;
    }
    Ok(())
}

fn line(one: &Declared, width: usize, tasks: &GinTasks, paint: Paint) -> String {
    let (kind, detail) = match tasks.get(&one.name) {
        Ok(TaskOrMixture::Task(task)) => {
            let features: Vec<&str> = task.output_features.keys().map(String::as_str).collect();
            ("task", features.join(", "))
        }
        Ok(TaskOrMixture::Mixture(_)) => ("mixture", shares_of(&one.name, tasks)),
        Err(_) => (one.kind(), "cannot be used: see `gimlet task check`".to_string()),
    };
    let name = paint.text(Color::Bold, &format!("{:width$}", one.name));
    let place = paint.text(Color::Dim, &one.place);
    format!("{kind:<8} {name}  {place}  {detail}\n")
}

/// Describes how often each task of a mixture is drawn, or why it cannot be.
fn shares_of(name: &str, tasks: &GinTasks) -> String {
    match shares(name, tasks) {
        Ok(stages) => stages.join("; "),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_string(),
    }
}
