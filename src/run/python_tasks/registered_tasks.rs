//! Asks the user's Python for the tasks that a module registers with SeqIO.
//!
//! Python imports and reads the module (`translate.py`, `import_tasks.py`). The script gets Gimlet's names and
//! parameters, so that they are declared in the specs alone.

use std::fmt;
use std::process::ExitStatus;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::data::{DataSource, Postprocessor, Preprocessor, RateFunction};
use crate::gin::{Registry, Schema, Slot, format};
use crate::metrics::MetricFn;
use crate::python::{Interpreter, PythonError, run_script};
use crate::vocab::VocabularySpec;

/// The script that reads the registries.
pub(super) const SCRIPT: &str =
    concat!(include_str!("translate.py"), "\n\n", include_str!("import_tasks.py"));

/// A module whose tasks are asked for.
#[derive(Debug)]
pub struct ModuleImport<'a> {
    /// The module.
    pub module: &'a str,
    /// Names of tasks and mixtures; empty for all.
    pub names: &'a [String],
    /// The interpreter that imports it.
    pub python: &'a Interpreter,
    /// The interpreter that the task file names for its functions.
    pub imported_with: Option<&'a str>,
}

/// The tasks of a module.
#[derive(Debug, Deserialize)]
pub struct Imported {
    gin: String,
    version: String,
    imports: Vec<String>,
    unknown: Vec<String>,
    /// The parts that were not translated.
    pub notes: Vec<Untranslated>,
    counts: ImportCounts,
    /// The files of Python, outside of installed packages, that the module consists of and imports.
    pub files: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ImportCounts {
    tasks: usize,
    mixtures: usize,
    python: usize,
    left_out: usize,
}

/// The result of the script.
#[derive(Deserialize)]
#[serde(untagged)]
enum ImportAnswer {
    Failed { missing: Option<String>, traceback: String },
    Imported(Box<Imported>),
}

/// A part without a counterpart in Gimlet.
#[derive(Debug, Deserialize)]
pub struct Untranslated {
    task: String,
    part: String,
    /// `module:function`
    function: String,
    /// `file:line`
    place: String,
    reason: String,
    remedy: String,
    /// Whether the part is left out instead of running in Python.
    pub is_left_out: bool,
}

/// Prints the part, its place, and what becomes of it.
impl fmt::Display for Untranslated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, part, function, place, reason, remedy, .. } = self;
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        let function = if function.is_empty() { String::new() } else { format!(": {function}") };
        write!(f, "`{task}`, {part}{function}{place}: {reason}; {remedy}")
    }
}

/// A module whose tasks Python could not give.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The interpreter cannot be started.
    #[error(transparent)]
    Start(#[from] PythonError),
    /// A package that every import needs is not installed.
    #[error(
        "{python} has no `{package}`, with which it would import `{module}`; install it there \
         (`{} -m pip install {package}`), or {}", python.program(), python.remedy()
    )]
    NotInstalled {
        /// The interpreter.
        python: Interpreter,
        /// The module.
        module: String,
        /// The package.
        package: String,
    },
    /// The module, or one that it imports, raised an exception.
    #[error("`{module}` cannot be imported by {python}; if a package is missing, install it there, or {}:\n{}", python.remedy(), traceback.trim_end())]
    Raised {
        /// The module.
        module: String,
        /// The interpreter.
        python: Interpreter,
        /// Python's traceback.
        traceback: String,
    },
    /// Python ended without an answer.
    #[error("{python} ended while it imported `{module}` ({status}); its messages are shown above")]
    Ended {
        /// The module.
        module: String,
        /// The interpreter.
        python: Interpreter,
        /// Its status.
        status: ExitStatus,
    },
    /// The module has none of the names.
    #[error("`{module}` registers no task or mixture `{name}`")]
    Unknown {
        /// The module.
        module: String,
        /// The name.
        name: String,
    },
    /// The module registers nothing.
    #[error("`{module}` registers no tasks or mixtures{}", others(imports))]
    Empty {
        /// The module.
        module: String,
        /// The modules that it imports and that do.
        imports: Vec<String>,
    },
    /// The result cannot be kept.
    #[error(
        "the tasks of `{module}` cannot be kept in {folder}: {reason}; XDG_CACHE_HOME names another folder"
    )]
    Unkept {
        /// The module.
        module: String,
        /// The folder.
        folder: String,
        /// The system's reason.
        reason: String,
    },
    /// An answer of the wrong form, which is a mistake of the script.
    #[error("the answer of Python is not readable: {0}")]
    Unreadable(String),
}

