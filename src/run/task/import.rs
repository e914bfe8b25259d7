//! `gimlet task import`: tasks that a Python module registers with SeqIO, as a task file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;

use crate::python::Interpreter;
use crate::run::configure::registry;
use crate::run::failure::Failure;
use crate::run::output::{write, write_error};
use crate::run::python_tasks::{ImportError, ModuleImport, ask};

/// Flags of `gimlet task import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The Python module, as gin's `import` names it. The working directory is searched first.
    #[arg(value_name = "MODULE")]
    module: String,
    /// Names of tasks and mixtures; by default all that the module registers, or a module within it.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The Python that has the module and SeqIO; by default that of GIMLET_PYTHON, else python3.
    #[arg(long, value_name = "PATH")]
    python: Option<String>,
    /// The task file; by default the one that `import MODULE` finds. `-` prints it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if there is one.
    #[arg(long)]
    overwrite: bool,
}

/// Writes the task file, and prints on standard error the parts that were not translated.
pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let output = output_of(args);
    if let Some(path) = &output
        && path.exists()
        && !args.overwrite
    {
        return Err(Failure::usage(anyhow!(
            "`{}` exists already; replace it with `--overwrite`, or name another file with `--output`",
            path.display()
        )));
    }
    let python = Interpreter::of_flag("`--python`", args.python.as_deref());
    let imported_with = args.python.as_deref().map(absolute);
    let asked = ModuleImport {
        module: &args.module,
        names: &args.names,
        python: &python,
        imported_with: imported_with.as_deref(),
    };
    let imported =
        ask(&asked, &registry()).and_then(|it| it.if_any(&args.module)).map_err(failure)?;
    let summary = imported.summary();
    let head = format!(
        "Written by `gimlet task import {}` with SeqIO {}: {summary}",
        args.module,
        imported.version()
    );
    let text = imported.task_file(&[head]).map_err(failure)?;
    for note in &imported.notes {
        write_error(&format!("{note}\n"));
    }
    let Some(path) = output else { return write(&text) };
    save(&path, &text)
        .map_err(|error| Failure::world(anyhow!("cannot write `{}`: {error}", path.display())))?;
    write(&format!("wrote {}: {summary}\n", path.display()))
}

/// Returns the output file; `None` prints to standard output.
fn output_of(args: &ImportArgs) -> Option<PathBuf> {
    match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.clone()),
        None => Some(PathBuf::from(format!("{}.gin", args.module.replace('.', "/")))),
    }
}

/// Returns a program's path that holds in every folder; a name is looked up in each environment.
fn absolute(python: &str) -> String {
    let is_name = Path::new(python).components().count() == 1;
    let path = (!is_name).then(|| std::path::absolute(python).ok()).flatten();
    path.and_then(|path| path.to_str().map(str::to_string)).unwrap_or_else(|| python.to_string())
}

fn failure(error: ImportError) -> Failure {
    match error {
        ImportError::Unreadable(_) => Failure::world(error),
        _ => Failure::usage(error),
    }
}

fn save(path: &Path, text: &str) -> std::io::Result<()> {
    match fs::write(path, text) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            fs::write(path, text)
        }
        done => done,
    }
}
