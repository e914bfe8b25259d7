//! `gimlet gin explain`: prints the meaning of a name, its value, and the place of the binding.

use anyhow::anyhow;
use clap::Args;

use crate::gin::{Bound, Fallback, Param, Schema, Span, configurable};
use crate::run::failure::Failure;

use super::project::{Project, ProjectArgs};
use super::write;

/// Flags of `gimlet gin explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// A configurable, `configurable.parameter`, or a macro.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    project: ProjectArgs,
}

/// Prints the explanation.
pub fn run(args: &ExplainArgs, schemas: &[String]) -> Result<(), Failure> {
    if let ([name], true) = (&args.project.files[..], args.name.ends_with(".gin")) {
        let file = &args.name;
        return Err(Failure::usage(anyhow!(
            "`{file}` is a file, and the name comes before files: `gimlet gin explain {name} {file}`"
        )));
    }
    let project = Project::load(&args.project.files, &args.project.reading, schemas)?.readable()?;
    let name = args.name.trim_start_matches(['@', '%']).trim_end_matches("()");
    let mut out = String::new();
    if let Some(bound) = project.loaded.config.macros.get(name) {
        out.push_str(&format!("macro {name}\n"));
        history(bound, &project, &mut out);
        return write(&out);
    }
    let selector = name.rsplit('/').next().expect("split yields one part");
    let found = configurable(selector, &project.loaded, &project.registry);
    match (found, selector.rsplit_once('.')) {
        (Ok(schema), _) => explain(schema, &project, &mut out),
        (Err(error), None) => return Err(not_found(&error)),
        (Err(error), Some((selector, parameter))) => {
            let schema = configurable(selector, &project.loaded, &project.registry)
                .map_err(|_| not_found(&error))?;
            let param = schema.param(parameter).ok_or_else(|| {
                let names = schema.params.iter().map(|param| param.name);
                let help = crate::gin::did_you_mean(parameter, names);
                Failure::usage(anyhow!("`{selector}` has no parameter `{parameter}`: {help}"))
            })?;
            explain_parameter(schema, param, &project, &mut out);
        }
    }
    write(&out)
}

fn not_found(error: &crate::gin::Diagnostic) -> Failure {
    Failure::usage(anyhow!([vec![error.message.clone()], error.help.clone()].concat().join(": ")))
}

fn explain(schema: &'static Schema, project: &Project, out: &mut String) {
    out.push_str(schema.name);
    for alias in schema.aliases {
        out.push_str(&format!(", also {alias}"));
    }
    out.push('\n');
    indented(schema.doc, 2, out);
    for param in &schema.params {
        out.push('\n');
        explain_parameter(schema, param, project, out);
    }
    for call in &schema.calls {
        out.push_str(&format!("\nruns {}\n", call.target));
    }
}

fn explain_parameter(schema: &'static Schema, param: &Param, project: &Project, out: &mut String) {
    let default = match &param.default {
        Fallback::Required => "required".to_string(),
        default => format!("default {default}"),
    };
    let name = schema.short_name();
    out.push_str(&format!("{name}.{}: {}, {default}\n", param.name, param.expected));
    indented(param.doc, 2, out);
    for ((scope, bound_name), arguments) in &project.loaded.config.bindings {
        let Some(bound) = arguments.get(param.name).filter(|_| *bound_name == schema.name) else {
            continue;
        };
        let scope = if scope.is_empty() { String::new() } else { format!(" in scope {scope}") };
        out.push_str(&format!("  bound{scope}\n"));
        history(bound, project, out);
    }
}

/// Adds the value, its place, and the values that it replaced, the newest first.
fn history(bound: &Bound, project: &Project, out: &mut String) {
    let place = |span: Span| project.loaded.sources.place(span);
    out.push_str(&format!("    {} ({})\n", bound.value, place(bound.key)));
    for earlier in bound.overridden.iter().rev() {
        out.push_str(&format!("    instead of {} ({})\n", earlier.value, place(earlier.key)));
    }
}

fn indented(text: &str, by: usize, out: &mut String) {
    for line in text.lines() {
        out.push_str(format!("{:by$}{line}", "").trim_end());
        out.push('\n');
    }
}
