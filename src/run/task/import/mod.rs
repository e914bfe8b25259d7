//! `gimlet task import`: tasks that a Python module registers with SeqIO, as a task file.
//!
//! The user's own Python imports and reads the module (`translate.py`, `import_tasks.py`). The
//! script gets Gimlet's names and parameters, so that they are declared in the specs alone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::data::{DataSource, Postprocessor, Preprocessor, RateFunction};
use crate::gin::{Schema, Slot, format};
use crate::metrics::MetricFn;
use crate::python::run_script;
use crate::run::configure::registry;
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::vocab::VocabularySpec;

/// The script that reads the registries.
const SCRIPT: &str = concat!(include_str!("translate.py"), "\n\n", include_str!("import_tasks.py"));

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

/// The result of the script.
#[derive(Deserialize)]
struct Imported {
    gin: String,
    version: String,
    imports: Vec<String>,
    unknown: Vec<String>,
    notes: Vec<Note>,
    counts: Counts,
}

#[derive(Deserialize)]
struct Counts {
    tasks: usize,
    mixtures: usize,
    python: usize,
    left_out: usize,
}

/// A part without a counterpart in Gimlet.
#[derive(Deserialize)]
struct Note {
    task: String,
    part: String,
    /// `module:function`
    function: String,
    /// `file:line`
    place: String,
    reason: String,
    remedy: String,
}

impl Note {
    fn line(&self) -> String {
        let Self { task, part, function, place, reason, remedy } = self;
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        let function = if function.is_empty() { String::new() } else { format!(": {function}") };
        format!("`{task}`, {part}{function}{place}: {reason}; {remedy}")
    }
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
    let imported = imported(args)?;
    let text = text_of(&args.module, &imported)?;
    for note in &imported.notes {
        eprintln!("{}", note.line());
    }
    let Some(path) = output else { return write(&text) };
    save(&path, &text)
        .map_err(|error| Failure::world(anyhow!("cannot write `{}`: {error}", path.display())))?;
    write(&format!("wrote {}: {}\n", path.display(), summary(&imported)))
}

/// Returns the output file; `None` prints to standard output.
fn output_of(args: &ImportArgs) -> Option<PathBuf> {
    match &args.output {
        Some(path) if path == Path::new("-") => None,
        Some(path) => Some(path.clone()),
        None => Some(PathBuf::from(format!("{}.gin", args.module.replace('.', "/")))),
    }
}

fn imported(args: &ImportArgs) -> Result<Imported, Failure> {
    let request = json!({"module": args.module, "names": args.names, "known": known()});
    let input = request.to_string();
    let run = run_script(args.python.as_deref(), "import_tasks.py", SCRIPT, input.as_bytes());
    let (answer, status) = run.map_err(Failure::usage)?;
    if !status.success() {
        return Err(Failure::usage(anyhow!(
            "Python could not import `{}` ({status}); its messages are shown above. Name the Python that \
             has it and SeqIO with `--python`",
            args.module
        )));
    }
    let imported: Imported = serde_json::from_slice(&answer).map_err(|error| {
        Failure::world(anyhow!("the answer of Python is not readable: {error}"))
    })?;
    if let Some(name) = imported.unknown.first() {
        return Err(Failure::usage(anyhow!(
            "`{}` registers no task or mixture `{name}`",
            args.module
        )));
    }
    if imported.counts.tasks + imported.counts.mixtures + imported.counts.left_out == 0 {
        let others = match imported.imports.is_empty() {
            true => String::new(),
            false => format!("; these do, import them: {}", imported.imports.join(", ")),
        };
        return Err(Failure::usage(anyhow!(
            "`{}` registers no tasks or mixtures{others}",
            args.module
        )));
    }
    Ok(imported)
}

/// Returns the script's input: the functions of each slot, their names and parameters.
fn known() -> Value {
    let registry = registry();
    // Functions that are arguments of others, such as noise functions.
    let functions = registry.iter().filter(|schema| schema.name.contains(".preprocessors."));
    json!({
        "preprocessor": entries(Preprocessor::schemas(), "called"),
        "postprocessor": entries(Postprocessor::schemas(), "called"),
        "metric": entries(MetricFn::schemas(), "given"),
        "source": entries(DataSource::schemas(), "called"),
        "vocabulary": entries(VocabularySpec::schemas(), "called"),
        "rate": entries(RateFunction::schemas(), "given"),
        "function": entries(functions, "given"),
    })
}

/// Returns the schemas of a slot; `nested` states how a member of the same slot is bound to a
/// parameter.
fn entries<'a>(schemas: impl IntoIterator<Item = &'a Schema>, nested: &str) -> Vec<Value> {
    let entry = |schema: &Schema| {
        let params = schema.params.iter().map(|param| {
            let is_nested = param.expected.starts_with("another one of the same kind");
            let how = match (param.ignored, param.expected.contains("()")) {
                (true, _) => Value::Null,
                (false, true) => json!("called"),
                (false, false) if is_nested => json!(nested),
                (false, false) => json!("given"),
            };
            (param.name.to_string(), how)
        });
        let params: Map<String, Value> = params.collect();
        json!({"name": schema.name, "aliases": schema.aliases, "params": params})
    };
    schemas.into_iter().map(entry).collect()
}

fn summary(imported: &Imported) -> String {
    let Counts { tasks, mixtures, python, left_out } = imported.counts;
    format!(
        "{tasks} tasks and {mixtures} mixtures; {python} of their functions run in Python, {left_out} \
         parts are left out"
    )
}

/// Returns the task file, with a head that states its origin.
fn text_of(module: &str, imported: &Imported) -> Result<String, Failure> {
    let mut text = format!(
        "# Written by `gimlet task import {module}` with SeqIO {}: {}.\n",
        imported.version,
        summary(imported)
    );
    for note in &imported.notes {
        text += &format!("# {}\n", note.line().replace('\n', " "));
    }
    text += &imported.gin;
    format(&text)
        .map_err(|_| Failure::world(anyhow!("the script wrote gin that is not valid:\n{text}")))
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
