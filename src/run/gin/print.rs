//! `gimlet gin print`: prints the final configuration in gin's own layout.

use clap::Args;

use crate::gin::{Request, config_str, load, operative_config_str, reach, untyped};
use crate::run::failure::Failure;
use crate::run::output::write_error;

use super::project::ProjectArgs;
use super::{input, write};

/// Flags of `gimlet gin print`.
#[derive(Args, Debug)]
pub struct PrintArgs {
    #[command(flatten)]
    project: ProjectArgs,
    /// Print the values that a run of the root uses, defaults too.
    #[arg(long, conflicts_with = "untyped")]
    operative: bool,
    /// Accept any selector with any parameter; leave out imports and includes.
    #[arg(long)]
    untyped: bool,
}

/// Prints the configuration.
pub fn run(args: &PrintArgs, schemas: &[String], color: bool) -> Result<(), Failure> {
    if args.untyped {
        return write(&untyped_config(args)?);
    }
    let project = args.project.load(schemas)?.readable()?;
    let warnings = project.diagnostics(project.loaded.diagnostics.clone());
    write_error(&warnings.render(color));
    let (config, registry) = (&project.loaded.config, &project.registry);
    if !args.operative {
        return write(&config_str(config, registry));
    }
    let reached = reach(config, registry, project.operative_roots()?);
    write(&operative_config_str(config, &reached, registry))
}

/// Prints the files alone, with each selector as its own full name.
fn untyped_config(args: &PrintArgs) -> Result<String, Failure> {
    let by_flag = &args.project.reading.by_flag;
    let names: Vec<&String> = by_flag.gin_file.iter().chain(&args.project.files).collect();
    let texts: Vec<String> =
        names.iter().map(|name| input::read(name)).collect::<Result<_, _>>()?;
    let bindings = by_flag.bindings();
    let statements = bindings.iter().map(|(_, statement)| statement.as_str());
    let registry = untyped(texts.iter().map(String::as_str).chain(statements));
    let files = names.iter().map(|name| input::name(name).to_string()).collect();
    let request = Request { files, bindings, alone: true, fragment: true, ..Request::default() };
    let source = input::Given(names.into_iter().map(|n| input::name(n)).zip(&texts).collect());
    let loaded = load(&request, &source, &registry)?;
    Ok(config_str(&loaded.config, &registry))
}