fn others(imports: &[String]) -> String {
    match imports.is_empty() {
        true => String::new(),
        false => format!("; these do, import them: {}", imports.join(", ")),
    }
}

/// Has Python import a module.
///
/// # Errors
/// Those of Python, and a module without tasks.
pub fn ask(asked: &ModuleImport<'_>, registry: &Registry) -> Result<Imported, ImportError> {
    let ModuleImport { python, names, imported_with, .. } = *asked;
    let module = asked.module.to_string();
    let request = json!({
        "module": module, "names": names, "imported_with": imported_with, "known": known(registry),
    });
    let what = format!("importing `{module}` with {python}");
    let script = ("import_tasks.py", SCRIPT);
    let (answer, status) = run_script(python, &what, script, request.to_string().as_bytes())?;
    let python = python.clone();
    if !status.success() {
        return Err(ImportError::Ended { module, python, status });
    }
    let answer = serde_json::from_slice(&answer);
    let imported = match answer.map_err(|error| ImportError::Unreadable(error.to_string()))? {
        ImportAnswer::Failed { missing: Some(package), .. } => {
            return Err(ImportError::NotInstalled { python, module, package });
        }
        ImportAnswer::Failed { missing: None, traceback } => {
            return Err(ImportError::Raised { module, python, traceback });
        }
        ImportAnswer::Imported(imported) => *imported,
    };
    match imported.unknown.first() {
        Some(name) => Err(ImportError::Unknown { module, name: name.clone() }),
        None => Ok(imported),
    }
}

impl Imported {
    /// Whether the module itself registers nothing.
    pub fn is_empty(&self) -> bool {
        let ImportCounts { tasks, mixtures, left_out, .. } = self.counts;
        tasks + mixtures + left_out == 0
    }

    /// Returns the tasks, unless there are none.
    ///
    /// # Errors
    /// A module that registers nothing.
    pub fn if_any(self, module: &str) -> Result<Self, ImportError> {
        match self.is_empty() {
            true => Err(ImportError::Empty { module: module.to_string(), imports: self.imports }),
            false => Ok(self),
        }
    }

    /// Returns the names of modules that register tasks and that the task file imports.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Counts the tasks, and the parts that are not Gimlet's.
    pub fn summary(&self) -> String {
        let ImportCounts { tasks, mixtures, python, left_out } = self.counts;
        let found = [(tasks, "task", "tasks"), (mixtures, "mixture", "mixtures")];
        let parts = [
            (python, "function runs in Python", "functions run in Python"),
            (left_out, "part is left out", "parts are left out"),
        ];
        let texts = [counted(&found, " and "), counted(&parts, ", ")];
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.join("; ")
    }

    /// Returns the task file, which begins with these lines of comments.
    ///
    /// # Errors
    /// Gin that is not valid, which is a mistake of the script.
    pub fn task_file(&self, head: &[String]) -> Result<String, ImportError> {
        let notes = self.notes.iter().map(|note| note.to_string().replace('\n', " "));
        let lines = head.iter().cloned().chain(notes).map(|line| format!("# {line}\n"));
        let text = lines.collect::<String>() + &self.gin;
        format(&text).map_err(|_| ImportError::Unreadable(format!("not valid gin:\n{text}")))
    }

    /// The version of SeqIO.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Lists the counts that are not 0.
fn counted(counts: &[(usize, &str, &str)], separator: &str) -> String {
    let counts = counts.iter().filter(|(count, ..)| *count > 0);
    let texts = counts.map(|(count, one, more)| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {more}"),
    });
    texts.collect::<Vec<_>>().join(separator)
}

/// Returns the script's input: the functions of each slot, their names and parameters.
pub(super) fn known(registry: &Registry) -> Value {
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
