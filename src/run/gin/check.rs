//! `gimlet gin check`: reports all mistakes of a configuration at once.

use clap::Args;

use crate::gin::Severity;
use crate::run::failure::Failure;
use crate::run::named_tasks::{named_tasks, unknown_name};
use crate::run::output::{counted, write_error};
use crate::run::tasks::GinTasks;

use super::project::ProjectArgs;
use super::write;

/// Flags of `gimlet gin check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    project: ProjectArgs,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

/// Prints every diagnostic; [`Failure::Said`] if one of them is an error.
pub fn run(args: &CheckArgs, schemas: &[String], color: bool) -> Result<(), Failure> {
    let project = args.project.load(schemas)?;
    let project = project.complete();
    let mut list = project.loaded.diagnostics.clone();
    if schemas.is_empty() && !project.loaded.incomplete {
        let (loaded, registry) = (&project.loaded, &project.registry);
        let tasks = GinTasks::new(loaded.clone(), registry.clone());
        let named = named_tasks(loaded, &project.running, registry);
        list.extend(named.iter().filter_map(|named| unknown_name(named, &tasks)));
    }
    if args.strict {
        list.iter_mut().for_each(|diagnostic| diagnostic.severity = Severity::Error);
    }
    let count = |severity| list.iter().filter(|d| d.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    write_error(&project.diagnostics(list).render_all(color));
    let roots: Vec<&str> = project.roots.iter().map(|root| root.name).collect();
    let what = match roots.is_empty() {
        false => format!("a configuration of {}", roots.join(" and ")),
        true => "a part of a configuration".to_string(),
    };
    write(&format!("{what}: {}, {}\n", counted(errors, "error"), counted(warnings, "warning")))?;
    if errors > 0 { Err(Failure::Said) } else { Ok(()) }
}
